"""States with a few of their particles, for maps of many times: each filter that is run costs the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from jaxtyping import Float, Int

from seqgp.samplers.online.state import OnlineState

EPOCH = ("evaluated_at", "dropped", "fingerprint")  # what states with the same particles share


def with_few_particles(states: Sequence[OnlineState], num: int, draws: int) -> list[OnlineState]:
    """The states, in order of time, with at most ``num`` of their particles.

    States of one epoch, between two rejuvenations, keep the same particles, so that filters go on from one to the next.
    These are a systematic sample of the mean weights of the epoch; the draws of each state weight them anew.

    Args:
        states: the states of a run.
        num: how many particles, if there are more.
        draws: how many draws each state has then.
    """
    found: list[OnlineState] = []
    for _, group in groupby(states, key=lambda state: tuple(getattr(state, name) for name in EPOCH)):
        epoch = list(group)
        size = len(epoch[0].particles.z)
        same = all(np.array_equal(state.particles.z, epoch[0].particles.z) for state in epoch)
        if size <= num or not same or epoch[0].correction is not None:
            found += [state.thinned(draws) for state in epoch]
            continue
        shares = np.array([np.bincount(state.particle, minlength=size) / state.draws for state in epoch])
        mean = shares.mean(axis=0)
        chosen, times = np.unique(_systematic(mean, num), return_counts=True)
        for state, share in zip(epoch, shares):
            weights = times * share[chosen] / mean[chosen]
            drawn = _systematic(weights / weights.sum(), draws)
            found.append(_restricted(state, np.resize(chosen, num), drawn, chosen[drawn]))
    return found


def _systematic(weights: Float[np.ndarray, " n"], num: int) -> Int[np.ndarray, " num"]:
    """Indices in proportion to weights, each as often as its share says, up to one."""
    positions = (np.arange(num) + 0.5) / num
    return np.minimum(np.searchsorted(np.cumsum(weights), positions), int(np.flatnonzero(weights)[-1]))


def _restricted(
    state: OnlineState, particles: Int[np.ndarray, " num"], drawn: Int[np.ndarray, " m"], number: Int[np.ndarray, " m"]
) -> OnlineState:
    """With these particles, and draws of them.

    Args:
        state: the state.
        particles: the particles that are kept.
        drawn: the particle of each draw, among those.
        number: the same among all.
    """
    first = np.full(len(state.particles.z), -1)
    first[state.particle[::-1]] = np.arange(state.draws)[::-1]  # a draw of each particle
    cloud = state.particles
    return state.picked(first[number])._replace(
        particle=drawn,
        particles=cloud._replace(
            z=cloud.z[particles],
            log_prior=cloud.log_prior[particles],
            log_evidences=cloud.log_evidences[particles],
            log_increment=cloud.log_increment[particles],
            log_proposal=cloud.log_proposal[particles],
        ),
    )
