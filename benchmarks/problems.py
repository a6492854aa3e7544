"""What several modules measure on: the paper's regression, its start, and how a step or an initial sample is timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from experiments.simulate import regression_data, regression_model

import seqgp
from benchmarks.lines import smallest_ess

UNIT_SQUARE = ((0.0, 1.0), (0.0, 1.0))
SEED = 1


class Start(NamedTuple):
    """A model after its first snapshot, and the snapshots that follow."""

    model: seqgp.Model
    state: seqgp.SequentialState
    following: list[seqgp.Snapshot]
    latent: Any


def knots(nodes: int = 12) -> seqgp.Knots:
    """A square of knots on the unit square."""
    return seqgp.Knots(nodes=(nodes, nodes), domain=UNIT_SQUARE)


def paper_start(n: int, draws: int, latent: Any = None, tau: int = 1, steps: int = 2) -> Start:
    """The paper's regression after its first snapshot, sampled with informed updates."""
    model = regression_model()
    snapshots = regression_data(SEED, n, steps).snapshots
    return start_of(model, snapshots, draws, latent, tau)


def start_of(
    model: seqgp.Model, snapshots: list[seqgp.Snapshot], draws: int, latent: Any = None, tau: int = 1
) -> Start:
    """Any sequence after its first snapshot."""
    latent = latent or seqgp.Dense()
    sampler = seqgp.SequentialSampler(model, draws=draws, tau=tau, warmup=100, latent=latent, updates="informed")
    state, _ = sampler.init(jax.random.key(SEED), snapshots[0])
    return Start(model, state, snapshots[1:], latent)


def step_of(start: Start, updates: Any = "plain", **settings: Any) -> Callable[[], seqgp.ChainInfo]:
    """The step to the next snapshot, always with the same key: what it cost."""
    tau = len(start.state.window.times)
    sampler = seqgp.SequentialSampler(
        start.model, start.state.draws, tau, latent=start.latent, updates=updates, **settings
    )
    return lambda: sampler.step(jax.random.key(SEED), start.state, start.following[0])[1]


class Rate(NamedTuple):
    """Draws of ours, and how many were effective."""

    state: seqgp.SequentialState
    ess: float  # the smallest over all parameters and latent values
    seconds: float  # of the draws kept, as for the peers
    everything: float  # with tuning, warm-up and diagnostics; not compilation
    updates: str

    @property
    def per_second(self) -> float:
        """Effective draws per second."""
        return self.ess / self.seconds


def initial_rate(model: seqgp.Model, snapshot: seqgp.Snapshot, turns: int = 1, **settings: Any) -> Rate:
    """The initial sample, with another key in each turn; effective draws and seconds are means over the turns."""
    sampler = seqgp.SequentialSampler(model, **settings)
    rates = []
    for turn in range(turns):
        state, info = sampler.init(jax.random.key(turn), snapshot)
        ess = smallest_ess(info.chains, state.z, state.latent)
        rates.append(Rate(state, ess, info.extras["draw_seconds"], info.seconds, info.settings["updates"]))
    means = {name: float(np.mean([getattr(rate, name) for rate in rates])) for name in ("ess", "seconds", "everything")}
    return rates[-1]._replace(**means)
