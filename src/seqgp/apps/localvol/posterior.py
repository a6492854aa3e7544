"""What draws of the latent function say: surfaces, prices and smiles, with their uncertainty."""

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
from seqgp.apps.localvol.solver import PricingPlan, quote_prices
from seqgp.apps.localvol.surface import Surface, knot_weights
from seqgp.apps.localvol.tables import Table, padded_rows

PRIOR_SHARE = 0.8  # of the prior's standard deviation, above which the prior dominates


class QuotedRegion(eqx.Module):
    """Where quotes reach: at each expiration, from the lowest to the highest log-moneyness.

    Between expirations the ends are interpolated in deviations, `y/√T`; before the first they are those of the first. A
    price depends on local volatility between spot and strike, up to its expiration: nothing beyond is seen.
    """

    maturities: Float[np.ndarray, " n"]
    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]

    @classmethod
    def from_table(cls, table: Table) -> QuotedRegion:
        """From the quotes of one day."""
        slices = table.groupby("maturity")["log_moneyness"]
        return cls(np.array(sorted(table["maturity"].unique())), slices.min().to_numpy(), slices.max().to_numpy())

    def beyond(self, maturities: Float[np.ndarray, " m"], y: Float[np.ndarray, "m n"]) -> Bool[np.ndarray, "m n"]:
        """Which places lie beyond the quotes."""
        root = np.sqrt(self.maturities)
        low, high = (np.interp(maturities, self.maturities, end / root)[:, None] for end in (self.low, self.high))
        deviations = y / np.sqrt(np.maximum(maturities, 1e-12))[:, None]
        late = (maturities > self.maturities[-1] * (1 + 1e-9))[:, None]
        room = 1e-9 * (1 + np.abs(deviations))
        return (deviations < low - room) | (deviations > high + room) | late


class SurfaceDraws(eqx.Module):
    """Draws of a local-volatility surface, given by its knots.

    Attributes:
        maturities: of the knots, in years.
        log_moneyness: of the knots on the reference day.
        values: local volatility at the knots, one surface a draw.
        prior_sd: standard deviation of `softplus⁻¹(σ)` before the data of any quote, at any one place.
        curve: forwards and discounts of the day.
        shifts: how far the knots of each draw have moved down in log-moneyness since the reference day.
        quoted: where the quotes of the day reach; everywhere by default.
    """

    maturities: Float[np.ndarray, " a"]
    log_moneyness: Float[np.ndarray, " b"]
    values: Float[Array, "draws a b"]
    prior_sd: float
    curve: ForwardCurve
    shifts: Float[np.ndarray, " draws"] | None = None
    quoted: QuotedRegion | None = None

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
            places = np.broadcast_to(y, (len(T), len(y)))
        else:
            K = np.atleast_1d(np.asarray(strikes, dtype=float))
            places = np.log(K / self.curve.forward(T)[:, None])
        knots = (jnp.asarray(self.maturities), jnp.asarray(self.log_moneyness))
        draws = _at_places(*knots, jnp.asarray(self.values), jnp.asarray(self.moved), T, places)
        strikes_there = self.curve.forward(T)[:, None] * np.exp(places)
        return SurfaceGrid(T, places, strikes_there, np.asarray(draws), self.prior_sd, self.quoted)

    @property
    def moved(self) -> Float[np.ndarray, " draws"]:
        """The shift of each draw."""
        return np.zeros(len(self.values)) if self.shifts is None else np.asarray(self.shifts)

    def draw(self, index: int) -> Surface:
        """One of the draws."""
        return Surface(self.maturities, self.log_moneyness - self.moved[index], self.values[index])

    def mean(self) -> Surface:
        """The surface of the posterior means, with knots where those of the draws are on average."""
        knots = self.log_moneyness - float(self.moved.mean())
        return Surface(self.maturities, knots, self.on_grid(self.maturities, log_moneyness=knots).mean())


class SurfaceGrid(eqx.Module):
    """Draws of local volatility on a grid.

    Attributes:
        maturities: in years.
        log_moneyness: at each place.
        strikes: at each place.
        draws: local volatility.
        prior_sd: of `softplus⁻¹(σ)`.
        quoted: where quotes reach.
    """

    maturities: Float[np.ndarray, " m"]
    log_moneyness: Float[np.ndarray, "m n"]
    strikes: Float[np.ndarray, "m n"]
    draws: Float[np.ndarray, "draws m n"]
    prior_sd: float
    quoted: QuotedRegion | None = None

    def mean(self) -> Float[np.ndarray, "m n"]:
        """The posterior mean."""
        return self.draws.mean(axis=0)

    def band(self, probability: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The central interval at each place, its lower and upper end."""
        return central(self.draws, probability)

    def prior_dominated(self, share: float = PRIOR_SHARE) -> Bool[np.ndarray, "m n"]:
        """Where quotes say nothing: beyond all of them, or where the posterior is hardly narrower than the prior."""
        f = np.asarray(seqgp.means.inverse_softplus(jnp.asarray(self.draws)))
        wide = f.std(axis=0) > share * self.prior_sd
        return wide if self.quoted is None else wide | self.quoted.beyond(self.maturities, self.log_moneyness)

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


def price_draws(
    plan: PricingPlan,
    values: Float[ArrayLike, "draws a b"],
    knots: Float[ArrayLike, " b"] | None = None,
    shifts: Float[ArrayLike, " draws"] | None = None,
) -> Float[np.ndarray, "draws quotes"]:
    """Prices of planned quotes under each draw of the knots' volatilities, its knots moved down by its shift."""
    if knots is None or shifts is None:
        knots, shifts = np.zeros(0), np.zeros(len(np.asarray(values)))
    return np.asarray(_price_draws(plan, jnp.asarray(values), jnp.asarray(knots), jnp.asarray(shifts)))


@eqx.filter_jit
def _price_draws(plan: Any, values, knots, shifts):
    def price(inputs):
        surface, shift = inputs
        moved = len(knots) > 0
        in_strike = knot_weights(knots, jnp.asarray(plan.grid.y) + shift) if moved else plan.in_strike
        return quote_prices(plan, jnp.exp(plan.in_time @ jnp.log(surface) @ in_strike.T))

    return jax.lax.map(price, (values, shifts))  # one at a time: batches of tridiagonal systems gain nothing


@eqx.filter_jit
def _at_places(maturities, knots, values, shifts, T, places):
    def one(inputs):
        surface, shift = inputs
        return Surface(maturities, knots - shift, surface)(T[:, None], places)

    return jax.lax.map(one, (values, shifts), batch_size=32)


def volatility_draws(table: Table, prices: Float[np.ndarray, "draws quotes"]) -> Float[np.ndarray, "draws quotes"]:
    """Implied volatilities of draws of prices; NaN where a price lies outside the bounds of no arbitrage."""
    rows = padded_rows(len(table))
    maturity, strike, forward, discount = (
        table[n].to_numpy(float)[rows] for n in ("maturity", "strike", "forward", "discount")
    )
    is_call = table["option_type"].to_numpy()[rows] == "C"
    found = implied_volatility(np.asarray(prices)[:, rows], maturity, strike, forward, discount, is_call)
    return np.asarray(found)[:, : len(table)]
