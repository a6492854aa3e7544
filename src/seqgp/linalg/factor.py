"""Cholesky factors and triangular solves that are safe under ``vmap`` in several threads.

The batched LAPACK kernels of jaxlib wait, inside the thread pool that they share with everything else, for other
threads of the same pool: with few cores and several computations at once all of them wait for each other, for ever.
Under ``vmap`` these functions therefore go through the lanes one by one; the kernels would do little else.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.lax import linalg
from jaxtyping import Array, Float

from seqgp.linalg.types import ArrayLike

RELATIVE_ROUNDING = 1e-14  # of each variance, on the diagonal of a covariance that may be singular
SINGULAR_SHARE = 1e-12  # of the largest eigenvalue, below which a direction is taken for rounding
EQUAL_SHARE = 1e-10  # of the largest eigenvalue, to which two eigenvalues are taken for one


def _lapack(matrix):
    # LAPACK wants columns: the transpose of a matrix stored by rows, which is the same matrix, costs no copy.
    return linalg.cholesky(matrix.T, symmetrize_input=False)


@custom_vmap
def _factor(matrix):
    return _lapack(matrix)


@_factor.def_vmap
def _factor_lanes(size, batched, matrix):
    if not batched[0]:
        return _lapack(matrix), False
    return jax.lax.map(_factor, matrix), True


@jax.custom_jvp
def cholesky(matrix: Float[ArrayLike, "n n"]) -> Float[Array, "n n"]:
    """The lower Cholesky factor of a symmetric matrix (its upper triangle is read); NaN where it has none."""
    return _factor(matrix)


@cholesky.defjvp
def _cholesky_jvp(primals, tangents):
    (matrix,), (change,) = primals, tangents
    root = cholesky(matrix)  # which can be differentiated again
    symmetric = jnp.triu(change) + jnp.triu(change, 1).T
    half = linalg.triangular_solve(root, symmetric, left_side=True, lower=True)
    inner = linalg.triangular_solve(root, half, left_side=False, lower=True, transpose_a=True)
    return root, root @ (jnp.tril(inner) - 0.5 * jnp.diag(jnp.diagonal(inner)))


def covariance_root(covariance: Float[ArrayLike, "n n"], most: float = float("inf")) -> Float[Array, "n n"]:
    """A lower root of a covariance that may be singular, or lack symmetry, up to rounding.

    Args:
        covariance: what a root is wanted of. Nothing varies where rounding left a variance at or below zero; negative
            eigenvalues of the correlations become zero.
        most: how far correlations may exceed one and their eigenvalues fall below zero. Beyond that, and where a
            variance is negative, the covariance has no digits left, and the root is NaN; any rounding by default.
    """
    variance = jnp.diagonal(covariance)
    known = variance <= 0
    sd = jnp.sqrt(jnp.where(known, 1.0, variance))
    correlation = 0.5 * (covariance + covariance.T) / (sd[:, None] * sd[None, :])
    correlation = jnp.where(known[:, None] | known[None, :], jnp.eye(len(sd)), correlation)
    root, least = _semidefinite_root(jnp.clip(correlation, -1.0, 1.0))
    root = jnp.where(known, 0.0, sd)[:, None] * root
    if most == float("inf"):
        return root
    lost = (least < -most) | (jnp.max(jnp.abs(correlation), initial=1.0) > 1 + most) | jnp.any(variance < 0)
    return jnp.where(lost, jnp.nan, root)


@custom_vmap
def _semidefinite_root(matrix):
    """The Cholesky factor; where rounding has left the matrix none, that of its nearest matrix that has one.

    Also the smallest eigenvalue of the matrix, where that had to be found.
    """
    floored = matrix + RELATIVE_ROUNDING * jnp.eye(len(matrix))
    root = _lapack(floored)
    return jax.lax.cond(
        jnp.isfinite(root[-1, -1]), lambda: (root, jnp.zeros((), root.dtype)), lambda: _clipped_root(floored)
    )


@_semidefinite_root.def_vmap
def _semidefinite_root_lanes(size, batched, matrix):
    if not batched[0]:
        return _semidefinite_root(matrix), (False, False)
    return jax.lax.map(_semidefinite_root, matrix), (True, True)


def _clipped_root(matrix):
    values, vectors = _eigh(matrix)
    half = jnp.sqrt(jnp.maximum(values, RELATIVE_ROUNDING))[:, None] * vectors.T
    upper = jnp.linalg.qr(half, mode="r")
    return (upper * jnp.where(jnp.diagonal(upper) < 0, -1.0, 1.0)[:, None]).T, values[0]


def inverse_root(matrix: Float[ArrayLike, "n n"]) -> Float[Array, "n n"]:
    """``R`` with ``R'R`` the inverse of a covariance on the directions in which it is not singular up to rounding."""
    values, vectors = eigenvectors(matrix)
    kept = values > SINGULAR_SHARE * values[-1]
    return jnp.where(kept, 1 / jnp.sqrt(jnp.where(kept, values, 1.0)), 0.0)[:, None] * vectors.T


