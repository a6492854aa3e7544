"""A volatility surface given by its values at knots."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike


class Surface(eqx.Module):
    """Local volatility at knots of maturity and log-moneyness: smooth between them, flat beyond.

    The logarithm of the volatility is interpolated by local cubics, with a continuous slope, so the surface is positive
    wherever it is asked for, and moves smoothly with the values.

    Attributes:
        maturities: knots in years, increasing.
        log_moneyness: knots of `log(K/F)`, increasing.
        values: volatility at the knots, positive.
    """

    maturities: Float[Array, " a"]
    log_moneyness: Float[Array, " b"]
    values: Float[Array, "a b"]

    def __init__(self, maturities: ArrayLike, log_moneyness: ArrayLike, values: ArrayLike):
        self.maturities = jnp.atleast_1d(jnp.asarray(maturities, dtype=float))
        self.log_moneyness = jnp.atleast_1d(jnp.asarray(log_moneyness, dtype=float))
        self.values = jnp.asarray(values, dtype=float)
        expected = (self.maturities.shape[-1], self.log_moneyness.shape[-1])
        if self.values.shape[-2:] != expected:
            raise ValueError(f"Surface: values have shape {self.values.shape}, expected {expected}")

    def __call__(self, T: Float[ArrayLike, "..."], y: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """Volatility at maturities `T` and log-moneyness `y`, broadcast against each other."""
        in_time = knot_weights(self.maturities, T) @ jnp.log(self.values)
        return jnp.exp(jnp.sum(in_time * knot_weights(self.log_moneyness, y), axis=-1))

    def on_grid(self, T: Float[ArrayLike, " m"], y: Float[ArrayLike, " n"]) -> Float[Array, "m n"]:
        """Volatility at every pair of a maturity and a log-moneyness."""
        return jnp.exp(knot_weights(self.maturities, T) @ jnp.log(self.values) @ knot_weights(self.log_moneyness, y).T)


@jax.jit
def knot_weights(knots: Float[Array, " k"], x: Float[ArrayLike, "..."]) -> Float[Array, "... k"]:
    """Weights of the knots at `x`: cubic Hermite with three-point slopes, constant beyond the ends.

    The weights at each `x` add up to one, and a quadratic is reproduced exactly.
    """
    x = jnp.asarray(x)[..., None]
    if knots.shape[0] <= 1:
        return jnp.ones((*x.shape[:-1], knots.shape[0]))
    x = jnp.clip(x, knots[0], knots[-1])
    width = jnp.diff(knots)
    slopes = _slope_matrix(width)
    # One interval and no other: at a knot, rounding of `t` would allow both of its neighbours, or none.
    beyond = (x >= knots[:-1]).at[..., 0].set(True)
    inside = beyond & ~jnp.pad(beyond[..., 1:], [*[(0, 0)] * (x.ndim - 1), (0, 1)])
    t = jnp.where(inside, (x - knots[:-1]) / width, 0.0)
    left = jnp.where(inside, (1 + 2 * t) * (1 - t) ** 2, 0.0)
    right = jnp.where(inside, t**2 * (3 - 2 * t), 0.0)
    left_slope = jnp.where(inside, width * t * (1 - t) ** 2, 0.0)
    right_slope = jnp.where(inside, width * t**2 * (t - 1), 0.0)
    values, gradients = _to_knots(left, right), _to_knots(left_slope, right_slope)
    return values + gradients @ slopes


def _to_knots(left, right):
    pad = [(0, 0)] * (left.ndim - 1)
    return jnp.pad(left, [*pad, (0, 1)]) + jnp.pad(right, [*pad, (1, 0)])


def _slope_matrix(width: Float[Array, " k-1"]) -> Float[Array, "k k"]:
    """The matrix from values at the knots to slopes: of the parabola through three neighbours."""
    k = width.shape[0] + 1
    chord = (np.eye(k)[1:] - np.eye(k)[:-1]) / width[:, None]
    if k == 2:
        return jnp.concatenate([chord, chord])
    share = (width[1:] / (width[:-1] + width[1:]))[:, None]
    middle = share * chord[:-1] + (1 - share) * chord[1:]
    return jnp.concatenate([2 * chord[:1] - middle[:1], middle, 2 * chord[-1:] - middle[-1:]])
