"""Events in time and in space: coal-mining disasters, and a simulated pattern whose intensity drifts.

python -m experiments.cox [--part coal pattern] [--particles 64] [--seed 0] [--quick]

The disasters are counted in bins of 50 days, which come one by one; the intensity, with bands, is that of a
log-Gaussian Cox process. The pattern has events in a square, counted in cells over 20 intervals, around a centre
that moves; there the true intensity is known. Writes figures and tables to ``out/cox``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import jax
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist

import seqgp
from experiments.comparison import markdown

OUT = Path("out/cox")
BIN = 50  # days
YEAR = 365.25
FIRST = 1851 + 73 / 365  # 15 March 1851
QUANTILES = (0.025, 0.5, 0.975)

# Days between successive explosions in British coal mines that killed ten or more, 15 March 1851 to 22 March 1962:
# Jarrett, R. G. (1979), A note on the intervals between coal-mining disasters, Biometrika 66, 191–193; after Maguire,
# Pearson and Wynn (1952), Biometrika 39, 168–180.
INTERVALS = """
157 123 2 124 12 4 10 216 80 12 33 66 232 826 40 12 29 190 97 65 186 23 92 197 431 16 154 95 25 19 78 202 36 110 276 16
88 225 53 17 538 187 34 101 41 139 42 1 250 80 3 324 56 31 96 70 41 93 24 91 143 16 27 144 45 6 208 29 112 43 193 134
420 95 125 34 127 218 2 0 378 36 15 31 215 11 137 4 15 72 96 124 50 120 203 176 55 93 59 315 59 61 1 13 189 345 20 81
286 114 108 188 233 28 22 61 78 99 326 275 54 217 113 32 388 151 361 312 354 307 275 78 17 1205 644 467 871 48 123 456
498 49 131 182 255 194 224 566 462 228 806 517 1643 54 326 1312 348 745 217 120 275 20 66 292 4 368 307 336 19 329 330
312 536 145 75 364 37 19 156 47 129 1630 29 217 7 18 1358 2366 952 632
"""


def disasters() -> np.ndarray:
    """The days of the 191 disasters, from the first on."""
    return np.concatenate([[0], np.cumsum([int(days) for days in INTERVALS.split()])])


def coal_snapshots(bins: int | None) -> list[seqgp.Snapshot]:
    """Counts in bins of 50 days; time in years."""
    days = disasters()
    edges = np.arange(0, days[-1] + BIN, BIN)
    return seqgp.likelihoods.LogGaussianCox().snapshots(FIRST + edges / YEAR, FIRST + days / YEAR)[:bins]


def coal_models() -> dict[str, seqgp.Model]:
    """The log of disasters a year: smooth, or rough; it changes over decades."""

    def model(time: Any) -> seqgp.Model:
        return seqgp.Model(
            kernel=seqgp.Separable(
                time(dist.LogNormal(3.0, 0.7)), seqgp.kernels.Constant(scale=1.0), dist.LogNormal(0.0, 0.5)
            ),
            mean=dist.Normal(0.5, 1.0),
            likelihood=seqgp.likelihoods.LogGaussianCox(),
        )

    return {"Matern32": model(seqgp.kernels.Matern32), "Matern12": model(seqgp.kernels.Matern12)}


def true_intensity(t: Any, x: np.ndarray) -> np.ndarray:
    """Events a unit of area and time around a centre that moves over the unit square, ``t`` from 0 to 1."""
    centre = np.stack([0.25 + 0.5 * t, 0.3 + 0.4 * np.sin(np.pi * t)], axis=-1)
    return 300 + 5000 * np.exp(-0.5 * np.sum((x - centre) ** 2, axis=-1) / 0.17**2)


def mean_intensity(side: int, steps: int, fine: int = 6) -> np.ndarray:
    """The true intensity averaged over each interval of time and each cell, ``(steps, cells)``."""
    middle = (np.arange(side * fine) + 0.5) / (side * fine)
    x = np.stack(np.meshgrid(middle, middle, indexing="ij"), axis=-1)
    times = ((np.arange(steps * fine) + 0.5) / (steps * fine))[:, None, None]
    whole = true_intensity(times, x[None]).reshape(steps, fine, side, fine, side, fine)
    return whole.mean(axis=(1, 3, 5)).reshape(steps, -1)


def events(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Times and places of the events of one pattern, by thinning."""
    rng, most = np.random.default_rng(seed), 5300.0
    drawn = rng.random((rng.poisson(most), 3))
    kept = drawn[rng.random(len(drawn)) * most < true_intensity(drawn[:, 0], drawn[:, 1:])]
    return kept[:, 0], kept[:, 1:]


def pattern(seed: int, side: int, steps: int) -> list[seqgp.Snapshot]:
    """The events of a pattern, counted."""
    return square(side).snapshots(np.linspace(0, 1, steps + 1), *events(seed))


def square(side: int) -> seqgp.likelihoods.LogGaussianCox:
    """The unit square in cells."""
    return seqgp.likelihoods.LogGaussianCox(domain=[(0, 1), (0, 1)], bins=side)


def pattern_models(side: int) -> dict[str, seqgp.Model]:
    """A log intensity that drifts smoothly, or roughly, in time."""

    def model(time: Any) -> seqgp.Model:
        return seqgp.Model(
            kernel=seqgp.Separable(
                time(dist.LogNormal(-0.7, 0.7)),
                seqgp.kernels.Matern52(dist.LogNormal(-1.0, 0.5)),
                dist.LogNormal(0.0, 0.5),
            ),
            mean=dist.Normal(7.0, 1.0),
            likelihood=square(side),
        )

    return {"Matern32": model(seqgp.kernels.Matern32), "Matern12": model(seqgp.kernels.Matern12)}


