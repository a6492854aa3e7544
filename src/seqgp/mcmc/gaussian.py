"""Gaussian vectors in blocks: conditional updates of one block given the rest."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.linalg.types import ArrayLike


class Block(NamedTuple):
    """``z[index] | z[rest] ~ N(mean(z), root root')`` under a joint Gaussian."""

    index: Int[Array, " b"]  # pyright: ignore[reportIncompatibleMethodOverride]
    rest: Int[Array, " r"]
    centre: Float[Array, " d"]
    regression: Float[Array, "b r"]
    root: Float[Array, "b b"]

    def mean(self, z: Float[Array, " d"]) -> Float[Array, " b"]:
        """The conditional mean of the block, given the rest of ``z``."""
        return self.centre[self.index] + self.regression @ (z[self.rest] - self.centre[self.rest])

    def insert(self, z: Float[Array, " d"], values: Float[Array, " b"]) -> Float[Array, " d"]:
        """``z`` with the block replaced."""
        return z.at[self.index].set(values)


def condition(mean: Float[Array, " d"], covariance: Float[Array, "d d"], index: np.ndarray) -> Block:
    """The conditional of a block of a joint Gaussian."""
    rest = np.setdiff1d(np.arange(mean.shape[0]), index)
    inner = covariance[np.ix_(index, index)]
    cross = covariance[np.ix_(index, rest)]
    if len(rest):
        root_rest = cholesky(covariance[np.ix_(rest, rest)])
        half = solve_lower(root_rest, cross.T)
        regression = solve_lower(root_rest, half, transpose=True).T
        inner = inner - half.T @ half
    else:
        regression = jnp.zeros((len(index), 0))
    return Block(jnp.asarray(index), jnp.asarray(rest), mean, regression, cholesky(inner))


def log_normal_density(
    v: Float[Array, " d"], mean: Float[ArrayLike, " d"], root: Float[ArrayLike, "d d"]
) -> Float[Array, ""]:
    """``log N(v; mean, root root')`` without the constant."""
    white = solve_lower(root, v - mean)
    return -0.5 * white @ white - jnp.sum(jnp.log(jnp.diagonal(root)))
