"""Made-up markets, for examples and tests: quotes of a volatility surface that is known, and moves."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array

from seqgp.apps.localvol.implied import black_vega, implied_volatility
from seqgp.apps.localvol.solver import plan_quotes, quote_prices
from seqgp.apps.localvol.tables import Table

VolatilityFunction = Callable[[Array, Array], Array]


def example_volatility(day: int) -> VolatilityFunction:
    """A skewed surface of around 20 %, whose level and skew move slowly from day to day."""
    level, skew = 0.2 + 0.015 * np.sin(0.7 * day), 0.25 + 0.04 * np.cos(0.5 * day)
    return lambda T, y: level * (1 + 0.15 * jnp.exp(-3 * T)) * jnp.exp(-skew * jnp.tanh(3 * y) + 0.5 * jnp.tanh(y) ** 2)


def simulated_quotes(
    days: int = 3,
    strikes: int = 13,
    expirations: tuple[int, ...] = (45, 90, 180, 360),
    spread_bp: float = 20.0,
    first: str = "2024-01-02",
    seed: int = 0,
    volatility: Callable[[int], VolatilityFunction] = example_volatility,
) -> Table:
    """A table with one row a quote: `quote_date, expiration, strike, option_type, bid, ask`, calls and puts.

    Args:
        days: how many quote dates, on consecutive business days.
        strikes: how many for each expiration, within two deviations of the money.
        expirations: in days after the first date.
        spread_bp: width of the market, in basis points of implied volatility; prices are off by a fifth of it.
        first: the first date.
        seed: of the random numbers.
        volatility: the local volatility of each day, a function of maturity and `log(K/F)`.
    """
    rng = np.random.default_rng(seed)
    start, spot, parts = pd.Timestamp(first), 100.0, []
    for number, date in enumerate(pd.bdate_range(start, periods=days)):
        parts.append(_day(rng, date, start, spot, strikes, expirations, spread_bp, volatility(number)))
        spot *= float(np.exp(0.01 * rng.standard_normal()))
    return pd.concat(parts, ignore_index=True)


def _day(rng, date, start, spot, strikes, expirations, spread_bp, volatility: VolatilityFunction) -> Table:
    ends = [start + pd.Timedelta(days=days) for days in expirations]
    rows = pd.DataFrame(
        [(end, k) for end in ends for k in np.linspace(-2, 2, strikes)], columns=pd.Index(["expiration", "deviations"])
    )
    T = ((rows["expiration"] - date) / pd.Timedelta(days=365)).to_numpy(float)
    forward, discount = spot * np.exp(0.02 * T), np.exp(-0.03 * T)
    strike = np.round(forward * np.exp(0.2 * np.sqrt(T) * rows["deviations"].to_numpy()), 1)
    call = strike >= forward
    price = np.asarray(quote_prices(plan_quotes(T, strike, forward, discount, call), volatility))
    sigma = np.asarray(implied_volatility(price, T, strike, forward, discount, call))
    half = np.asarray(black_vega(sigma, T, strike, forward, discount)) * spread_bp / 2e4
    mid = np.maximum(price + 0.4 * half * rng.standard_normal(len(price)), 1.5 * half)
    parity = np.where(call, -1, 1) * discount * (forward - strike)
    sides = [np.where(call, "C", "P"), np.where(call, "P", "C")]
    frames = [
        pd.DataFrame(
            {"quote_date": date, "expiration": rows["expiration"], "strike": strike, "option_type": side}
            | {"bid": value - half, "ask": value + half}
        )
        for side, value in zip(sides, (mid, mid + parity))
    ]
    return pd.concat(frames, ignore_index=True)
