"""A day's option quotes, or many days': read, checked, and ready to be priced."""

import dataclasses
import warnings
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from seqgp.apps.localvol import filters
from seqgp.apps.localvol.american import european_quotes
from seqgp.apps.localvol.grid import GridSize
from seqgp.apps.localvol.implied import black_vega, implied_volatility
from seqgp.apps.localvol.parity import SLICE, Given, check_given
from seqgp.apps.localvol.solver import PricingPlan, plan_quotes
from seqgp.apps.localvol.tables import Column, QuotesError, Table, chosen_rows, padded_rows, read_table, row_label

_PRICING = ("maturity", "strike", "forward", "discount")
_LOGGED = ["quote_date", "expiration", "strike", "option_type", "price"]


@dataclasses.dataclass(frozen=True)
class Quotes:
    """Option quotes with their forwards, and a log of those left out.

    Attributes:
        table: one row a quote in use: `quote_date, expiration, maturity, strike, option_type ("C" or "P"), price,
            half_spread, tolerance, forward, discount, log_moneyness, implied_volatility, vega`; NaN half-spreads where
            only prices were given. Prices of American options are those of European ones. The index is that of the
            source (`line` of a file).
        excluded: one row a quote that was left out, with its `reason`.
        forwards: one row for each quote date and expiration: `forward, discount, pairs, largest_residual`.
    """

    table: pd.DataFrame
    excluded: pd.DataFrame
    forwards: pd.DataFrame

    @classmethod
    def from_csv(cls, path: str | PathLike, columns: Mapping[str, str] | None = None, **options) -> "Quotes":
        """Read a file; rows are named by their line in it. Options as in `from_frame`."""
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            try:  # of rows with a field too many, pandas would take the first one for an index
                frame = pd.read_csv(path, index_col=False)
            except pd.errors.ParserWarning as error:
                raise QuotesError(f"{path}: the rows have more fields than the header") from error
        frame.index = pd.RangeIndex(2, len(frame) + 2, name="line")
        return cls.from_frame(frame, columns, **options)

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        columns: Mapping[str, str] | None = None,
        *,
        where: Mapping[str, str] | None = None,
        forwards: Given = None,
        discounts: Given = None,
        min_maturity: float = 0.0,
        min_pairs: int = 3,
        tick: float | None = None,
        drop_arbitrage: bool = True,
    ) -> "Quotes":
        """Read a table with one row a quote.

        Args:
            frame: `quote_date, expiration, strike, option_type`, and `bid, ask` or `price`; optional `maturity` (years;
                otherwise calendar days over 365), `volume`, `open_interest`, `forward`, `discount`, `style` ("American"
                or "European", the default), `spot` (for American options).
            columns: names in the table for ours, as in `DAX_COLUMNS`, in either direction.
            where: columns and the values that rows must have, `{"currency": "BTC"}`, say.
            forwards: one number or a mapping from expirations of the table; otherwise from put-call parity.
            discounts: likewise; American options need them.
            min_maturity: in years; shorter ones are left out before parity is asked for their forwards.
            min_pairs: fewest pairs of call and put from which parity gives a forward and a discount; expirations with
                fewer are left out.
            tick: of prices, half of which is their tolerance where there is no spread; otherwise read off them.
            drop_arbitrage: leave out quotes that violate no arbitrage among themselves beyond their tolerance.

        Raises:
            QuotesError: a `ValueError` that names the column or the rows.
        """
        if not frame.index.is_unique:
            raise ValueError("from_frame: the index has repeated labels; call reset_index first")
        table = read_table(chosen_rows(frame, where), columns)
        check_given(table, forwards, "forwards= (--forward)")
        check_given(table, discounts, "discounts= (--discount)")
        quotes = cls(table, _no_exclusions(table), pd.DataFrame())._without(filters.unusable(table))
        quotes = quotes._without(filters.too_short(quotes.table, min_maturity))
        if quotes.table.empty:
            first = quotes.excluded["reason"].iloc[0]
            raise QuotesError(f"none of the {len(table)} quotes can be used (the first: {first})")
        tolerance = _tolerance(quotes.table, tick)
        european, found, left_out = european_quotes(quotes.table, forwards, discounts, min_pairs)
        quotes = quotes._without(left_out)
        usable = european.loc[quotes.table.index]
        priced = _with_forwards(usable.assign(tolerance=tolerance[usable.index]), found)
        quotes = cls(priced, quotes.excluded, found)
        quotes = quotes._without(filters.in_the_money(quotes.table))
        quotes = quotes._without(filters.frozen_prices(quotes.table))
        quotes = quotes._without(filters.out_of_bounds(quotes.table))
        quotes = dataclasses.replace(quotes, table=_with_volatilities(quotes.table))
        return quotes.without_arbitrage() if drop_arbitrage else quotes

    def without_arbitrage(self) -> "Quotes":
        """Leave out quotes that violate no arbitrage among themselves beyond their tolerance.

        Whoever holds quotes out does that first: which quotes are learnt from must not depend on those.
        """
        quotes = self._without(filters.strike_arbitrage(self.table, self.table["tolerance"]))
        return quotes._without(filters.calendar_arbitrage(quotes.table, quotes.table["tolerance"]))

    def split(self, held_out: float = 0.2, seed: int = 0) -> tuple["Quotes", "Quotes"]:
        """Quotes to learn from and quotes to score, at random; each day by itself, whatever the others are."""
        if not 0 < held_out < 1:
            raise ValueError(f"split: held_out = {held_out:g}; expected a share between 0 and 1")
        out = pd.Series(False, index=self.table.index)
        for date, quotes in self.table.groupby("quote_date"):
            day: Any = date
            drawn = np.random.default_rng([seed, day.toordinal()]).random(len(quotes))
            out[quotes.index] = drawn < held_out
        return self.where(~out), self.where(out)

    def where(self, rows: object) -> "Quotes":
        """Some of the quotes, by a mask of the table; they are not logged as excluded."""
        return dataclasses.replace(self, table=self.table[rows])

    @property
    def dates(self) -> list[pd.Timestamp]:
        """Quote dates, in order."""
        return sorted(self.table["quote_date"].unique())

    def day(self, date: str | pd.Timestamp) -> "Quotes":
        """The quotes of one date."""
        wanted: Any = pd.Timestamp(date)
        if wanted not in set(self.dates):
            first, last = self.dates[0], self.dates[-1]
            raise KeyError(f"no quotes on {wanted:%Y-%m-%d}; dates run from {first:%Y-%m-%d} to {last:%Y-%m-%d}")
        parts: list[Table] = [self.table, self.excluded, self.forwards]
        table, excluded, forwards = (part[part["quote_date"] == wanted] for part in parts)
        return Quotes(table, excluded, forwards)

    def select(
        self,
        min_maturity: float = 0.0,
        max_maturity: float = np.inf,
        max_deviations: float = np.inf,
        volatility: float | None = None,
    ) -> "Quotes":
        """Keep maturities above and below bounds, and `|log K/F| < max_deviations · volatility · √T`.

        Args:
            min_maturity: in years.
            max_maturity: likewise.
            max_deviations: of the log of the underlying at expiration.
            volatility: of the deviations; by default each day's own, that of its quotes nearest the money.
        """
        table: Table = self.table
        of_day = day_volatilities(table) if volatility is None else volatility
        deviations = table["log_moneyness"].abs() / (of_day * np.sqrt(table["maturity"]))
        reasons = {
            f"maturity not above {min_maturity:g}": table["maturity"] <= min_maturity,
            f"maturity not below {max_maturity:g}": table["maturity"] >= max_maturity,
            f"not within {max_deviations:g} deviations": deviations >= max_deviations,
        }
        return self._without((row, reason) for reason, out in reasons.items() for row in table.index[out])

    def plan(
        self,
        grid: str | GridSize | tuple[int, int] = "1bp",
        volatility: float = 0.25,
        pad_to: int | None = None,
        knots: tuple[ArrayLike, ArrayLike] = ((), ()),
    ) -> PricingPlan:
        """Everything that pricing these quotes needs, as in `plan_quotes`, in the order of the table."""
        if len(self.dates) != 1:
            raise ValueError(f"plan: {len(self.dates)} quote dates; take one with day()")
        table: Table = self.table
        maturity, strike, forward, discount = (table[n].to_numpy() for n in _PRICING)
        is_call = table["option_type"].to_numpy() == "C"
        return plan_quotes(maturity, strike, forward, discount, is_call, grid, volatility, pad_to, knots)

    def _without(self, exclusions: Iterable[filters.Exclusion]) -> "Quotes":
        reasons: dict = {}
        for row, reason in exclusions:
            reasons.setdefault(row, reason)
        out = self.table.loc[list(reasons), _LOGGED].assign(reason=list(reasons.values()))
        parts = [part for part in (self.excluded, out) if len(part)]
        excluded = pd.concat(parts) if parts else self.excluded
        return dataclasses.replace(self, table=self.table.drop(index=list(reasons)), excluded=excluded)


