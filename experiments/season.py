"""A season whose phase drifts: three years of daily data at four stations, forecasts one week ahead.

python -m experiments.season [--years 3] [--particles 64] [--seed 0] [--quick]

The simulated cycle is of three harmonics and comes some days earlier or later from year to year; weather of a few days
and noise are added. From the second year on, each week is forecast from the data so far: by persistence (the value a
week before), by a regression on harmonics, by a model of slow changes and weather, and by one whose slow changes repeat
(``Periodic``). Writes a figure and the table to ``out/season``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist
from scoringrules import crps_normal

import seqgp
from experiments.comparison import markdown
from seqgp.evaluate import scores

YEAR = 365.25
WEEK = 7
OUT = Path("out/season")
STATIONS = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 1.1], [1.2, 1.3]])  # 100 km
WITH, WITHOUT = "with Periodic", "without Periodic"


class Forecast(NamedTuple):
    """Of the four stations, on one day."""

    day: int
    draws: np.ndarray  # (draws, stations)


def simulated(seed: int, days: int) -> np.ndarray:
    """``(days, stations)``: a cycle whose phase is a random walk of 10 days a year, weather of 4 days, and noise."""
    rng = np.random.default_rng(seed)
    day = np.arange(days)
    late = np.cumsum(10.0 / np.sqrt(YEAR) * rng.standard_normal(days))
    angle = 2 * np.pi * (day - late) / YEAR
    cycle = -8 * np.cos(angle) + 3 * np.sin(2 * angle) + 1.5 * np.cos(3 * angle)
    apart = np.linalg.norm(STATIONS[:, None] - STATIONS[None], axis=-1)
    root = np.linalg.cholesky(np.exp(-apart / 2.0))
    keep, weather = np.exp(-1 / 4.0), np.zeros((days, len(STATIONS)))
    now = root @ rng.standard_normal(len(STATIONS))
    for i in range(days):
        weather[i] = 2.0 * now
        now = keep * now + np.sqrt(1 - keep**2) * root @ rng.standard_normal(len(STATIONS))
    share = rng.normal(1.0, 0.1, len(STATIONS))
    return 12.0 + cycle[:, None] * share + weather + 0.5 * rng.standard_normal(weather.shape)


def models() -> dict[str, seqgp.Model]:
    """Weather, and slow changes: that repeat from year to year, or do not."""
    weather = seqgp.kernels.Constant(scale=dist.LogNormal(0.7, 0.7)) * seqgp.kernels.Matern12(dist.LogNormal(1.4, 0.7))
    slow = seqgp.kernels.Constant(scale=dist.LogNormal(1.6, 0.7)) * seqgp.kernels.Matern32(dist.LogNormal(4.5, 0.7))
    cycle = (
        seqgp.kernels.Constant(scale=dist.LogNormal(1.6, 0.7))
        * seqgp.kernels.Periodic(dist.LogNormal(0.0, 0.3), period=YEAR)
        * seqgp.kernels.Matern12(dist.LogNormal(6.9, 0.7))
    )

    def model(time: Any) -> seqgp.Model:
        return seqgp.Model(
            kernel=seqgp.Separable(time, seqgp.kernels.Matern12(dist.LogNormal(0.7, 0.7)), 1.0),
            mean=dist.Normal(10.0, 10.0),
            likelihood=seqgp.likelihoods.Gaussian(dist.LogNormal(-0.7, 0.7)),
        )

    return {WITH: model(weather + cycle), WITHOUT: model(weather + slow)}


def forecasts(model: seqgp.Model, y: np.ndarray, args: argparse.Namespace) -> tuple[seqgp.Run, list[Forecast]]:
    """A run over all days; from ``args.first`` on, every ``args.every`` days, the day a week later is forecast."""
    sampler = seqgp.OnlineSampler(model, particles=args.particles, draws=args.draws, order=args.harmonics)
    snapshots = [seqgp.Snapshot(float(day), STATIONS, row) for day, row in enumerate(y)]
    key_run, key_ahead = jax.random.split(jax.random.key(args.seed))
    found: list[Forecast] = []

    def ahead(state: seqgp.State, info: seqgp.Info) -> None:
        day = int(state.t)
        if day + WEEK < len(y) and day >= args.first and (day - args.first) % args.every == 0:
            key = jax.random.fold_in(key_ahead, day)
            drawn = seqgp.predict(key, model, state, STATIONS, t=float(day + WEEK)).y
            found.append(Forecast(day + WEEK, np.asarray(drawn)))

    return seqgp.run(sampler, snapshots, key_run, callbacks=ahead, forecast=False), found


def persistence(y: np.ndarray, day: int) -> tuple[np.ndarray, float]:
    """The value a week before, and how far such forecasts have been off so far."""
    past = y[: day - WEEK + 1]
    return past[-1], float(np.std(past[WEEK:] - past[:-WEEK]))


def regression(y: np.ndarray, day: int, order: int = 3) -> tuple[np.ndarray, float]:
    """Least squares on harmonics of the year, station by station, from the data up to a week before."""
    past = y[: day - WEEK + 1]
    turn = 2 * np.pi / YEAR * np.outer(np.arange(day + 1), np.arange(1, order + 1))
    columns = np.column_stack([np.ones(day + 1), np.cos(turn), np.sin(turn)])
    weights = np.linalg.lstsq(columns[: len(past)], past, rcond=None)[0]
    return columns[day] @ weights, float(np.std(past - columns[: len(past)] @ weights))


def crps_of(y: np.ndarray, found: dict[str, list[Forecast]]) -> dict[str, np.ndarray]:
    """The CRPS of each forecast, averaged over stations: ``(weeks,)`` for each method."""
    days = [one.day for one in found[WITH]]
    simple = {"persistence": persistence, "harmonic regression": regression}
    rows = {
        name: np.array([np.mean(crps_normal(y[day], *method(y, day))) for day in days])
        for name, method in simple.items()
    }
    return rows | {
        name: np.array([scores.crps(one.draws, y[one.day]).mean() for one in each]) for name, each in found.items()
    }


def table(crps: dict[str, np.ndarray]) -> str:
    """Mean CRPS of each method, and how much worse than with ``Periodic``: week by week, so with its standard error."""
    best = crps[WITH]
    rows = []
    for name, each in sorted(crps.items(), key=lambda item: float(np.mean(item[1]))):
        more = each - best
        error = np.std(more, ddof=1) / np.sqrt(len(more))
        rows.append([name, f"{each.mean():.3f}", "" if name == WITH else f"{more.mean():+.3f} ± {error:.3f}"])
    return markdown(["one week ahead", "CRPS", f"more than {WITH}"], rows)


def figure(y: np.ndarray, found: dict[str, list[Forecast]], crps: dict[str, np.ndarray]) -> plt.Figure:
    """Data and forecasts at the first station in the last year, and the CRPS so far of all methods."""
    picture, axes = plt.subplots(2, 1, figsize=(9, 6.5), constrained_layout=True)
    days = np.array([one.day for one in found[WITH]])
    last = days >= len(y) - YEAR
    axes[0].plot(np.arange(len(y)), y[:, 0], ".", color="0.75", ms=3, label="data")
    for name, colour in ((WITHOUT, "C1"), (WITH, "C0")):
        low, middle, high = np.transpose([np.quantile(one.draws[:, 0], [0.025, 0.5, 0.975]) for one in found[name]])
        axes[0].fill_between(days, low, high, color=colour, alpha=0.2, lw=0)
        axes[0].plot(days, middle, color=colour, label=f"{name}, 95%")
    axes[0].set(title="One station, forecast one week before", xlabel="day", xlim=(days[last][0], len(y)))
    axes[0].legend(frameon=False)
    for name, each in crps.items():
        axes[1].plot(days, np.cumsum(each - crps[WITH]), label=name)
    axes[1].set(title=f"CRPS lost against the model {WITH}, added up", xlabel="day")
    axes[1].legend(frameon=False)
    return picture


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--years", type=float, default=3)
    parser.add_argument("--particles", type=int, default=64)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--harmonics", type=int, default=3, help="of the cycle's state")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--quick", action="store_true", help="a few weeks, only to show that it runs")
    args = parser.parse_args(argv)
    args.first, args.every = int(YEAR), WEEK
    if args.quick:
        args.years, args.particles, args.draws, args.harmonics = 17 / YEAR, 16, 100, 1
        args.first, args.every = 8, 1
    return args


def main(argv: list[str] | None = None) -> dict[str, np.ndarray]:
    args = parse(argv)
    seqgp.enable_x64()
    matplotlib.use("agg")
    args.out.mkdir(parents=True, exist_ok=True)
    y = simulated(args.seed, round(args.years * YEAR))
    runs, found = {}, {}
    for name, model in models().items():
        start = time.perf_counter()
        runs[name], found[name] = forecasts(model, y, args)
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
        for parameter, values in runs[name].state.parameters.items():
            print(f"  {parameter}: {np.mean(values):.2f} ± {np.std(values):.2f}")
    crps = crps_of(y, found)
    text = f"{len(crps[WITH])} forecasts of {len(STATIONS)} stations\n\n{table(crps)}\n\n{seqgp.compare(runs)}\n"
    (args.out / "tables.md").write_text(text)
    print("\n" + text)
    figure(y, found, crps).savefig(args.out / "season.png", dpi=100)
    return crps


if __name__ == "__main__":
    main()
