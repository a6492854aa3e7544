"""Which column of a table is what, from names and contents, where there is only one answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqgp.base.errors import extra
from seqgp.io.dates import holds_dates
from seqgp.io.errors import TableError
from seqgp.io.frames import read_table, require
from seqgp.io.tables import Columns

with extra("io"):
    import pandas as pd

TIMES = ("t", "time", "date", "datetime", "timestamp", "ds", "day", "hour")
LOCATIONS = ("station", "site", "location", "unique_id", "name", "id", "station_id", "site_id", "sensor")
PAIRS = (  # units that follow, as in x_km, are no part of a name
    ("x1", "x2", "x3"), ("x", "y", "z"), ("lon", "lat"), ("long", "lat"), ("longitude", "latitude"),
    ("easting", "northing"), ("east", "north"), ("utm_x", "utm_y"), ("x", "y"), ("x1", "x2"), ("x1",), ("x",),
)  # fmt: skip
HEIGHTS = ("altitude", "alt", "elevation", "elev", "height")  # covariates, where each station has one
VALUES = ("value", "y", "measurement", "reading")
LONG = ("unique_id", "ds", "y")  # the long format of tables of time series
_UNIT = re.compile(r"[ _]*[(\[]?\b(km|m|deg|degrees)[)\]]?$|_(km|m|deg|degrees)$")


def guess_columns(
    path: str | Path,
    time: str | None = None,
    inputs: Sequence[str] = (),
    value: str | None = None,
    location: str | None = None,
) -> Columns:
    """The columns of a table; those that are given are kept. The height of stations is a covariate.

    Raises:
        TableError: names the role for which no column, or more than one, comes into question.
    """
    path = Path(path)
    frame = read_table(path)
    given = [name for name in (time, *inputs, value, location) if name is not None]
    require(path, frame, given)
    if value is None and all(name in frame.columns and name not in given for name in LONG):
        value = "y"  # and not a coordinate
        given.append(value)
    left = [str(name) for name in frame.columns if name not in given]
    if time is None:
        dates = [name for name in left if holds_dates(frame[name]) and _are_dates(frame[name])]
        time = _one(path, frame, "time", dates or _named(left, TIMES))
        left.remove(time)
    if location is None:
        words = [name for name in left if not _numeric(frame[name])]
        location = next(iter(_named(left, LOCATIONS)), words[0] if len(words) == 1 else None)
        left = [name for name in left if name != location]
    left = [name for name in left if _numeric(frame[name])]
    heights = _heights(frame, left, location)
    left = [name for name in left if name not in heights.values()]
    if not inputs:
        inputs = _inputs(path, frame, left, location, value is None)
        left = [name for name in left if name not in inputs]
    if value is None:
        value = _one(path, frame, "value", _named(left, VALUES) or left)
    return Columns(time, tuple(inputs), value, location, heights)


def _heights(frame: Any, left: list[str], location: str | None) -> dict[str, str]:
    """The column that has the height of each station, by its plain name."""
    if location is None:
        return {}
    plain = {_plain(name): name for name in left}
    found = [(name, plain[name]) for name in HEIGHTS if name in plain]
    kept = [
        (name, column) for name, column in found if frame.groupby(location)[column].nunique(dropna=False).max() == 1
    ]
    return dict([one for one in kept if frame[one[1]].nunique() > 1 and frame[one[1]].notna().all()][:1])


def _plain(name: str) -> str:
    """A name in small letters, without a unit."""
    return _UNIT.sub("", name.lower())


def _inputs(path: Path, frame: Any, left: list[str], location: str | None, needs_value: bool) -> tuple[str, ...]:
    """Coordinates by their names; where these say nothing, the one or two numbers that each location keeps."""
    plain = {_plain(name): name for name in left}
    for names in PAIRS:
        if all(name in plain for name in names) and (len(names) < len(left) or not needs_value):
            return tuple(plain[name] for name in names)
    if location is not None:
        kept = [name for name in left if frame.groupby(location)[name].nunique(dropna=False).max() == 1]
        kept = [name for name in kept if frame[name].nunique() > 1]
        if 1 <= len(kept) <= 2 and (len(kept) < len(left) or not needs_value):
            return tuple(kept)
    raise _unclear(path, frame, "inputs", [])


def _named(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """The columns with one of these names; the first of them that is there decides."""
    lower = {name.lower(): name for name in names}
    return [lower[name] for name in known if name in lower][:1]


def _one(path: Path, frame: object, role: str, found: list[str]) -> str:
    if len(found) != 1:
        raise _unclear(path, frame, role, found)
    return found[0]


def _unclear(path: Path, frame: Any, role: str, found: list[str]) -> TableError:
    columns = ", ".join(repr(str(name)) for name in frame.columns)
    what = f"{', '.join(map(repr, found))} may all be" if len(found) > 1 else "no column is plainly"
    more = "; coordinates that are in another table must be joined to this one" if role == "inputs" else ""
    return TableError(f"{path}: {what} the {role}; say so with --{role}; the columns are {columns}{more}")


def _numeric(column: object) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column)) and not pd.api.types.is_bool_dtype(column)


def _are_dates(column: Any) -> bool:
    found: Any = pd.to_datetime(column.dropna().head(100), errors="coerce", format="ISO8601", utc=True)
    return len(found) > 0 and bool(found.notna().all())
