"""Spectral densities of kernels of space: ``k(h) = ∫ S(k) exp(i k·h) dk``."""

from __future__ import annotations

import functools
import math

import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from seqgp.base.errors import ModelError
from seqgp.kernels.base import Kernel, Parameters, within
from seqgp.kernels.spatial import PerColumn, Rotated
from seqgp.kernels.stationary import Stationary
from seqgp.linalg.types import ArrayLike


def check_density(kernel: Kernel, where: str) -> None:
    """Raise unless the kernel has a spectral density in closed form."""
    inner = kernel.kernel if isinstance(kernel, Rotated) else kernel
    for one in inner.factors if isinstance(inner, PerColumn) else (inner,):
        if not (isinstance(one, Stationary) and one.smoothness is not None):
            raise ModelError(
                f"{where}: {type(one).__name__} has no spectral density here; take Matern12, Matern32, Matern52, "
                "SquaredExponential, PerColumn of these, or one of them Rotated"
            )


def spectral_density(kernel: Kernel, wave: Float[ArrayLike, "m D"], parameters: Parameters) -> Float[Array, " m"]:
    """The density of a kernel that ``check_density`` lets pass, at wave vectors."""
    wave = jnp.asarray(wave)
    if isinstance(kernel, PerColumn):
        factors = [
            spectral_density(factor, wave[:, i : i + 1], within(parameters, str(i)))
            for i, factor in enumerate(kernel.factors)
        ]
        return functools.reduce(jnp.multiply, factors)
    if isinstance(kernel, Rotated):
        cos, sin = jnp.cos(parameters["angle"]), jnp.sin(parameters["angle"])
        turned = jnp.stack([cos * wave[:, 0] + sin * wave[:, 1], cos * wave[:, 1] - sin * wave[:, 0]], axis=1)
        return spectral_density(kernel.kernel, turned, parameters)
    assert isinstance(kernel, Stationary)
    assert kernel.smoothness is not None
    return matern_density(wave, kernel.smoothness, parameters["lengthscale"])


def matern_density(
    wave: Float[ArrayLike, "m D"], smoothness: float, lengthscale: Float[ArrayLike, "..."]
) -> Float[Array, " m"]:
    """The spectral density of a Matérn kernel with variance 1.

    Args:
        wave: wave vectors.
        smoothness: ``ν``; infinite for the squared exponential.
        lengthscale: one number, or one for each dimension.
    """
    wave = jnp.asarray(wave)
    lengthscale = jnp.broadcast_to(jnp.asarray(lengthscale), wave.shape[1:])
    dimension = wave.shape[1]
    square = jnp.sum((wave * lengthscale) ** 2, axis=1)
    volume = jnp.sum(jnp.log(lengthscale))
    if math.isinf(smoothness):
        return jnp.exp(volume - 0.5 * square - 0.5 * dimension * math.log(2 * math.pi))
    constant = (
        gammaln(smoothness + 0.5 * dimension)
        - gammaln(smoothness)
        - 0.5 * dimension * math.log(math.pi)
        + smoothness * math.log(2 * smoothness)
    )
    return jnp.exp(constant + volume - (smoothness + 0.5 * dimension) * jnp.log(2 * smoothness + square))
