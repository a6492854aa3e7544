"""Gaussian data: what a likelihood gains where the data are normal around the level.

The log likelihood is then a quadratic of the level: data seen through interpolation shrink to sums, planes cost a few
inner products, the surrogate of the informed updates is exact, and the latent can be integrated out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from seqgp.models.errors import ModelError
from seqgp.models.likelihoods import Likelihood, Plane
from seqgp.models.priors import Slot, check_positive
from seqgp.models.types import Array


class GaussianSums(NamedTuple):
    """Sufficient statistics of Gaussian data seen through interpolation: sums over the observed data."""

    count: Float[Array, ""]  # pyright: ignore[reportIncompatibleMethodOverride]
    gram: Float[Array, "S S"]  # W'W
    weighted: Float[Array, " S"]  # W'y
    ones: Float[Array, " S"]  # W'1
    y: Float[Array, ""]  # 1'y
    yy: Float[Array, ""]  # y'y

    def log_likelihood(self, sites, mean, parameters):
        """``Σ log N(y_i; (W s)_i + mean, noise²)``."""
        return gaussian_log_density(self._squares(sites, mean, self.gram @ sites), self.count, parameters["noise"])

    def on_planes(self, middle, columns, mean, parameters) -> Plane:
        """The same at ``middle + columns @ (c u + s v)``, for any ``u`` and ``v``."""
        curved = self.gram @ middle
        slope = self.weighted - mean * self.ones - curved
        squares = Squares(self._squares(middle, mean, curved), slope @ columns, columns.T @ (self.gram @ columns))
        return squares.log_densities(self.count, parameters["noise"])

    def surrogate(self):
        """``H = W'W`` and ``b = W'y``, those of unit noise."""
        return jnp.asarray(self.gram), jnp.asarray(self.weighted)

    def _squares(self, sites, mean, curved):
        squares = self.yy - 2 * self.weighted @ sites + sites @ curved
        return squares + mean * (self.count * mean - 2 * (self.y - self.ones @ sites))


class Squares(NamedTuple):
    """A sum of squares ``|r − A w|²`` as a function of ``w``: a few inner products, whatever the size of the data."""

    constant: Float[Array, ""]  # r'r
    slope: Float[Array, " k"]  # A'r
    gram: Float[Array, "k k"]  # A'A

    def on_plane(self, u: Float[Array, " k"], v: Float[Array, " k"]) -> Callable[[Array, Array], Array]:
        """The sum of squares at ``w = c u + s v``, as a function of ``(c, s)``: six numbers."""
        pair = jnp.stack([u, v])
        (ru, rv), ((uu, uv), (_, vv)) = pair @ self.slope, pair @ self.gram @ pair.T
        return lambda c, s: self.constant - 2 * (c * ru + s * rv) + c**2 * uu + 2 * c * s * uv + s**2 * vv

    def log_densities(self, count, noise) -> Plane:
        """The log density of the ``count`` residuals on planes of ``w``."""

        def quadratic(u, v):
            along = self.on_plane(u, v)
            return lambda c, s: gaussian_log_density(along(c, s), count, noise)

        return quadratic


def gaussian_log_density(squares, count, noise):
    """``log N`` of ``count`` residuals from the sum of their squares."""
    return -0.5 * squares / noise**2 - count * (jnp.log(noise) + 0.5 * jnp.log(2 * jnp.pi))


def _gaussian(f, context, noise):
    return dist.Normal(f, noise)


class Gaussian(Likelihood):
    """``y ~ N(f, noise²)`` at each input; ``noise`` is a standard deviation."""

    def __init__(self, noise: Slot):
        super().__init__(_gaussian, pointwise=True, noise=noise)
        if self.priors["noise"] == 0.0:
            raise ModelError(
                "Gaussian: noise = 0.0 is not positive: data without noise are interpolated, which leaves nothing to "
                "draw at them; give the noise that the numbers are rounded by, or a small one (1e-4 of the scale, say)"
            )
        check_positive(self.priors["noise"], "Gaussian: noise")

    @property
    def conjugate(self) -> bool:
        """Whether the latent can be integrated out exactly: yes."""
        return True

    @property
    def quadratic(self) -> bool:
        """Whether the log likelihood is quadratic in the latent: yes."""
        return True

    def noise(self, context: Any, parameters: dict[str, Any]) -> Array:
        """The standard deviation of the noise."""
        return parameters["noise"]

    def log_precision(self, parameters: dict[str, Any]) -> Array:
        """``−2 log noise``."""
        return -2.0 * jnp.log(parameters["noise"])

    def exact_surrogate(self, y, missing, context):
        """``(F, b)`` of ``−½ u'FF'u + b'u`` at unit noise."""
        ones = jnp.where(missing, 0.0, jnp.ones_like(y))
        return ones, ones * y

    def sums(self, weights: np.ndarray, y: np.ndarray, missing: np.ndarray, context: Any):
        """The data summed up as the sites see them: sufficient statistics."""
        w, values = weights[~missing], y[~missing]
        parts = (len(values), w.T @ w, w.T @ values, w.sum(0), values.sum(), values @ values)
        return GaussianSums(*(np.asarray(part, dtype=float) for part in parts))

    def on_planes(self, level, columns, y, missing, context, parameters) -> Plane:
        """The log likelihood on planes, from a few inner products."""
        residual = jnp.where(missing, 0.0, y - level)
        seen = jnp.where(missing[:, None], 0.0, columns)
        squares = Squares(residual @ residual, residual @ seen, seen.T @ seen)
        return squares.log_densities(jnp.sum(~missing, dtype=float), parameters["noise"])
