"""Interpolation of prices between nodes that keeps them convex."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

NEIGHBOURS = 6
_FLAT = 1e-60  # below any slope that matters; keeps ratios of vanishing slopes finite
_INSIDE = 0.02  # a slope keeps this share of the way from either chord


def first_neighbour(nodes: Float[ArrayLike, " nodes"], k: Float[ArrayLike, "..."]) -> Int[Array, "..."]:
    """Index of the first of the six nodes around `k`."""
    return jnp.clip(jnp.searchsorted(jnp.asarray(nodes), k, side="right") - 3, 0, jnp.shape(nodes)[0] - NEIGHBOURS)


def convex_cubic(
    nodes: Float[ArrayLike, "... 6"], values: Float[ArrayLike, "... 6"], k: Float[ArrayLike, "..."]
) -> Float[Array, "..."]:
    """Value at `k`, between the middle two of six nodes.

    The cubic with the slopes of the cubics through neighbours at both ends. Where the curvature is too uneven for a
    cubic to be convex, the rational cubic of Delbourgo and Gregory (1985) with the same slopes. So the result is convex
    wherever the values are and has a continuous slope; and as adding a straight line to the values adds it to the
    result, put-call parity holds to rounding.
    """
    nodes, values = jnp.asarray(nodes), jnp.asarray(values)
    width = jnp.diff(nodes, axis=-1)
    bend = jnp.diff(jnp.diff(values, axis=-1) / width, axis=-1)
    second = bend / (width[..., :-1] + width[..., 1:])
    third = jnp.diff(second, axis=-1) / (width[..., :-2] + width[..., 1:-1] + width[..., 2:])
    twist = (third[..., :-1] + third[..., 1:]) / 2
    h = width[..., 2]
    # How far the chord of the middle cell lies above the slope at its left end, and below that at its right end.
    left = second[..., 1] * h + twist[..., 0] * width[..., 1] * h
    right = second[..., 2] * h - twist[..., 1] * h * width[..., 3]
    left = jnp.maximum(jnp.clip(left, _INSIDE * bend[..., 1], (1 - _INSIDE) * bend[..., 1]), _FLAT)
    right = jnp.maximum(jnp.clip(right, _INSIDE * bend[..., 2], (1 - _INSIDE) * bend[..., 2]), _FLAT)
    t = (jnp.asarray(k) - nodes[..., 2]) / h
    bulge = t * (1 - t)
    uneven = jnp.maximum(jnp.maximum(left, right) / jnp.minimum(left, right) - 2, 0.0)
    sag = h * bulge * ((1 - t) * left + t * right) / (1 + bulge * uneven)
    return (1 - t) * values[..., 2] + t * values[..., 3] - sag
