"""A desk's rules for tomorrow's implied volatilities, and raw SVI: what a surface model has to beat."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.optimize import least_squares

from seqgp.apps.localvol import Quotes

BP = 1e4


def sticky_error(yesterday: Quotes, today: Quotes, at: Literal["strike", "moneyness"]) -> float:
    """RMSE in bp of "the same volatility at the same strike", or at the same moneyness, for the same expiration.

    Between yesterday's quotes the smile is linear, beyond them flat; for an expiration that was not quoted yesterday,
    the smiles of the others are interpolated in maturity.
    """
    smiles = {name: _smile(part, at) for name, part in yesterday.table.groupby("expiration")}
    maturities = [smile[0] for smile in smiles.values()]
    errors = []
    for quote in rows_of(today):
        x = _coordinate(quote, at)
        if quote.expiration in smiles:
            _, places, values = smiles[quote.expiration]
            found = np.interp(x, places, values)
        else:
            found = np.interp(quote.maturity, maturities, [np.interp(x, *smile[1:]) for smile in smiles.values()])
        errors.append(found - quote.implied_volatility)
    return float(BP * np.sqrt(np.mean(np.square(errors))))


def svi_error(train: Quotes, test: Quotes) -> float:
    """RMSE in bp on held-out quotes of raw SVI, fitted to the total variances of each expiration by itself.

    Expirations that were not learnt from are interpolated in maturity, in total variance at the same moneyness.
    """
    slices = {part["maturity"].iloc[0]: svi_fit(part) for _, part in train.table.groupby("expiration")}
    maturities = sorted(slices)
    errors = []
    for quote in rows_of(test):
        variances = [svi_variance(slices[T], quote.log_moneyness) for T in maturities]
        variance = np.interp(quote.maturity, maturities, variances)
        errors.append(np.sqrt(max(variance, 0.0) / quote.maturity) - quote.implied_volatility)
    return float(BP * np.sqrt(np.mean(np.square(errors))))


def svi_variance(parameters: np.ndarray, y: Any) -> Any:
    """`a + b (ρ (y − m) + √((y − m)² + s²))`, the total variance of raw SVI (Gatheral 2004)."""
    a, b, rho, m, s = parameters
    return a + b * (rho * (y - m) + np.sqrt((y - m) ** 2 + s**2))


def svi_fit(quotes: Any) -> np.ndarray:
    """The parameters of one expiration, by least squares in implied volatility from several starts."""
    T, y = float(quotes["maturity"].iloc[0]), quotes["log_moneyness"].to_numpy()
    sigma = quotes["implied_volatility"].to_numpy()
    level = float(np.median(sigma**2 * T))

    def residual(parameters: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(svi_variance(parameters, y), 1e-12) / T) - sigma

    low, high = [-level, 1e-6, -0.999, -1.0, 1e-3], [4 * level, 10 * level / 0.05, 0.999, 1.0, 2.0]
    best = None
    for rho, s in ((-0.5, 0.1), (-0.8, 0.3), (0.0, 0.05)):
        start = [level / 2, level, rho, 0.0, s]
        found = least_squares(residual, np.clip(start, low, high), bounds=(low, high), x_scale=np.abs(start) + 0.01)
        best = found if best is None or found.cost < best.cost else best
    assert best is not None
    return best.x


def rows_of(quotes: Quotes) -> list[Any]:
    return list(quotes.table.itertuples())


def _smile(part: Any, at: str) -> tuple[float, np.ndarray, np.ndarray]:
    ordered = part.sort_values("strike")
    x = np.array([_coordinate(quote, at) for quote in ordered.itertuples()])
    return float(part["maturity"].iloc[0]), x, ordered["implied_volatility"].to_numpy()


def _coordinate(quote: Any, at: str) -> float:
    return float(np.log(quote.strike)) if at == "strike" else float(quote.log_moneyness)
