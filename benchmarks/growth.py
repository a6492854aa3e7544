"""How cost grows: with the number of points, with the window, and (not at all) with time."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from experiments.simulate import regression_model

import seqgp
from benchmarks.lines import Line, exponent, in_own_process, main, on_one_core
from benchmarks.problems import SEED, knots, start_of, step_of


class Sizes(NamedTuple):
    """Points a snapshot, with the draws to time them by; windows; steps of the long run."""

    dense: tuple[tuple[int, int], ...] = ((200, 40), (400, 20), (800, 8), (1600, 4), (3200, 2))
    knots: tuple[tuple[int, int], ...] = ((1000, 200), (10_000, 200), (100_000, 200))
    taus: tuple[int, ...] = (1, 2, 3, 4)
    window: tuple[int, int] = (200, 40)
    steps: int = 2000
    late: int = 500
    early: int = 20
    varying: int = 300


QUICK = Sizes(((20, 24), (40, 24)), ((100, 24), (200, 24)), (1, 2), (20, 24), steps=60, late=40, early=20, varying=30)


def lines(quick: bool = False) -> list[Line]:
    """Rows of the table."""
    sizes = QUICK if quick else Sizes()
    return [
        *on_one_core(exponents, sizes),
        *in_own_process(long_run, sizes),
        in_own_process(varying_run, sizes),
        in_own_process(varying_stations, sizes),
    ]


def exponents(sizes: Sizes) -> list[Line]:
    """Fitted slopes of seconds per proposal of the kernel's parameters."""
    points, draws = sizes.window
    return [
        _line("dense: exponent of time in N", sizes.dense, seqgp.Dense(), 3.0),
        _line("knots: exponent of time in N", sizes.knots, knots(), 1.1),
        _slope(
            "dense: exponent of time in tau",
            {tau: per_proposal(points, draws, seqgp.Dense(), tau) for tau in sizes.taus},
            3.0,
        ),
    ]


def _line(name: str, sizes: tuple[tuple[int, int], ...], latent: Any, goal: float) -> Line:
    return _slope(name, {n: per_proposal(n, draws, latent) for n, draws in sizes}, goal)


def _slope(name: str, seconds: dict[int, float], goal: float) -> Line:
    each = ", ".join(f"{size}: {1e3 * value:.3g}" for size, value in seconds.items())
    slope = exponent(list(seconds), list(seconds.values()))
    return Line(name, slope, goal, "<=", f"ms a proposal: {each}", tuple(seconds.items()))


def snapshot_of(rng: np.random.Generator, t: float, n: int) -> seqgp.Snapshot:
    """Points of a moving surface on the unit square."""
    x = rng.random((n, 2))
    return seqgp.Snapshot(t, x, np.sin(3 * x[:, 0] + t) * x[:, 1] + 0.5 + 0.3 * rng.standard_normal(n))


def per_proposal(n: int, draws: int, latent: Any, tau: int = 1) -> float:
    """Seconds of a step to ``n`` points, over its proposals of the kernel's parameters.

    Per proposal, since how many a draw takes depends on the data; one sweep of each kind a draw, so that large sizes
    take seconds. The first snapshot is small, to be quick: the step pads its window to the new snapshot's size, and
    costs the same.
    """
    rng = np.random.default_rng(SEED)
    start = start_of(regression_model(), [snapshot_of(rng, 0.0, 16), snapshot_of(rng, 0.05, n)], draws, latent, tau)
    step = step_of(start, updates=seqgp.Plain(sweeps=(1, 0, 1)), chains=1, warmup=0)
    if n <= 1000:
        step()
    info = step()
    return info.seconds / info.updates["kernel"].evaluations


def long_run(sizes: Sizes) -> list[Line]:
    """Time and peak memory of a long sequence from a generator."""
    rng = np.random.default_rng(SEED)
    seconds, evaluations, peaks = [], [], {}
    snapshots = (snapshot_of(rng, 0.05 * i, 20) for i in range(sizes.steps))
    for number, info in enumerate(_infos(snapshots), start=1):
        assert isinstance(info, seqgp.ChainInfo)
        seconds.append(info.seconds)
        evaluations.append(sum(update.evaluations for update in info.updates.values()))
        if number in (sizes.early, sizes.steps):
            peaks[number] = _peak_megabytes()
    around = 4
    early, later = slice(2, 3 + 2 * around), slice(sizes.late - around, sizes.late + around + 1)
    first, late = (float(np.median(seconds[part])) for part in (early, later))
    fewer, more = (float(np.median(evaluations[part])) for part in (early, later))
    return [
        Line(
            f"time of step {sizes.late} over step 5",
            late / first,
            1.1,
            "<=",
            f"{1e3 * late:.0f} ms, {1e3 * first:.0f} ms; for {more:.0f} and {fewer:.0f} evaluations of densities",
        ),
        _growth(f"peak memory after {sizes.steps} steps over {sizes.early}", peaks, 1.05),
    ]


def varying_run(sizes: Sizes) -> Line:
    """Peak memory where the number of points changes from step to step: each compiled size stays in memory."""
    rng = np.random.default_rng(SEED)
    snapshots = (snapshot_of(rng, 0.05 * i, int(rng.integers(10, 41))) for i in range(sizes.varying))
    return _varying("10 to 40 points a step", _infos(snapshots), sizes)


def varying_stations(sizes: Sizes) -> Line:
    """The same for stations that come and go in the online sampler, whose past is bounded."""
    rng = np.random.default_rng(SEED)
    every = snapshot_of(rng, 0.0, 40)

    def snapshot(t: float) -> seqgp.Snapshot:
        there = rng.permutation(40)[: rng.integers(10, 41)]
        return seqgp.Snapshot(t, every.x[there], every.y[there] + 0.3 * rng.standard_normal(len(there)))

    sampler = seqgp.OnlineSampler(regression_model(), particles=32, draws=20, history=10)
    snapshots = (snapshot(0.05 * i) for i in range(sizes.varying))
    steps = seqgp.steps(jax.random.key(SEED), sampler, snapshots, progress=False)
    return _varying("10 to 40 of 40 stations a step, online, history=10", (info for _, info in steps), sizes)


def _varying(name: str, infos: Iterator[seqgp.Info], sizes: Sizes) -> Line:
    peaks = {}
    for number, _ in enumerate(infos, start=1):
        if number in (sizes.early, sizes.varying):
            peaks[number] = _peak_megabytes()
    return _growth(f"{name}: peak memory after {sizes.varying} steps over {sizes.early}", peaks, 1.1)


def _infos(snapshots: Iterator[seqgp.Snapshot]) -> Iterator[seqgp.Info]:
    """A sequence of few draws, step after step."""
    sampler = seqgp.SequentialSampler(
        regression_model(), draws=20, chains=1, warmup=10, latent=seqgp.Dense(), updates="plain"
    )
    return (info for _, info in seqgp.steps(jax.random.key(SEED), sampler, snapshots, progress=False))


def _growth(name: str, peaks: dict[int, float], goal: float) -> Line:
    early, late = (peaks[number] for number in sorted(peaks))
    return Line(name, late / early, goal, "<=", f"{late:.0f} MB, {early:.0f} MB")


def _peak_megabytes() -> float:
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    main(lines, "growth")
