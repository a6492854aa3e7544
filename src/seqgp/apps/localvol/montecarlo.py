"""Path-dependent payoffs under the posterior: what the surface's uncertainty costs, apart from Monte Carlo error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from seqgp.apps.localvol.posterior import SurfaceDraws
from seqgp.apps.localvol.surface import Surface

Payoff = Callable[..., Array]  # of a path, `(steps + 1,)`, or where it is `bridged` also of the variances, `(steps,)`
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
    control: bool = False,
    dividends: Iterable[tuple[float, float]] = (),
) -> MonteCarloPrice:
    """The discounted mean of a payoff under the draws of a surface.

    Args:
        key: a random key.
        surface: of `LocalVolFit.surface`.
        payoff: a JAX function from one path of the underlying, today's price first, to a number; or of the path and
            the variances of its steps, where it has the attribute `bridged`. What is paid early is paid with interest.
        maturity: in years.
        paths: for each draw, in antithetic pairs.
        steps: in time; at least 100 a year by default.
        draws: how many of the surface's draws to use, evenly spread; all by default.
        control: use the underlying, whose mean is the forward, as a control variate; for payoffs that are nearly linear
            in it and a few hundred paths or more, since its weight is estimated from them.
        dividends: times in years and cash amounts. The forwards of the quotes hold them already, in the mean over time;
            given here, paths fall by them on their days, in proportion to the underlying.
    """
    steps = steps or max(16, int(np.ceil(STEPS_A_YEAR * maturity)))
    times = np.linspace(0.0, maturity, steps + 1)
    curve = surface.curve.with_dividends(dividends)
    chosen = np.linspace(0, len(surface.values) - 1, draws or len(surface.values)).astype(int)
    keys = jax.random.split(key, len(chosen))
    pairs = max(2, paths // 2)
    knots = (jnp.asarray(surface.maturities), jnp.asarray(surface.log_moneyness))
    values = (jnp.asarray(surface.values)[chosen], jnp.asarray(surface.moved)[chosen])
    means, variances = _nested(payoff, pairs, control, keys, knots, values, times, jnp.asarray(curve.forward(times)))
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
def _nested(payoff: Payoff, pairs: int, control: bool, keys, knots, values, times, forwards):
    """For each draw of the surface, the mean payoff over its own paths, and the variance of that mean."""

    def one(inputs):
        key, (knot_values, shift) = inputs
        log_paths, variances = simulate_paths(key, Surface(knots[0], knots[1] - shift, knot_values), times, pairs)
        paths = forwards * jnp.exp(log_paths)
        bridged = getattr(payoff, "bridged", False)
        paid = jax.vmap(payoff)(paths, variances) if bridged else jax.vmap(payoff)(paths)
        worth, ends = (values.reshape(2, pairs).mean(axis=0) for values in (paid, paths[:, -1] - forwards[-1]))
        if not control:
            return worth.mean(), worth.var(ddof=1) / pairs
        slope = jnp.sum((worth - worth.mean()) * (ends - ends.mean())) / (jnp.sum((ends - ends.mean()) ** 2) + 1e-300)
        better = worth - slope * ends
        return better.mean(), better.var(ddof=2) / pairs

    return jax.lax.map(one, (keys, values))


def simulate_paths(
    key: Key[Array, ""], sigma: Surface, times: Float[Array, " steps+1"], pairs: int
) -> tuple[Float[Array, " 2*pairs steps+1"], Float[Array, " 2*pairs steps"]]:
    """Paths of `log(S/F)`, each with its mirror image, and the variances of their steps.

    Euler steps in the logarithm, volatility at mid-step.
    """
    steps = len(times) - 1
    half = jax.random.normal(key, (steps, pairs))
    shocks = jnp.concatenate([half, -half], axis=1)

    def advance(log_moneyness, inputs):
        start, end, shock = inputs
        volatility = sigma(0.5 * (start + end), log_moneyness) * jnp.sqrt(end - start)
        after = log_moneyness + volatility * shock - 0.5 * volatility**2
        return after, (after, volatility**2)

    begin = jnp.zeros(2 * pairs)
    inputs = (jnp.asarray(times[:-1]), jnp.asarray(times[1:]), shocks)
    _, (path, variances) = jax.lax.scan(advance, begin, inputs)
    return jnp.concatenate([begin[:, None], path.T], axis=1), variances.T


def digital(strike: float, is_call: bool = True) -> Payoff:
    """Pays one where the underlying ends above the strike (below it, for a put)."""
    sign = 1.0 if is_call else -1.0
    return lambda path: jnp.where(sign * (path[-1] - strike) > 0, 1.0, 0.0)


def vanilla(strike: float, is_call: bool = True) -> Payoff:
    """A call or a put, for comparison with the pricer."""
    sign = 1.0 if is_call else -1.0
    return lambda path: jnp.maximum(sign * (path[-1] - strike), 0.0)


def asian(strike: float, is_call: bool = True) -> Payoff:
    """A call or a put on the mean of the path after today."""
    sign = 1.0 if is_call else -1.0
    return lambda path: jnp.maximum(sign * (jnp.mean(path[1:]) - strike), 0.0)


def autocallable(
    level: float, coupon: float, dates: int, protection: float, notional: float = 1.0, rate: float = 0.0
) -> Payoff:
    """A note that is called at the first of equidistant dates at which the underlying is not below a level.

    It then pays the notional and a coupon for each date so far. At the end, if it was never called, it pays the
    notional, or, below the protection, the notional in proportion to the underlying.

    Args:
        level: of the underlying, above which it is called.
        coupon: for each date, as a share of the notional.
        dates: how many, the last at maturity.
        protection: the level of the underlying below which the notional is at risk.
        notional: what it is written on.
        rate: at which what is paid early earns interest until maturity, for each period between dates.
    """

    def payoff(path):
        steps = len(path) - 1
        at = path[np.round(np.arange(1, dates + 1) * steps / dates).astype(int)]
        called = at >= level
        first = jnp.argmax(called)
        early = notional * (1 + coupon * (first + 1)) * jnp.exp(rate * (dates - 1 - first))
        late = notional * jnp.where(at[-1] < protection, at[-1] / path[0], 1.0)
        return jnp.where(jnp.any(called), early, late)

    return payoff


class Barrier(NamedTuple):
    """A call or a put that ends to exist (out), or begins to (in), where the path crosses a level at any time.

    Between its steps a path is a Brownian bridge, so that the chance of a crossing is known: the price is that of a
    barrier that is watched all the time, whatever the steps.
    """

    strike: float
    level: float
    up: bool
    out: bool
    is_call: bool
    bridged: bool

    def __call__(self, path: Float[Array, " steps+1"], variances: Float[Array, " steps"] | None = None) -> Array:
        """What is paid at the end of one path."""
        worth = vanilla(self.strike, self.is_call)(path)
        room = jnp.log(self.level / path) if self.up else jnp.log(path / self.level)
        if variances is None:
            alive = jnp.where(jnp.min(room) > 0, 1.0, 0.0)
        else:
            safe = (room[:-1] > 0) & (room[1:] > 0)
            missed = -jnp.expm1(-2 * room[:-1] * room[1:] / variances)
            alive = jnp.prod(jnp.where(safe, missed, 0.0))
        return worth * (alive if self.out else 1 - alive)


def barrier(
    strike: float,
    level: float,
    kind: Literal["up-and-out", "up-and-in", "down-and-out", "down-and-in"],
    is_call: bool = True,
    continuous: bool = True,
) -> Barrier:
    """A barrier option; watched all the time, or with `continuous=False` at the steps of the paths alone."""
    way, _, effect = kind.partition("-and-")
    if way not in ("up", "down") or effect not in ("in", "out"):
        raise ValueError(f"barrier: kind = {kind!r}; expected up or down, -and-, in or out")
    return Barrier(strike, level, way == "up", effect == "out", is_call, continuous)
