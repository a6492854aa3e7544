"""Which rows reach parity, what makes no sense is refused by name, and how quotes are held out."""

import numpy as np
import pandas as pd
import pytest

from apps.localvol.test_quotes import FORWARDS, as_prices, market
from seqgp.apps.localvol import Quotes, QuotesError, black_price


def with_slice(table, expiration, strikes, sides=("call", "put"), volatility=0.2, forward=100.0):
    """The table with a further expiration."""
    maturity = (pd.Timestamp(expiration) - pd.Timestamp("2024-01-02")) / pd.Timedelta(days=365)
    rows = [
        ("2024-01-02", expiration, k, side, p - 0.01, p + 0.01)
        for side in sides
        for k in strikes
        for p in [float(black_price(volatility, maturity, k, forward, 1.0, side == "call")) + 0.02]
    ]
    return pd.concat([table, pd.DataFrame(rows, columns=table.columns)], ignore_index=True)


def test_a_dying_expiration_does_not_block_the_table():
    """Four hours are left, and its one pair says nothing of a forward."""
    table = with_slice(market(), "2024-01-02 04:00", [100.0])
    quotes = Quotes.from_frame(table, min_maturity=0.05)
    assert len(quotes.forwards) == len(FORWARDS)
    assert set(quotes.excluded.loc[[84, 85], "reason"]) == {"maturity not above 0.05"}
    unselected = Quotes.from_frame(table)
    assert unselected.excluded.loc[84, "reason"].startswith("expiration 2024-01-02 of 2024-01-02 has 1 pair of call")
    assert len(unselected.table) + len(unselected.excluded) == len(table)


@pytest.mark.parametrize(
    ("quote_date", "expiration"), [("2024-01-02", "2024-01-02"), ("2024-01-02 16:00", "2024-01-02")]
)
def test_options_that_expire_on_the_quote_date_do_not_block_the_table(quote_date, expiration):
    table = market().assign(quote_date=quote_date)
    rows = table.iloc[:42].assign(expiration=expiration)
    quotes = Quotes.from_frame(pd.concat([table, rows], ignore_index=True))
    reasons = quotes.excluded["reason"].sort_index().loc[84:]
    assert reasons.isin({"expires on the quote date", "no bid"}).all()
    assert (reasons == "expires on the quote date").any()
    assert len(quotes.forwards) == len(FORWARDS)
    assert len(quotes.table) + len(quotes.excluded) == len(table) + len(rows)


def test_an_expiration_with_one_pair_is_left_out_by_name():
    quotes = Quotes.from_frame(with_slice(market(), "2024-09-01", [100.0]))
    assert len(quotes.forwards) == len(FORWARDS)
    assert "has 1 pair of call and put, parity needs 3; give forwards=" in quotes.excluded.loc[84, "reason"]


def test_two_underlyings_in_one_table_are_named():
    other = market().assign(strike=lambda t: 3 * t["strike"], bid=lambda t: 3 * t["bid"], ask=lambda t: 3 * t["ask"])
    both = pd.concat([market().assign(currency="BTC"), other.assign(currency="ETH")], ignore_index=True)
    with pytest.raises(QuotesError, match=r"currency: 2 underlyings in one table \(BTC from row 0, ETH from row 84\)"):
        Quotes.from_frame(both)
    chosen = Quotes.from_frame(both, where={"currency": "BTC"})
    np.testing.assert_allclose(chosen.forwards["forward"], [v[0] for v in FORWARDS.values()], rtol=1e-3)
    with pytest.raises(QuotesError, match=r"expiration 2024-04-01 of 2024-01-02: parity gives a discount of 0\.0936"):
        Quotes.from_frame(both.drop(columns="currency"))
    with pytest.raises(QuotesError, match="no row has currency = SOL; there are BTC, ETH"):
        Quotes.from_frame(both, where={"currency": "SOL"})
    with pytest.raises(QuotesError, match="there is no column 'coin'"):
        Quotes.from_frame(both, where={"coin": "BTC"})


def test_a_discount_that_makes_no_sense_is_refused_with_its_rows():
    swapped = market(0.0).assign(option_type=lambda t: t["option_type"].map({"call": "put", "put": "call"}))
    with pytest.raises(QuotesError, match=r"expiration 2024-04-01 .*: parity gives a discount of -0.99 .*: rows 0, 1"):
        Quotes.from_frame(swapped.query("bid > 1e-3"))
    with pytest.raises(QuotesError, match="a forward of 5000 with strikes from 70 to 130"):
        Quotes.from_frame(market(), forwards=5000.0, discounts=1.0)


