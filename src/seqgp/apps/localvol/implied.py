"""Black's formula on the forward, its vega, and its inversion.

All functions broadcast their arguments. Prices are discounted; `maturity` is in years.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import log_ndtr, ndtr
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

_ITERATIONS = 18
_SQRT_2PI = 2.5066282746310002


@jax.jit
def black_price(
    volatility: Float[ArrayLike, "..."],
    maturity: Float[ArrayLike, "..."],
    strike: Float[ArrayLike, "..."],
    forward: Float[ArrayLike, "..."] = 1.0,
    discount: Float[ArrayLike, "..."] = 1.0,
    is_call: Bool[ArrayLike, "..."] = True,
) -> Float[Array, "..."]:
    """Price of a European call, or put where `is_call` is false."""
    sign = jnp.where(is_call, 1.0, -1.0)
    upper, lower = _deviations(jnp.asarray(volatility) * jnp.sqrt(maturity), jnp.log(jnp.asarray(forward) / strike))
    return sign * (ndtr(sign * upper) * forward - ndtr(sign * lower) * strike) * discount


@jax.jit
def black_vega(
    volatility: Float[ArrayLike, "..."],
    maturity: Float[ArrayLike, "..."],
    strike: Float[ArrayLike, "..."],
    forward: Float[ArrayLike, "..."] = 1.0,
    discount: Float[ArrayLike, "..."] = 1.0,
) -> Float[Array, "..."]:
    """Derivative of the price in the volatility: the same for calls and puts."""
    root = jnp.sqrt(maturity)
    upper, _ = _deviations(jnp.asarray(volatility) * root, jnp.log(jnp.asarray(forward) / strike))
    return jnp.exp(-0.5 * upper**2) / _SQRT_2PI * root * forward * discount


@jax.custom_jvp
@jax.jit
def implied_volatility(
    price: Float[ArrayLike, "..."],
    maturity: Float[ArrayLike, "..."],
    strike: Float[ArrayLike, "..."],
    forward: Float[ArrayLike, "..."] = 1.0,
    discount: Float[ArrayLike, "..."] = 1.0,
    is_call: Bool[ArrayLike, "..."] = True,
) -> Float[Array, "..."]:
    """The volatility at which Black's formula gives the price.

    Zero where the price is the intrinsic value, NaN where it lies outside the bounds of no arbitrage. Derivatives in
    all arguments are those of the implicit function. An in-the-money price loses, in rounding, the digits that its
    intrinsic value takes: prefer the option out of the money.
    """
    price, maturity, strike, forward = (jnp.asarray(v, dtype=float) for v in (price, maturity, strike, forward))
    sign = jnp.where(is_call, 1.0, -1.0)
    middle = jnp.sqrt(forward * strike)
    value = (price / discount - jnp.maximum(sign * (forward - strike), 0.0)) / middle
    distance = jnp.abs(jnp.log(forward / strike))
    total = _total_volatility(*jnp.broadcast_arrays(value, distance))
    return total / jnp.sqrt(maturity)


@implied_volatility.defjvp
def _implied_volatility_jvp(primals, tangents):
    rest = list(primals[1:])
    volatility = implied_volatility(*primals)
    flag = rest.pop() if len(rest) == 5 else True
    price_dot, *rest_dot = tangents[: len(rest) + 1]

    def at_fixed_volatility(*arguments):
        return black_price(volatility, *arguments, is_call=flag)

    floats = [jnp.asarray(v, dtype=float) for v in rest]
    dots = [
        jnp.zeros_like(v) if t.dtype == jax.dtypes.float0 else t for v, t in zip(floats, map(jnp.asarray, rest_dot))
    ]
    _, moved = jax.jvp(at_fixed_volatility, tuple(floats), tuple(dots))
    return volatility, (price_dot - moved) / black_vega(volatility, *floats)


def _deviations(total, log_ratio):
    """`d1` and `d2`; at zero volatility the limits, infinite away from the money."""
    safe = jnp.where(total > 0, total, 1.0)
    at_zero = jnp.where(log_ratio == 0, 0.0, jnp.sign(log_ratio) * jnp.inf)
    centre = jnp.where(total > 0, log_ratio / safe, lax.stop_gradient(at_zero))
    return centre + total / 2, centre - total / 2


@jax.jit
def _total_volatility(value: Float[Array, "..."], distance: Float[Array, "..."]) -> Float[Array, "..."]:
    """Solve for `σ√T`, given an out-of-the-money value over `√(F K)` and `|log(F/K)|`.

    Newton's method for the logarithm of the value (of what it lacks to its bound, above the point of inflection), in
    which both branches are almost straight; steps that leave the bracket are replaced by its middle.
    """
    bound = jnp.exp(-distance / 2)
    valid = (value > 0) & (value < bound)
    target = jnp.where(valid, value, bound / 2)
    inflection = jnp.sqrt(2 * distance)
    low_branch = target < _normalised(jnp.maximum(inflection, 1e-12), distance)

    def improve(_, state):
        low, high, s = state
        current = _normalised(s, distance)
        low, high = jnp.where(current < target, s, low), jnp.where(current < target, high, s)
        slope = jnp.exp(-0.5 * ((distance / s) ** 2 + (s / 2) ** 2)) / _SQRT_2PI
        by_value = s - jnp.log(current / target) * current / slope
        by_rest = s + jnp.log((bound - current) / (bound - target)) * (bound - current) / slope
        step = jnp.where(low_branch, by_value, by_rest)
        # Only the far end can be overstepped: at the near one, `s` itself, the step is zero.
        good = jnp.where(current < target, step < high, step > low) | (current == target)
        return low, high, jnp.where(good, step, (low + high) / 2)

    low, high = jnp.zeros_like(target), jnp.full_like(target, 80.0)
    start = jnp.where(low_branch & (distance > 0), inflection, jnp.maximum(inflection, 1.0))
    _, _, total = lax.fori_loop(0, _ITERATIONS, improve, (low, high, start))
    return jnp.where(valid, total, jnp.where(value == 0, 0.0, jnp.nan))


def _normalised(s, distance):
    """Black's out-of-the-money value over `√(F K)`, from logarithms, so that tails keep their digits."""
    upper, lower = -distance / s + s / 2, -distance / s - s / 2
    log_first, log_second = log_ndtr(upper) - distance / 2, log_ndtr(lower) + distance / 2
    return jnp.exp(log_first) * -jnp.expm1(log_second - log_first)
