"""The risk-neutral density of the underlying at each expiration, with bands (Breeden and Litzenberger 1978)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from seqgp.apps.localvol.posterior import central, price_draws
from seqgp.apps.localvol.solver import plan_quotes
from seqgp.apps.localvol.tables import Table

REACH = 3.5  # deviations on either side of the forward


def densities(fit: Any, probability: float = 0.95, points: int = 61) -> Table:
    """The density `∂²C/∂K² / D` at strikes around the forward of each expiration of the last day.

    Args:
        fit: a `LocalVolFit`.
        probability: of the bands.
        points: strikes of an expiration, equidistant.

    Returns:
        one row a strike: `expiration, maturity, forward, strike, mean, low, high`.
    """
    model, day, state = fit.model, fit.last.quotes, fit.state
    shifts, values = model.shifts(state, model.move(day)), model.values(state.latent)
    level = float(day.table["implied_volatility"].median())
    parts = []
    for row in day.forwards[day.forwards["expiration"].isin(day.table["expiration"])].itertuples():
        wide = REACH * level * np.sqrt(row.maturity)
        strikes, step = np.linspace(row.forward * np.exp(-wide), row.forward * np.exp(wide), points + 2, retstep=True)
        knots = (model.maturities, model.log_moneyness)
        plan = plan_quotes(
            np.full(len(strikes), row.maturity),
            strikes,
            row.forward,
            row.discount,
            True,
            model.grid,
            level,
            knots=knots,
        )
        prices = price_draws(plan, values, model.log_moneyness, shifts) / row.discount
        bent = (prices[:, 2:] - 2 * prices[:, 1:-1] + prices[:, :-2]) / step**2
        low, high = central(bent, probability)
        part = {"expiration": row.expiration, "maturity": row.maturity, "forward": row.forward, "strike": strikes[1:-1]}
        parts.append(pd.DataFrame(part | {"mean": bent.mean(axis=0), "low": low, "high": high}))
    return pd.concat(parts, ignore_index=True)
