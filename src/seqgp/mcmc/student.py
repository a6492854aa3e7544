"""Ellipses with heavy tails: a Gaussian whose width is drawn anew for each slice (Nishihara, Murray & Adams 2014).

A Gaussian that is too narrow in some direction, because it was found from a short warm-up, would hold a chain in its
tails for long. Averaged over widths the ellipse is that of a Student-t, which does not.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Key

from seqgp.linalg.factor import solve_lower
from seqgp.linalg.types import Array, ArrayLike

DEGREES_OF_FREEDOM = 5


class Student(NamedTuple):
    """A multivariate Student-t with location ``mean`` and scale ``root root'``."""

    mean: Float[ArrayLike, " d"]
    root: Float[ArrayLike, "d d"]

    def width(self, key: Key[Array, ""], z: Float[Array, " d"]) -> Float[Array, ""]:
        """A draw of the width given ``z``: with it, ``z`` is from ``N(mean, width² root root')``."""
        chi_squared = jnp.sum(jax.random.normal(key, (DEGREES_OF_FREEDOM + z.shape[0],), z.dtype) ** 2)
        return jnp.sqrt((DEGREES_OF_FREEDOM + self._square(z)) / chi_squared)

    def log_density(self, z: Float[Array, " d"]) -> Float[Array, ""]:
        """The log density, without the constant."""
        return -0.5 * (DEGREES_OF_FREEDOM + z.shape[0]) * jnp.log1p(self._square(z) / DEGREES_OF_FREEDOM)

    def _square(self, z):
        white = solve_lower(self.root, z - self.mean)
        return white @ white