def day_volatilities(table: Table) -> Column:
    """For each quote, the volatility of its day: the median over expirations of the one nearest the money."""
    nearest = table.loc[table["log_moneyness"].abs().groupby([table[name] for name in SLICE]).idxmin()]
    return table["quote_date"].map(nearest.groupby("quote_date")["implied_volatility"].median())


def _no_exclusions(table: Table) -> Table:
    return table.iloc[:0][_LOGGED].assign(reason=pd.Series(dtype=str)).rename_axis(row_label(table))


def _with_forwards(table: Table, forwards: Table) -> Table:
    plain = table.drop(columns=[c for c in ("forward", "discount") if c in table])
    found = forwards.set_index(SLICE)[["forward", "discount"]]
    joined = plain.join(found, on=SLICE)
    return joined.assign(log_moneyness=np.log(joined["strike"] / joined["forward"]))


def _with_volatilities(table: Table) -> Table:
    rows = padded_rows(len(table))
    price, maturity, strike, forward, discount = (table[n].to_numpy(float)[rows] for n in ("price", *_PRICING))
    call = table["option_type"].to_numpy()[rows] == "C"
    volatility = np.asarray(implied_volatility(price, maturity, strike, forward, discount, call))
    vega = np.asarray(black_vega(volatility, maturity, strike, forward, discount))
    return table.assign(implied_volatility=volatility[: len(table)], vega=vega[: len(table)])


def _tolerance(table: Table, tick: float | None) -> Column:
    """How far a price may be off: its half-spread, or half a tick."""
    if tick is None:
        prices = table["price"].to_numpy()
        places = [d for d in range(5) if np.allclose(prices, np.round(prices, d), rtol=0, atol=1e-9)]
        tick = 10.0 ** -places[0] if places else 0.0
    return table["half_spread"].fillna(tick / 2)
