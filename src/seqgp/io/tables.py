"""Tables (CSV, Parquet) as snapshots: the rows of equal time, with every mistake named by file and row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqgp.io.errors import TableError
from seqgp.models.errors import DataError, extra
from seqgp.models.snapshot import Snapshot

with extra("io"):
    import pandas as pd

READERS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}
UNITS = {"seconds": "s", "minutes": "min", "hours": "h", "days": "D", "weeks": "W"}


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
    """

    time: str
    inputs: Sequence[str]
    value: str
    location: str | None = None
    covariates: Mapping[str, str] = {}
    unit: str = "days"
    origin: str | None = None


class Labelled(Snapshot):
    """A snapshot whose locations have names."""

    labels: list[str] | None

    def __new__(cls, t: Any, x: Any, y: Any, context: Any = None, labels: list[str] | None = None):
        """A snapshot, checked, with the names of its rows."""
        snapshot = super().__new__(cls, t, x, y, context)
        snapshot.labels = labels
        return snapshot


def read_table(path: str | Path) -> pd.DataFrame:
    """A CSV or Parquet file as a data frame; what cannot be read is named."""
    path = Path(path)
    if path.is_dir():
        raise TableError(f"{path}: a folder, not a table; give a .csv or .parquet file")
    if not path.exists():
        raise TableError(f"{path}: no such file; check the path")
    kind = READERS.get(path.suffix.lower())
    if kind is None:
        raise TableError(f"{path}: the name ends in {path.suffix!r}; expected .csv or .parquet")
    try:
        frame = _read_csv(path) if kind == "csv" else pd.read_parquet(path)
    except PermissionError as error:
        raise TableError(f"{path}: may not be read ({error.strerror}); check its permissions") from error
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: not a text file in UTF-8 (byte {error.start}); is it a CSV?") from error
    except (pd.errors.EmptyDataError, pd.errors.ParserError, ValueError, OSError) as error:
        raise TableError(f"{path}: cannot be read as {kind} ({_one_line(error)})") from error
    doubled = frame.columns[frame.columns.duplicated()]
    if len(doubled):
        raise TableError(f"{path}: two columns are called {str(doubled[0])!r}; rename one")
    if not len(frame):
        raise TableError(f"{path}: the table has no rows")
    return frame


def snapshots_from(path: str | Path, columns: Columns) -> list[Labelled]:
    """The snapshots of a table: the groups of equal time, in order.

    Raises:
        TableError: names the file and the row (counted as in the file, the header being row 1) or the column.
    """
    path = Path(path)
    frame = read_table(path)
    needed = [columns.time, *columns.inputs, columns.value, *columns.covariates.values()]
    _require(path, frame, [*needed, *([columns.location] if columns.location else [])])
    times = _times(path, _column(frame, columns.time), columns)
    inputs = np.stack([_numbers(path, _column(frame, name), missing=False) for name in columns.inputs], axis=1)
    values = _numbers(path, _column(frame, columns.value), missing=True)
    covariates = {name: _numbers(path, _column(frame, c), missing=False) for name, c in columns.covariates.items()}
    labels = None if columns.location is None else [str(v) for v in frame[columns.location]]
    _check_order(path, times)
    _check_duplicates(path, times, inputs)
    starts = np.flatnonzero(np.append(True, np.diff(times) > 0))
    snapshots = []
    for rows in np.split(np.arange(len(times)), starts[1:]):
        context = {name: column[rows] for name, column in covariates.items()} or None
        names = None if labels is None else [labels[row] for row in rows]
        try:
            snapshots.append(Labelled(times[rows[0]], inputs[rows], values[rows], context, names))
        except DataError as error:
            raise TableError(f"{path}: rows {rows[0] + 2} to {rows[-1] + 2}: {error}") from error
    return snapshots


def points_from(path: str | Path, columns: Columns) -> tuple[np.ndarray, dict[str, np.ndarray] | None, pd.DataFrame]:
    """Inputs (and covariates, where the model has them) to predict at, and the table they stand in."""
    path = Path(path)
    frame = read_table(path)
    _require(path, frame, [*columns.inputs, *columns.covariates.values()])
    inputs = np.stack([_numbers(path, _column(frame, name), missing=False) for name in columns.inputs], axis=1)
    context = {name: _numbers(path, _column(frame, c), missing=False) for name, c in columns.covariates.items()}
    return inputs, context or None, frame


