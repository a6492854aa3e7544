"""Leave-one-out predictions of a step's data: a mixture over the particles, without a refit.

For parameters ``θ`` the filter predicts datum ``i`` from all other data (:mod:`seqgp.statespace.leave_one_out`).
Without datum ``i`` the particles have the weights

    p(θ | all data but y_i)  ∝  p(θ | all data) / p(y_i | all other data, θ)

so the particles of the step serve every datum, each with weights of its own.

Data that the filters have not used, or with a larger noise than the model's (:mod:`seqgp.samplers.online.watch`), are
predicted with the model's noise all the same; and data may be left out for all others, which a wrong one would mislead.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from seqgp.base.info import LeaveOneOut
from seqgp.base.snapshot import Snapshot
from seqgp.fields.sites import pad_rows
from seqgp.likelihoods.gaussian import nominal_context
from seqgp.runtime.engine import compiled, in_threads
from seqgp.runtime.parallel import gathered
from seqgp.samplers.online.filters import Filters, particle_count
from seqgp.samplers.online.history import Timeline
from seqgp.samplers.online.layout import context_on, operator_of
from seqgp.samplers.online.programs import over_particles
from seqgp.statespace.latent_moments import latent_moments, moments_and_columns
from seqgp.statespace.leave_one_out import leave_one_out, without
from seqgp.statespace.observation import Query
from seqgp.statespace.protocol import Filter

LEAST_REMOVED = 4  # data that there is room for, at least, where some are left out for all others


def loo_of_step(
    history: Timeline, filters: Filters, weights: Float[np.ndarray, " S"]
) -> tuple[LeaveOneOut | None, float]:
    """Of the last snapshot's data, and the seconds that compilation took; ``None`` where data are not Gaussian."""
    if not history.ssm.model.likelihood.conjugate:
        return None, 0.0
    snapshot = history.snapshots[-1]
    y, n = np.asarray(snapshot.y, float).reshape(-1), len(snapshot.x)
    if np.isnan(y).all():
        return LeaveOneOut(*np.full((6, n), np.nan)), 0.0
    size = history.filter.padded_size(n)

    def longer(tree: PyTree) -> PyTree:
        return jax.tree.map(lambda leaf: pad_rows(np.asarray(leaf), n, size), tree)

    x, own = longer(snapshot.x), longer(snapshot.context)
    context = longer(context_on(history.ssm, history.layout, snapshot))
    columns = history.ssm.columns(snapshot.t, x, own)
    query = Query(x[:0], operator_of(history.layout, x), columns, np.zeros(()), np.asarray(snapshot.t, float))
    filled = longer(np.where(np.isnan(y), 0.0, y))
    runs = [compiled(_leave_out, history.filter, query, (filled, context), *group) for group in filters.groups]
    parts = [np.stack([np.asarray(each) for each in part], axis=1) for part in in_threads([run for run, _ in runs])]
    mean, variance = np.swapaxes(gathered(np.concatenate(parts), particle_count(filters)), 0, 1)[:, :, :n]
    return loo_mixture(y, mean, variance, weights), sum(seconds for _, seconds in runs)


def loo_of_treated(
    history: Timeline,
    filters: Filters,
    weights: Float[np.ndarray, " S"],
    y: Float[np.ndarray, " N"],
    factors: Float[np.ndarray, " N"],
    removed: Bool[np.ndarray, " N"],
) -> tuple[LeaveOneOut, float]:
    """Of the last snapshot's data as they were reported, and the seconds that compilation took.

    Args:
        history: with the snapshot as the filters used it.
        filters: of all particles.
        weights: of the particles.
        y: the data as reported.
        factors: of the noise with which the filters used each; infinite where they have not.
        removed: which of them to leave out for all others.
    """
    snapshot, n = history.snapshots[-1], len(y)
    if np.isnan(y).all():
        return LeaveOneOut(*np.full((6, n), np.nan)), 0.0
    size, seen = history.filter.padded_size(n), ~np.isnan(y)
    used = seen & np.isfinite(factors)
    filled = np.where(seen, y, 0.0)
    nominal = Snapshot(snapshot.t, snapshot.x, snapshot.y, nominal_context(snapshot.context))
    context = context_on(history.ssm, history.layout, nominal)
    parts = filled, np.where(used, factors, 1.0), used & ~removed, context, snapshot.context, snapshot.x
    *data, own, x = jax.tree.map(lambda leaf: pad_rows(np.asarray(leaf), n, size), parts)
    data[2] = data[2] & (np.arange(size) < n)
    data.append(_few_rows(removed & used, size))
    columns = history.ssm.columns(snapshot.t, x, own)
    query = Query(x[:0], operator_of(history.layout, x), columns, np.zeros(()), np.asarray(snapshot.t, float))
    runs = [compiled(_leave_out_treated, history.filter, query, tuple(data), *group) for group in filters.groups]
    parts = [np.stack([np.asarray(each) for each in part], axis=1) for part in in_threads([run for run, _ in runs])]
    found = np.swapaxes(gathered(np.concatenate(parts), particle_count(filters)), 0, 1)[:, :, :n]
    mean, variance, as_used, log_removed = found
    held_out, weights = ~used | removed, _without_them(weights, log_removed[:, 0])
    loo = loo_mixture(np.where(seen, y, np.nan), mean, variance, weights, held_out, as_used)
    return loo, sum(seconds for _, seconds in runs)


