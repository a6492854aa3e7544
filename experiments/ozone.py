"""New York ozone, July and August 2006: 28 stations, 8 of them held out, beside the published figures.

python -m experiments.ozone --data FOLDER [--particles 64] [--models weather offsets own]

FOLDER holds nysptime.csv: the table ``nysptime`` of the R package bmstdr (GPL-2), daily maxima of ozone over 8 hours
with temperature, wind and humidity. It is not part of this package. The published figures (bmstdr, table 7) are of the
same split, fitted on the square-root scale and scored in ppb, given the other stations on all 62 days.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import numpyro.distributions as dist
import pandas as pd
from rich.console import Console
from rich.table import Table

import seqgp
from seqgp.evaluate import scores

HELD_OUT = (8, 11, 12, 14, 18, 21, 24, 28)
COVARIATES = ("xmaxtemp", "xwdsp", "xrh")
UNIT = 1e5  # metres: distances in 100 km
PUBLISHED = {  # RMSE, MAE in ppb, coverage of 95% intervals in %
    "linear regression": (9.35, 7.54, 98.4),
    "separable GP, fixed range": (6.49, 5.00, 99.6),
    "spTimer GP": (6.40, 4.94, 99.6),
    "Stan GP": (6.42, 4.85, 92.6),
    "INLA AR": (9.73, 7.65, 65.2),
    "spTimer AR": (6.46, 4.99, 99.4),
    "spTDyn": (6.59, 5.11, 99.4),
    "spTimer GPP": (6.36, 4.85, 99.4),
}


class Data(NamedTuple):
    """What is learnt from, and what is scored."""

    snapshots: list[seqgp.Snapshot]  # all stations, the held-out ones missing; square roots of ppb
    truth: np.ndarray  # (days, held-out stations), ppb
    held_out: np.ndarray  # rows of the snapshots


class Score(NamedTuple):
    """Errors in ppb at the held-out stations."""

    rmse: float
    mae: float
    crps: float
    coverage: float
    values: int


def read(path: Path, days: int | None = None) -> Data:
    """The table as one snapshot a day; covariates are standardised by the stations that are learnt from."""
    frame = pd.read_csv(path / "nysptime.csv" if path.is_dir() else path).sort_values(["Month", "Day", "s.index"])
    learnt = ~frame["s.index"].isin(HELD_OUT)
    for name in COVARIATES:
        frame[name] = (frame[name] - frame.loc[learnt, name].mean()) / frame.loc[learnt, name].std()
    snapshots, truth = [], []
    out = np.zeros(0, bool)
    for t, (_, day) in enumerate(list(frame.groupby(["Month", "Day"]))[:days]):
        out = day["s.index"].isin(HELD_OUT).to_numpy()
        ppb = day["y8hrmax"].to_numpy()
        x = day[["utmx", "utmy"]].to_numpy() / UNIT
        context = {name: day[name].to_numpy() for name in COVARIATES}
        snapshots.append(seqgp.Snapshot(float(t), x, np.where(out, np.nan, np.sqrt(ppb)), context))
        truth.append(ppb[out])
    return Data(snapshots, np.stack(truth), np.flatnonzero(out))


def models() -> dict[str, seqgp.Model]:
    """Weather alone; with offsets of the stations that stay, alike nearby; with a part of these that is each one's own.

    What is around a station is in part that of its region, in part its own: a street, a wood, an instrument. Priors in
    days and 100 km: weather of days and hundreds of kilometres, offsets of tens to hundreds.
    """
    weather = seqgp.Separable(
        time=seqgp.kernels.Matern12(dist.LogNormal(0.7, 1.0)),
        space=seqgp.kernels.Matern12(dist.LogNormal(1.0, 0.7)),
        scale=dist.LogNormal(0.0, 0.5),
    )
    offsets = seqgp.Separable(
        time=seqgp.kernels.Constant(scale=1.0),
        space=seqgp.kernels.Matern12(dist.LogNormal(0.0, 0.7)),
        scale=dist.LogNormal(-0.7, 0.5),
    )
    own = seqgp.Separable(
        time=seqgp.kernels.Constant(scale=1.0), space=seqgp.kernels.WhiteNoise(dist.LogNormal(-1.0, 0.7))
    )
    mean = seqgp.means.Linear(features=list(COVARIATES), weights=dist.Normal(0.0, 1.0), intercept=dist.Normal(7.0, 2.0))
    likelihood = seqgp.likelihoods.Gaussian(dist.LogNormal(-1.0, 0.5))
    return {
        "weather": seqgp.Model(weather, likelihood, mean),
        "offsets": seqgp.Model(weather + offsets, likelihood, mean),
        "own": seqgp.Model(weather + offsets + own, likelihood, mean),
    }


def back(rng: np.random.Generator, f: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """New data in ppb from draws of f on the square-root scale: no station reads below zero."""
    return np.maximum(f + noise[:, None] * rng.normal(size=f.shape), 0.0) ** 2


def score(draws: np.ndarray, truth: np.ndarray) -> Score:
    """Scores of draws ``(draws, days, stations)``, missing data left out."""
    seen = ~np.isnan(truth)
    found, y = draws[:, seen], truth[seen]
    error = found.mean(axis=0) - y
    return Score(
        float(np.sqrt(np.mean(error**2))),
        float(np.abs(error).mean()),
        float(scores.crps(found, y).mean()),
        scores.coverage(found, y),
        len(y),
    )


def fitted(model: seqgp.Model, data: Data, particles: int, draws: int, seed: int) -> tuple[seqgp.Run, Score, Score]:
    """A run over all days; scores given the data up to each day, and given all of them."""
    sampler = seqgp.OnlineSampler(model, particles=particles, draws=draws)
    key_run, key_past = jax.random.split(jax.random.key(seed))
    rng, filtered = np.random.default_rng(seed), []

    def note(state: seqgp.State, info: seqgp.Info) -> None:
        f = np.asarray(state.latent)[:, data.held_out]
        filtered.append(back(rng, f, np.asarray(state.parameters["noise"])))

    run = seqgp.run(sampler, data.snapshots, key_run, callbacks=note)
    assert isinstance(run.state, seqgp.OnlineState)
    past = seqgp.smooth(key_past, sampler, run.state, [snapshot.t for snapshot in data.snapshots], draws=draws)
    noise = np.asarray(run.state.parameters["noise"])
    smoothed = [back(rng, f[:, data.held_out], noise) for f in past.latent]
    return run, score(np.stack(filtered, axis=1), data.truth), score(np.stack(smoothed, axis=1), data.truth)


def table_of(found: dict[str, Score]) -> Table:
    """Ours and the published ones."""
    table = Table(title="Held-out stations, ppb")
    for column in ("model", "RMSE", "MAE", "CRPS", "95% coverage"):
        table.add_column(column)
    for name, one in found.items():
        table.add_row(name, f"{one.rmse:.2f}", f"{one.mae:.2f}", f"{one.crps:.2f}", f"{100 * one.coverage:.1f}%")
    table.add_section()
    for name, (rmse, mae, coverage) in PUBLISHED.items():
        table.add_row(name, f"{rmse:.2f}", f"{mae:.2f}", "", f"{coverage:.1f}%")
    return table


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.ozone", description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="nysptime.csv, or its folder")
    parser.add_argument("--models", nargs="+", choices=tuple(models()), default=tuple(models()))
    parser.add_argument("--days", type=int, default=None, help="how many days; all 62 by default")
    parser.add_argument("--particles", type=int, default=64)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> dict[str, Score]:
    arguments = parse(argv)
    seqgp.enable_x64()
    console = Console(width=120)
    data = read(arguments.data, arguments.days)
    found: dict[str, Score] = {}
    runs: dict[str, seqgp.Run] = {}
    for name in arguments.models:
        start = time.perf_counter()
        runs[name], online, past = fitted(models()[name], data, arguments.particles, arguments.draws, arguments.seed)
        found[f"{name}, all days"], found[f"{name}, up to the day"] = past, online
        last = runs[name].infos[-1]
        assert isinstance(last, seqgp.OnlineInfo)
        console.print(
            f"{name}: {past.values} values, log evidence {last.log_evidence:.1f} ± {last.log_evidence_se:.1f}, "
            f"{time.perf_counter() - start:.0f} s"
        )
        for parameter, values in runs[name].state.parameters.items():
            console.print(f"  {parameter}: {np.mean(values):.3f} ± {np.std(values):.3f}")
    console.print(table_of(found))
    if len(runs) > 1:
        console.print(seqgp.compare(runs).table())
    return found


if __name__ == "__main__":
    main()
