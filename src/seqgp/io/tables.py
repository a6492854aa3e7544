"""Tables (CSV, Parquet) as snapshots: the rows of equal time, with every mistake named by file and row."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from seqgp.base.errors import DataError, extra
from seqgp.base.snapshot import Context, Snapshot
from seqgp.base.transforms import Transform
from seqgp.io.dates import UNITS, compact_dates, counted, holds_dates, parse_dates
from seqgp.io.errors import TableError
from seqgp.io.frames import READERS, read_table, require, row_in_file
from seqgp.io.grids import GRIDS, grid_table
from seqgp.io.row_order import check_duplicates, order_of_rows, rows_in_words

with extra("io"):
    import pandas as pd

LARGEST_WHOLE = 2**53  # beyond, double precision does not have every whole number
SENTINELS = (-999.0, -9999.0, -99999.0, -999.9, -99.9, -32768.0, 9999.0, 99999.0, 1e20)
FAR_OFF = 3.0  # ranges of all other values, from their median
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")


class Columns(NamedTuple):
    """Which column of a table is what.

    Attributes:
        time: the column of times: numbers, or dates.
        inputs: the columns of the inputs.
        value: the column of the data; empty cells are missing values.
        location: a column with names of the locations, for the report and exports.
        covariates: what the likelihood needs besides: name in its context to column.
        unit: where times are dates, the unit of time.
        origin: where times are dates, the date of time zero; the first one in the table by default.
        dates: whether times must be dates (or must not); either will do by default.
        transform: what the data become; a value that has no transform is refused.
    """

    time: str
    inputs: Sequence[str]
    value: str
    location: str | None = None
    covariates: Mapping[str, str] = {}
    unit: str = "days"
    origin: str | None = None
    dates: bool | None = None
    transform: Transform | None = None


class Labelled(Snapshot):
    """A snapshot whose locations have names, and which stands in some rows of a file."""

    labels: list[str] | None
    records: np.ndarray | None

    def __new__(
        cls,
        t: object,
        x: object,
        y: object,
        context: Context = None,
        labels: list[str] | None = None,
        records: np.ndarray | None = None,
    ):
        """A snapshot, checked, with the names of its rows, and their records in the table."""
        snapshot = super().__new__(cls, t, x, y, context)
        snapshot.labels, snapshot.records = labels, records
        return snapshot

    def rows(self, path: str | Path) -> str:
        """Where the data stand in their file, in words."""
        if self.records is None:
            return f"t = {self.t:g}"
        return rows_in_words(Path(path), self.records)


def snapshots_from(path: str | Path, columns: Columns) -> list[Labelled]:
    """The snapshots of a table: the groups of equal time, in order.

    Raises:
        TableError: names the file and the row (counted as in the file, the header being row 1) or the column.
    """
    path = Path(path)
    needed = [columns.time, *columns.inputs, columns.value, *columns.covariates.values()]
    frame = read_table(path, lambda name: name == columns.location and name not in needed)
    require(path, frame, [*needed, *([columns.location] if columns.location else [])])
    times = _times(path, _column(frame, columns.time), columns)
    inputs = np.stack([_numbers(path, _column(frame, name), False, exact=True) for name in columns.inputs], axis=1)
    values = _numbers(path, _column(frame, columns.value), missing=True)
    unseen = np.isnan(values)  # nothing is asked of a covariate there, unless by the mean
    covariates = {name: _numbers(path, _column(frame, c), missing=unseen) for name, c in columns.covariates.items()}
    labels = None if columns.location is None else _names(path, _column(frame, columns.location))
    order = order_of_rows(path, times, inputs if labels is None else labels, _column(frame, columns.time))
    check_duplicates(path, times, inputs)
    _name_sentinel(path, columns.value, values)
    if columns.transform is not None:
        values = _transformed(path, columns.transform, values, frame, columns)
    starts = np.flatnonzero(np.append(True, np.diff(times[order]) > 0))
    snapshots = []
    for rows in np.split(order, starts[1:]):
        context = {name: column[rows] for name, column in covariates.items()} or None
        names = None if labels is None else [labels[row] for row in rows]
        try:
            snapshots.append(Labelled(times[rows[0]], inputs[rows], values[rows], context, names, rows))
        except DataError as error:
            raise TableError(f"{path}: {rows_in_words(path, rows)}: {error}") from error
    return snapshots


def points_from(path: str | Path, columns: Columns) -> tuple[np.ndarray, dict[str, np.ndarray] | None, pd.DataFrame]:
    """Inputs (and covariates, where the model has them) to predict at, and the table they stand in."""
    path = Path(path)
    needed = [*columns.inputs, *columns.covariates.values()]
    # What is passed on is passed on as it is.
    frame = grid_table(path) if path.suffix in GRIDS else read_table(path, lambda name: name not in needed)
    require(path, frame, needed)
    inputs = np.stack([_numbers(path, _column(frame, name), missing=False) for name in columns.inputs], axis=1)
    context = {name: _numbers(path, _column(frame, c), missing=False) for name, c in columns.covariates.items()}
    return inputs, context or None, frame


def first_date(path: str | Path, column: str) -> str | None:
    """The first date of a table whose times are dates; ``None`` where they are numbers."""
    frame = read_table(path)
    require(Path(path), frame, [column])
    times = _column(frame, column)
    return parse_dates(Path(path), times, say=False).iloc[0].isoformat() if holds_dates(times) else None


def _numbers(path: Path, column: Any, missing: bool | Bool[np.ndarray, " n"], exact: bool = False) -> np.ndarray:
    """A column as floats; where values may be missing, empty cells are NaN; ``exact`` where they must stay apart."""
    if column.dtype.kind in "bmMc":  # booleans, durations, dates, complex numbers
        raise TableError(f"{path}: column {column.name!r} holds {column.dtype}, expected numbers; convert it to them")
    numbers = _as_numeric(column).to_numpy(dtype=float, na_value=np.nan)
    wrong = np.isnan(numbers) & ~column.isna().to_numpy()
    if wrong.any():
        index = int(np.argmax(wrong))
        row, value = row_in_file(path, index), column.iloc[index]
        hint = _decimal_hint(value)
        raise TableError(f"{path}: row {row}, column {column.name!r}: {value!r} is not a number{hint}")
    bad = np.isinf(numbers) | (np.isnan(numbers) & ~np.asarray(missing))
    if bad.any():
        index = int(np.argmax(bad))
        what = "is missing" if np.isnan(numbers[index]) else "is infinite"
        hint = "; leave missing values empty" if missing is True else "; every row needs one"
        hint += " that has a value" * (not isinstance(missing, bool))
        raise TableError(f"{path}: row {row_in_file(path, index)}, column {column.name!r}: the number {what}{hint}")
    if exact:
        _check_exact(path, column, numbers)
    return numbers


def _transformed(path: Path, transform: Transform, values: np.ndarray, frame: pd.DataFrame, columns: Columns) -> Any:
    """The data as the model sees them; one that has no transform is named with its row, time and location."""
    outside = transform.outside(values)
    if not outside.any():
        return transform.forward(values)
    row, count = int(np.argmax(outside)), int(outside.sum())
    place = f", {columns.location} {str(frame[columns.location].iloc[row])!r}" if columns.location else ""
    more = f" (and {count - 1} more)" if count > 1 else ""
    hint = "use { log_offset = … }, or " if "log" in transform.kind or transform.kind == "boxcox" else ""
    raise TableError(
        f"{path}: row {row_in_file(path, row)} ({columns.time} {frame[columns.time].iloc[row]}{place}), column "
        f"{columns.value!r}: {values[row]:g} is not {transform.domain}, as data.transform needs{more}; {hint}leave the "
        "cell empty where the value is missing"
    )


def _name_sentinel(path: Path, name: str, values: np.ndarray) -> None:
    """A number that often stands for a missing value, far from all others, is said to be taken as a value."""
    seen = values[~np.isnan(values)]
    for code in SENTINELS:
        among = seen == code
        others = seen[~among]
        if among.any() and others.size and abs(code - np.median(others)) > FAR_OFF * (np.ptp(others) or 1.0):
            row = row_in_file(path, int(np.argmax(values == code)))
            warnings.warn(
                f"{path}: column {name!r}: {code:g} is taken as a value ({among.sum()} times, the first in row {row}); "
                "if it stands for a missing one, leave the cell empty",
                stacklevel=3,
            )


def _names(path: Path, column: Any) -> list[str]:
    """The names of locations; one that is empty would be taken for the same place as the next."""
    names = ["" if missing else str(name) for name, missing in zip(column, column.isna())]
    empty = next((row for row, name in enumerate(names) if not name.strip()), None)
    if empty is not None:
        raise TableError(
            f"{path}: row {row_in_file(path, empty)}, column {column.name!r}: the name of the location is empty; every "
            "row needs one, or leave data.location out of the configuration"
        )
    return names


def _decimal_hint(value: object) -> str:
    if (
        not isinstance(value, str)
        or "," not in value
        or not value.replace(",", "").replace(".", "").strip(" +-").isdigit()
    ):
        return ""
    if _THOUSANDS.fullmatch(value.strip()):
        plain = value.strip().replace(",", "")
        either = f", or {value.strip().replace(',', '.')} if it is a decimal comma" if value.count(",") == 1 else ""
        return f"; write {plain}, without commas between thousands{either}"
    return "; write a decimal point, not a comma" if value.count(",") == 1 else ""


def _column(frame: pd.DataFrame, name: str) -> Any:
    return frame[name]


def _as_numeric(column: Any) -> Any:
    """A column of numbers, NaN where it is none."""
    if column.dtype == object:  # of Python's own numbers, some may be too long for any type of NumPy's
        column = column.map(lambda value: str(value) if isinstance(value, int) else value)
    return pd.to_numeric(column, errors="coerce")


def _times(path: Path, column: Any, columns: Columns) -> np.ndarray:
    dates = holds_dates(column)
    if columns.dates is not None and dates != columns.dates:
        found, expected = ("dates", "numbers") if dates else ("numbers", "dates")
        raise TableError(f"{path}: column {column.name!r} holds {found}, but the run's times are {expected}")
    if dates:
        return counted(path, column, parse_dates(path, column), columns.origin, columns.unit)
    if columns.origin is not None:
        raise TableError(f"{path}: column {column.name!r} holds numbers, but the run's times are dates")
    if columns.dates is None and compact_dates(column):
        first = column.iloc[0]
        warnings.warn(
            f"{path}: column {column.name!r}: {first} is taken as a number, and not as a date: from month to month "
            "time would jump; write dates as 2024-05-31",
            stacklevel=2,
        )
    return _numbers(path, column, missing=False, exact=True)


def _check_exact(path: Path, column: Any, numbers: np.ndarray) -> None:
    """Whole numbers that double precision would round may become equal: those of nanoseconds, say."""
    if column.dtype.kind == "f":
        return
    far = np.abs(numbers) >= LARGEST_WHOLE
    if far.any():
        row = int(np.argmax(far))
        raise TableError(
            f"{path}: row {row_in_file(path, row)}, column {column.name!r}: {column.iloc[row]} is beyond 2^53, where "
            "double precision does not tell neighbouring whole numbers apart; count from a later zero, or in larger "
            "units"
        )


__all__ = ["READERS", "UNITS", "Columns", "Labelled", "first_date", "points_from", "read_table", "snapshots_from"]
