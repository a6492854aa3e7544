"""Times that are dates: with offsets they are converted to UTC, and said; rubbish is named by its row."""

from __future__ import annotations

import datetime
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from seqgp.base.errors import extra
from seqgp.io.errors import TableError
from seqgp.io.frames import row_in_file

with extra("io"):
    import pandas as pd

UNITS = {"seconds": "s", "minutes": "min", "hours": "h", "days": "D", "weeks": "W"}
_COMPACT = re.compile(r"(1[89]|20|21)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
_OFFSET = re.compile(r"[T ]\d{2}.*?(Z|[+-]\d{2}(:?\d{2})?)$", re.IGNORECASE)


def holds_dates(column: object) -> bool:
    """Whether most of a column is no number: then it should be dates."""
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        return False
    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    numbers: Any = pd.to_numeric(column, errors="coerce")
    return numbers.isna().mean() > 0.5


def compact_dates(column: Any) -> bool:
    """Whether all numbers of a column look like dates without their dashes: 20240531."""
    return pd.api.types.is_integer_dtype(column) and all(_COMPACT.fullmatch(str(value)) for value in column.unique())


def parse_dates(path: Path, column: Any, say: bool = True) -> Any:
    """A column as timestamps: all in UTC, or all without a zone; that they were converted is said, if asked to."""
    zones = _zones(column)
    if len(zones) > 1 and None in zones:
        row = row_in_file(path, next(i for i, value in enumerate(column) if _zone(value) is None))
        raise TableError(
            f"{path}: row {row}, column {column.name!r}: dates with and without a time zone cannot be mixed; give "
            "all of them an offset, or none"
        )
    aware = bool(zones) and None not in zones
    try:
        found: Any = pd.to_datetime(column, errors="coerce", format="ISO8601", utc=aware)
    except (ValueError, OverflowError, TypeError) as error:
        raise TableError(f"{path}: column {column.name!r}: cannot be read as dates ({error})") from error
    wrong = found.isna().to_numpy()
    if wrong.any():
        index = int(np.argmax(wrong))
        where = f"{path}: row {row_in_file(path, index)}, column {column.name!r}"
        if pd.isna(column.iloc[index]):
            raise TableError(f"{where}: the date is missing; every row needs one")
        raise TableError(f"{where}: {column.iloc[index]!r} is neither a number nor a date like 2024-05-31")
    if say and aware and zones != {"UTC"}:
        warnings.warn(f"{path}: column {column.name!r}: dates with offsets are converted to UTC", stacklevel=2)
    return found


def parse_origin(text: str) -> pd.Timestamp:
    """The date of time zero, from its text.

    Raises:
        ValueError: where it is no date.
    """
    try:
        origin: Any = pd.Timestamp(datetime.datetime.fromisoformat(text))
    except (TypeError, OverflowError, ValueError) as error:
        raise ValueError(f"{text!r} is not a date like 2024-05-31, or 2024-05-31T12:00:00") from error
    return origin.tz_convert("UTC") if origin.tzinfo is not None else origin


def time_from(text: str, origin: str | None, unit: str) -> float:
    """A time as a run counts it, from a number or a date (ISO, with an offset or without).

    Raises:
        ValueError: where it is neither, or a date that the run's dates cannot be compared with.
    """
    try:
        number = float(text)
    except ValueError:
        number = None
    if number is not None and not (origin is not None and _COMPACT.fullmatch(text)):  # 20240531 is a date in ISO
        if not np.isfinite(number):
            raise ValueError(f"{text!r} is not a finite number")
        return number
    date = parse_origin(text)
    if origin is None:
        raise ValueError(f"{text!r} is a date, but the times of the run are numbers")
    zero = parse_origin(origin)
    if (date.tzinfo is None) != (zero.tzinfo is None):
        needed = "no time zone: leave the offset out" if zero.tzinfo is None else "a time zone: add an offset, or Z"
        raise ValueError(f"{text!r}: the dates of the run have {needed}")
    return float((date - zero) / pd.Timedelta(1, UNITS[unit]))  # pyright: ignore


def counted(path: Path, column: Any, found: Any, origin: str | None, unit: str) -> np.ndarray:
    """Timestamps as numbers, counted from the origin (by default from the first)."""
    zero: Any = found.iloc[0] if origin is None else parse_origin(origin)
    if (found.dt.tz is None) != (zero.tzinfo is None):
        raise TableError(
            f"{path}: column {column.name!r}: dates with and without a time zone cannot be mixed (time is counted from "
            f"{zero.isoformat()})"
        )
    return ((found - zero) / pd.Timedelta(1, UNITS[unit])).to_numpy(dtype=float)  # pyright: ignore


def _zones(column: Any) -> set[str | None]:
    """The offsets in a column; ``None`` stands for a date without one."""
    if pd.api.types.is_datetime64_any_dtype(column):
        zone = getattr(column.dtype, "tz", None)
        return {None if zone is None else ("UTC" if str(zone) in ("UTC", "+00:00") else str(zone))}
    return {_zone(value) for value in column.dropna()}


def _zone(value: object) -> str | None:
    if isinstance(value, datetime.datetime):
        return None if value.tzinfo is None else ("UTC" if not value.utcoffset() else str(value.utcoffset()))
    found = _OFFSET.search(str(value).strip())
    if found is None:
        return None
    return "UTC" if found.group(1).upper() in ("Z", "+00:00", "+0000", "+00", "-00:00") else found.group(1)
