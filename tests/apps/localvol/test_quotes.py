"""Tables of quotes: forwards from parity, what is left out and why, and errors that name rows."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from seqgp.apps.localvol import DAX_COLUMNS, Quotes, QuotesError, black_price, quote_prices

DAX = Path(__file__).parents[4] / "shared" / "data" / "dax2001" / "dax_quotes.csv"
FORWARDS = {"2024-04-01": (101.0, 0.99), "2024-07-01": (102.5, 0.98)}


def market(spread=0.05, **extra):
    """Calls and puts at 20% volatility, two expirations, 21 strikes."""
    rows = []
    for expiration, (forward, discount) in FORWARDS.items():
        maturity = (pd.Timestamp(expiration) - pd.Timestamp("2024-01-02")).days / 365
        for side in ("call", "put"):
            strikes = np.arange(70.0, 131.0, 3.0)
            price = np.asarray(black_price(0.2, maturity, strikes, forward, discount, side == "call"))
            rows += [
                ("2024-01-02", expiration, k, side, max(p - spread, 0), p + spread) for k, p in zip(strikes, price)
            ]
    names = ["quote_date", "expiration", "strike", "option_type", "bid", "ask"]
    return pd.DataFrame(rows, columns=pd.Index(names)).assign(**extra)


def as_prices(table):
    return table.assign(price=(table["bid"] + table["ask"]) / 2).drop(columns=["bid", "ask"])


def test_parity_recovers_forwards_and_discounts():
    found = Quotes.from_frame(market(0.0).query("bid > 1e-3")).forwards
    np.testing.assert_allclose(found[["forward", "discount"]], list(FORWARDS.values()), rtol=1e-9)


def test_parity_withstands_bad_quotes():
    table = as_prices(market(0.0))
    table.loc[[3, 8, 25], "price"] += [4.0, 9.0, 6.0]
    found = Quotes.from_frame(table).forwards
    np.testing.assert_allclose(found[["forward", "discount"]], list(FORWARDS.values()), rtol=1e-4)


def test_tight_spreads_count_most():
    """Wide markets that are off by less than their width hardly move the forward."""
    table = market(0.01)
    wide = table["strike"].between(90, 110)
    table.loc[wide & (table["option_type"] == "call"), ["bid", "ask"]] += [0.2, 1.2]
    found = Quotes.from_frame(table, drop_arbitrage=False).forwards
    np.testing.assert_allclose(found[["forward", "discount"]], list(FORWARDS.values()), rtol=2e-4)


def test_forwards_and_discounts_may_be_given():
    calls = market().query("option_type == 'call'")
    forwards, discounts = ({k: v[i] for k, v in FORWARDS.items()} for i in (0, 1))
    found = Quotes.from_frame(calls, forwards=forwards, discounts=discounts).forwards
    np.testing.assert_allclose(found[["forward", "discount"]], list(FORWARDS.values()))
    found = Quotes.from_frame(market(0.0).query("bid > 1e-3"), discounts=discounts).forwards
    np.testing.assert_allclose(found["forward"], [v[0] for v in FORWARDS.values()], rtol=1e-9)


def test_volatilities_are_recovered_out_of_the_money():
    table = Quotes.from_frame(market(1e-6).query("bid > 1e-3")).table
    assert np.all((table["option_type"] == "C") == (table["strike"] >= table["forward"]))
    np.testing.assert_allclose(table["implied_volatility"], 0.2, rtol=1e-5)
    np.testing.assert_allclose(table["log_moneyness"], np.log(table["strike"] / table["forward"]))


def test_nothing_is_dropped_silently():
    table = market()
    table.loc[5, "ask"] = table.loc[5, "bid"] - 0.02
    table.loc[30, ["bid", "ask"]] = np.nan
    table.loc[12, ["bid", "ask"]] += 2.0
    quotes = Quotes.from_frame(pd.concat([table, table.loc[[14]]], ignore_index=True))
    logged = quotes.excluded["reason"]
    assert sorted([*quotes.table.index, *quotes.excluded.index]) == list(range(len(table) + 1))
    assert logged[5].startswith("crossed: bid")
    assert logged[30] == "no price"
    assert logged[14].startswith("repeated")
    assert logged[12].startswith("arbitrage")
    assert logged.str.fullmatch("in the money|no bid|no price|crossed.*|repeated.*|arbitrage.*").all()


@pytest.mark.parametrize("shift, rows", [(1.5, [14]), (-0.5, [14])])
def test_arbitrage_is_put_down_to_the_quote_that_causes_it(shift, rows):
    table = market(0.01)
    table.loc[14, ["bid", "ask"]] += shift
    logged = Quotes.from_frame(table).excluded["reason"]
    assert list(logged.index[logged.str.startswith("arbitrage")]) == rows


def test_calendar_arbitrage_is_found():
    table = market(0.001)
    late = (table["expiration"] == "2024-07-01") & (table["strike"] == 112)
    early = (table["expiration"] == "2024-04-01") & (table["strike"] == 112)
    cheap = table[early][["bid", "ask"]].to_numpy() * 0.7
    only = pd.concat([table[~late], table[late].assign(bid=cheap[:, 0], ask=cheap[:, 1])])
    forwards, discounts = ({k: v[i] for k, v in FORWARDS.items()} for i in (0, 1))
    only = only[(only["expiration"] == "2024-04-01") | only["strike"].isin([100, 112])]
    quotes = Quotes.from_frame(only, forwards=forwards, discounts=discounts)
    row = table.index[late & (table["option_type"] == "call")][0]
    assert quotes.excluded["reason"][row] == "arbitrage: calendar, against 2024-04-01"


def test_stale_quotes_are_found():
    idle = market(volume=1, open_interest=1)
    idle.loc[[15, 16], ["volume", "open_interest"]] = 0
    idle.loc[14, "volume"] = 0
    reasons = Quotes.from_frame(idle).excluded["reason"]
    assert list(reasons.index[reasons.str.startswith("stale")]) == [15, 16]
    floor = as_prices(market(0.0))
    floor["price"] = floor["price"].clip(lower=0.1).round(1)
    reasons = Quotes.from_frame(floor).excluded["reason"]
    assert reasons[63] == "stale: the price of strike 73, nearer the money"


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.drop(columns="strike"), "missing columns: strike"),
        (lambda t: t.drop(columns=["bid"]), r"bid and ask \(or price\)"),
        (lambda t: t.assign(expiration=t["expiration"].where(t.index != 7, "soon")), "'soon' is not a date: row 7$"),
        (lambda t: t.assign(ask=t["ask"].where(t.index != 9, -1.0)), "ask: negative: row 9$"),
        (lambda t: t.assign(bid=1e300, ask=1.1e300), r"bid: above 1e\+100: rows 0, 1, 2"),
        (lambda t: t.assign(ask=t["ask"].astype(object).where(t.index != 9, "x")), "ask: 'x' is not a number: row 9$"),
        (lambda t: t.assign(strike=t["strike"].where(t.index > 1, 0.0)), "strike: not positive: rows 0, 1$"),
        (
            lambda t: t.assign(option_type=t["option_type"].where(t.index != 2, "w")),
            "'w' is neither call nor put: row 2$",
        ),
        (lambda t: t.assign(quote_date="2024-05-01"), "is before the quote date: rows 0, 1, 2, 3, 4 and 37 more"),
        (lambda t: t.query("option_type == 'call'"), "0 pairs of call and put, parity needs 3"),
        (lambda t: t.iloc[:0], "no rows"),
        (lambda t: t.assign(strike=t["strike"].where(t.index != 5, np.inf)), "strike: infinite: row 5$"),
        (lambda t: t.assign(bid=t["ask"] + 1), r"none of the 84 quotes can be used \(the first: .*bid"),
    ],
)
def test_bad_tables_are_named_with_their_rows(change, message):
    with pytest.raises(QuotesError, match=message):
        Quotes.from_frame(change(market()))


@pytest.mark.parametrize("column", ["quote_date", "expiration"])
def test_a_zone_on_one_of_two_date_columns_is_read_as_the_date_on_the_wall(column):
    plain = market()
    text = plain.assign(**{column: plain[column] + "T00:00:00+01:00"})
    typed = plain.assign(**{column: pd.to_datetime(plain[column]).dt.tz_localize("Europe/Berlin")})
    expected = Quotes.from_frame(plain).table["maturity"]
    for zoned in (text, typed):
        pd.testing.assert_series_equal(Quotes.from_frame(zoned).table["maturity"], expected)


def test_columns_map_in_either_direction_and_files_count_lines(tmp_path):
    table = as_prices(market()).rename(columns={"quote_date": "day", "option_type": "cp"})
    one = Quotes.from_frame(table, columns={"quote_date": "day", "option_type": "cp"})
    other = Quotes.from_frame(table, columns={"day": "quote_date", "cp": "option_type"})
    pd.testing.assert_frame_equal(one.table, other.table)
    with pytest.raises(QuotesError, match="is to be read from 'when'"):
        Quotes.from_frame(table, columns={"quote_date": "when"})
    path = tmp_path / "quotes.csv"
    table.assign(price=table["price"].where(table.index != 4, -1)).to_csv(path, index=False)
    with pytest.raises(QuotesError, match=r"price: negative: line 6$"):
        Quotes.from_csv(path, columns={"quote_date": "day", "option_type": "cp"})


def test_files_with_a_comma_too_many_are_not_read_one_column_off(tmp_path):
    path, table = tmp_path / "quotes.csv", as_prices(market())
    table.to_csv(path, index=False)
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *(f"{row}," for row in rows)]))
    assert len(Quotes.from_csv(path).table) == len(Quotes.from_frame(table).table)
    path.write_text("\n".join([header, *(f"{row},1" for row in rows)]))
    with pytest.raises(QuotesError, match="the rows have more fields than the header"):
        Quotes.from_csv(path)


def test_selection_is_logged_and_planned_quotes_are_priced():
    quotes = Quotes.from_frame(market(1e-6).query("bid > 1e-3"))
    near = quotes.select(min_maturity=0.3, max_deviations=2, volatility=0.2)
    assert len(near.table) + len(near.excluded) == len(quotes.table) + len(quotes.excluded)
    assert near.table["maturity"].min() > 0.3
    price = quote_prices(near.plan(), lambda T, y: jnp.asarray(0.2))
    np.testing.assert_allclose((price - near.table["price"]) / near.table["vega"], 0.0, atol=1e-4)


@pytest.mark.skipif(not DAX.exists(), reason="the DAX quotes are not part of the package")
def test_dax_quotes():
    source = pd.read_csv(DAX)
    source = source[source["date"].isin(["2001-06-05", "2001-07-05"])]
    quotes = Quotes.from_frame(source, DAX_COLUMNS)
    assert len(quotes.table) + len(quotes.excluded) == len(source)
    assert quotes.forwards["largest_residual"].max() < 0.11
    assert [f"{d:%Y-%m-%d}" for d in quotes.dates] == ["2001-06-05", "2001-07-05"]
    day = quotes.day("2001-06-05").select(min_maturity=0.05, max_deviations=2)
    assert 100 < len(day.table) < 200
    assert day.table["implied_volatility"].between(0.1, 0.5).all()
