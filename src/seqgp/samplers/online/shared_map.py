"""Mean and variance of ``f`` on a map, point by point, from particles that share eigenvectors of space.

The products of kernels with eigenvectors are most of the work (:mod:`seqgp.statespace.latent_moments`). They depend on
the space lengthscales alone, so they are formed once for each basis, and not for each particle.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from seqgp.kernels.base import Prepared, within
from seqgp.linalg.factor import solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.samplers.online.programs import SharedMatrices
from seqgp.statespace.eigenbasis import RotatedFilter
from seqgp.statespace.latent_moments import MapMoments, MapParticles
from seqgp.statespace.low_rank import LowRankState, coefficient_posterior
from seqgp.statespace.low_rank_draws import mode_weights
from seqgp.statespace.modes import Modes
from seqgp.statespace.network import NetworkFilter
from seqgp.statespace.observation import Query
from seqgp.statespace.protocol import Filter


def takes_shared_map(filter: Filter, shared: Any, query: Query) -> bool:
    """Whether the inputs are points of a map, and particles share eigenvectors."""
    return isinstance(shared, SharedMatrices) and isinstance(filter, (NetworkFilter, RotatedFilter)) and query.on_a_map


def shared_map(
    filter: NetworkFilter | RotatedFilter, query: Query, shared: SharedMatrices, states: Any
) -> tuple[Float[Array, "S n"], Float[Array, "S n"]]:
    """Of all particles."""
    ssm, place = filter.ssm, jnp.asarray(shared.place)
    ((_, term),) = ssm.model.kernel.terms()
    prepared = term.space.prepare(jnp.asarray(query.x), jnp.asarray(filter.x))
    points = tuple(_at_points(filter, query, prepared, shared, i) for i in range(len(shared.bases)))
    columns = jnp.asarray(query.columns)

    def one(parameters, i, state):
        (own,) = ssm.own(parameters)
        variance = own["scale"] ** 2
        values = variance * jnp.stack([basis[0] for basis in shared.bases])[i]
        matrices: Any = filter.from_basis(
            parameters, values, jnp.zeros((filter.sites, filter.sites))
        )  # not needed in time
        after = _as_low_rank(filter, filter.predict(matrices, state, query.dt))
        variances = jnp.atleast_1d(variance)
        held = MapParticles(after, variances, ssm.observe(parameters, query.t), ssm.term_variances(parameters, query.t))
        return held, ssm.offset(parameters, columns)

    particles, offsets = jax.vmap(one)(shared.parameters, place, states)
    found = map_of_bases(particles, place, points, ssm.design(columns), ssm.coefficient_scales())
    return found.mean + offsets, jnp.maximum(found.variance, 0.0)


def _at_points(
    filter: NetworkFilter | RotatedFilter, query: Query, prepared: Prepared, shared: SharedMatrices, i: int
) -> BasisAtPoints:
    """Of one basis; nothing is computed for one that no particle has."""
    ssm, basis, mine = filter.ssm, shared.bases[i], jnp.asarray(shared.place) == i
    parameters = jax.tree.map(lambda leaf: jnp.asarray(leaf)[jnp.argmax(mine)], shared.parameters)
    ((_, term),), (own,) = ssm.model.kernel.terms(), ssm.own(parameters)
    x, space = jnp.asarray(query.x), within(own, "space")

    def compute():
        cross = term.space.covariance(prepared, space)
        if isinstance(filter, NetworkFilter):
            cross = jnp.where(jnp.asarray(filter.mask)[None, :], cross, 0.0)
        itself = jax.vmap(lambda at: term.space.covariance(term.space.prepare(at[None], at[None]), space)[0, 0])(x)
        return basis_at_points(basis[0], basis[1:], cross, itself)

    def nothing():
        return BasisAtPoints(jnp.zeros((len(x), filter.sites)), jnp.zeros(len(x)))

    return jax.lax.cond(jnp.any(mine), compute, nothing)


def _as_low_rank(filter: NetworkFilter | RotatedFilter, state: Any) -> LowRankState:
    if isinstance(filter, NetworkFilter):
        return state.low_rank
    return LowRankState(state.mean, state.covariance, jnp.zeros((0, filter.ssm.order, filter.sites)), *state[2:])


class BasisAtPoints(NamedTuple):
    """One term's kernel of variance one at the points, in the eigenbasis of one value of the space parameters."""

    weights: Float[Array, "n M"]  # a
    unseen: Float[Array, " n"]  # K(point, point) − Σ_m a_m² λ_m


def basis_at_points(
    values: Float[Array, " M"], vectors: Float[Array, "M M"], cross: Float[Array, "n M"], own: Float[Array, " n"]
) -> BasisAtPoints:
    """From eigenvalues and eigenvectors of the sites, and ``K`` of the points with these and with themselves."""
    (weights,) = mode_weights(Modes(vectors, values[None, :]), (cross,))
    return BasisAtPoints(weights, jnp.maximum(own - weights**2 @ values, 0.0))


def map_of_bases(
    particles: MapParticles,
    place: Int[Array, " S"],
    bases: tuple[BasisAtPoints, ...],
    design: Float[ArrayLike, "n q"],
    scales: Float[ArrayLike, " q"],
) -> MapMoments:
    """The moments at ``n`` points, of particles of one term, each with the basis at its place.

    Args:
        particles: with any eigenvectors of those in ``bases``.
        place: of each particle's basis.
        bases: at the points.
        design: columns of the mean at the points whose coefficients are integrated out.
        scales: the prior standard deviation of each coefficient.
    """
    state, h = particles.state, jnp.asarray(particles.observe)
    means = jnp.einsum("sa,sam->sm", h, state.mean), jnp.einsum("sa,sqam->sqm", h, state.response)
    lines = jnp.concatenate([means[0][:, None], means[1]], axis=1)
    blocks, r = jnp.einsum("sa,sabm,sb->sm", h, state.block, h), state.factor.shape[3]
    linear, variance = jnp.zeros(()), jnp.zeros(())
    for i, basis in enumerate(bases):  # for all particles, which is a matrix product, and of these those that have it
        mine = place == i
        linear = jnp.where(mine[:, None, None], jnp.einsum("nm,skm->skn", basis.weights, lines), linear)
        variance = jnp.where(mine[:, None], jnp.einsum("nm,sm->sn", basis.weights**2, blocks), variance)
    stationary = jnp.asarray(particles.variances)[:, 0] * jnp.asarray(particles.stationary)[:, 0]
    variance = variance + stationary[:, None] * jnp.stack([basis.unseen for basis in bases])[place]

    def one(inputs):
        state, h, i, linear, variance = inputs
        leading = jax.lax.switch(i, [lambda basis=basis: basis.weights[:, :r] for basis in bases])
        common = leading @ jnp.einsum("a,ram->mr", h, state.factor)
        variance = variance + jnp.sum(common**2, axis=1)
        if state.information.shape[0] == 0:
            return MapMoments(linear[0], variance)
        centre, chol = coefficient_posterior(state, scales)
        columns = jnp.asarray(design) - linear[1:].T
        return MapMoments(linear[0] + columns @ centre, variance + jnp.sum(solve_lower(chol, columns.T) ** 2, axis=0))

    return jax.lax.map(one, (state, h, place, linear, variance))