def _solve_with(transpose: bool):
    def raw(root, columns):
        return linalg.triangular_solve(root, columns, left_side=True, lower=True, transpose_a=transpose)

    @custom_vmap
    def solve(root, columns):
        return raw(root, columns)

    @solve.def_vmap
    def solve_lanes(size, batched, root, columns):
        root_batched, columns_batched = batched
        if not (root_batched or columns_batched):
            return raw(root, columns), False
        if not root_batched:
            # One root for all lanes: the lanes are more columns.
            flat = jnp.moveaxis(columns, 0, -1).reshape(columns.shape[1], -1)
            solved = solve(root, flat).reshape(columns.shape[1], columns.shape[2], size)
            return jnp.moveaxis(solved, -1, 0), True
        if not columns_batched:
            return jax.lax.map(lambda one: solve(one, columns), root), True
        return jax.lax.map(lambda pair: solve(*pair), (root, columns)), True

    @jax.custom_jvp
    def differentiable(root, columns):
        return solve(root, columns)

    @differentiable.defjvp
    def jvp(primals, tangents):
        root, columns = primals
        root_change, columns_change = tangents
        solution = differentiable(root, columns)
        lower = jnp.tril(root_change)
        pushed = (lower.T if transpose else lower) @ solution
        return solution, raw(root, columns_change - pushed)

    return differentiable


_solve_plain, _solve_transposed = _solve_with(False), _solve_with(True)


def solve_lower(
    root: Float[ArrayLike, "n n"], v: Float[ArrayLike, " n *k"], transpose: bool = False
) -> Float[Array, " n *k"]:
    """``root⁻¹ v`` for a lower triangular root, or ``root⁻ᵀ v``."""
    columns = v if v.ndim == 2 else v[:, None]
    solution = (_solve_transposed if transpose else _solve_plain)(root, columns)
    return solution if v.ndim == 2 else solution[:, 0]


@jax.custom_jvp
def eigenvectors(matrix: Float[ArrayLike, "n n"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """Eigenvalues of a symmetric matrix in increasing order, and its eigenvectors as columns.

    Eigenvectors within a space of equal eigenvalues have no derivatives; there they count as 0.
    """
    return _eigenvectors(matrix)


@eigenvectors.defjvp
def _eigenvectors_jvp(primals, tangents):
    values, vectors = eigenvectors(*primals)
    rotated = vectors.T @ tangents[0] @ vectors
    gap = values[None, :] - values[:, None]
    apart = jnp.abs(gap) > EQUAL_SHARE * jnp.max(jnp.abs(values))
    turned = jnp.where(apart, rotated / jnp.where(apart, gap, 1.0), 0.0)
    return (values, vectors), (jnp.diagonal(rotated), vectors @ turned)


@custom_vmap
def _eigenvectors(matrix):
    return _eigh(matrix)


@_eigenvectors.def_vmap
def _eigenvectors_lanes(size, batched, matrix):
    if not batched[0]:
        return _eigh(matrix), (False, False)
    return jax.lax.map(_eigenvectors, matrix), (True, True)


def _eigh(matrix):
    vectors, values = linalg.eigh(matrix, symmetrize_input=False)
    return values, vectors
