"""Draws from the diagonal-plus-low-rank filter: the latent at the sites, the whole state, and paths given all data.

All of them are given coefficients of the mean, drawn first by :func:`draw_coefficients` from the state after all data.
Nothing here writes a covariance out, except :func:`low_rank_to_dense`, which exists to do so.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float, Key

from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.low_rank import LowRankState, coefficient_posterior, low_rank_predict
from seqgp.statespace.modes import Modes, block_cholesky, block_solve


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
