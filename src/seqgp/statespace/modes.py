"""The eigenbasis of space: coordinates in which the field at ``M`` sites falls into independent processes.

A term of the kernel with the state ``s`` of order ``p_j`` in time has noise ``Q_j ⊗ K_j``. Where every ``K_j`` is
``U diag(λ_j) U'`` with the same ``U``, mode ``m`` is a process of order ``p = Σ p_j``, and its noise is
``blockdiag(Q_j λ_jm)``.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Float

from seqgp.linalg.factor import eigenvectors
from seqgp.linalg.types import Array, ArrayLike


class Modes(NamedTuple):
    """Eigenvectors of space and eigenvalues of each term, the largest (summed over the terms) first."""

    vectors: Float[Array, "M M"]  # U: one eigenvector a column
    values: Float[Array, "J M"]  # λ_j; zero where a site is padding

    def scaled(self, variances: Float[ArrayLike, " J"]) -> Modes:
        """The modes of ``variances_j K_j``: particles that share lengthscales share ``vectors``."""
        return self._replace(values=jnp.asarray(variances)[:, None] * self.values)


def space_modes(spaces: tuple[Float[ArrayLike, "M M"], ...]) -> Modes:
    """The modes of the terms' space covariances, which must have the same eigenvectors (:func:`commuting_error`).

    That is so for one term, for several with equal space kernels and for terms that are independent between stations.
    Rows and columns of zeros are padding.
    """
    values, vectors = eigenvectors(functools.reduce(jnp.add, [jnp.asarray(space) for space in spaces]))
    values, vectors = values[::-1], vectors[:, ::-1]
    if len(spaces) == 1:
        return Modes(vectors, jnp.maximum(values, 0.0)[None, :])
    each = [jnp.sum(vectors * (jnp.asarray(space) @ vectors), axis=0) for space in spaces]
    return Modes(vectors, jnp.maximum(jnp.stack(each), 0.0))


def commuting_error(modes: Modes, spaces: tuple[Float[ArrayLike, "M M"], ...]) -> Float[Array, ""]:
    """The largest entry of ``K_j − U diag(λ_j) U'`` over the largest of ``K_j``: rounding, where the modes apply."""

    def error(space, values):
        rest = jnp.asarray(space) - (modes.vectors * values[None, :]) @ modes.vectors.T
        return jnp.max(jnp.abs(rest)) / jnp.max(jnp.abs(jnp.asarray(space)))

    return jnp.max(jnp.stack([error(space, values) for space, values in zip(spaces, modes.values)]))


def mode_covariance(blocks: tuple[Float[ArrayLike, "p_j p_j"], ...], modes: Modes) -> Float[Array, "p p M"]:
    """``blockdiag(B_j λ_jm)`` of each mode: of stationary covariances, or of noise over a time step."""
    order = sum(block.shape[0] for block in blocks)
    found, start = jnp.zeros((order, order, modes.values.shape[1])), 0
    for block, values in zip(blocks, modes.values):
        end = start + block.shape[0]
        found = found.at[start:end, start:end].set(jnp.asarray(block)[:, :, None] * values[None, None, :])
        start = end
    return found


def block_cholesky(blocks: Float[Array, "p p M"]) -> Float[Array, "p p M"]:
    """The lower Cholesky factor of each mode's ``p × p`` block; a column is zero where a pivot is, up to rounding.

    ``p`` is small and ``M`` large, so the loop is over entries and each operation over all modes.
    """
    order = blocks.shape[0]
    zero = jnp.zeros_like(blocks[0, 0])
    rows = [[zero] * order for _ in range(order)]
    for j in range(order):
        pivot = blocks[j, j] - sum((rows[j][k] ** 2 for k in range(j)), start=zero)
        usable = pivot > 1e-14 * blocks[j, j]
        root = jnp.sqrt(jnp.where(usable, pivot, 1.0))
        rows[j][j] = jnp.where(usable, root, 0.0)
        for i in range(j + 1, order):
            rest = blocks[i, j] - sum((rows[i][k] * rows[j][k] for k in range(j)), start=zero)
            rows[i][j] = jnp.where(usable, rest / root, 0.0)
    return jnp.stack([jnp.stack(row) for row in rows])


def block_solve(root: Float[Array, "p p M"], values: Float[Array, "*k p M"]) -> Float[Array, "*k p M"]:
    """``(L L')⁻¹ v`` of each mode; directions in which the factor is zero are left out."""
    order = root.shape[0]
    safe = [jnp.where(root[j, j] > 0, root[j, j], 1.0) for j in range(order)]
    white: list = []
    for i in range(order):
        rest = values[..., i, :] - sum((_times(root[i, k], white[k]) for k in range(i)), start=0.0)
        white.append(_times(jnp.where(root[i, i] > 0, 1 / safe[i], 0.0), rest))
    found: list = [None] * order
    for i in reversed(range(order)):
        rest = white[i] - sum((_times(root[k, i], found[k]) for k in range(i + 1, order)), start=0.0)
        found[i] = _times(jnp.where(root[i, i] > 0, 1 / safe[i], 0.0), rest)
    return jnp.stack(found, axis=-2)


def _times(modes: Float[Array, " M"], values: Float[Array, "*k M"]) -> Float[Array, "*k M"]:
    return jnp.broadcast_to(modes, values.shape) * values
