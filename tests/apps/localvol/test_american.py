"""American options: the European price of the same volatility, or refused."""

import numpy as np
import pandas as pd
import pytest

from seqgp.apps.localvol import Quotes, QuotesError, black_price

ql = pytest.importorskip("QuantLib")

SPOT, RATE, YIELD, DAYS, SIGMA = 100.0, 0.06, 0.01, 182, 0.3
T = DAYS / 365
FORWARD, DISCOUNT = SPOT * np.exp((RATE - YIELD) * T), np.exp(-RATE * T)


def american_price(strike, side):
    """By finite differences on a fine grid: another method than the tree."""
    today = ql.Date(2, 1, 2024)
    ql.Settings.instance().evaluationDate = today
    counter = ql.Actual365Fixed()
    curves = [ql.YieldTermStructureHandle(ql.FlatForward(today, r, counter)) for r in (YIELD, RATE)]
    volatility = ql.BlackVolTermStructureHandle(ql.BlackConstantVol(today, ql.NullCalendar(), SIGMA, counter))
    process = ql.BlackScholesMertonProcess(ql.QuoteHandle(ql.SimpleQuote(SPOT)), *curves, volatility)
    payoff = ql.PlainVanillaPayoff(ql.Option.Call if side == "call" else ql.Option.Put, strike)
    option = ql.VanillaOption(payoff, ql.AmericanExercise(today, today + DAYS))
    option.setPricingEngine(ql.FdBlackScholesVanillaEngine(process, 800, 800))
    return option.NPV()


@pytest.fixture(scope="module")
def table():
    rows = [(k, side, american_price(k, side)) for side in ("call", "put") for k in np.arange(80.0, 126.0, 5.0)]
    frame = pd.DataFrame(rows, columns=["strike", "option_type", "price"])
    return frame.assign(quote_date="2024-01-02", expiration="2024-07-02", spot=SPOT, style="American")


def test_early_exercise_is_taken_off(table):
    quotes = Quotes.from_frame(table, discounts=DISCOUNT, drop_arbitrage=False)
    assert quotes.forwards["forward"][0] == pytest.approx(FORWARD, rel=2e-4)
    np.testing.assert_allclose(quotes.table["implied_volatility"], SIGMA, atol=5e-4)
    puts = quotes.table["option_type"] == "P"
    expected = black_price(SIGMA, T, quotes.table["strike"].to_numpy(), FORWARD, DISCOUNT, ~puts.to_numpy())
    np.testing.assert_allclose(quotes.table["price"], expected, rtol=5e-3)
    premium = table.loc[quotes.table.index[puts], "price"] - quotes.table["price"][puts]
    assert (premium > 0.02).any()  # so that taking them for European ones is seen


def test_american_options_taken_for_european_ones_have_another_volatility(table):
    naive = Quotes.from_frame(table.assign(style="European"), discounts=DISCOUNT, drop_arbitrage=False)
    assert np.abs(naive.table["implied_volatility"] - SIGMA).max() > 2e-3


def test_what_early_exercise_needs_is_asked_for(table):
    with pytest.raises(QuotesError, match=r"American options need discounts= \(--discount\)"):
        Quotes.from_frame(table)
    with pytest.raises(QuotesError, match="American options need the column spot"):
        Quotes.from_frame(table.drop(columns="spot"), discounts=DISCOUNT)
    with pytest.raises(QuotesError, match="'Bermudan' is neither American nor European: rows 0, 1"):
        Quotes.from_frame(table.assign(style="Bermudan"), discounts=DISCOUNT)


def test_an_option_worth_its_exercise_is_left_out(table):
    """Deep in the money and at its exercise value, any small volatility gives the price."""
    deep = table.iloc[[-1]].assign(strike=160.0, price=60.0)
    quotes = Quotes.from_frame(pd.concat([table, deep], ignore_index=True), discounts=DISCOUNT, drop_arbitrage=False)
    assert quotes.excluded.loc[len(table), "reason"].startswith("American: worth no more than its exercise")
