"""Path-dependent payoffs under the posterior: what the surface's uncertainty costs, apart from Monte Carlo error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from seqgp.apps.localvol.posterior import SurfaceDraws
from seqgp.apps.localvol.surface import Surface

Payoff = Callable[[Float[Array, " steps+1"]], Float[Array, ""]]
STEPS_A_YEAR = 100


class MonteCarloPrice(NamedTuple):
    """A price under the posterior, and where its uncertainty comes from.

    With `m_i` the mean over the paths of draw `i` and `v_i` the variance of that mean, `var(m_i) = parameter variance +
    mean(v_i)`: the first term is what is not known of the surface, the second falls with the number of paths.

    Attributes:
        mean: the price.
        parameter_sd: standard deviation of the price over surfaces, Monte Carlo error removed.
        path_sd: standard deviation of one draw's mean over its paths.
        standard_error: of `mean`, from the number of draws and of paths together.
        path_error: the part of it that more paths would remove.
        draws: the mean over paths for each draw.
    """

    mean: float
    parameter_sd: float
    path_sd: float
    standard_error: float
    path_error: float
    draws: Float[np.ndarray, " draws"]


def price_payoff(
    key: Key[Array, ""],
    surface: SurfaceDraws,
    payoff: Payoff,
    maturity: float,
    paths: int = 512,
    steps: int | None = None,
    draws: int | None = None,
) -> MonteCarloPrice:
    """The discounted mean of a payoff under the draws of a surface.

    Args:
        key: a random key.
        surface: of `LocalVolFit.surface`.
        payoff: a JAX function from one path of the underlying, today's price first, to a number.
        maturity: in years.
        paths: for each draw, in antithetic pairs.
        steps: in time; at least 100 a year by default. Barriers are watched at these times.
        draws: how many of the surface's draws to use, evenly spread; all by default.
    """
    steps = steps or max(16, int(np.ceil(STEPS_A_YEAR * maturity)))
    times = np.linspace(0.0, maturity, steps + 1)
    curve = surface.curve
    chosen = np.linspace(0, len(surface.values) - 1, draws or len(surface.values)).astype(int)
    keys = jax.random.split(key, len(chosen))
    pairs = max(2, paths // 2)
    knots = (jnp.asarray(surface.maturities), jnp.asarray(surface.log_moneyness))
    values = jnp.asarray(surface.values)[chosen]
    means, variances = _nested(payoff, pairs, keys, knots, values, times, jnp.asarray(curve.forward(times)))
    factor = float(curve.discount(maturity)[0])
    means, variances = factor * np.asarray(means), factor**2 * np.asarray(variances)
    between, within, count = means.var(ddof=1), variances.mean(), len(means)
    return MonteCarloPrice(
        mean=float(means.mean()),
        parameter_sd=float(np.sqrt(max(between - within, 0.0))),
        path_sd=float(np.sqrt(within)),
        standard_error=float(np.sqrt(between / count)),
        path_error=float(np.sqrt(within / count)),
        draws=means,
    )


@eqx.filter_jit
def _nested(payoff: Payoff, pairs: int, keys, knots, values, times, forwards):
    """For each draw of the surface, the mean payoff over its own paths, and the variance of that mean."""

    def one(inputs):
        key, knot_values = inputs
        log_paths = simulate_paths(key, Surface(knots[0], knots[1], knot_values), times, pairs)
        worth = jax.vmap(payoff)(forwards * jnp.exp(log_paths)).reshape(2, pairs).mean(axis=0)
        return worth.mean(), worth.var(ddof=1) / pairs

    return jax.lax.map(one, (keys, values))


def simulate_paths(
    key: Key[Array, ""], sigma: Surface, times: Float[Array, " steps+1"], pairs: int
) -> Float[Array, " 2*pairs steps+1"]:
    """Paths of `log(S/F)`, each with its mirror image: Euler steps in the logarithm, volatility at mid-step."""
    steps = len(times) - 1
    half = jax.random.normal(key, (steps, pairs))
    shocks = jnp.concatenate([half, -half], axis=1)

    def advance(log_moneyness, inputs):
        start, end, shock = inputs
        volatility = sigma(0.5 * (start + end), log_moneyness) * jnp.sqrt(end - start)
        after = log_moneyness + volatility * shock - 0.5 * volatility**2
        return after, after

    begin = jnp.zeros(2 * pairs)
    _, path = jax.lax.scan(advance, begin, (jnp.asarray(times[:-1]), jnp.asarray(times[1:]), shocks))
    return jnp.concatenate([begin[:, None], path.T], axis=1)


def digital(strike: float, is_call: bool = True) -> Payoff:
    """Pays one where the underlying ends above the strike (below it, for a put)."""
    sign = 1.0 if is_call else -1.0
    return lambda path: jnp.where(sign * (path[-1] - strike) > 0, 1.0, 0.0)


def vanilla(strike: float, is_call: bool = True) -> Payoff:
    """A call or a put, for comparison with the pricer."""
    sign = 1.0 if is_call else -1.0
    return lambda path: jnp.maximum(sign * (path[-1] - strike), 0.0)


def barrier(
    strike: float,
    level: float,
    kind: Literal["up-and-out", "up-and-in", "down-and-out", "down-and-in"],
    is_call: bool = True,
) -> Payoff:
    """A call or a put that ends to exist (out), or begins to (in), where the path crosses a level."""
    way, _, effect = kind.partition("-and-")
    if way not in ("up", "down") or effect not in ("in", "out"):
        raise ValueError(f"barrier: kind = {kind!r}; expected up or down, -and-, in or out")
    plain = vanilla(strike, is_call)

    def payoff(path):
        touched = jnp.max(path) >= level if way == "up" else jnp.min(path) <= level
        return jnp.where(touched == (effect == "in"), plain(path), 0.0)

    return payoff
