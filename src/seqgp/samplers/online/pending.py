"""Rejuvenation spread over steps: new particles run over the data beside the old ones, some snapshots a step.

Running filters over ``T`` snapshots within one step makes that step wait ``T`` times as long as others. On long
histories the sampler therefore draws new particles early, runs their filters over at most ``SNAPSHOTS_PER_STEP``
snapshots in each step, and puts them in the place of the old ones when they have caught up:

    log weight = log prior + log evidence of all data − log proposal

These are the weights of a rejuvenation within one step. Until then the old particles go on, with weights that are
exact too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from seqgp.samplers.ibis import Particles, Rejuvenation
from seqgp.samplers.online.filters import SNAPSHOTS_PER_CALL, Filters, Spent, run_filters, run_further
from seqgp.samplers.online.history import Timeline
from seqgp.samplers.online.programs import entries_on_grid
from seqgp.samplers.online.quadratics import Memory
from seqgp.samplers.proposals import Mixture, StudentProposal, log_normal, snapped, variance_in_cells

SNAPSHOTS_PER_STEP = SNAPSHOTS_PER_CALL  # that new particles run over in a step, beside the one that arrives
FROM_SNAPSHOTS = 64  # of a history from which rejuvenations are spread; a shorter one is run over within the step
BEGIN_ESS_FRACTION = 0.6  # of the particles effective, below which new ones begin
LEAST_ESS_FRACTION = 0.1  # below which the step waits for a rejuvenation, as on short histories


class PendingParticles(NamedTuple):
    """New particles on their way through the data."""

    z: Float[np.ndarray, "S d"]
    log_proposal: Float[np.ndarray, " S"]
    log_evidences: Float[np.ndarray, " S"]  # of the snapshots so far without the last of them, as in Particles
    log_increment: Float[np.ndarray, " S"]  # of that last one
    done: int  # snapshots so far, of those that are kept
    rounds: int  # 1, or more where earlier proposals did no better than the old particles
    fit: StudentProposal  # from which these were drawn


class Pending(NamedTuple):
    """New particles and their filters, where there are any, and where these are in memory."""

    particles: PendingParticles | None = None
    filters: Filters | None = None


class Advanced(NamedTuple):
    """A step of new particles: those that are still on their way, or those that have caught up and take over."""

    pending: Pending
    taken: tuple[Particles, Filters, Rejuvenation] | None
    spent: Spent


def may_spread(particles: Particles, snapshots: int) -> bool:
    """Whether a rejuvenation can take its time: the history is long, and the old particles serve meanwhile."""
    size, d = particles.z.shape
    return d > 0 and snapshots >= FROM_SNAPSHOTS and particles.ess() >= max(LEAST_ESS_FRACTION * size, 2 * d + 2)


def advance_pending(
    rng: np.random.Generator,
    old: Particles,
    pending: Pending,
    history: Timeline,
    forget: float,
    memory: Memory | None,
    dropped: int,
) -> Advanced:
    """New particles begun where too few of the old ones are effective, and run over some more of the data.

    Args:
        rng: random numbers.
        old: the particles, given all data.
        pending: the new ones so far.
        history: the data.
        forget: the discount of the past.
        memory: what the data up to its anchor said about the parameters, where not all are kept.
        dropped: how many snapshots are not kept.
    """
    prior, new, entries = history.ssm.particle_prior(), pending.particles, entries_on_grid(history.filter)
    if new is None:
        if old.ess() >= BEGIN_ESS_FRACTION * len(old.z):
            return Advanced(Pending(), None, Spent())
        new = begin_pending(rng, old, prior, None, entries)
    new, filters, spent = run_pending(history, Pending(new, pending.filters), forget, memory, dropped)
    if new.done < len(history.snapshots):
        return Advanced(Pending(new, filters), None, spent)
    found = caught_up(new, prior)
    if not np.isfinite(found.log_weights()).any() or found.ess() <= old.ess():
        return Advanced(Pending(begin_pending(rng, old, prior, new, entries)), None, spent)
    rejuvenation = Rejuvenation("spread", 1.0, new.rounds, found.ess(), 1.0, new.rounds * new.done, 0.0)
    return Advanced(Pending(), (found, filters, rejuvenation), spent)


def begin_pending(
    rng: np.random.Generator,
    old: Particles,
    prior: tuple[np.ndarray, np.ndarray],
    before: PendingParticles | None = None,
    entries: tuple[int, ...] = (),
) -> PendingParticles:
    """New particles from a distribution fitted to the old ones; after a proposal that failed, a mixture with that.

    The given ``entries`` of ``z`` lie on a grid, so that particles share them.
    """
    size = len(old.z)
    floor = 1e-10 * prior[1] ** 2 + variance_in_cells(old.z, entries, prior[1])
    fit = StudentProposal.fitted(old.z, old.weights(), floor)
    proposal = Mixture((fit,), (1.0,)) if before is None else Mixture((fit, before.fit), (0.8, 0.2))
    proposal = snapped(proposal, entries)
    z, zeros = proposal.points(rng, size), np.zeros(size)
    rounds = 1 if before is None else before.rounds + 1
    return PendingParticles(z, proposal.log_density(z), zeros, zeros, 0, rounds, fit)


def run_pending(
    history: Timeline, pending: Pending, forget: float, memory: Memory | None, dropped: int
) -> tuple[PendingParticles, Filters, Spent]:
    """New particles after some more of the snapshots, at most ``SNAPSHOTS_PER_STEP``."""
    new, filters = pending
    assert new is not None
    spent, count = Spent(), len(new.z)
    if filters is None:
        filters, _, spent = run_filters(history, new.z, new.done)
    filters, increments, cost = run_further(history, filters, new.done, SNAPSHOTS_PER_STEP, count)
    before, last = new.log_evidences, new.log_increment
    first = 0 if memory is None else memory.anchor - dropped  # from which snapshots count one by one
    for number, increment in enumerate(increments.T, start=new.done):
        if number > first:
            before = forget * (before + last)
        elif number == first and memory is not None:
            before = memory.log_evidence.at(new.z)
        last = increment
    done = new.done + increments.shape[1]
    return new._replace(log_evidences=before, log_increment=last, done=done), filters, spent + cost


def caught_up(new: PendingParticles, prior: tuple[np.ndarray, np.ndarray]) -> Particles:
    """As particles with weights."""
    return Particles(new.z, log_normal(new.z, *prior), new.log_evidences, new.log_increment, new.log_proposal, 0.0)
