"""Means and variances of the latent on a map: at many points, from filters at the stations, point by point.

The state at the sites is sufficient for the field anywhere. At a point, term ``j`` of the kernel has the weights
``a_j = K_j(point, sites) U / λ_j`` of the modes and an independent part of variance
``v_j (K_j(point, point) − Σ_m a_jm² λ_jm)`` with ``v_j = h_j' P_j h_j``. Points go in batches, and no covariance
between them is formed. Particles that share space lengthscales share the product with ``U``, which is most of the work.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.linalg.factor import solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.low_rank import LowRankState, coefficient_posterior
from seqgp.statespace.low_rank_points import mode_weights
from seqgp.statespace.modes import Modes


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
