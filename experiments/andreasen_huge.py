"""QuantLib's Andreasen–Huge interpolation on the same quotes, in its variants."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import QuantLib as ql

from seqgp.apps.localvol import Quotes

INTERPOLATIONS = {
    "linear": ql.AndreasenHugeVolatilityInterpl.Linear,
    "cubic": ql.AndreasenHugeVolatilityInterpl.CubicSpline,
    "constant": ql.AndreasenHugeVolatilityInterpl.PiecewiseConstant,
}
CALIBRATIONS = {
    "call": ql.AndreasenHugeVolatilityInterpl.Call,
    "put": ql.AndreasenHugeVolatilityInterpl.Put,
    "both": ql.AndreasenHugeVolatilityInterpl.CallPut,
}


def held_out_errors(train: Quotes, test: Quotes) -> dict[str, float]:
    """RMSE in basis points of implied volatility on held-out quotes, for each variant that runs."""
    found = {}
    for (name, kind), (side, calibration) in itertools.product(INTERPOLATIONS.items(), CALIBRATIONS.items()):
        try:
            errors = _errors(train, test, kind, calibration)
        except RuntimeError:  # QuantLib's own: the variant does not calibrate on this day
            continue
        if np.isfinite(errors).all():
            found[f"{name}, {side}"] = float(np.sqrt(np.mean(errors**2)))
    return found


def _errors(train: Quotes, test: Quotes, kind, calibration) -> np.ndarray:
    """In forward moneyness, where neither rates nor dividends are left: the forward is one at all maturities."""
    date = train.dates[0]
    today = ql.Date(date.day, date.month, date.year)
    ql.Settings.instance().evaluationDate = today
    counter = ql.Actual365Fixed()
    flat = ql.YieldTermStructureHandle(ql.FlatForward(today, 0.0, counter))
    spot = ql.QuoteHandle(ql.SimpleQuote(1.0))
    options = ql.CalibrationSet()
    for quote in rows_of(train):
        end = _date(today, quote.maturity)
        payoff = ql.PlainVanillaPayoff(ql.Option.Call, float(np.exp(quote.log_moneyness)))
        option = ql.VanillaOption(payoff, ql.EuropeanExercise(end))
        options.push_back(ql.CalibrationPair(option, ql.SimpleQuote(_scaled(quote))))
    surface = ql.AndreasenHugeVolatilityInterpl(options, spot, flat, flat, kind, calibration)
    volatility = ql.AndreasenHugeVolatilityAdapter(surface)
    errors = []
    for quote in rows_of(test):
        at = counter.yearFraction(today, _date(today, quote.maturity))
        model = volatility.blackVol(at, float(np.exp(quote.log_moneyness)), True)
        errors.append(1e4 * (model * np.sqrt(at / quote.maturity) - quote.implied_volatility))
    return np.asarray(errors)


def rows_of(quotes: Quotes) -> list[Any]:
    return list(quotes.table.itertuples())


def _date(today: ql.Date, maturity: float) -> ql.Date:
    return today + max(1, round(365 * maturity))


def _scaled(quote) -> float:
    """The implied volatility that keeps the total variance, maturity being a whole number of days."""
    days = max(1, round(365 * quote.maturity)) / 365
    return float(quote.implied_volatility * np.sqrt(quote.maturity / days))