def first_date(path: str | Path, column: str) -> str | None:
    """The first date of a table whose times are dates; ``None`` where they are numbers."""
    frame = read_table(path)
    _require(Path(path), frame, [column])
    times = _column(frame, column)
    return _dates(Path(path), times).iloc[0].isoformat() if _holds_dates(times) else None


def _read_csv(path: Path) -> pd.DataFrame:
    # A comma too many in a row must be an error, not an index: index_col=False would cut it off silently.
    frame = pd.read_csv(path, encoding="utf-8-sig", skipinitialspace=True)
    if not isinstance(frame.index, pd.RangeIndex):
        raise ValueError("the rows have more fields than the header")
    return frame


def _require(path: Path, frame: pd.DataFrame, names: Sequence[str]) -> None:
    for name in names:
        if name not in frame.columns:
            there = ", ".join(repr(str(column)) for column in frame.columns[:12])
            raise TableError(f"{path}: there is no column {name!r}; the columns are {there}")


def _numbers(path: Path, column: Any, missing: bool) -> np.ndarray:
    """A column as floats; where values may be missing, empty cells are NaN."""
    numbers = _as_numeric(column).to_numpy(dtype=float, na_value=np.nan)
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_datetime64_any_dtype(column):
        raise TableError(f"{path}: column {column.name!r} holds {column.dtype}, expected numbers")
    wrong = np.isnan(numbers) & ~column.isna().to_numpy()
    if wrong.any():
        row = int(np.argmax(wrong))
        raise TableError(f"{path}: row {row + 2}, column {column.name!r}: {column.iloc[row]!r} is not a number")
    bad = np.isinf(numbers) if missing else ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        what = "is missing" if np.isnan(numbers[row]) else "is infinite"
        hint = "; leave missing values empty" if missing else "; every row needs one"
        raise TableError(f"{path}: row {row + 2}, column {column.name!r}: the number {what}{hint}")
    return numbers


def _column(frame: pd.DataFrame, name: str) -> Any:
    return frame[name]


def _as_numeric(column: Any) -> Any:
    """A column of numbers, NaN where it is none."""
    return pd.to_numeric(column, errors="coerce")


def _holds_dates(column: Any) -> bool:
    """Whether most of a column is no number: then it should be dates."""
    if pd.api.types.is_numeric_dtype(column):
        return False
    return pd.api.types.is_datetime64_any_dtype(column) or _as_numeric(column).isna().mean() > 0.5


def _times(path: Path, column: Any, columns: Columns) -> np.ndarray:
    if not _holds_dates(column):
        if columns.origin is not None:
            raise TableError(f"{path}: column {column.name!r} holds numbers, but the run's times are dates")
        return _numbers(path, column, missing=False)
    found = _dates(path, column)
    origin: Any = found.iloc[0] if columns.origin is None else pd.Timestamp(columns.origin)
    if (found.dt.tz is None) != (origin.tzinfo is None):
        raise TableError(f"{path}: column {column.name!r}: dates with and without a time zone cannot be mixed")
    return ((found - origin) / pd.Timedelta(1, UNITS[columns.unit])).to_numpy(dtype=float)


def _dates(path: Path, column: Any) -> Any:
    found = pd.to_datetime(column, errors="coerce", format="ISO8601")
    wrong = found.isna().to_numpy()
    if wrong.any():
        row = int(np.argmax(wrong))
        raise TableError(
            f"{path}: row {row + 2}, column {column.name!r}: {column.iloc[row]!r} is neither a number nor a date "
            "like 2024-05-31"
        )
    return found


def _check_order(path: Path, times: np.ndarray) -> None:
    back = np.flatnonzero(np.diff(times) < 0)
    if len(back):
        row = int(back[0]) + 1
        raise TableError(
            f"{path}: row {row + 2}: its time ({times[row]:g}) is before that of the row above ({times[row - 1]:g}); "
            "sort the table by time"
        )


def _check_duplicates(path: Path, times: np.ndarray, inputs: np.ndarray) -> None:
    rows = pd.DataFrame(np.column_stack([times, inputs]))
    again = rows.duplicated().to_numpy()
    if again.any():
        second = int(np.argmax(again))
        first = int(np.argmax((rows == rows.iloc[second]).all(axis=1)))
        raise TableError(
            f"{path}: rows {first + 2} and {second + 2} have the same time and inputs; keep one, or average them"
        )


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text[:160] or type(error).__name__
