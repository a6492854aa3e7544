"""Revise the past: the history with late and corrected snapshots, and the particles given it.

The filters of the same particles run over the revised history, so that

    log weight = log prior + log evidence of the revised data − log proposal

as if the data had come in order. Where the ESS is too low for one step of importance sampling, the particles are
tempered from the evidence of the data as they were to that of the revised data, and rejuvenated on the way.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from seqgp.base.errors import DataError
from seqgp.base.snapshot import Snapshot
from seqgp.runtime.engine import compiled, in_threads
from seqgp.runtime.parallel import gathered
from seqgp.samplers.ibis import UNTEMPERED_ESS_FRACTION, Evaluated, ParticleTarget, rejuvenate
from seqgp.samplers.online.budget import check_memory
from seqgp.samplers.online.filters import Filters, chosen, either, particle_count, run_filters
from seqgp.samplers.online.history import Timeline, build_timeline
from seqgp.samplers.online.predictive import predictive_of
from seqgp.samplers.online.programs import entries_on_grid, over_particles
from seqgp.samplers.online.state import Live, OnlineState
from seqgp.samplers.online.step import OnlineStep
from seqgp.samplers.online.update import ratios_of, update_filters
from seqgp.statespace.observation import Query
from seqgp.statespace.protocol import Filter


class Revision(NamedTuple):
    """The snapshots of a history after late and corrected ones were put in."""

    snapshots: tuple[Snapshot, ...]  # all that are kept, in the order of time
    first: int  # the index of the earliest one that changed
    added: int  # how many times are new
    replaced: int  # how many known times have other data
    retracted: int  # how many known times have none any more

    def extras(self) -> dict[str, int]:
        """For the extras of the info."""
        return {"added": self.added, "replaced": self.replaced, "retracted": self.retracted}


def list_of_late(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """Late snapshots in the order of time, each time once."""
    if isinstance(snapshots, Snapshot) or not isinstance(snapshots, Iterable):
        raise DataError(f"revise: expected a list of snapshots, got {type(snapshots).__name__}; give one in a list")
    late = list(snapshots)
    if not late:
        raise DataError("revise: no snapshot was given")
    for one in late:
        if not isinstance(one, Snapshot):
            raise DataError(f"revise: expected snapshots, got {type(one).__name__}")
    late.sort(key=lambda one: one.t)
    for one, other in itertools.pairwise(late):
        if one.t == other.t:
            raise DataError(f"revise: two snapshots have t = {one.t}; give one with all data of that time")
    return late


def revised_history(state: OnlineState, late: list[Snapshot], history: int | None) -> Revision:
    """The history of a state with late and corrected snapshots.

    Raises:
        DataError: for a snapshot after the state, with other columns of ``x``, or of a past that is no longer kept.
    """
    _check_times(state, late, history)
    known = {one.t: one for one in state.snapshots}
    given = {one.t: one for one in late}
    snapshots = tuple((known | given)[t] for t in sorted(known.keys() | given.keys()))
    added = len(given.keys() - known.keys())
    retracted = sum(np.isnan(one.y).all() for t, one in given.items() if t in known)
    first = next(i for i, one in enumerate(snapshots) if one.t == late[0].t)
    return Revision(snapshots, first, added, len(late) - added - int(retracted), int(retracted))


def _check_times(state: OnlineState, late: list[Snapshot], history: int | None) -> None:
    if late[-1].t > state.t:
        raise DataError(f"revise: t = {late[-1].t} is after the last t = {state.t}; step takes later snapshots")
    for one in late:
        if one.x.shape[1] != state.dimension:
            raise DataError(f"revise: x at t = {one.t} has {one.x.shape[1]} columns, but the run's {state.dimension}")
    if state.memory is None:
        return
    anchor = state.fixed_until
    if late[0].t <= anchor:
        raise DataError(
            f"revise: t = {late[0].t} is beyond the bounded history (history={history}): the data up to t = {anchor} "
            "are kept only as a quadratic of the parameters, and cannot be revised; leave it out, or begin a run with "
            "a larger history="
        )


def revise_filters(step: OnlineStep, revision: Revision) -> float:
    """Run the filters of a step's particles over the revised history, and set their weights.

    Args:
        step: a step that has not taken in anything, with particles and history before the revision.
        revision: the revised snapshots.

    Returns:
        by how much the sum of the log predictive densities changed, where the past is discounted; otherwise 0.
    """
    before, old = step.particles, step.history
    step.history = _history(step, old, revision)._replace(rebuilt=False)
    check_memory(step.history, len(before.z))
    filters, increments = step.increments(step.history, before.z)
    found = step.evidences(before.z, increments)
    step.filters = filters
    step.particles = before._replace(log_evidences=found[0], log_increment=found[1])
    step.past = step.past._replace(evaluated_at=step.number)
    t = revision.snapshots[revision.first].t
    step.check_alive(f"once the data from t = {t} on are revised")
    moved = 0.0
    if step.forget != 1:
        moved = _prequential(step, increments) - _prequential(step, step.increments(old, before.z)[1])
    size, d = before.z.shape
    if d and step.particles.ess() < max(UNTEMPERED_ESS_FRACTION * size, 2 * d + 2):
        _temper(step, old, before.log_evidences + before.log_increment)
    return moved


def _history(step: OnlineStep, old: Timeline, revision: Revision) -> Timeline:
    """The revised snapshots laid out. Linearisations are found again from the earliest change on."""
    ssm, latent, snapshots, together = step.ssm, step.latent, revision.snapshots, step.past.together
    if ssm.model.likelihood.pointwise:
        return build_timeline(ssm, latent, snapshots, (None,) * len(snapshots), together, old.plan)
    first, particles = revision.first, step.particles
    live: Live | None = None
    if first:
        kept = build_timeline(ssm, latent, snapshots[:first], old.linearised_snapshots[:first], together, old.plan)
        live = Live(kept, run_filters(kept, particles.z, first)[0])
    for i in range(first, len(snapshots)):
        found = update_filters(ssm, latent, live, particles, snapshots[i], step.rng, sees_past_alone=False)
        step.spend(found.spent)
        live = Live(found.history, found.filters)
        if i < len(snapshots) - 1:  # the correction of the last one is found after the rejuvenation, as in each step
            ratios, _ = ratios_of(live.history, live.filters, step.rng)
            live = live._replace(history=live.history.corrected(ratios.correction(particles)))
    assert live is not None
    return build_timeline(ssm, latent, snapshots, live.history.linearised_snapshots, together, old.plan)


class _Bridged(NamedTuple):
    """Filters of the revised history, with the two parts of its log evidence."""

    filters: Filters
    before: Float[np.ndarray, " S"]
    last: Float[np.ndarray, " S"]


def _temper(step: OnlineStep, old: Timeline, old_evidence: Float[np.ndarray, " S"]) -> None:
    """Rejuvenate on the way from the evidence of the data as they were to that of the revised data."""

    def parts(was: np.ndarray, found: _Bridged) -> tuple[np.ndarray, np.ndarray]:
        now = found.before + found.last
        base = np.where(np.isfinite(was), was, np.where(np.isfinite(now), now, 0.0))
        return base, np.where(np.isfinite(now), now - base, -np.inf)

    def evaluate(z: np.ndarray) -> Evaluated:
        was, now = step.evaluate(z, old), step.evaluate(z)
        found = _Bridged(now.filters, now.log_evidences, now.log_increment)
        steps = was.filter_steps + now.filter_steps
        return Evaluated(found, *parts(was.log_evidences + was.log_increment, found), steps)

    def choose(found: _Bridged, index: np.ndarray) -> _Bridged:
        return _Bridged(chosen(found.filters, index), found.before[index], found.last[index])

    def mixed(take: np.ndarray, new: _Bridged, old: _Bridged) -> _Bridged:
        return _Bridged(
            either(take, new.filters, old.filters),
            np.where(take, new.before, old.before),
            np.where(take, new.last, old.last),
        )

    particles = step.particles
    found = _Bridged(step.filters, particles.log_evidences, particles.log_increment)
    base, increment = parts(old_evidence, found)
    target = ParticleTarget(evaluate, choose, mixed, step.ssm.particle_prior(), entries_on_grid(step.history.filter))
    bridged = particles._replace(log_evidences=base, log_increment=increment)
    particles, found, rejuvenations = rejuvenate(step.rng, bridged, found, target)
    step.particles = particles._replace(log_evidences=found.before, log_increment=found.last)
    step.filters = found.filters
    step.rejuvenations += rejuvenations


def _prequential(step: OnlineStep, increments: Float[np.ndarray, "S T"]) -> float:
    """The sum of the log predictive densities of the snapshots, each given those before it, discounted."""
    particles, memory = step.particles, step.past.memory
    base = particles.log_prior - particles.log_proposal
    total, first = 0.0, 0
    past = np.zeros(len(base))
    if memory is not None:
        past, first = memory.log_evidence.at(particles.z), memory.anchor - step.past.dropped
    for increment in increments[:, first:].T:
        total += float(np.subtract(logsumexp(base + past + increment), logsumexp(base + past)))
        past = step.forget * (past + increment)
    return total


class _Moments(NamedTuple):
    mean: Float[np.ndarray, " n"]
    sd: Float[np.ndarray, " n"]


def movement(live: Live, before: OnlineState, after: OnlineState) -> dict[str, float]:
    """By how many posterior standard deviations the means of the state moved: of ``f`` at the data, of ``z``.

    Both are of the whole mixture over particles, so that they have no noise of the draws.
    """
    snapshot = after.snapshots[-1]
    old, new = _latent_moments(live, before, snapshot), _latent_moments(after.live, after, snapshot)
    found = {"moved": float(np.max(np.abs(new.mean - old.mean) / old.sd))}
    if before.particles.z.shape[1]:
        old, new = (_mixture(one.particles.weights(), one.particles.z, 0.0) for one in (before, after))
        found["moved_parameters"] = float(np.max(np.abs(new.mean - old.mean) / (old.sd + 1e-300)))
    return found


def _latent_moments(live: Live, state: OnlineState, snapshot: Snapshot) -> _Moments:
    query = predictive_of(
        live.history, live.filters, state.particle, np.asarray(state.z), snapshot.x, snapshot.t, snapshot.context
    ).query
    tasks = [compiled(_f_moments, live.history.filter, query, *group)[0] for group in live.filters.groups]
    found, count = in_threads(tasks), particle_count(live.filters)
    mean, variance = (gathered(np.concatenate([np.asarray(one[i]) for one in found]), count) for i in (0, 1))
    return _mixture(state.particles.weights(), mean, variance)


def _f_moments(filter: Filter, query: Query, all_matrices, states):
    def one(matrices, state):
        gaussian = filter.predict_f(matrices, state, query)
        q = gaussian.mean.shape[0] - query.columns.shape[0]
        return gaussian.mean[q:], jnp.diagonal(gaussian.covariance)[q:]

    return over_particles(filter, one, query)(all_matrices, states)


def _mixture(weights: np.ndarray, mean: np.ndarray, variance: np.ndarray | float) -> _Moments:
    alive = weights > 0
    weights, mean = weights[alive], mean[alive]
    inside = variance[alive] if isinstance(variance, np.ndarray) else variance
    mixed = weights @ mean
    return _Moments(mixed, np.sqrt(weights @ ((mean - mixed) ** 2 + inside)))
