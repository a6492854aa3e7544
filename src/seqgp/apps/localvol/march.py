"""Marching the forward equation through time."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from seqgp.apps.localvol.grid import Mesh

_ROUNDING = 1e-9  # of curvatures, which are of the order of one over a cell


@jax.jit
def time_values(grid: Mesh, sigma: Float[Array, "steps nodes"]) -> Float[Array, "steps nodes"]:
    """Time value `u − (1 − k)^+` after each step, at all nodes.

    A step solves `(P − h δ² D) w = δ² u` for the curvature `w`, with `D = ½ σ² k²`, the second difference `δ²` and the
    compact average `P` that makes it of fourth order, and adds `h D w` (damped) or `2 h D w` (Crank–Nicolson) to `u`.
    `P` is drawn towards the identity where `h D` is too small for the matrix to be an M-matrix, so that `w` is positive
    where `u` is convex: prices increase with maturity, and damped steps keep them convex.
    """
    lower, middle, upper, diffusion = implicit_matrices(grid, sigma)

    def step(value, row):
        low, mid, high, gain = row
        curvature = bend(grid, value) + grid.payoff_curvature
        w = lax.linalg.tridiagonal_solve(low, mid, high, curvature[:, None])[:, 0]
        value = value + jnp.pad(gain * w, 1)
        return value, value

    rows = (lower, middle, upper, grid.gains[:, None] * diffusion)
    return lax.scan(step, jnp.asarray(grid.start), rows, unroll=2)[1]


@jax.jit
def convex_time_values(grid: Mesh, sigma: Float[Array, "steps nodes"]) -> Float[Array, "steps nodes"]:
    """As `time_values`, and convex in strike however rough the volatility.

    Crank–Nicolson steps overshoot where the volatility changes by an order of magnitude from node to node. Only then
    the march is repeated with limited steps; under `vmap` it always is.
    """
    plain = time_values(grid, sigma)
    curvature = jax.vmap(lambda value: bend(grid, value) + grid.payoff_curvature)(plain)
    return lax.cond(jnp.min(curvature) < -_ROUNDING, lambda: _limited(grid, sigma), lambda: plain)


def _limited(grid: Mesh, sigma):
    lower, middle, upper, diffusion = implicit_matrices(grid, sigma)

    def step(carry, row):
        value, curvature = carry
        low, mid, high, gain = row

        def change_from(curvature):
            return jnp.pad(gain * lax.linalg.tridiagonal_solve(low, mid, high, curvature[:, None])[:, 0], 1)

        # As near to Crank–Nicolson as convexity allows, on the way to two implicit half steps, which keep it.
        fast = change_from(curvature)
        slow = (fast + change_from(curvature + bend(grid, fast) / 2)) / 2
        bent_fast, bent_slow = curvature + bend(grid, fast), curvature + bend(grid, slow)
        lacking = jnp.where(bent_fast < 0, -bent_fast / jnp.maximum(bent_slow - bent_fast, _ROUNDING), 0.0)
        share = jnp.minimum(jnp.max(lacking), 1.0)
        value = value + fast + share * (slow - fast)
        return (value, bent_fast + share * (bent_slow - bent_fast)), value

    start = jnp.asarray(grid.start)
    rows = (lower, middle, upper, grid.gains[:, None] * diffusion)
    return lax.scan(step, (start, bend(grid, start) + grid.payoff_curvature), rows)[1]


def bend(grid: Mesh, value: Float[Array, " nodes"]) -> Float[Array, " interior"]:
    """The second difference in moneyness."""
    return (value[:-2] - value[1:-1]) * grid.below + (value[2:] - value[1:-1]) * grid.above


def implicit_matrices(grid: Mesh, sigma: Float[Array, "steps nodes"]):
    """Diagonals of `P − h δ² D` for every step, and `h D`, at the interior nodes."""
    diffusion = 0.5 * jnp.exp(2 * grid.y) * grid.half_steps[:, None] * sigma**2
    left, inner, right = diffusion[:, :-2], diffusion[:, 1:-1], diffusion[:, 2:]
    left, right = (grid.below / grid.compact_below) * left, (grid.above / grid.compact_above) * right
    blend = jnp.minimum(1.0, jnp.minimum(left, right))
    # The outermost nodes keep the payoff: no curvature there, hence no entry.
    edge = np.arange(inner.shape[1])
    lower = (blend - left) * jnp.where(edge > 0, grid.compact_below, 0.0)
    upper = (blend - right) * jnp.where(edge < edge[-1], grid.compact_above, 0.0)
    middle = 1 - blend * (grid.compact_below + grid.compact_above) + (grid.below + grid.above) * inner
    return lower, middle, upper, inner
