"""Mean and variance of ``f`` at points, one by one: no covariance between them is formed where modes serve.

:func:`moments_and_columns` has some columns of that covariance too, at sites.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, PyTree

from seqgp.linalg.factor import solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.eigenbasis import RotatedFilter, RotatedMatrices, RotatedState
from seqgp.statespace.low_rank import LowRankState, coefficient_posterior
from seqgp.statespace.map_prediction import MapParticles, map_batch
from seqgp.statespace.modes import Modes
from seqgp.statespace.network import NetworkFilter
from seqgp.statespace.observation import Query
from seqgp.statespace.protocol import Filter


def latent_moments(
    filter: Filter, matrices: PyTree, state: Any, query: Query
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Of ``f`` given one value of the parameters, with the coefficients of the mean integrated out."""
    if query.at_sites and isinstance(filter, (NetworkFilter, RotatedFilter)):
        return _at_sites(filter, matrices, state, query)[:2]
    if query.operator is None and isinstance(filter, NetworkFilter):
        after = filter.predict(matrices, state, query.dt).low_rank
        return _by_modes(filter, matrices.parameters, matrices.modes, after, query)
    if query.operator is None and isinstance(filter, RotatedFilter):
        after = filter.predict(matrices, state, query.dt)
        return _by_modes(filter, matrices.parameters, *_rotated(filter, matrices, after), query)
    found, q = filter.predict_f(matrices, state, query), len(filter.ssm.in_state)
    return found.mean[q:], jnp.maximum(jnp.diagonal(found.covariance)[q:], 0.0)


def moments_and_columns(
    filter: Filter, matrices: PyTree, state: Any, query: Query, rows: Int[ArrayLike, " k"]
) -> tuple[Float[Array, " n"], Float[Array, " n"], Float[Array, "n k"]]:
    """The same, and the covariances of ``f`` at all places with that at a few of them: some columns, in ``M² k``."""
    if query.at_sites and isinstance(filter, (NetworkFilter, RotatedFilter)):
        mean, variance, columns = _at_sites(filter, matrices, state, query)
        return mean, variance, columns(rows)
    found, q = filter.predict_f(matrices, state, query), len(filter.ssm.in_state)
    cov = found.covariance[q:, q:]
    return found.mean[q:], jnp.maximum(jnp.diagonal(cov), 0.0), jnp.take(cov, jnp.asarray(rows), axis=1, mode="clip")


class _Rotation(NamedTuple):
    """Between modes and sites, of rows ``(k, M)``."""

    state: LowRankState
    back: Callable[[Float[Array, "k M"]], Float[Array, "k M"]]  # ``U`` from modes to sites
    back_squared: Callable[[Float[Array, "k M"]], Float[Array, "k M"]]  # the same with the entries of ``U`` squared
    rows: Callable[[Int[Array, " k"]], Float[Array, "k M"]]  # of ``U``, of sites by their number


def _rotation(filter: NetworkFilter | RotatedFilter, matrices: PyTree, state: Any, dt) -> _Rotation:
    if isinstance(filter, NetworkFilter):
        u = matrices.modes.vectors
        after = filter.predict(matrices, state, dt).low_rank
        return _Rotation(after, lambda rows: rows @ u.T, lambda rows: rows @ (u**2).T, lambda index: u[index])
    after = filter.predict(matrices, state, dt)
    same = LowRankState(after.mean, after.covariance, jnp.zeros((0, filter.ssm.order, filter.sites)), *after[2:])
    return _Rotation(
        same,
        lambda rows: filter.rotate_back(matrices, rows.T).T,
        lambda rows: filter.rotate_back_squared(matrices, rows.T).T,
        lambda index: filter.rotate(matrices, jax.nn.one_hot(index, filter.sites, axis=0)).T,
    )


def _at_sites(filter: NetworkFilter | RotatedFilter, matrices: PyTree, state: Any, query: Query):
    """Mean and variance at sites, in ``M² (R + q)``, and a function from rows to their columns of the covariance."""
    ssm, parameters = filter.ssm, matrices.parameters
    state, back, back_squared, rows_of = _rotation(filter, matrices, state, query.dt)
    h, r = ssm.observe(parameters, query.t), state.factor.shape[2]
    index = jnp.asarray(query.operator.index)  # type: ignore[union-attr]
    factor = jnp.einsum("a,ram->rm", h, state.factor)
    common = back(jnp.pad(factor, ((0, 0), (0, state.mean.shape[1] - r))))[:, index]
    block = jnp.einsum("a,abm,b->m", h, state.block, h)
    mean = back((h @ state.mean)[None, :])[0, index]
    if len(ssm.in_state):
        centre, chol = coefficient_posterior(state, ssm.coefficient_scales())
        response = back(jnp.einsum("a,qam->qm", h, state.response))[:, index]
        effects = ssm.design(query.columns).T - response
        mean = mean + centre @ effects
        common = jnp.concatenate([common, solve_lower(chol, effects)])
    variance = back_squared(block[None, :])[0, index] + jnp.sum(common**2, axis=0)

    def columns(rows):
        at = jnp.take(index, jnp.asarray(rows), mode="clip")
        own = back(block[None, :] * rows_of(at))[:, index].T
        return own + common.T @ jnp.take(common, jnp.asarray(rows), axis=1, mode="clip")

    return mean + ssm.offset(parameters, query.columns), jnp.maximum(variance, 0.0), columns


def _by_modes(filter: NetworkFilter | RotatedFilter, parameters, modes: Modes, state: LowRankState, query: Query):
    ssm, x, sites = filter.ssm, jnp.asarray(query.x), jnp.asarray(filter.x)
    mask = jnp.asarray(filter.mask) if isinstance(filter, NetworkFilter) else jnp.ones(filter.sites, bool)
    crosses = ssm.space(parameters, ssm.distances(x, sites))
    crosses = tuple(jnp.where(mask[None, :], cross, 0.0) for cross in crosses)

    def at_itself(point):
        spaces = ssm.space(parameters, ssm.distances(point[None, :], point[None, :]))
        return jnp.stack([space[0, 0] for space in spaces])

    own = jax.vmap(at_itself)(x).T
    ones = jnp.ones((1, len(ssm.states)))  # crosses and modes have the scale already
    one = MapParticles(
        jax.tree.map(lambda leaf: leaf[None], state),
        ones,
        ssm.observe(parameters, query.t)[None],
        ssm.term_variances(parameters, query.t)[None],
    )
    orders = tuple(part.order for part in ssm.states)
    columns = jnp.asarray(query.columns)
    found = map_batch(one, modes, orders, crosses, own, ssm.design(columns), ssm.coefficient_scales())
    return found.mean[0] + ssm.offset(parameters, columns), jnp.maximum(found.variance[0], 0.0)


def _rotated(filter: RotatedFilter, matrices: RotatedMatrices, state: RotatedState) -> tuple[Modes, LowRankState]:
    """The state of complete data as one of low rank: the rank is zero."""
    vectors = filter.rotate_back(matrices, jnp.eye(filter.sites))
    factor = jnp.zeros((0, filter.ssm.order, filter.sites))
    same = LowRankState(state.mean, state.covariance, factor, state.response, state.precision, state.information)
    return Modes(vectors, matrices.values[None, :]), same
