"""The three representations of the latent against each other: seconds per draw of a step, one core each."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from experiments.simulate import regression_data, regression_model

import seqgp
from benchmarks.lines import Line, main, on_one_core
from benchmarks.problems import SEED, Start, knots, paper_start, start_of, step_of


class Sizes(NamedTuple):
    """How much to sample."""

    n: int = 200
    side: int = 20
    nodes: int = 12
    many: int = 100_000
    dense: int = 200  # draws; of the slower ones fewer, so that all take seconds
    large: int = 60
    fast: int = 1000
    exact: int = 8000  # draws for the comparison of the posteriors: the largest of 200 errors must be small
    turns: int = 2


QUICK = Sizes(n=20, side=5, nodes=6, many=1000, dense=24, large=24, fast=24, exact=100, turns=1)


def lines(quick: bool = False) -> list[Line]:
    """Rows of the table."""
    sizes = QUICK if quick else Sizes()
    return [*on_one_core(ratios, sizes), *accuracy(sizes), many_points(sizes)]


def ratios(sizes: Sizes) -> list[Line]:
    """Grid and knots over dense."""
    irregular = np.random.default_rng(0).random((sizes.n, 2))
    axis = np.linspace(0, 1, sizes.side)
    square = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    dense, grid = seqgp.Dense(), seqgp.Grid()
    shared = per_draw(shared_start(irregular, sizes.dense, dense), sizes.turns)
    on_grid = per_draw(shared_start(square, sizes.large, dense), sizes.turns)
    paper = per_draw(paper_start(sizes.n, sizes.dense), sizes.turns)
    fast_shared = per_draw(shared_start(irregular, sizes.dense, grid), sizes.turns)
    fast_grid = per_draw(shared_start(square, sizes.fast, grid), sizes.turns)
    fast_knots = per_draw(paper_start(sizes.n, sizes.fast, knots(sizes.nodes)), sizes.turns)
    return [
        _ratio(f"grid over dense, N={sizes.n} shared irregular inputs", shared, fast_shared, 4),
        _ratio(f"grid over dense, N={len(square)} on a product grid", on_grid, fast_grid, 40),
        _ratio(
            f"knots {sizes.nodes}×{sizes.nodes} over dense, N={sizes.n}, the paper's regression", paper, fast_knots, 40
        ),
    ]


def _ratio(name: str, slow: float, fast: float, goal: float) -> Line:
    return Line(name, slow / fast, goal, ">=", f"{1e3 * slow:.2f} ms a draw against {1e3 * fast:.3f} ms")


def shared_start(x: np.ndarray, draws: int, latent: Any) -> Start:
    """Two snapshots at the same inputs, after the first."""
    rng = np.random.default_rng(SEED)

    def at(t: float) -> seqgp.Snapshot:
        return seqgp.Snapshot(t, x, np.sin(3 * x[:, 0] + t) * x[:, 1] + 0.5 + 0.3 * rng.standard_normal(len(x)))

    return start_of(regression_model(), [at(0.0), at(0.05)], draws, latent)


def per_draw(start: Start, turns: int) -> float:
    """Seconds per draw of a plain step, the least of some turns."""
    step = step_of(start)
    step()
    return min(step().seconds for _ in range(turns)) / start.state.draws


def accuracy(sizes: Sizes) -> list[Line]:
    """The posteriors of knots and dense at the first time: means and deviations of latent and parameters."""
    snapshot = regression_data(SEED, sizes.n, 1).snapshots[0]
    states = {}
    for name, latent in (("dense", seqgp.Dense()), ("knots", knots(sizes.nodes))):
        sampler = seqgp.SequentialSampler(regression_model(), draws=sizes.exact, latent=latent, updates="informed")
        states[name], _ = sampler.init(jax.random.key(SEED), snapshot)
    exact, fast = (np.asarray(states[name].latent) for name in ("dense", "knots"))
    bias = np.abs(fast.mean(0) - exact.mean(0)) / exact.std(0)
    spread = np.abs(fast.std(0) / exact.std(0) - 1)
    shift = []
    for name, values in states["dense"].parameters.items():
        known, found = np.asarray(values), np.asarray(states["knots"].parameters[name])
        shift.append(np.max(np.abs(found.mean(0) - known.mean(0)) / known.std(0)))
    where = f"knots against dense, N={sizes.n}"
    with_error = f"{sizes.exact} draws each, Monte Carlo error included"
    return [
        Line(f"{where}: E[f] apart, in sds (largest)", float(bias.max()), 0.1, "<=", with_error),
        Line(f"{where}: sd of f apart, relative (largest)", float(spread.max()), 0.05, "<=", with_error),
        Line(f"{where}: parameters' means apart, in sds (largest)", float(max(shift)), 0.2, "<=", with_error),
    ]


def many_points(sizes: Sizes) -> Line:
    """A step to a snapshot of very many points, all cores."""
    rng = np.random.default_rng(SEED)

    def at(t: float, n: int) -> seqgp.Snapshot:
        x = rng.random((n, 2))
        return seqgp.Snapshot(t, x, np.sin(3 * x[:, 0] + t) * x[:, 1] + 0.5 + 0.3 * rng.standard_normal(n))

    start = start_of(regression_model(), [at(0.0, 200), at(0.05, sizes.many)], sizes.fast, knots(sizes.nodes))
    seconds = {}
    for updates in ("plain", "informed"):
        seconds[updates] = step_of(start, updates=updates)().seconds
    detail = f"{sizes.fast} draws, plain updates; informed: {seconds['informed']:.1f} s"
    return Line(f"knots, N={sizes.many}: seconds a step", seconds["plain"], 60, "<=", detail)


if __name__ == "__main__":
    main(lines, "latents")
