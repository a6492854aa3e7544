"""The latent at sites and at any other points, from the diagonal-plus-low-rank filter at the sites.

At a point, term ``j`` of the kernel has the weights ``a_j = K_j(point, sites) U / λ_j`` of the modes, and a part of its
own that no data have seen, with variance ``v_j (K_j(point, point) − Σ_m a_jm² λ_jm)`` and ``v_j = h_j' P_j h_j``. At a
site ``a_j`` is its row of ``U``, and nothing is unseen.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from seqgp.linalg.factor import SINGULAR_SHARE, covariance_root, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.low_rank import LowRankState, coefficient_posterior
from seqgp.statespace.modes import Modes, block_cholesky
from seqgp.statespace.observation import LatentGaussian


class Points(NamedTuple):
    """Points as the state at the sites sees them."""

    weights: Float[Array, "J n M"]  # a_j
    unseen: Float[Array, "n n"] | None  # the covariance of the part that no data have seen; None at the sites


class TermRows(NamedTuple):
    """The state as the latent sees it, term by term: ``h_j`` applied to each part."""

    mean: Float[Array, "J M"]
    block: Float[Array, "J J M"]
    factor: Float[Array, "R J r"]
    response: Float[Array, "q J M"]


def points_at_sites(modes: Modes, index: Int[ArrayLike, " n"]) -> Points:
    """Sites, by their number."""
    rows = modes.vectors[jnp.asarray(index)]
    return Points(jnp.broadcast_to(rows, (modes.values.shape[0], *rows.shape)), None)


def mode_weights(modes: Modes, crosses: tuple[Float[ArrayLike, "n M"], ...]) -> Float[Array, "J n M"]:
    """``a_j`` from ``K_j(points, sites)``; directions in which ``K_j`` is singular up to rounding take no part."""
    kept = modes.values > SINGULAR_SHARE * jnp.max(modes.values, axis=1, keepdims=True)
    inverse = jnp.where(kept, 1 / jnp.where(kept, modes.values, 1.0), 0.0)
    return jnp.stack([(jnp.asarray(cross) @ modes.vectors) * one[None, :] for cross, one in zip(crosses, inverse)])


def points_anywhere(
    modes: Modes,
    crosses: tuple[Float[ArrayLike, "n M"], ...],
    spaces: tuple[Float[ArrayLike, "n n"], ...],
    stationary: Float[ArrayLike, " J"],
) -> Points:
    """Points anywhere.

    Args:
        modes: of the sites.
        crosses: ``scale² K_j`` between points and sites.
        spaces: ``scale² K_j`` between the points.
        stationary: ``v_j``.
    """
    weights = mode_weights(modes, crosses)
    unseen = jnp.zeros(spaces[0].shape)
    for variance, space, a, values in zip(jnp.asarray(stationary), spaces, weights, modes.values):
        unseen = unseen + variance * (jnp.asarray(space) - (a * values[None, :]) @ a.T)
    return Points(weights, unseen)


def term_rows(state: LowRankState, observe: Float[ArrayLike, " p"], orders: tuple[int, ...]) -> TermRows:
    """The state as the latent sees it, term by term."""
    h = jnp.asarray(observe)[:, None] * np.eye(len(orders))[np.repeat(np.arange(len(orders)), orders)]  # (p, J)
    return TermRows(
        h.T @ state.mean,
        jnp.einsum("ai,abm,bj->ijm", h, state.block, h),
        jnp.einsum("aj,ram->rjm", h, state.factor),
        jnp.einsum("aj,qam->qjm", h, state.response),
    )


def gaussian_at_points(
    state: LowRankState, rows: TermRows, points: Points, design: Float[ArrayLike, "n q"], scales: Float[ArrayLike, " q"]
) -> LatentGaussian:
    """Coefficients of the mean (less their prior mean), and the latent with their part of the mean, jointly."""
    weights, r, q = points.weights, rows.factor.shape[2], rows.response.shape[0]
    mean = jnp.einsum("jnm,jm->n", weights, rows.mean)
    common = jnp.einsum("jnm,rjm->rn", weights[:, :, :r], rows.factor)
    cov = common.T @ common + (0.0 if points.unseen is None else points.unseen)
    for i, one in enumerate(weights):
        cov = cov + jnp.einsum("jnm,jm->nm", weights, rows.block[i]) @ one.T
    if not q:
        return LatentGaussian(mean, cov).symmetric()
    centre, chol = coefficient_posterior(state, scales)
    columns = jnp.asarray(design) - jnp.einsum("jnm,qjm->nq", weights, rows.response)
    inverse = solve_lower(chol, jnp.eye(q))
    own = inverse.T @ inverse
    cross = own @ columns.T
    whole = jnp.block([[own, cross], [cross.T, cov + columns @ cross]])
    return LatentGaussian(jnp.concatenate([centre, mean + columns @ centre]), whole).symmetric()


def num_normals(num_points: int, sites: int, terms: int, rank: int, at_sites: bool) -> int:
    """How many standard normal numbers :func:`draw_at_points` takes for a draw."""
    return terms * sites + rank + (0 if at_sites else num_points)


def draw_at_points(
    rows: TermRows,
    points: Points,
    design: Float[ArrayLike, "n q"],
    coefficients: Float[Array, "k q"],
    white: Float[Array, "k normals"],
) -> Float[Array, "k n"]:
    """Draws of the latent with its part of the mean, given the coefficients of the mean (less their prior mean)."""
    terms, m = rows.mean.shape
    rank, _, r = rows.factor.shape
    root = block_cholesky(rows.block)

    def modes_of(known, white):  # the latent of each term in the eigenbasis
        own = jnp.einsum("ijm,jm->im", root, white[: terms * m].reshape(terms, m))
        found = rows.mean - jnp.einsum("q,qjm->jm", known, rows.response) + own
        return found.at[:, :r].add(jnp.einsum("r,rjm->jm", white[terms * m : terms * m + rank], rows.factor))

    drawn = jax.vmap(modes_of)(coefficients, white)
    f = jnp.einsum("kjm,jnm->kn", drawn, points.weights) + coefficients @ jnp.asarray(design).T
    if points.unseen is None:
        return f
    return f + white[:, terms * m + rank :] @ covariance_root(points.unseen).T
