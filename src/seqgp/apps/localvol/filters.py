"""Which quotes cannot be used, and why."""

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from seqgp.apps.localvol.tables import Column, Table

_ROUNDING = 1e-12
Exclusion = tuple[object, str]  # a row of the table, and the reason


def unusable(table: Table) -> Iterator[Exclusion]:
    """Quotes without a price, crossed, without a bid, repeated, or without any trade."""
    seen = table.duplicated(["quote_date", "expiration", "strike", "option_type"], keep="last")
    idle = _idle(table)
    for row, quote in table.iterrows():
        if not np.isfinite(quote["price"]):
            yield row, "no price"
        elif quote["half_spread"] < 0:
            yield row, f"crossed: bid {quote['bid']:g} above ask {quote['ask']:g}"
        elif quote["price"] == 0 or ("bid" in table and quote["bid"] == 0):
            yield row, "no bid"
        elif seen[row]:
            yield row, "repeated: a later row has the same option"
        elif idle[row]:
            yield row, "stale: no volume and no open interest"


def too_short(table: Table, min_maturity: float) -> Iterator[Exclusion]:
    """Quotes about to expire: their forwards come from few ticks, and they say little of local volatility."""
    for row, maturity in table["maturity"].items():
        if maturity == 0:
            yield row, "expires on the quote date"
        elif maturity <= min_maturity:
            yield row, f"maturity not above {min_maturity:g}"


def _idle(table: Table) -> Column:
    counts = [table[name].fillna(0) == 0 for name in ("volume", "open_interest") if name in table]
    return pd.concat(counts, axis=1).all(axis=1) if counts else pd.Series(False, index=table.index)


def in_the_money(table: Table) -> Iterator[Exclusion]:
    """Options in the money: their twins out of the money say the same, better."""
    inside = np.where(
        table["option_type"] == "C", table["strike"] < table["forward"], table["strike"] >= table["forward"]
    )
    yield from ((row, "in the money") for row in table.index[inside])


def frozen_prices(table: Table) -> Iterator[Exclusion]:
    """Prices that repeat that of a strike nearer to the money: a floor, or a price nobody has touched."""
    for _, quotes in table[table["half_spread"].isna()].groupby(["quote_date", "expiration", "option_type"]):
        ordered = quotes.iloc[np.argsort(np.abs(quotes["log_moneyness"].to_numpy()))]
        price = ordered["price"].to_numpy()
        for i in np.flatnonzero(price[1:] == price[:-1]) + 1:
            yield ordered.index[i], f"stale: the price of strike {ordered['strike'].iloc[i - 1]:g}, nearer the money"


def out_of_bounds(table: Table) -> Iterator[Exclusion]:
    """Prices that no volatility explains: options out of the money worth as much as what they are written on."""
    bound = table["discount"] * np.where(table["option_type"] == "C", table["forward"], table["strike"])
    yield from ((row, "arbitrage: above the bound of its price") for row in table.index[table["price"] >= bound])


def strike_arbitrage(table: Table, tolerance: Column) -> Iterator[Exclusion]:
    """Quotes that make, with their neighbours, a spread or a butterfly of negative cost.

    Within an expiration, the quote whose removal cures most is removed until nothing is left to cure.
    """
    for _, quotes in table.groupby(["quote_date", "expiration"]):
        ordered = quotes.sort_values("strike")
        k = (ordered["strike"] / ordered["forward"]).to_numpy()
        unit = (ordered["discount"] * ordered["forward"]).to_numpy()
        call = ordered["price"].to_numpy() / unit + np.where(ordered["option_type"] == "P", 1 - k, 0.0)
        slack = tolerance[ordered.index].to_numpy() / unit
        kept = list(range(len(k)))
        while len(kept) > 2 and (total := _violation(k, call, slack, kept)) > _ROUNDING:
            cures = [_violation(k, call, slack, kept[:i] + kept[i + 1 :]) for i in range(len(kept))]
            worst = int(np.argmin(cures))
            yield (
                ordered.index[kept[worst]],
                f"arbitrage: spread or butterfly, {total * unit[kept[worst]]:.3g} in price",
            )
            del kept[worst]


def _violation(k: np.ndarray, call: np.ndarray, slack: np.ndarray, kept: list[int]) -> float:
    """By how much, in all, prices fail to fall and to be convex, beyond what their tolerance explains."""
    x, c, s = k[kept], call[kept], slack[kept]
    gap, step = np.diff(x), np.diff(c)
    room = s[1:] + s[:-1]
    spreads = np.maximum(step - room, 0) + np.maximum(-gap - step - room, 0)
    share = gap[:-1] / (gap[:-1] + gap[1:])
    chord = (1 - share) * (c[:-2] + s[:-2]) + share * (c[2:] + s[2:])
    butterflies = np.maximum(c[1:-1] - s[1:-1] - chord, 0)
    return float(spreads.sum() + butterflies.sum())


def calendar_arbitrage(table: Table, tolerance: Column) -> Iterator[Exclusion]:
    """Quotes with less total variance than the expiration before them at the same moneyness."""
    variance = table["implied_volatility"] ** 2 * table["maturity"]
    room = 2 * table["implied_volatility"] * table["maturity"] * tolerance / table["vega"]
    for _, day in table.groupby("quote_date"):
        slices = [quotes.sort_values("log_moneyness") for _, quotes in day.groupby("expiration")]
        for early, late in itertools.pairwise(slices):
            y, x = late["log_moneyness"].to_numpy(), early["log_moneyness"].to_numpy()
            floor = np.interp(y, x, (variance - room)[early.index].to_numpy(), left=-np.inf, right=-np.inf)
            low = (variance + room)[late.index].to_numpy() < floor
            name = f"{early['expiration'].iloc[0]:%Y-%m-%d}"
            yield from ((row, f"arbitrage: calendar, against {name}") for row in late.index[low])