def test_prices_that_miss_parity_are_refused_with_the_worst_rows():
    table = as_prices(market(0.0))
    calls = (table["expiration"] == "2024-04-01") & (table["option_type"] == "call")
    table.loc[calls, "price"] += 8.0 * (np.arange(calls.sum()) % 3)
    with pytest.raises(QuotesError, match=r"expiration 2024-04-01 .* miss parity by .*two underlyings .* worst: rows "):
        Quotes.from_frame(table)


def test_two_underlyings_without_a_column_that_tells_them_apart_are_refused():
    """Half of the pairs lie on the line of one underlying, and half on that of the other."""
    other = market().assign(
        strike=lambda t: 1.013 * t["strike"], bid=lambda t: 3 * t["bid"], ask=lambda t: 3 * t["ask"]
    )
    with pytest.raises(QuotesError, match=r"a quarter of calls and puts miss parity by .*two underlyings"):
        Quotes.from_frame(pd.concat([market(), other], ignore_index=True))


@pytest.mark.parametrize("name", ["forwards", "discounts"])
def test_numbers_that_are_given_are_used_or_refused(name):
    with pytest.raises(QuotesError, match=rf"{name}= .*: 0; expected a positive number"):
        Quotes.from_frame(market(), **{name: 0.0})
    with pytest.raises(QuotesError, match=rf"{name}= .*: nan of 2024-07-01; expected a positive number"):
        Quotes.from_frame(market(), **{name: {"2024-07-01": np.nan}})
    with pytest.raises(QuotesError, match=r"2024-07-02: no expiration of the table, which has 2024-04-01, 2024-07-01"):
        Quotes.from_frame(market(), **{name: {"2024-07-02": 1.0}})


def test_a_day_names_the_expiration_of_its_hour():
    table = market().assign(expiration=lambda t: t["expiration"] + " 08:00")
    given = {day: discount for day, (_, discount) in FORWARDS.items()}
    assert list(Quotes.from_frame(table, discounts=given).forwards["discount"]) == list(given.values())


def test_deviations_are_of_the_days_own_volatility():
    """A day of four times the volatility keeps strikes four times as far from the money."""
    strikes = 100 * np.exp(np.linspace(-1.23, 1.23, 61))

    def day(volatility):
        prices = [
            (k, side, float(black_price(volatility, 0.25, k, 100.0, 1.0, side == "call")))
            for k in strikes
            for side in ("call", "put")
        ]
        frame = pd.DataFrame(prices, columns=["strike", "option_type", "price"]).query("price > 1e-9")
        return Quotes.from_frame(
            frame.assign(quote_date="2024-01-02", maturity=0.25, expiration="2024-04-02"), drop_arbitrage=False
        )

    for volatility in (0.2, 0.8):
        kept = day(volatility).select(max_deviations=2).table["log_moneyness"].abs()
        assert 0.8 * 2 * volatility * 0.5 < kept.max() < 2 * volatility * 0.5
    fixed = day(0.8).select(max_deviations=2, volatility=0.2).table["log_moneyness"].abs()
    assert fixed.max() < 0.2


def test_held_out_quotes_do_not_decide_which_are_learnt_from():
    table = market(0.001)
    table.loc[14, ["bid", "ask"]] += 1.5  # one quote that makes its neighbours arbitrage
    quotes = Quotes.from_frame(table, drop_arbitrage=False)
    assert 14 in quotes.table.index
    train, test = quotes.split(0.3, seed=1)
    assert sorted([*train.table.index, *test.table.index]) == sorted(quotes.table.index)
    again = quotes.split(0.3, seed=1)[1]
    assert list(again.table.index) == list(test.table.index)
    rest = quotes.where(quotes.table.index != 14)
    assert not rest.without_arbitrage().excluded["reason"].str.startswith("arbitrage").any()
    assert quotes.without_arbitrage().excluded["reason"][14].startswith("arbitrage")
    with pytest.raises(ValueError, match="held_out = 1"):
        quotes.split(1.0)


def test_prices_without_a_spread_have_half_a_tick_of_tolerance():
    table = as_prices(market(0.0)).query("price > 0.2").round({"price": 1})
    assert (Quotes.from_frame(table, drop_arbitrage=False).table["tolerance"] == 0.05).all()
