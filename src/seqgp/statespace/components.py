"""Algebra of states that stack, term by term, the components of a time state at ``M`` stations.

Columns have ``n = Σ_j p_j M + q`` entries, the last ``q`` of which (coefficients of the mean) nothing here changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Float

from seqgp.linalg.types import Array


def apply_moves(moves: Sequence[Float[Array, "p p"]], columns: Float[Array, "n k"], m: int) -> Float[Array, "n k"]:
    """``A_j ⊗ I`` applied to each term of each column."""
    parts, start = [], 0
    for move in moves:
        size = move.shape[0] * m
        parts.append((move @ columns[start : start + size].reshape(move.shape[0], -1)).reshape(size, -1))
        start += size
    return jnp.concatenate([*parts, columns[start:]])


def move_cov(
    moves: Sequence[Float[Array, "p p"]],
    stationary: Sequence[Float[Array, "p p"]],
    spaces: Sequence[Float[Array, "M M"]],
    cov: Float[Array, "n n"],
) -> Float[Array, "n n"]:
    """``A C A'`` and the noise ``(P − A P A') ⊗ K`` of each term."""
    m, start = spaces[0].shape[0], 0
    cov = apply_moves(moves, apply_moves(moves, cov, m).T, m)
    for move, p, space in zip(moves, stationary, spaces):
        size = move.shape[0] * m
        here = slice(start, start + size)
        cov = cov.at[here, here].add(jnp.kron(p - move @ p @ move.T, space))
        start += size
    return cov


def latent_of(weights: Sequence[Float[Array, "p M"]], columns: Float[Array, "n k"]) -> Float[Array, "M k"]:
    """At each station, its own weighted sum of the components of all terms."""
    stacked = jnp.concatenate(list(weights))
    order, m = stacked.shape
    return jnp.einsum("am,amk->mk", stacked, columns[: order * m].reshape(order, m, -1))
