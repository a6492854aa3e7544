"""Mean and variance of ``f`` at points, one by one: no covariance between them is formed where modes serve.

The state at the sites is sufficient for the field anywhere. At a point, term ``j`` of the kernel has the weights
``a_j = K_j(point, sites) U / λ_j`` of the modes and an independent part of variance
``v_j (K_j(point, point) − Σ_m a_jm² λ_jm)`` with ``v_j = h_j' P_j h_j``. Points go in batches (:func:`map_batch`).
Particles that share space lengthscales share the product with ``U``, which is most of the work.
:func:`moments_and_columns` has some columns of the covariance at sites, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from seqgp.linalg.factor import solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.eigenbasis import RotatedFilter, RotatedMatrices, RotatedState
from seqgp.statespace.low_rank import LowRankState, coefficient_posterior
from seqgp.statespace.low_rank_draws import mode_weights
from seqgp.statespace.modes import Modes
from seqgp.statespace.network import NetworkFilter
from seqgp.statespace.observation import Query
from seqgp.statespace.protocol import Filter


class MapParticles(NamedTuple):
    """Filters of ``S`` particles that share eigenvectors, predicted to the time of the map; leaves have a leading S."""

    state: LowRankState
    variances: Float[ArrayLike, "S J"]  # scale² of each term
    observe: Float[ArrayLike, "S p"]  # h
    stationary: Float[ArrayLike, "S J"]  # v_j = h_j' P_j h_j


class MapMoments(NamedTuple):
    """Of the latent without the known part of its mean, with the coefficients of the mean integrated out."""

    mean: Float[Array, "S n"]
    variance: Float[Array, "S n"]


def map_batch(
    particles: MapParticles,
    modes: Modes,
    orders: tuple[int, ...],
    crosses: tuple[Float[ArrayLike, "n M"], ...],
    own: Float[ArrayLike, "J n"],
    design: Float[ArrayLike, "n q"],
    scales: Float[ArrayLike, " q"],
) -> MapMoments:
    """The moments at ``n`` points.

    Args:
        particles: that share ``modes``.
        modes: of the space kernels with variance one.
        orders: the order ``p_j`` of each term's state.
        crosses: ``K_j`` between points and sites, with variance one.
        own: ``K_j`` of each point with itself.
        design: columns of the mean at the points whose coefficients are integrated out.
        scales: the prior standard deviation of each coefficient.
    """
    values = modes.values
    weights = mode_weights(modes, crosses)
    left = jnp.maximum(jnp.asarray(own) - jnp.sum(weights**2 * values[:, None, :], axis=2), 0.0)
    squares = jnp.stack([weights[i] * weights[j] for i in range(len(orders)) for j in range(len(orders))])
    term = np.repeat(np.arange(len(orders)), orders)
    by_term = jnp.asarray(np.eye(len(orders))[term])  # (p, J)

    def one(particle: MapParticles):
        state, h = particle.state, jnp.asarray(particle.observe)[:, None] * by_term
        r = state.factor.shape[2]
        mean = jnp.einsum("jnm,pj,pm->n", weights, h, state.mean)
        blocks = jnp.einsum("ai,abm,bj->ijm", h, state.block, h).reshape(squares.shape[0], -1)
        rows = jnp.einsum("aj,ram->rjm", h, state.factor)
        common = jnp.einsum("jnm,rjm->nr", weights[:, :, :r], rows)
        variance = jnp.einsum("knm,km->n", squares, blocks) + jnp.sum(common**2, axis=1)
        variance = variance + (jnp.asarray(particle.variances) * jnp.asarray(particle.stationary)) @ left
        if state.information.shape[0] == 0:
            return MapMoments(mean, variance)
        centre, chol = coefficient_posterior(state, scales)
        columns = jnp.asarray(design) - jnp.einsum("jnm,pj,qpm->nq", weights, h, state.response)
        return MapMoments(mean + columns @ centre, variance + jnp.sum(solve_lower(chol, columns.T) ** 2, axis=0))

    return jax.lax.map(one, particles)


def latent_moments(
    filter: Filter, matrices: PyTree, state: PyTree, query: Query
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
    filter: Filter, matrices: PyTree, state: object, query: Query, rows: Int[ArrayLike, " k"]
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


def _rotation(filter: NetworkFilter | RotatedFilter, matrices: PyTree, state: PyTree, dt) -> _Rotation:
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


def _at_sites(filter: NetworkFilter | RotatedFilter, matrices: PyTree, state: object, query: Query):
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
