"""Variance with a season: an amplitude ``exp(Σ_k a_k cos(2πk t/period) + b_k sin(2πk t/period))`` on scale or noise.

A field ``amplitude(t) g(t, x)`` has the transition of ``g``: ``A``, ``Q`` and ``P`` stay as they are, and the
observation row becomes ``amplitude(t) h`` (:func:`seqgp.statespace.delay.scale_term`). Its kernel is
``amplitude(t) k(t, t') amplitude(t')``. Noise is multiplied by its own amplitude at the time of the snapshot. The
logarithm of the amplitude has mean 0 over a period, so that scale and noise are geometric means over the season.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Float

from seqgp.linalg.types import Array, ArrayLike


def season_columns(t: Float[ArrayLike, "*T"], period: float, order: int) -> Float[Array, "*T 2*order"]:
    """``cos, sin`` of the first harmonics, one pair after the other."""
    phase = 2 * jnp.pi * jnp.asarray(t)[..., None] / period * jnp.arange(1, order + 1)
    return jnp.stack([jnp.cos(phase), jnp.sin(phase)], axis=-1).reshape(*jnp.shape(t), 2 * order)


def season_amplitude(
    coefficients: Float[ArrayLike, " 2*order"], t: Float[ArrayLike, "*T"], period: float
) -> Float[Array, "*T"]:
    """The amplitude at times ``t``; coefficients are ``a_1, b_1, a_2, b_2, …``."""
    coefficients = jnp.asarray(coefficients)
    return jnp.exp(season_columns(t, period, coefficients.shape[0] // 2) @ coefficients)
