"""Sensitivities of options under every draw of the surface: delta along the market's stickiness, vega by maturity."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from seqgp.apps.localvol.forwards import ForwardCurve
from seqgp.apps.localvol.posterior import central, price_draws
from seqgp.apps.localvol.quotes import Quotes
from seqgp.apps.localvol.solver import PricingPlan, plan_quotes, quote_prices
from seqgp.apps.localvol.surface import knot_weights
from seqgp.apps.localvol.tables import Table

BUMP = 1e-3  # of the log of the spot


def greeks(fit: Any, quotes: Quotes | None = None, probability: float = 0.95) -> Table:
    """Delta and vega of each quote of the last day, with bands.

    Delta is the change of the price with the spot when the surface moves as each draw's stickiness and leverage say.
    Vega is the change when local volatility moves by one at all strikes of a knot of maturity: `vega_0.25`, say; their
    sum is the change when it moves everywhere.

    Args:
        fit: a `LocalVolFit`, after at least one day.
        quotes: other options of the same day.
        probability: of the bands.
    """
    day = fit.last.quotes if quotes is None else quotes
    model, state = fit.model, fit.state
    delta = delta_draws(model, state, day)
    low, high = central(delta, probability)
    columns: dict[str, Any] = {"delta": delta.mean(axis=0), "delta_low": low, "delta_high": high}
    shifts = model.shifts(state, model.move(day))
    vega = vega_draws(model.plan(day), model.values(state.latent), model.log_moneyness, shifts)
    for i, T in enumerate(model.maturities):
        low, high = central(vega[:, i], probability)
        columns |= {f"vega_{T:.3g}": vega[:, i].mean(axis=0), f"vega_{T:.3g}_low": low, f"vega_{T:.3g}_high": high}
    kept = ["quote_date", "expiration", "maturity", "strike", "option_type", "price"]
    return day.table[kept].assign(**columns)


def delta_draws(model: Any, state: Any, day: Quotes) -> Float[np.ndarray, "draws quotes"]:
    """Of each quote, under each draw: central differences in the spot."""
    spot, ends = ForwardCurve.from_table(day.forwards).spot, []
    parameters = jax.vmap(model.model.parameters)(jnp.asarray(state.z))
    leverage = np.asarray(parameters.get("mean.spot", np.zeros(len(np.asarray(state.z)))))
    table = day.table
    T, K, F, D = (table[name].to_numpy(float) for name in ("maturity", "strike", "forward", "discount"))
    call, knots = (table["option_type"] == "C").to_numpy(), (model.maturities, model.log_moneyness)
    for h in (-BUMP, BUMP):
        plan = plan_quotes(T, K, F * np.exp(h), D, call, model.grid, model.volatility, knots=knots)
        values = model.values(np.asarray(state.latent) + h * leverage[:, None])
        ends.append(price_draws(plan, values, model.log_moneyness, model.shifts(state, model.move(day) + h)))
    return (ends[1] - ends[0]) / (spot * (np.exp(BUMP) - np.exp(-BUMP)))


def vega_draws(
    plan: PricingPlan, values: Float[ArrayLike, "draws a b"], knots: Float[ArrayLike, " b"], shifts: ArrayLike
) -> Float[np.ndarray, "draws a quotes"]:
    """The derivative of each planned price in local volatility at each knot of maturity, under each draw."""
    found = _vegas(plan, jnp.asarray(values), jnp.asarray(knots), jnp.asarray(shifts))
    return np.asarray(found)[:, :, : len(plan.moneyness)]


@eqx.filter_jit
def _vegas(plan: Any, values: Array, knots: Array, shifts: Array) -> Array:
    def one(inputs):
        surface, shift = inputs
        in_strike = knot_weights(knots, jnp.asarray(plan.grid.y) + shift)

        def price(by_maturity):
            moved = surface + by_maturity[:, None]
            return quote_prices(plan, jnp.exp(plan.in_time @ jnp.log(moved) @ in_strike.T))

        return jax.jacfwd(price)(jnp.zeros(surface.shape[0])).T

    return jax.lax.map(one, (values, shifts))
