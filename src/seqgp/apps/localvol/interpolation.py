"""Interpolation of prices between nodes that keeps them convex."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

_FLAT = 1e-60  # below any slope that matters; keeps ratios of vanishing slopes finite


def first_neighbour(nodes: Float[Array, "nodes"], k: Float[Array, "..."]) -> Int[Array, "..."]:
    """Index of the first of the four nodes around `k`."""
    return jnp.clip(jnp.searchsorted(nodes, k, side="right") - 2, 0, nodes.shape[0] - 4)


def convex_cubic(
    nodes: Float[Array, "... 4"], values: Float[Array, "... 4"], k: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Value at `k`, between the middle two of four nodes.

    The rational cubic of Delbourgo and Gregory (1985) with the slopes of the parabolas through three neighbours: convex
    wherever the values are, with a continuous slope, and a plain cubic where the curvature is even. Adding a straight
    line to the values adds it to the result, so put-call parity holds to rounding.
    """
    width = jnp.diff(nodes, axis=-1)
    chord = jnp.diff(values, axis=-1) / width
    bend_left, bend_right = chord[..., 1] - chord[..., 0], chord[..., 2] - chord[..., 1]
    h = width[..., 1]
    # How far the chord of the middle cell lies above the slope at its left end, and below that at its right end.
    left = jnp.maximum(bend_left * h / (width[..., 0] + h), _FLAT)
    right = jnp.maximum(bend_right * h / (h + width[..., 2]), _FLAT)
    t = (k - nodes[..., 1]) / h
    bulge = t * (1 - t)
    sag = h * bulge * ((1 - t) * left + t * right) / (1 + bulge * (left - right) ** 2 / (left * right))
    return (1 - t) * values[..., 1] + t * values[..., 2] - sag
