"""American options as European ones: the price that a European option of the same volatility has.

A tree prices the American option at a volatility; the volatility at which it meets the quote gives the European price.
Early exercise breaks put-call parity, so the discount has to be given, and the forward is found by turns: parity of the
European prices gives a forward, and the forward the European prices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from seqgp.apps.localvol.implied import black_price
from seqgp.apps.localvol.parity import SLICE, Exclusion, Given, forward_table
from seqgp.apps.localvol.tables import Table, fail, row_label
from seqgp.base.errors import extra

STEPS = 201  # of Leisen and Reimer's tree
TURNS = 4
_LOW, _HIGH = 0.005, 5.0  # volatilities that are searched
EXERCISE = "American: worth no more than its exercise, which says nothing of volatility"


def european_quotes(
    table: Table, forwards: Given, discounts: Given, min_pairs: int
) -> tuple[Table, Table, list[Exclusion]]:
    """The table with European prices in place of American ones, its forwards, and quotes that had to be left out.

    Spreads keep their width. Tables without American options are as they were.

    Raises:
        QuotesError: for American options without a spot or a discount.
    """
    american = table["style"] == "A"
    if not american.any():
        return table, *forward_table(table, forwards, discounts, min_pairs)
    _require_inputs(table[american], discounts)
    current, found, left_out = table, table, []
    for _ in range(TURNS):
        found, left_out = forward_table(current, forwards, discounts, min_pairs)
        kept = table.drop(index=[row for row, _ in left_out])
        plain = kept.drop(columns=["forward", "discount"], errors="ignore")
        rows = plain.join(found.set_index(SLICE)[["forward", "discount"]], on=SLICE)
        price = kept["price"].copy()
        for row, quote in rows[rows["style"] == "A"].iterrows():
            price[row] = european_price(quote)
        worthless = price.index[price.isna()]
        left_out = [*left_out, *((row, EXERCISE) for row in worthless)]
        current = kept.assign(price=price).drop(index=worthless)
    return current, found, left_out


def european_price(quote: Any) -> float:
    """The European price of one American quote; NaN where it is worth its exercise only."""
    T, strike = float(quote["maturity"]), float(quote["strike"])
    forward, discount = float(quote["forward"]), float(quote["discount"])
    call, spot = quote["option_type"] == "C", float(quote["spot"])
    tree = _tree(T, strike, call, spot, forward, discount)
    low, high = tree(_LOW), tree(_HIGH)
    if not low < quote["price"] < high:
        return float("nan")
    volatility = brentq(lambda v: tree(v) - quote["price"], _LOW, _HIGH, xtol=1e-7)
    return float(black_price(volatility, T, strike, forward, discount, call))


def _tree(T: float, strike: float, call: bool, spot: float, forward: float, discount: float) -> Any:
    """The price of the American option as a function of the volatility."""
    with extra("localvol"):
        import QuantLib as ql
    today = ql.Date(1, 1, 2024)
    ql.Settings.instance().evaluationDate = today
    end = today + max(1, round(365 * T))
    years = (end - today) / 365
    rate, carry = -np.log(discount) / years, np.log(forward / spot) / years
    counter = ql.Actual365Fixed()

    def flat(value: float) -> Any:
        return ql.YieldTermStructureHandle(ql.FlatForward(today, float(value), counter))

    level = ql.SimpleQuote(0.2)
    volatility = ql.BlackConstantVol(today, ql.NullCalendar(), ql.QuoteHandle(level), counter)
    process = ql.BlackScholesMertonProcess(
        ql.QuoteHandle(ql.SimpleQuote(spot)), flat(rate - carry), flat(rate), ql.BlackVolTermStructureHandle(volatility)
    )
    kind = ql.Option.Call if call else ql.Option.Put
    option = ql.VanillaOption(ql.PlainVanillaPayoff(kind, strike), ql.AmericanExercise(today, end))
    option.setPricingEngine(ql.BinomialVanillaEngine(process, "lr", STEPS))

    def price(sigma: float) -> float:
        level.setValue(sigma * float(np.sqrt(T / years)))  # the same total variance, days being whole
        return option.NPV()

    return price


def _require_inputs(american: Table, discounts: Given) -> None:
    label = row_label(american)
    if "spot" not in american:
        fail(
            "style: American options need the column spot, to tell when they are exercised early", american.index, label
        )
    if discounts is None and "discount" not in american:
        fail(
            "style: American options need discounts= (--discount), for put-call parity does not hold for them",
            american.index,
            label,
        )
