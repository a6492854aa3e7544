"""GeoParquet: tables with points, as GeoPandas writes and reads them (version 1.1 of the format)."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from seqgp.base.errors import extra
from seqgp.io.errors import TableError

with extra("io"):
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

KEY = b"geo"  # of the metadata
GEOMETRY, VERSION = "geometry", "1.1.0"
NAMES = {True: ("lon", "lat"), False: ("x", "y")}  # of coordinates in degrees, and of others
POINTS = {1, 1001, 2001, 3001}  # also with heights and measures
_SRID = 0x20000000  # flag of extended WKB
_KINDS = {2: "a line", 3: "an area", 4: "several points", 5: "several lines", 6: "several areas", 7: "a collection"}


def with_coordinates(path: Path, frame: pd.DataFrame, metadata: dict[bytes, bytes] | None) -> pd.DataFrame:
    """A table of points with their coordinates in columns (``lon`` and ``lat``, or ``x`` and ``y``), in place of these.

    Args:
        path: the file, for messages.
        frame: the table.
        metadata: of its schema; without GeoParquet's the table stays as it is.

    Raises:
        TableError: where a geometry is no point.
    """
    if not metadata or KEY not in metadata:
        return frame
    try:
        geo = json.loads(metadata[KEY])
        column = geo["primary_column"]
        described = geo["columns"][column]
    except (ValueError, KeyError, TypeError) as error:
        raise TableError(f"{path}: the metadata of GeoParquet are broken ({error})") from error
    if column not in frame:
        return frame
    read = _of_struct if described.get("encoding") == "point" else _of_wkb
    points = np.array([_named(path, row, value, read) for row, value in enumerate(frame[column])]).reshape(-1, 2)
    found = frame.drop(columns=column)
    for d, name in enumerate(NAMES[_in_degrees(described)]):
        if name not in found:  # a table may have had them before it had points
            found[name] = points[:, d]
    return found


def _named(path: Path, row: int, value: Any, read: Any) -> tuple[float, float]:
    if value is None:
        return np.nan, np.nan
    try:
        return read(value)
    except (ValueError, struct.error, TypeError, KeyError, IndexError) as error:
        raise TableError(f"{path}: row {row + 2}: the geometry is {error}; a location is a point") from error


def _of_struct(value: Any) -> tuple[float, float]:
    return float(value["x"]), float(value["y"])


def _of_wkb(value: bytes) -> tuple[float, float]:
    order = "<" if value[0] == 1 else ">"
    (kind,) = struct.unpack_from(f"{order}I", value, 1)
    plain = kind & 0x0FFFFFFF
    if plain not in POINTS:
        raise ValueError(_KINDS.get(plain % 1000, f"of kind {plain}"))
    return struct.unpack_from(f"{order}dd", value, 9 if kind & _SRID else 5)


def _in_degrees(described: dict[str, Any]) -> bool:
    if "crs" not in described:  # by the format, longitude and latitude
        return True
    crs = described["crs"] or {}
    return "Geographic" in str(crs.get("type"))


def write_points(file: IO[bytes], frame: pd.DataFrame, inputs: Sequence[str]) -> None:
    """Write a table as GeoParquet, with a point in each row.

    Args:
        file: where to write to.
        frame: the table, with columns of coordinates.
        inputs: the columns of the two coordinates; those called lon and lat are in degrees (WGS 84).
    """
    x, y = (frame[name].to_numpy(float) for name in inputs)
    wkb = [struct.pack("<BIdd", 1, 1, *point) for point in zip(x, y)]
    degrees = tuple(name.lower() for name in inputs) in {("lon", "lat"), ("longitude", "latitude"), ("long", "lat")}
    described = {"encoding": "WKB", "geometry_types": ["Point"]} | ({} if degrees else {"crs": None})
    geo = {"version": VERSION, "primary_column": GEOMETRY, "columns": {GEOMETRY: described}}
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.append_column(GEOMETRY, pa.array(wkb, pa.binary()))
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), KEY: json.dumps(geo).encode()})
    pq.write_table(table, file)
