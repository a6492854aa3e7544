"""What draws of the level say: surfaces, prices and smiles, with their uncertainty."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Bool, Float
from numpy.typing import ArrayLike

import seqgp
from seqgp.apps.localvol.forwards import ForwardCurve
from seqgp.apps.localvol.implied import implied_volatility
from seqgp.apps.localvol.solver import PricingPlan, knot_prices
from seqgp.apps.localvol.surface import Surface
from seqgp.apps.localvol.tables import Table

PRIOR_SHARE = 0.8  # of the prior's standard deviation, above which the prior dominates


class SurfaceDraws(eqx.Module):
    """Draws of a local-volatility surface, given by its knots.

    Attributes:
        maturities: of the knots, in years.
        log_moneyness: of the knots.
        values: local volatility at the knots, one surface a draw.
        prior_sd: standard deviation of `softplus⁻¹(σ)` before the data of any quote, at any one place.
        curve: forwards and discounts of the day.
    """

    maturities: Float[np.ndarray, " a"]
    log_moneyness: Float[np.ndarray, " b"]
    values: Float[Array, "draws a b"]
    prior_sd: float
    curve: ForwardCurve

    def on_grid(
        self,
        maturities: ArrayLike | None = None,
        strikes: ArrayLike | None = None,
        log_moneyness: ArrayLike | None = None,
    ) -> SurfaceGrid:
        """The draws at every pair of a maturity and a strike, or a log-moneyness; at the knots by default."""
        T = np.atleast_1d(np.asarray(self.maturities if maturities is None else maturities, dtype=float))
        if strikes is not None and log_moneyness is not None:
            raise ValueError("on_grid: give strikes or log_moneyness, not both")
        if strikes is None:
            y = np.atleast_1d(np.asarray(self.log_moneyness if log_moneyness is None else log_moneyness, float))
            draws = jax.vmap(lambda v: Surface(self.maturities, self.log_moneyness, v).on_grid(T, y))(self.values)
            places = np.broadcast_to(y, (len(T), len(y)))
        else:
            K = np.atleast_1d(np.asarray(strikes, dtype=float))
            places = np.log(K / self.curve.forward(T)[:, None])
            draws = jax.vmap(lambda v: Surface(self.maturities, self.log_moneyness, v)(T[:, None], places))(self.values)
        return SurfaceGrid(T, places, self.curve.forward(T)[:, None] * np.exp(places), np.asarray(draws), self.prior_sd)

    def draw(self, index: int) -> Surface:
        """One of the draws."""
        return Surface(self.maturities, self.log_moneyness, self.values[index])

    def mean(self) -> Surface:
        """The surface of the posterior means at the knots."""
        return Surface(self.maturities, self.log_moneyness, self.values.mean(axis=0))


class SurfaceGrid(eqx.Module):
    """Draws of local volatility on a grid.

    Attributes:
        maturities: in years.
        log_moneyness: at each place.
        strikes: at each place.
        draws: local volatility.
        prior_sd: of `softplus⁻¹(σ)`.
    """

    maturities: Float[np.ndarray, " m"]
    log_moneyness: Float[np.ndarray, "m n"]
    strikes: Float[np.ndarray, "m n"]
    draws: Float[np.ndarray, "draws m n"]
    prior_sd: float

    def mean(self) -> Float[np.ndarray, "m n"]:
        """The posterior mean."""
        return self.draws.mean(axis=0)

    def band(self, probability: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The central interval at each place, its lower and upper end."""
        return central(self.draws, probability)

    def prior_dominated(self, share: float = PRIOR_SHARE) -> Bool[np.ndarray, "m n"]:
        """Where the posterior is hardly narrower than the prior: quotes say little there."""
        level = np.asarray(seqgp.inverse_softplus(jnp.asarray(self.draws)))
        return level.std(axis=0) > share * self.prior_sd

    def to_frame(self, probability: float = 0.95) -> Table:
        """One row a place."""
        low, high = self.band(probability)
        columns = {
            "maturity": np.repeat(self.maturities, self.strikes.shape[1]),
            "strike": self.strikes,
            "log_moneyness": self.log_moneyness,
            "mean": self.mean(),
            "sd": self.draws.std(axis=0),
            "low": low,
            "high": high,
            "prior_dominated": self.prior_dominated(),
        }
        return pd.DataFrame({name: np.ravel(values) for name, values in columns.items()})


def central(draws: np.ndarray, probability: float) -> tuple[np.ndarray, np.ndarray]:
    """The central interval of draws along the first axis."""
    low, high = np.quantile(draws, [(1 - probability) / 2, (1 + probability) / 2], axis=0)
    return low, high


def price_draws(plan: PricingPlan, values: Float[ArrayLike, "draws a b"]) -> Float[np.ndarray, "draws quotes"]:
    """Prices of planned quotes under each draw of the knots' volatilities."""
    return np.asarray(_price_draws(plan, jnp.asarray(values)))


@eqx.filter_jit
def _price_draws(plan: Any, values):
    # One surface at a time: batches of tridiagonal systems gain nothing.
    return jax.lax.map(lambda v: knot_prices(plan, v), values)


def volatility_draws(table: Table, prices: Float[np.ndarray, "draws quotes"]) -> Float[np.ndarray, "draws quotes"]:
    """Implied volatilities of draws of prices; NaN where a price lies outside the bounds of no arbitrage."""
    maturity, strike, forward, discount = (
        table[n].to_numpy(float) for n in ("maturity", "strike", "forward", "discount")
    )
    is_call = table["option_type"].to_numpy() == "C"
    return np.asarray(implied_volatility(jnp.asarray(prices), maturity, strike, forward, discount, is_call))
