"""The latent at sites and at any other points, and draws of it, from the diagonal-plus-low-rank filter at the sites.

At a point, term ``j`` of the kernel has the weights ``a_j = K_j(point, sites) U / λ_j`` of the modes, and a part of its
own that no data have seen, with variance ``v_j (K_j(point, point) − Σ_m a_jm² λ_jm)`` and ``v_j = h_j' P_j h_j``. At a
site ``a_j`` is its row of ``U``, and nothing is unseen.

Draws are given coefficients of the mean, drawn first by :func:`draw_coefficients` from the state after all data.
Nothing here writes the covariance of the state out, except :func:`low_rank_to_dense`, which exists to do so.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Key

from seqgp.linalg.factor import SINGULAR_SHARE, cholesky, covariance_root, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.low_rank import LowRankState, coefficient_posterior, low_rank_predict
from seqgp.statespace.modes import Modes, block_cholesky, block_solve
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


def draw_coefficients(
    state: LowRankState, scales: Float[ArrayLike, " q"], white: Float[ArrayLike, " q"]
) -> Float[Array, " q"]:
    """Coefficients of the mean, less their prior mean, from standard normal numbers."""
    if state.information.shape[0] == 0:
        return jnp.zeros(0)
    mean, chol = coefficient_posterior(state, scales)
    return mean + solve_lower(chol, jnp.asarray(white), transpose=True)


def draw_low_rank_state(
    key: Key[Array, ""], state: LowRankState, coefficients: Float[ArrayLike, " q"]
) -> Float[Array, "p M"]:
    """The state in the eigenbasis, given the coefficients of the mean."""
    key_block, key_factor = jax.random.split(key)
    own = jax.random.normal(key_block, state.mean.shape, state.mean.dtype)
    common = jax.random.normal(key_factor, state.factor.shape[:1], state.mean.dtype)
    draw = _mean_given(state, coefficients) + jnp.einsum("abm,bm->am", block_cholesky(state.block), own)
    return draw.at[:, : state.factor.shape[2]].add(jnp.einsum("r,ram->am", common, state.factor))


def draw_low_rank_path(
    key: Key[Array, ""],
    states: LowRankState,
    transitions: Float[Array, "T-1 p p"],
    noises: Float[Array, "T-1 p p M"],
    coefficients: Float[ArrayLike, " q"],
) -> Float[Array, "T p M"]:
    """The states at all times given all data and the coefficients of the mean, in the eigenbasis.

    Backward from the last time, by Matheron's rule: a pair of states is drawn from the filter, and the earlier one
    corrected by how far the later one is from the draw that is already there.

    Args:
        key: a random key.
        states: filtered, of all times, stacked.
        transitions: from each time to the next.
        noises: over the same steps, from ``mode_covariance``.
        coefficients: of the mean, drawn given all data.
    """
    keys = jax.random.split(key, states.mean.shape[0])
    last = draw_low_rank_state(keys[-1], jax.tree.map(lambda leaf: leaf[-1], states), coefficients)

    def backward(later, inputs):
        key, state, transition, noise = inputs
        earlier = draw_earlier(key, state, transition, noise, coefficients, later)
        return earlier, earlier

    before = jax.tree.map(lambda leaf: leaf[:-1], states)
    _, path = jax.lax.scan(backward, last, (keys[:-1], before, transitions, noises), reverse=True)
    return jnp.concatenate([path, last[None]])


def draw_earlier(
    key: Key[Array, ""],
    state: LowRankState,
    transition: Float[Array, "p p"],
    noise: Float[Array, "p p M"],
    coefficients: Float[ArrayLike, " q"],
    later: Float[Array, "p M"],
) -> Float[Array, "p M"]:
    """The state at one time given the data up to it and the state one step later."""
    key_now, key_noise = jax.random.split(key)
    now = draw_low_rank_state(key_now, state, coefficients)
    white = jax.random.normal(key_noise, now.shape, now.dtype)
    ahead = transition @ now + jnp.einsum("abm,bm->am", block_cholesky(noise), white)
    weights = transition.T @ precision_times(low_rank_predict(state, transition, noise), later - ahead)
    return now + covariance_times(state, weights)


def covariance_times(state: LowRankState, values: Float[Array, "p M"]) -> Float[Array, "p M"]:
    """``(D + F'F) v``."""
    r = state.factor.shape[2]
    common = jnp.einsum("ram,am->r", state.factor, values[:, :r])
    own = jnp.einsum("abm,bm->am", state.block, values)
    return own.at[:, :r].add(jnp.einsum("r,ram->am", common, state.factor))


def precision_times(state: LowRankState, values: Float[Array, "p M"]) -> Float[Array, "p M"]:
    """``(D + F'F)⁻¹ v``, by Woodbury's identity."""
    rank, _, r = state.factor.shape
    root = block_cholesky(state.block)
    alone = block_solve(root, values)
    solved = block_solve(root[:, :, :r], state.factor)
    chol = cholesky(jnp.eye(rank) + jnp.einsum("ram,sam->rs", solved, state.factor))
    right = jnp.einsum("ram,am->r", state.factor, alone[:, :r])
    common = solve_lower(chol, solve_lower(chol, right), transpose=True)
    return alone.at[:, :r].add(-jnp.einsum("r,ram->am", common, solved))


def low_rank_to_dense(
    state: LowRankState, modes: Modes, scales: Float[ArrayLike, " q"]
) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """Mean and covariance of all fields at the sites, component by component, then of the coefficients of the mean."""
    p, m = state.mean.shape
    q, r, vectors = state.information.shape[0], state.factor.shape[2], modes.vectors
    rows = jnp.einsum("ram,im->rai", state.factor, vectors[:, :r]).reshape(-1, p * m)
    cov = jnp.einsum("im,abm,jm->aibj", vectors, state.block, vectors).reshape(p * m, p * m) + rows.T @ rows
    mean = (state.mean @ vectors.T).reshape(-1)
    if not q:
        return mean, cov
    centre, chol = coefficient_posterior(state, scales)
    inverse = solve_lower(chol, jnp.eye(q))
    own = inverse.T @ inverse
    response = (state.response @ vectors.T).reshape(q, -1)
    cross = -own @ response
    whole = jnp.block([[cov - response.T @ cross, cross.T], [cross, own]])
    return jnp.concatenate([mean - centre @ response, centre]), whole


def _mean_given(state: LowRankState, coefficients: Float[ArrayLike, " q"]) -> Float[Array, "p M"]:
    return state.mean - jnp.einsum("q,qpm->pm", jnp.asarray(coefficients), state.response)