def _few_rows(removed: Bool[np.ndarray, " N"], size: int) -> Int[np.ndarray, " k"]:
    """The rows that are removed, with room for 4, 16, 64, … of them: ``size`` where there is none."""
    rows = np.flatnonzero(removed)
    room = LEAST_REMOVED
    while room < len(rows):
        room *= 4
    return np.concatenate([rows, np.full(min(room, size) - len(rows), size)])


def _without_them(weights: Float[np.ndarray, " S"], log_density: Float[np.ndarray, " S"]) -> np.ndarray:
    """The weights of particles without data of which each has given this density."""
    alive = weights > 0
    logs = np.log(weights[alive]) - log_density[alive]
    found = np.zeros(len(weights))
    found[alive] = np.exp(logs - logsumexp(logs))
    return found


def loo_mixture(
    y: Float[np.ndarray, " N"],
    mean: Float[np.ndarray, "S N"],
    variance: Float[np.ndarray, "S N"],
    weights: Float[np.ndarray, " S"],
    held_out: Bool[np.ndarray, " N"] | None = None,
    as_used: Float[np.ndarray, "S N"] | None = None,
) -> LeaveOneOut:
    """The leave-one-out predictions of all particles as one, for each datum.

    Args:
        y: the data; NaN where missing.
        mean: of each datum given the others, for each particle.
        variance: of it.
        weights: of the particles given all data.
        held_out: data that the weights have not seen.
        as_used: the variance with the noise that a datum was used with, where that is another.
    """
    alive = weights > 0
    mean, sd, weights = mean[alive], np.sqrt(variance[alive]), weights[alive]
    white = (y[None, :] - mean) / sd
    log_density = -0.5 * white**2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
    log_weights = np.broadcast_to(np.log(weights)[:, None], log_density.shape)
    taken = log_density
    if as_used is not None:
        taken = -0.5 * (y - mean) ** 2 / as_used[alive] - 0.5 * np.log(2 * np.pi * as_used[alive])
    logs = log_weights - taken if held_out is None else log_weights - np.where(held_out, 0.0, taken)
    total = np.asarray(logsumexp(logs, axis=0))
    logs = logs - total
    log_score = np.asarray(logsumexp(logs + log_density, axis=0))
    share = np.exp(logs)
    centre = (share * mean).sum(axis=0)
    spread = (share * (sd**2 + (mean - centre) ** 2)).sum(axis=0)
    below, above = (np.asarray(logsumexp(logs + log_ndtr(side), axis=0)) for side in (white, -white))
    z = np.where(below < above, ndtri_exp(np.minimum(below, 0.0)), -ndtri_exp(np.minimum(above, 0.0)))
    found = LeaveOneOut(centre, np.sqrt(spread), z, np.exp(below), log_score, 1 / (share**2).sum(axis=0))
    return LeaveOneOut(*(np.where(np.isnan(y), np.nan, one) for one in found))


def _leave_out(filter: Filter, query: Query, data, all_matrices, states):
    y, context = data

    def one(matrices, state):
        noise = filter.ssm.model.likelihood.noise(context, matrices.parameters)
        moments = latent_moments(filter, matrices, state, query)
        return leave_one_out(y, jnp.broadcast_to(noise**2, y.shape), *moments)

    return over_particles(filter, one, query)(all_matrices, states)


def _leave_out_treated(filter: Filter, query: Query, data, all_matrices, states):
    y, factor, inside, context, removed = data

    def one(matrices, state):
        noise = jnp.broadcast_to(filter.ssm.model.likelihood.noise(context, matrices.parameters), y.shape) ** 2
        taken = noise * factor**2
        joint = moments_and_columns(filter, matrices, state, query, removed)
        mean, variance, log_density = without(y, taken, *joint, removed)
        loo_mean, loo_variance = leave_one_out(y, taken, mean, variance)
        mean = jnp.where(inside, loo_mean, mean)
        cavity = jnp.where(inside, loo_variance - taken, variance)
        return mean, cavity + noise, cavity + taken, jnp.broadcast_to(log_density, y.shape)

    return over_particles(filter, one, query)(all_matrices, states)
