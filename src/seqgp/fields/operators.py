"""Square roots of covariance matrices as linear operators: applied, pulled back (transposed), solved.

Vectors are ``(S,)`` or columns of ``(S, k)``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.linalg.types import Array


class Events(NamedTuple):
    """What happened to the factorisations of a proposal: counts, to be added up."""

    not_positive_definite: Int[Array, ""]
    jitter_raised: Int[Array, ""]

    @classmethod
    def none(cls) -> Events:
        """No event."""
        return cls(jnp.zeros((), int), jnp.zeros((), int))

    def __add__(self, other):  # type: ignore[override]
        """Counts added up."""
        return Events(*(a + b for a, b in zip(self, other)))


class Triangular(NamedTuple):
    """A lower triangular root, with ``root root'`` where it is at hand: it saves a product in ``gram_diagonal``."""

    root: Float[Array, "S S"]
    square: Float[Array, "S S"] | None = None

    def apply(self, v: Float[Array, " S *k"]) -> Float[Array, " S *k"]:
        """``L v``."""
        return self.root @ v

    def pull(self, v: Float[Array, " S *k"]) -> Float[Array, " S *k"]:
        """``L' v``."""
        return self.root.T @ v

    def pull_diagonal(self, d: Float[Array, " S"]) -> Float[Array, "S S"]:
        """``L' diag(d)``."""
        return (d[:, None] * self.root).T

    def gram_diagonal(self, d: Float[Array, " S"]) -> Float[Array, "S S"]:
        """``diag(d) L L' diag(d)``."""
        return d[:, None] * self.covariance() * d[None, :]

    def solve(self, v: Float[Array, " S *k"]) -> Float[Array, " S *k"]:
        """``L⁻¹ v``."""
        return solve_lower(self.root, v)

    def covariance(self) -> Float[Array, "S S"]:
        """``root root'``."""
        return self.root @ self.root.T if self.square is None else self.square


class Kronecker(NamedTuple):
    """``gain · (A ⊗ B ⊗ …)`` of lower triangular roots; with one factor, a scaled triangular root."""

    gain: Float[Array, ""]
    factors: tuple[Triangular, ...]

    def apply(self, v: Float[Array, " S *k"]) -> Float[Array, " S *k"]:
        """``gain · (A ⊗ B ⊗ …) v``."""
        return self.gain * self._each(v, Triangular.apply)

    def pull(self, v: Float[Array, " S *k"]) -> Float[Array, " S *k"]:
        """``gain · (A ⊗ B ⊗ …)' v``."""
        return self.gain * self._each(v, Triangular.pull)

    def pull_diagonal(self, d: Float[Array, " S"]) -> Float[Array, "S S"]:
        """``gain · (A ⊗ B ⊗ …)' diag(d)``."""
        return self.gain * (d[:, None] * _product([factor.root for factor in self.factors])).T

    def gram_diagonal(self, d: Float[Array, " S"]) -> Float[Array, "S S"]:
        """``gain² · diag(d) (AA' ⊗ BB' ⊗ …) diag(d)``."""
        return self.gain**2 * d[:, None] * _product([factor.covariance() for factor in self.factors]) * d[None, :]

    def solve(self, v: Float[Array, " S *k"]) -> Float[Array, " S *k"]:
        """``(A ⊗ B ⊗ …)⁻¹ v / gain``."""
        return self._each(v, Triangular.solve) / self.gain

    def _each(self, v, operation):
        """Apply an operation along every axis of the grid in turn."""
        if len(self.factors) == 1:
            return operation(self.factors[0], v)
        shape = tuple(factor.root.shape[0] for factor in self.factors)
        columns = v.shape[1:]
        for axis, factor in enumerate(self.factors):
            block = jnp.moveaxis(v.reshape(shape + columns), axis, 0)
            moved = operation(factor, block.reshape(shape[axis], -1)).reshape(block.shape)
            v = jnp.moveaxis(moved, 0, axis).reshape((-1, *columns))
        return v


def _product(factors: Sequence[Float[Array, "m m"]]) -> Float[Array, "S S"]:
    """The Kronecker product, entry by entry."""
    return functools.reduce(jnp.kron, factors)


def root_with_jitter(
    covariance: Float[Array, "n n"], unit: Float[Array, ""], ladder: tuple[float, ...]
) -> tuple[Triangular, Events]:
    """The Cholesky factor with the first jitter of the ladder that works; NaN where none does.

    The jitter is relative to ``unit``. Which one is taken depends on the matrix alone, so the prior stays a
    deterministic function of the parameters.
    """
    n = covariance.shape[0]

    def attempt(jitter: float):
        square = covariance + jitter * unit * jnp.eye(n)
        return Triangular(cholesky(square), square)

    found = attempt(ladder[0])
    raised = jnp.zeros((), int)
    failed = _failed(found.root)
    for jitter in ladder[1:]:
        # `where` and not `cond`: under vmap both would run anyway, and ladders are short.
        found = jax.tree.map(lambda new, old: jnp.where(failed, new, old), attempt(jitter), found)  # noqa: B023
        raised = raised + failed.astype(int)
        failed = _failed(found.root)
    return found, Events(failed.astype(int), jnp.minimum(raised, 1))


def _failed(root: Float[Array, "n n"]) -> Bool[Array, ""]:
    return ~jnp.isfinite(root[-1, -1])
