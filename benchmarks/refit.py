"""Refitting from scratch at each new snapshot, against going on: seconds per effective draw of the last latent."""

from __future__ import annotations

from typing import NamedTuple

import jax
from experiments.simulate import regression_data, regression_model

import seqgp
from benchmarks.lines import Line, main, on_one_core, smallest_ess
from benchmarks.peers import nuts
from benchmarks.problems import SEED


class Sizes(NamedTuple):
    """How much to sample."""

    n: int = 50
    steps: int = 5
    draws: int = 1000
    nuts: int = 60


QUICK = Sizes(n=10, steps=2, draws=40, nuts=15)


def lines(quick: bool = False) -> list[Line]:
    """Rows of the table."""
    return on_one_core(measure, QUICK if quick else Sizes())


def measure(sizes: Sizes) -> list[Line]:
    """NUTS on all data at each time (the draws kept alone are timed), and the sequence of ours, whole."""
    snapshots = regression_data(SEED, sizes.n, sizes.steps).snapshots
    model = regression_model()
    theirs, warming, last = 0.0, 0.0, None
    for t in range(1, sizes.steps + 1):
        last = nuts(model, snapshots[:t], sizes.nuts, seed=t)
        theirs += last.seconds
        warming += last.warmup_seconds
    assert last is not None
    their_ess = smallest_ess(1, last.f)
    sequential = {updates: _sequence(model, snapshots, sizes.draws, updates) for updates in ("plain", "informed")}
    found = []
    for updates, (seconds, ess) in sequential.items():
        detail = (
            f"{theirs:.1f} s (and {warming:.1f} s of warm-up) for {their_ess:.0f} effective draws against "
            f"{seconds:.1f} s for {ess:.0f}"
        )
        ratio = (theirs / their_ess) / (seconds / ess)
        name = f"refitting NUTS at t = 1…{sizes.steps}, N={sizes.n}, over {sizes.steps} steps of ours, {updates}"
        found.append(Line(name, ratio, 20, ">=", detail))
    return found


def _sequence(model: seqgp.Model, snapshots: list[seqgp.Snapshot], draws: int, updates: str) -> tuple[float, float]:
    """Seconds of the whole sequence and effective draws of the last latent, after one that may have compiled."""
    sampler = seqgp.SequentialSampler(model, draws, latent=seqgp.Dense(), updates=updates)
    seqgp.run(sampler, snapshots[:2], key=jax.random.key(SEED), progress=False)
    seconds, ess = 0.0, float("nan")
    for state, info in seqgp.steps(jax.random.key(SEED), sampler, snapshots, progress=False):
        assert isinstance(info, seqgp.ChainInfo)
        seconds += info.seconds
        ess = smallest_ess(info.chains, state.latent)
    return seconds, ess


if __name__ == "__main__":
    main(lines, "refit")
