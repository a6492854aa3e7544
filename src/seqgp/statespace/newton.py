"""The most probable ``f`` at the data: steps towards an aim, each the best of a few lengths."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Float

from seqgp.linalg.types import Array

MOST = 40  # steps
LENGTHS = (1.0, 0.4, 0.1, 0.02, 0.004, 0.0008)  # that a step may have


def damped_newton(
    log_density: Callable[[Float[Array, " N"]], Float[Array, ""]],
    aim: Callable[[Float[Array, " N"]], Float[Array, " N"]],
    start: Float[Array, " N"],
    enough: float,
) -> Float[Array, " N"]:
    """From ``start`` up, until a step gains less than ``enough``; NaN is no gain.

    Args:
        log_density: what is maximised.
        aim: where a step of Newton's method from a point would end.
        start: the first point.
        enough: gain in log density.
    """

    def height(point):
        value = log_density(point)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def step(carry):
        point, value, _, count = carry
        towards = aim(point) - point
        candidates = jnp.stack([point + length * towards for length in LENGTHS])
        values = jax.vmap(height)(candidates)
        best = jnp.argmax(values)
        better = values[best] > value
        gain = jnp.where(better, values[best] - value, 0.0)
        return jnp.where(better, candidates[best], point), jnp.where(better, values[best], value), gain, count + 1

    carry = start, height(start), jnp.asarray(jnp.inf), 0
    return jax.lax.while_loop(lambda c: (c[2] > enough) & (c[3] < MOST), step, carry)[0]
