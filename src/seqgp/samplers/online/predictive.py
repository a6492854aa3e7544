"""Draws of ``f`` from the filters of particles: at the data, anywhere in space, ahead in time."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Key

from seqgp.base.errors import DataError
from seqgp.base.snapshot import Context
from seqgp.fields.sites import pad_rows
from seqgp.likelihoods.base import fill_missing
from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.linalg.types import Array
from seqgp.model import Model
from seqgp.runtime.engine import compiled, in_threads
from seqgp.runtime.parallel import gathered
from seqgp.samplers.online.budget import LEAST_SLOTS, check_query
from seqgp.samplers.online.filters import Filters, chosen, group_bounds, particle_count
from seqgp.samplers.online.history import Timeline
from seqgp.samplers.online.layout import all_known, operator_of
from seqgp.samplers.online.programs import over_particles
from seqgp.samplers.online.shared_map import shared_map, takes_shared_map
from seqgp.statespace.delayed import DelayedFilter
from seqgp.statespace.delayed_window import DelayedWindowFilter
from seqgp.statespace.latent_moments import latent_moments
from seqgp.statespace.observation import Query
from seqgp.statespace.protocol import Filter


class ParticlePredictive(NamedTuple):
    """``f`` at new inputs, from the filter of each draw's particle."""

    history: Timeline
    filters: Filters
    query: Query
    particle: Int[np.ndarray, " draws"]
    z: Float[np.ndarray, "draws d"]
    context: Context
    ratios: Float[np.ndarray, "draws n"] | None = None  # of precisions at the inputs, where stations have own noises

    def draws(self, key: Key[Array, ""], model: Model) -> Float[Array, "draws n"]:
        """One draw of ``f`` for each posterior draw, given the coefficients of the mean of that draw."""
        ssm = self.history.ssm
        check_query(self.history.filter, self.query, len(self.z), particle_count(self.filters))
        known = self.z[:, list(ssm.in_state)] * np.asarray(ssm.coefficient_scales())
        white = np.array(jax.random.normal(key, (len(self.z), self.history.filter.normals(self.query))))
        slots = _Slots(self.filters, self.particle)
        tasks = [
            compiled(_draws_given, self.history.filter, self.query, *group, slots.pack(g, known), slots.pack(g, white))[
                0
            ]
            for g, group in enumerate(self.filters.groups)
        ]
        return jax.device_put(slots.unpack(in_threads(tasks)))

    def moments(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of ``f`` at each input, ``(draws, n)``, from each draw's particle."""
        used, draw = np.unique(self.particle, return_inverse=True)
        keys = self.filters.keys
        if keys is not None and keys.shape[1]:  # particles that share eigenvectors beside each other, in one group
            order = np.lexsort(keys[used].T)
            used, draw = used[order], np.argsort(order)[draw]
        filters = chosen(self.filters, used)
        tasks = [compiled(_moments, self.history.filter, self.query, *group)[0] for group in filters.groups]
        parts = [np.stack([np.asarray(each) for each in part], axis=1) for part in in_threads(tasks)]
        mean, variance = np.swapaxes(gathered(np.concatenate(parts), len(used)), 0, 1)
        return mean[draw], variance[draw]

    def log_marginals(self, model: Model, y: np.ndarray) -> np.ndarray:
        """``log p(y)`` of each draw's particle, latent and coefficients of the mean integrated out."""
        check_query(self.history.filter, self.query, len(self.z), particle_count(self.filters))
        filled, missing = fill_missing(y)
        data = filled, ~missing, self.context
        tasks = [
            compiled(_log_densities, self.history.filter, self.query, data, *group)[0] for group in self.filters.groups
        ]
        found = np.concatenate([np.asarray(part) for part in in_threads(tasks)])
        return gathered(found, particle_count(self.filters))[self.particle]


def predictive_of(
    history: Timeline, filters: Filters, particle: np.ndarray, z: np.ndarray, x: np.ndarray, t: float, context: Context
) -> ParticlePredictive:
    """What the filters say about ``f`` at new inputs, at a time from the last one on."""
    columns = history.ssm.columns(t, x, context)
    operator = operator_of(history.layout, x) if all_known(history.layout, x) else None
    query = Query(x, operator, columns, np.asarray(t - history.snapshots[-1].t, float), np.asarray(t, float))
    if operator is None and isinstance(history.filter, (DelayedFilter, DelayedWindowFilter)):
        _check_reach(history.filter, filters, query)
    return ParticlePredictive(history, filters, query, particle, z, context)


def _check_reach(filter: DelayedFilter | DelayedWindowFilter, filters: Filters, query: Query) -> None:
    """Raise where new inputs are so far along the slowness that they see what lies before the filters' states."""
    short = -min(float(filter.earliest(env.parameters, state, query).min()) for env, state in filters.groups)
    if short > 0:
        raise DataError(
            f"predict: inputs lie so far from the stations in the direction of the slowness that, for some particles, "
            f"they see the latent as it was before what the filters keep, by {short:.3g} in time: predict at inputs "
            f"nearer to the stations, or at a time later by {short:.3g}"
        )


def draws_at_data(
    key: Key[Array, ""], history: Timeline, filters: Filters, particle: Int[np.ndarray, " draws"]
) -> tuple[Float[np.ndarray, "draws k"], float]:
    """Coefficients of the mean and ``f`` at the last snapshot's inputs, a draw of each for given particles.

    Args:
        key: a random key.
        history: the data.
        filters: the filters.
        particle: the particle of each draw.

    Returns:
        coefficients and ``f`` side by side, and the seconds that compilation took.
    """
    snapshot, q = history.snapshots[-1], len(history.ssm.in_state)
    n = len(snapshot.x)
    size = history.filter.padded_size(n)
    context = jax.tree.map(lambda leaf: pad_rows(np.asarray(leaf), n, size), snapshot.context)
    x = pad_rows(snapshot.x, n, size)
    columns = history.ssm.columns(snapshot.t, x, context)
    query = Query(x[:0], operator_of(history.layout, x), columns, np.zeros(()), np.asarray(snapshot.t, float))
    white = np.array(jax.random.normal(key, (len(particle), q + history.filter.normals(query))))
    slots, real = _Slots(filters, particle), np.arange(q + size) < q + n
    runs = [
        compiled(_draws, history.filter, query, real, *group, slots.pack(g, white))
        for g, group in enumerate(filters.groups)
    ]
    drawn = slots.unpack(in_threads([run for run, _ in runs]))
    return drawn[:, : q + n], sum(seconds for _, seconds in runs)


class _Slots:
    """Draws sorted by particle into a table, ``(particles, slots, …)``, and back."""

    def __init__(self, filters: Filters, particle: np.ndarray):
        self._count = particle_count(filters)
        counts = np.bincount(particle, minlength=self._count)
        most = max(counts.max(), 2 * len(particle) / len(counts))
        self._width = max(LEAST_SLOTS, 4 ** int(np.ceil(np.log2(most) / 2)))  # few sizes, so few compilations
        self._particle, self._draws = particle, len(particle)
        order = np.argsort(particle, kind="stable")
        slot = np.empty(len(particle), int)
        slot[order] = np.arange(len(particle)) - np.repeat(np.cumsum(counts) - counts, counts)
        self._slot = slot
        self._bounds = group_bounds(filters)

    def pack(self, group: int, values: np.ndarray) -> np.ndarray:
        low, high = self._bounds[group : group + 2]
        table = np.zeros((high - low, self._width, values.shape[1]))
        mine = (self._particle >= low) & (self._particle < high)
        table[self._particle[mine] - low, self._slot[mine]] = values[mine]
        return table

    def unpack(self, tables: list[Any]) -> np.ndarray:
        whole = gathered(np.concatenate([np.asarray(table) for table in tables]), self._count)
        return whole[self._particle, self._slot]


def _draws_given(filter: Filter, query: Query, all_matrices, states, known, white):
    def one(matrices, state, known, white):
        return filter.draw_f_given(matrices, state, query, known, white)

    return over_particles(filter, one, query)(all_matrices, states, known, white)


def _draws(filter: Filter, query: Query, real, all_matrices, states, white):
    """Coefficients and ``f`` together, ``(particles, slots, q + n)``."""

    def one(matrices, state, white):
        return filter.draw_f(matrices, state, query, real, white)

    return over_particles(filter, one, query)(all_matrices, states, white)


def _moments(filter: Filter, query: Query, all_matrices, states):
    if takes_shared_map(filter, all_matrices, query):
        return shared_map(filter, query, all_matrices, states)  # pyright: ignore[reportArgumentType]

    def one(matrices, state):
        return latent_moments(filter, matrices, state, query)

    return over_particles(filter, one, query)(all_matrices, states)


def _log_densities(filter: Filter, query: Query, data, all_matrices, states):
    y, seen, context = data
    q, count = filter.ssm.design(query.columns).shape[1], jnp.sum(seen, dtype=float)

    def one(matrices, state):
        gaussian = filter.predict_f(matrices, state, query)
        noise = filter.ssm.model.likelihood.noise(context, matrices.parameters)
        covariance = gaussian.covariance[q:, q:] + jnp.diag(jnp.broadcast_to(noise**2, y.shape))
        root = cholesky(jnp.where(seen[:, None] & seen[None, :], covariance, jnp.eye(len(y))))
        white = solve_lower(root, jnp.where(seen, y - gaussian.mean[q:], 0.0))
        return -0.5 * white @ white - jnp.sum(jnp.log(jnp.diagonal(root))) - 0.5 * count * jnp.log(2 * jnp.pi)

    return over_particles(filter, one, query)(all_matrices, states)
