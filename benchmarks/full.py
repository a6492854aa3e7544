"""The full, non-sequential samplers at ``N · t = 1000``: minutes for 6000 draws on all cores (the paper: 11 hours)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
from experiments.simulate import regression_data, regression_model

import seqgp
from benchmarks.lines import Line, in_own_process, main
from benchmarks.problems import SEED
from seqgp.reference import CollapsedSampler

WANTED = 6000


class Sizes(NamedTuple):
    """How much to sample; the time for the draws wanted follows from the difference of two runs."""

    n: int = 100
    steps: int = 10
    few: int = 4
    many: int = 44


QUICK = Sizes(n=5, steps=2, few=4, many=8)


def lines(quick: bool = False) -> list[Line]:
    """Rows of the table."""
    return in_own_process(measure, QUICK if quick else Sizes())


def measure(sizes: Sizes) -> list[Line]:
    """Each sampler in turn, one sweep a draw, four chains."""
    model = regression_model()
    snapshots = regression_data(SEED, sizes.n, sizes.steps).snapshots
    found = []
    for name, goal in (("plain", 60), ("informed", 60), ("collapsed", 60)):
        seconds = {draws: _seconds(name, model, snapshots, draws) for draws in (sizes.few, sizes.many)}
        each = (seconds[sizes.many] - seconds[sizes.few]) / (sizes.many - sizes.few)
        total = sizes.n * sizes.steps
        detail = f"{each:.2f} s a draw, over {sizes.many} draws after few sweeps of warm-up; the paper: 11 hours"
        title = f"full sampler, {name}, N·t={total}: minutes for {WANTED} draws"
        found.append(Line(title, each * WANTED / 60, goal, "<=", detail))
    return found


def _seconds(name: str, model: seqgp.Model, snapshots: list[seqgp.Snapshot], draws: int) -> float:
    """Without compilation, of which a first run takes care."""
    settings: dict[str, Any] = {"draws": draws, "chains": 4, "warmup": 8, "thin": 1}
    if name == "collapsed":
        return CollapsedSampler(model, **settings).sample(jax.random.key(SEED), snapshots)[1].seconds
    sampler = seqgp.FullSampler(model, updates=name, **settings)
    return sampler.sample(jax.random.key(SEED), snapshots)[1].seconds


if __name__ == "__main__":
    main(lines, "full")