def runs_of(
    models: dict[str, seqgp.Model], snapshots: list[seqgp.Snapshot], args: argparse.Namespace
) -> tuple[dict[str, seqgp.Run], np.ndarray]:
    """A run of each model, and draws of the log intensity of the first given all data, ``(draws, times, cells)``."""
    runs, past = {}, None
    for name, model in models.items():
        start = time.perf_counter()
        sampler = seqgp.OnlineSampler(model, particles=args.particles, draws=args.draws, paths=0)
        key_run, key_past = jax.random.split(jax.random.key(args.seed))
        runs[name] = seqgp.run(sampler, snapshots, key_run, forecast=False)
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
        if past is None:
            past = seqgp.smooth(key_past, sampler, runs[name].state, [s.t for s in snapshots], draws=args.draws)
    assert past is not None
    return runs, np.stack(past.latent, axis=1)


def band(draws: np.ndarray) -> str:
    """Median and central 95%."""
    low, middle, high = np.quantile(draws, QUANTILES)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def coal(args: argparse.Namespace) -> str:
    """The table of the disasters, and their figure."""
    snapshots = coal_snapshots(args.bins)
    runs, log_rate = runs_of(coal_models(), snapshots, args)
    times, rate = np.array([s.t for s in snapshots]), np.exp(log_rate[:, :, 0])
    before = times < 1891
    rows = [["1851–1890", band(rate[:, before].mean(axis=1))]]
    if not before.all():
        rows.append(["1891–1962", band(rate[:, ~before].mean(axis=1))])
        rows.append(["ratio", band(rate[:, before].mean(axis=1) / rate[:, ~before].mean(axis=1))])
    picture, axis = plt.subplots(figsize=(9, 3.8), constrained_layout=True)
    found = seqgp.likelihoods.LogGaussianCox().intensity(log_rate[:, :, 0])
    axis.fill_between(times, found.low, found.high, color="C0", alpha=0.25, lw=0, label="95%")
    axis.plot(times, found.mean, color="C0", label="disasters a year")
    axis.plot(FIRST + disasters() / YEAR, np.zeros(len(disasters())), "|", color="k", ms=10)
    axis.set(xlabel="year", ylim=(0, None), xlim=(times[0], times[-1]))
    axis.legend(frameon=False)
    picture.savefig(args.out / "coal.png", dpi=100)
    return f"{len(snapshots)} bins\n\n{markdown(['disasters a year', 'median (95%)'], rows)}\n\n{seqgp.compare(runs)}\n"


def spatial(args: argparse.Namespace) -> str:
    """The table of the simulated pattern, and its figure."""
    snapshots = pattern(args.seed, args.side, args.steps)
    runs, level = runs_of(pattern_models(args.side), snapshots, args)
    truth, found = mean_intensity(args.side, args.steps), square(args.side).intensity(level)
    counted = np.stack([s.y / s.context["exposure"] for s in snapshots])
    rows = [
        ["posterior mean, rms error", f"{np.sqrt(np.mean((found.mean - truth) ** 2)):.0f}"],
        ["the counts themselves, rms error", f"{np.sqrt(np.mean((counted - truth) ** 2)):.0f}"],
        ["95% bands hold the truth in", f"{np.mean((found.low <= truth) & (truth <= found.high)):.1%}"],
    ]
    maps = {"events": counted, "posterior mean": found.mean, "truth": truth}
    pattern_figure(maps, [s.t for s in snapshots], args.side).savefig(args.out / "pattern.png", dpi=100)
    total = int(sum(s.y.sum() for s in snapshots))
    head = ["intensity, a unit of area and time", ""]
    return f"{total} events in {len(snapshots)} intervals\n\n{markdown(head, rows)}\n\n{seqgp.compare(runs)}\n"


def pattern_figure(maps: dict[str, np.ndarray], times: list[float], side: int) -> plt.Figure:
    """Maps of each kind at four times, to one scale."""
    picture, axes = plt.subplots(len(maps), 4, figsize=(9, 7), constrained_layout=True, squeeze=False)
    image = None
    for column, i in enumerate(np.linspace(0, len(times) - 1, 4).round().astype(int)):
        for axis, (name, values) in zip(axes[:, column], maps.items()):
            image = axis.imshow(values[i].reshape(side, side).T, origin="lower", vmin=0, vmax=1.2 * maps["truth"].max())
            axis.set(xticks=[], yticks=[], ylabel="" if column else name)
        axes[0, column].set_title(f"t = {times[i]:.2f}")
    assert image is not None
    picture.colorbar(image, ax=axes, label="events a unit of area and time", shrink=0.6)
    return picture


PARTS = {"coal": coal, "pattern": spatial}


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=tuple(PARTS), default=tuple(PARTS))
    parser.add_argument("--particles", type=int, default=64)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--bins", type=int, default=None, help="of the disasters; all by default")
    parser.add_argument("--side", type=int, default=6, help="cells along each side of the square")
    parser.add_argument("--steps", type=int, default=20, help="times of the pattern")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    args = parser.parse_args(argv)
    if args.quick:
        args.particles, args.draws, args.bins, args.side, args.steps = 16, 50, 3, 3, 3
    return args


def main(argv: list[str] | None = None) -> dict[str, str]:
    args = parse(argv)
    seqgp.enable_x64()
    matplotlib.use("agg")
    args.out.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in args.part:
        found[name] = PARTS[name](args)
        (args.out / f"{name}.md").write_text(found[name])
        print(f"\n{found[name]}", flush=True)
    return found


if __name__ == "__main__":
    main()
