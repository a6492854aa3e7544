"""Reading a table of quotes: names, types, and errors that say which rows."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from seqgp import SeqgpError

FIELDS = (
    "quote_date",
    "expiration",
    "maturity",
    "strike",
    "option_type",
    "bid",
    "ask",
    "price",
    "volume",
    "open_interest",
    "forward",
    "discount",
    "spot",
    "style",
)
DAX_COLUMNS = {"quote_date": "date", "expiration": "expiry", "maturity": "T", "option_type": "type"}
_NUMBERS = ("maturity", "strike", "bid", "ask", "price", "volume", "open_interest", "forward", "discount", "spot")
_STYLES = {"a": "A", "american": "A", "e": "E", "european": "E"}
_UNDERLYING = ("underlying", "underlying_symbol", "ticker", "currency", "base_currency")  # one value a table
_TYPES = {"c": "C", "call": "C", "calls": "C", "p": "P", "put": "P", "puts": "P"}
_DAYS_A_YEAR = 365.0
LARGEST = 1e100  # of a price, a strike or a time
BATCH = 32  # quotes are padded to a multiple, so that another day finds its functions compiled


# A pandas DataFrame and Series: their own annotations are unions that a checker cannot narrow.
Table = Any
Column = Any

_OFFSET = r"(:\d{2}(?:\.\d+)?)\s*(?:Z|[+-]\d{2}:?\d{2})$"


class QuotesError(SeqgpError, ValueError):
    """A table of quotes cannot be used; the message names the rows."""


def read_table(frame: Table, columns: Mapping[str, str] | None) -> Table:
    """The table in our names and types, one row a quote, with the index of the given one.

    Raises:
        QuotesError: for missing columns and for rows that no table of quotes should have.
    """
    table = _rename(frame, columns)
    _require_columns(table, list(frame.columns))
    _require_one_underlying(frame)
    table["option_type"] = _named(table["option_type"], _TYPES, "is neither call nor put")
    styles = table["style"] if "style" in table else pd.Series("E", index=table.index, name="style")
    table["style"] = _named(styles, _STYLES, "is neither American nor European")
    for name in ("quote_date", "expiration"):
        if name in table:
            table[name] = _dates(table[name])
    for name in _NUMBERS:
        if name in table:
            table[name] = _numbers(table[name])
    _check_values(table)
    table["maturity"] = _maturities(table)
    if "expiration" not in table:
        days = pd.to_timedelta((table["maturity"] * _DAYS_A_YEAR).round(), unit="D")
        table["expiration"] = table["quote_date"] + days
    if "bid" in table:
        table["price"] = (table["bid"] + table["ask"]) / 2
        table["half_spread"] = (table["ask"] - table["bid"]) / 2
    else:
        table["half_spread"] = np.nan
    return table


def fail(what: str, index: Iterable, label: str = "row", shown: int = 5) -> None:
    """Raise an error that names the first few rows."""
    rows = [str(i) for i in index]
    more = f" and {len(rows) - shown} more" if len(rows) > shown else ""
    raise QuotesError(f"{what}: {label}{'s' if len(rows) > 1 else ''} {', '.join(rows[:shown])}{more}")


def batches(count: int) -> int:
    """The number of quotes that so many are padded to."""
    return BATCH * -(-count // BATCH)


def padded_rows(count: int) -> np.ndarray:
    """Indices of quotes, the last one repeated for the padding."""
    return np.minimum(np.arange(batches(count)), count - 1)


def row_label(table: Table) -> str:
    """What the index counts: lines of a file, or rows."""
    return str(table.index.name or "row")


def _rename(frame: Table, columns: Mapping[str, str] | None) -> Table:
    mapping = {}
    for one, other in (columns or {}).items():
        field, column = (one, other) if one in FIELDS else (other, one)
        if field not in FIELDS:
            raise QuotesError(f"columns: neither {one!r} nor {other!r} is one of {', '.join(FIELDS)}")
        if column not in frame.columns:
            raise QuotesError(
                f"columns: {field} is to be read from {column!r}, but the table has {list(frame.columns)}"
            )
        mapping[column] = field
    kept = frame.drop(columns=[c for c in frame.columns if c in mapping.values() and c not in mapping])
    table = kept.rename(columns=mapping)
    return table[[c for c in FIELDS if c in table]].copy()


def _require_columns(table: Table, given: list[str]) -> None:
    missing = [name for name in ("quote_date", "strike", "option_type") if name not in table]
    if "expiration" not in table and "maturity" not in table:
        missing.append("expiration (or maturity)")
    if "price" not in table and not {"bid", "ask"} <= set(table.columns):
        missing.append("bid and ask (or price)")
    if missing:
        raise QuotesError(
            f"missing columns: {', '.join(missing)}; the table has {given}; map those of another name with columns= "
            "(--column OURS=THEIRS)"
        )
    if table.empty:
        raise QuotesError("the table has no rows")


def _require_one_underlying(frame: Table) -> None:
    for name in _UNDERLYING:
        found = frame[name].dropna().unique() if name in frame else ()
        if len(found) > 1:
            first = {value: frame.index[frame[name] == value][0] for value in found[:5]}
            rows = ", ".join(f"{value} from {row_label(frame)} {row}" for value, row in first.items())
            raise QuotesError(
                f"{name}: {len(found)} underlyings in one table ({rows}); keep one with where={{{name!r}: "
                f"{str(found[0])!r}}} (--where {name}={found[0]})"
            )


def chosen_rows(frame: Table, where: Mapping[str, str] | None) -> Table:
    """The rows whose columns have the given values, compared as text."""
    for name, value in (where or {}).items():
        if name not in frame.columns:
            raise QuotesError(f"where: there is no column {name!r}; the table has {list(frame.columns)}")
        kept = frame[name].astype(str).str.strip() == str(value)
        if not kept.any():
            some = ", ".join(map(str, frame[name].dropna().unique()[:5]))
            raise QuotesError(f"where: no row has {name} = {value}; there are {some}")
        frame = frame[kept]
    return frame


def _named(values: Column, names: Mapping[str, str], what: str) -> Column:
    found = values.astype(str).str.strip().str.lower().map(names)
    if found.isna().any():
        bad = values[found.isna()]
        fail(f"{values.name}: {str(bad.iloc[0])!r} {what}", bad.index, row_label(values.to_frame()))
    return found


def _dates(values: Column) -> Column:
    if isinstance(values.dtype, pd.DatetimeTZDtype):
        values = values.dt.tz_localize(None)
    elif values.dtype.kind != "M":  # an offset is dropped, the date on the wall is what counts
        values = values.astype(str).str.replace(_OFFSET, r"\1", regex=True)
    parsed = pd.to_datetime(values, errors="coerce", format="mixed")
    if parsed.isna().any():
        bad = values[parsed.isna()]
        fail(f"{values.name}: {str(bad.iloc[0])!r} is not a date", bad.index, row_label(values.to_frame()))
    return parsed


def _numbers(values: Column) -> Column:
    parsed: Column = pd.to_numeric(values, errors="coerce")
    parsed = parsed.astype(float)
    blank = values.isna() | (values.astype(str).str.strip() == "")
    bad = values[parsed.isna() & ~blank]
    if len(bad):
        fail(f"{values.name}: {str(bad.iloc[0])!r} is not a number", bad.index, row_label(values.to_frame()))
    return parsed


def _check_values(table: Table) -> None:
    label = row_label(table)
    for name in ("bid", "ask", "price", "strike", "forward", "discount", "maturity"):
        if name in table and np.isinf(table[name]).any():
            fail(f"{name}: infinite", table.index[np.isinf(table[name])], label)
        if name in table and (table[name] > LARGEST).any():  # whose squares are infinite
            fail(f"{name}: above {LARGEST:g}", table.index[table[name] > LARGEST], label)
    for name in ("bid", "ask", "price"):
        if name in table and (table[name] < 0).any():
            fail(f"{name}: negative", table.index[table[name] < 0], label)
    for name in ("strike", "forward", "discount", "spot"):
        if name in table and not (table[name] > 0).all():
            fail(f"{name}: not positive", table.index[~(table[name] > 0)], label)
    if (
        "expiration" in table
        and (late := table["expiration"].dt.normalize() < table["quote_date"].dt.normalize()).any()
    ):
        fail("expiration is before the quote date", table.index[late], label)
    if "maturity" in table and not (table["maturity"] >= 0).all():
        fail("maturity: missing or negative", table.index[~(table["maturity"] >= 0)], label)


def _maturities(table: Table) -> Column:
    """In years; 0 for options that expire on the quote date, at a time that is not given or has gone by."""
    if "maturity" in table:
        return table["maturity"]
    return ((table["expiration"] - table["quote_date"]) / pd.Timedelta(days=_DAYS_A_YEAR)).clip(lower=0.0)
