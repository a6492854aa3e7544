"""Fields that move with a velocity, spread and fade, on Fourier modes of a periodic box.

The field solves ``∂f/∂t + v·∇f = κ ∇²f − ρ f + noise``, with noise such that its covariance at any one time is that of
a stationary kernel with spectral density ``S``. A Fourier mode moves on its own: with ``φ = k·v dt``,

    c' = exp(−(ρ + κ|k|²) dt) (c cos φ − s sin φ) + noise,      f(x) = Σ_k c_k cos(k·x) + s_k sin(k·x),
    s' = exp(−(ρ + κ|k|²) dt) (c sin φ + s cos φ) + noise,      Var c_k = Var s_k = w_k,

so that the covariance is ``Σ_k w_k exp(−(ρ + κ|k|²)|u|) cos(k·(h − v u))``: exact in time for every ``dt``. In space it
is an approximation, because the box has finitely many modes and is periodic; :func:`truncation_error` measures it.

Several fields are one set of modes after the other (:func:`join_modes`), each with its own velocity.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Float

from seqgp.base.errors import ModelError
from seqgp.linalg.types import Array, ArrayLike


class FourierModes(NamedTuple):
    """``m`` Fourier modes; a state is ``(c_1 … c_m, s_1 … s_m)``, of length ``n = 2m``."""

    wave: Float[ArrayLike, "m D"]  # k, radians per distance
    variance: Float[ArrayLike, " m"]  # w_k
    rate: Float[ArrayLike, " m"]  # ρ + κ|k|², per time
    frequency: Float[ArrayLike, " m"]  # k·v, radians per time


def wave_vectors(box: Float[ArrayLike, " D"], shortest: float) -> Float[np.ndarray, "m D"]:
    """The wave vectors of a periodic box down to a shortest wavelength, one of each pair ``±k``, zero first."""
    box = np.asarray(box, float)
    if not (np.all(box > 0) and shortest > 0):
        raise ModelError(f"wave_vectors: box = {box} and shortest = {shortest} must be positive lengths")
    if shortest > box.min():
        raise ModelError(
            f"wave_vectors: shortest = {shortest:g} is longer than the box ({box.min():g}): no mode is left; lower it"
        )
    ranges = [np.arange(-math.floor(side / shortest), math.floor(side / shortest) + 1) for side in box]
    index = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, len(box))
    lead = np.take_along_axis(index, np.argmax(index != 0, axis=1)[:, None], axis=1)[:, 0]
    wave = 2 * np.pi * index[lead >= 0] / box
    wave = wave[np.linalg.norm(wave, axis=1) <= 2 * np.pi / shortest * (1 + 1e-12)]
    return wave[np.argsort(np.linalg.norm(wave, axis=1), kind="stable")]


def matern_density(
    wave: Float[ArrayLike, "m D"], smoothness: float, lengthscale: Float[ArrayLike, "..."]
) -> Float[Array, " m"]:
    """The spectral density of a Matérn kernel with variance 1: ``k(h) = ∫ S(k) exp(i k·h) dk``.

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


def advected_modes(
    wave: Float[ArrayLike, "m D"],
    box: Float[ArrayLike, " D"],
    density: Float[ArrayLike, " m"],
    velocity: Float[ArrayLike, " D"],
    diffusion: Float[ArrayLike, ""],
    damping: Float[ArrayLike, ""],
) -> FourierModes:
    """The modes of one field.

    Args:
        wave: wave vectors of the box, one of each pair.
        box: its sides.
        density: scale² times the spectral density at the wave vectors.
        velocity: distance per time.
        diffusion: ``κ``, distance² per time.
        damping: ``ρ``, per time.
    """
    wave = jnp.asarray(wave)
    pair = jnp.where(jnp.all(wave == 0, axis=1), 1.0, 2.0)  # k and −k are one mode
    cell = jnp.prod(2 * jnp.pi / jnp.asarray(box))
    rate = damping + diffusion * jnp.sum(wave**2, axis=1)
    return FourierModes(wave, pair * cell * density, rate, wave @ jnp.asarray(velocity))


def join_modes(*fields: FourierModes) -> FourierModes:
    """The sum of independent fields."""
    return FourierModes(*(jnp.concatenate([jnp.asarray(leaf) for leaf in leaves]) for leaves in zip(*fields)))


def mode_basis(wave: Float[ArrayLike, "m D"], x: Float[ArrayLike, "N D"]) -> Float[Array, "N n"]:
    """The observation operator: ``f(x)`` is a row times the state."""
    phase = jnp.asarray(x) @ jnp.asarray(wave).T
    return jnp.concatenate([jnp.cos(phase), jnp.sin(phase)], axis=1)


def fourier_covariance(
    modes: FourierModes, h: Float[ArrayLike, "K D"], u: Float[ArrayLike, " K"]
) -> Float[Array, " K"]:
    """The covariance of ``f(t + u, x + h)`` and ``f(t, x)`` that the modes have."""
    u = jnp.asarray(u)[:, None]
    phase = jnp.asarray(h) @ jnp.asarray(modes.wave).T - u * modes.frequency
    return jnp.sum(modes.variance * jnp.exp(-jnp.abs(u) * modes.rate) * jnp.cos(phase), axis=1)


def truncation_error(
    modes: FourierModes, exact: Float[ArrayLike, " K"], h: Float[ArrayLike, "K D"], u: Float[ArrayLike, " K"]
) -> float:
    """The largest error of the covariance, as a share of the variance, at displacements of the data.

    Args:
        modes: of the box.
        exact: the covariance meant: a closed form, or that of more modes on a larger box.
        h: displacements in space.
        u: in time.
    """
    exact = np.asarray(exact)
    return float(np.max(np.abs(np.asarray(fourier_covariance(modes, h, u)) - exact)) / np.max(np.abs(exact)))
