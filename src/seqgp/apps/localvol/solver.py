"""Call prices under local volatility, by the forward (Dupire) equation.

With `u = C / (D F)` and `k = K / F = e^y`, one solve of `u_T = ½ σ²(T, y) (u_yy − u_y) = ½ σ² k² u_kk` from
`u(0) = (1 − k)^+` prices all strikes and maturities; rates and dividends are in the forward `F` and the discount `D`.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from seqgp.apps.localvol.grid import GridSize, Mesh, build_grid
from seqgp.apps.localvol.interpolation import NEIGHBOURS, convex_cubic, first_neighbour
from seqgp.apps.localvol.march import convex_time_values, time_values
from seqgp.apps.localvol.surface import Surface, knot_weights

Volatility = Surface | Callable[[Array, Array], Array]


def call_prices(
    sigma: Volatility,
    maturities: Float[ArrayLike, " maturities"],
    strikes: Float[ArrayLike, " strikes"],
    forward: Float[ArrayLike, "..."] = 1.0,
    discount: Float[ArrayLike, "..."] = 1.0,
    grid: str | GridSize | tuple[int, int] = "1bp",
    volatility: float = 0.25,
) -> Float[Array, "maturities strikes"]:
    """Prices of calls at every maturity and strike.

    Differentiable in `sigma`; runs under `jit` and `vmap`. The maturities fix the time steps and have to be known when
    the function is traced; everything else may be traced.

    Args:
        sigma: local volatility, a JAX function of numbers `(T, y)` with `y = log(K/F)`, or a `Surface`.
        maturities: in years, in any order.
        strikes: positive.
        forward: one number, or one per maturity.
        discount: one number, or one per maturity.
        grid: a requested error in implied volatility within two deviations, as in `"1bp"`, or `GridSize(nodes, steps)`.
        volatility: a typical level, which only places the nodes.
    """
    times = _concrete(maturities)
    if times is None:
        raise TypeError("call_prices: maturities are traced, but they fix the time steps; pass them as NumPy values")
    times, row = np.unique(np.atleast_1d(times), return_inverse=True)
    forward = jnp.broadcast_to(jnp.asarray(forward, dtype=float), row.shape)
    discount = jnp.broadcast_to(jnp.asarray(discount, dtype=float), row.shape)
    moneyness = jnp.atleast_1d(jnp.asarray(strikes, dtype=float)) / forward[:, None]
    known = _concrete(moneyness)
    mesh, index = build_grid(times, None if known is None else np.log(known), grid, volatility)
    u = _call_rows(mesh, local_volatility(mesh, sigma), index[row] - 1, moneyness)
    return (discount * forward)[:, None] * u


@jax.jit
def _call_rows(grid: Mesh, sigma, step: Int[Array, " rows"], k: Float[Array, "rows strikes"]):
    """Calls over `D F`: a row for each of the given steps, at its own moneyness."""
    nodes = jnp.exp(grid.y)
    calls = convex_time_values(grid, sigma)[step] + jnp.maximum(1 - nodes, 0.0)
    around = first_neighbour(nodes, k)[..., None] + np.arange(NEIGHBOURS)
    u = convex_cubic(nodes[around], calls[np.arange(k.shape[0])[:, None, None], around], k)
    return jnp.where((k > nodes[0]) & (k < nodes[-1]), u, jnp.maximum(1 - k, 0.0))


class PricingPlan(eqx.Module):
    """Everything about a day's quotes that pricing needs, computed in advance.

    Attributes:
        grid: the mesh.
        step: for each quote, the row of the time values at its maturity.
        node: for each quote, the first of the six nodes around its strike.
        moneyness: of each quote, `K/F`.
        around: moneyness of the six nodes.
        payoff: at the six nodes: what their time values lack to the price.
        scale: discount times forward; zero for padding.
        in_time: weights of the knots' maturities at the steps, for `knot_prices`.
        in_strike: weights of the knots' log-moneyness at the nodes.
    """

    grid: Mesh
    step: Int[np.ndarray, " quotes"]
    node: Int[np.ndarray, " quotes"]
    moneyness: Float[np.ndarray, " quotes"]
    around: Float[np.ndarray, "quotes 6"]
    payoff: Float[np.ndarray, "quotes 6"]
    scale: Float[np.ndarray, " quotes"]
    in_time: Float[np.ndarray, "steps a"]
    in_strike: Float[np.ndarray, "nodes b"]


def plan_quotes(
    maturities: Float[ArrayLike, " quotes"],
    strikes: Float[ArrayLike, " quotes"],
    forward: Float[ArrayLike, "..."] = 1.0,
    discount: Float[ArrayLike, "..."] = 1.0,
    is_call: ArrayLike = True,
    grid: str | GridSize | tuple[int, int] = "1bp",
    volatility: float = 0.25,
    pad_to: int | None = None,
    knots: tuple[ArrayLike, ArrayLike] = ((), ()),
) -> PricingPlan:
    """Prepare the pricing of scattered quotes, each with its own maturity and strike.

    A `PricingPlan` is a tree of arrays whose shapes depend on the grid's size and the number of quotes only: pass it
    as an argument to a compiled function, and another day of the same sizes does not compile again.

    Args:
        maturities: one per quote.
        strikes: one per quote.
        forward: one number, or one per quote.
        discount: one number, or one per quote.
        is_call: true for a call, false for a put; one value, or one per quote.
        grid: a requested error or the sizes, as in `call_prices`.
        volatility: a typical level, which only places the nodes.
        pad_to: the number of quotes to pad to; padding has the price zero.
        knots: maturities and log-moneyness of a `Surface`, if `knot_prices` is to be used.
    """
    maturity, strike, forward_q, discount_q, call = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(v)) for v in (maturities, strikes, forward, discount, is_call))
    )
    if maturity.ndim != 1 or not np.all((strike > 0) & (forward_q > 0) & (discount_q > 0)):
        raise ValueError("plan_quotes: expected lists of quotes, with positive strikes, forwards and discounts")
    k = strike / forward_q
    times, row = np.unique(maturity, return_inverse=True)
    mesh, index = build_grid(times, np.log(k), grid, volatility)
    nodes = np.exp(mesh.y)
    node = np.asarray(first_neighbour(nodes, _pad(k, pad_to)))[: len(k)]
    around = nodes[node[:, None] + np.arange(NEIGHBOURS)]
    payoff = np.where(call[:, None], np.maximum(1 - around, 0.0), np.maximum(around - 1, 0.0))
    step, node, k, around, payoff = (_pad(v, pad_to) for v in (index[row] - 1, node, k, around, payoff))
    scale = np.pad(discount_q * forward_q, (0, len(k) - len(strike)))
    places = (mesh.times, mesh.y)
    in_time, in_strike = (np.asarray(knot_weights(jnp.asarray(x, dtype=float), p)) for x, p in zip(knots, places))
    return PricingPlan(mesh, step, node, k, around, payoff, scale, in_time, in_strike)


def quote_prices(
    plan: PricingPlan, sigma: Volatility | Float[Array, "steps nodes"], convex: bool = False
) -> Float[Array, " quotes"]:
    """Prices of the planned quotes under a local volatility.

    Args:
        plan: of `plan_quotes`.
        sigma: a function of `(T, y)`, a `Surface`, or the values at `plan.grid.times` and `plan.grid.y`.
        convex: rule out butterfly arbitrage even where the volatility changes by an order of magnitude from node to
            node, as `call_prices` does; at three times the cost under `vmap`.
    """
    march = convex_time_values if convex else time_values
    return _quotes_from(plan, march(plan.grid, local_volatility(plan.grid, sigma)))


@jax.jit
def _quotes_from(plan: PricingPlan, history: Float[Array, "steps nodes"]) -> Float[Array, " quotes"]:
    values = history[plan.step[:, None], plan.node[:, None] + np.arange(NEIGHBOURS)] + plan.payoff
    return convex_cubic(plan.around, values, plan.moneyness) * plan.scale


def knot_prices(plan: PricingPlan, values: Float[Array, "a b"], convex: bool = False) -> Float[Array, " quotes"]:
    """Prices of the planned quotes under `Surface(*knots, values)`, its interpolation being part of the plan."""
    return quote_prices(plan, jnp.exp(plan.in_time @ jnp.log(values) @ plan.in_strike.T), convex)


def local_volatility(grid: Mesh, sigma: Volatility | Float[Array, "steps nodes"]) -> Float[Array, "steps nodes"]:
    """Volatility at the steps and nodes of the grid."""
    if isinstance(sigma, Surface):
        return sigma.on_grid(grid.times, grid.y)
    if not callable(sigma):
        return jnp.asarray(sigma)
    pointwise = jax.vmap(jax.vmap(sigma, (None, 0)), (0, None))
    return pointwise(jnp.asarray(grid.times), jnp.asarray(grid.y))


def _pad(values: np.ndarray, size: int | None) -> np.ndarray:
    if size is None:
        return values
    if size < len(values):
        raise ValueError(f"plan_quotes: pad_to = {size}, but there are {len(values)} quotes")
    return np.concatenate([values, np.repeat(values[:1], size - len(values), axis=0)])


def _concrete(values) -> np.ndarray | None:
    """The values as NumPy, or None where they are being traced."""
    return None if isinstance(values, Tracer) else np.asarray(values, dtype=float)
