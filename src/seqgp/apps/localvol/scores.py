"""How well draws of prices agree with quotes, expiration by expiration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from seqgp.apps.localvol.posterior import central, volatility_draws
from seqgp.apps.localvol.tables import Table

BP = 1e4
FEWEST = 3  # quotes of an expiration before it is flagged
MISFIT = 3.0  # root mean square of standardised errors above which an expiration does not fit
MISSED = 0.5  # share of quotes inside their intervals below which it does not


class QuoteDraws(NamedTuple):
    """Quotes, the model's prices for them, and new quotes: model prices with noise."""

    table: Table
    prices: Float[np.ndarray, "draws quotes"]
    observable: Float[np.ndarray, "draws quotes"]

    def errors(self) -> Float[np.ndarray, " quotes"]:
        """The posterior mean price's implied volatility minus the quote's, in basis points."""
        mean = volatility_draws(self.table, self.prices.mean(axis=0, keepdims=True))[0]
        return BP * (mean - self.table["implied_volatility"].to_numpy(float))

    def inside(self, probability: float = 0.95) -> np.ndarray:
        """Whether each quote lies in the central interval of new quotes."""
        low, high = central(self.observable, probability)
        price = self.table["price"].to_numpy(float)
        return (price >= low) & (price <= high)

    def standardised(self) -> Float[np.ndarray, " quotes"]:
        """Errors of the prices over the predictive standard deviation."""
        return (self.table["price"].to_numpy(float) - self.observable.mean(axis=0)) / self.observable.std(axis=0)

    def to_frame(self, probability: float = 0.95) -> Table:
        """One row a quote: model price with its credible interval, the interval of new quotes, the error in bp."""
        low, high = central(self.prices, probability)
        new_low, new_high = central(self.observable, probability)
        return self.table.assign(
            model_price=self.prices.mean(axis=0),
            model_low=low,
            model_high=high,
            quote_low=new_low,
            quote_high=new_high,
            error_bp=self.errors(),
        )

    def by_expiration(self, probability: float = 0.95) -> Table:
        """One row an expiration, and one for all: RMSE in bp, share inside bid-ask, coverage, and whether it fits."""
        half = self.table["half_spread"].to_numpy(float)
        off = np.abs(self.prices.mean(axis=0) - self.table["price"].to_numpy(float))
        columns = pd.DataFrame(
            {
                "expiration": self.table["expiration"].to_numpy(),
                "squared": self.errors() ** 2,
                "inside_bid_ask": np.where(np.isnan(half), np.nan, off <= half),
                "coverage": self.inside(probability).astype(float),
                "squared_z": self.standardised() ** 2,
            }
        )
        rows = {name: _summary(group) for name, group in columns.groupby("expiration")}
        result = pd.DataFrame([*rows.values(), _summary(columns)], index=pd.Index([*rows, "all"], name="expiration"))
        return result.assign(quotes=result["quotes"].astype(int), flagged=result["flagged"].astype(bool))


def _summary(rows: Table) -> dict[str, float]:
    spread, missed = float(np.sqrt(rows["squared_z"].mean())), float(rows["coverage"].mean())
    return {
        "quotes": len(rows),
        "rmse_bp": float(np.sqrt(rows["squared"].mean())),
        "inside_bid_ask": float(rows["inside_bid_ask"].mean()),
        "coverage": missed,
        "rms_z": spread,
        "flagged": len(rows) >= FEWEST and (spread > MISFIT or missed < MISSED),
    }
