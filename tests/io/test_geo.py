"""GeoParquet: points in the two encodings of the format, read as coordinates and written as points."""

import json
import struct

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqgp.io.errors import TableError
from seqgp.io.export import write_table
from seqgp.io.frames import read_table
from seqgp.io.tables import Columns, snapshots_from

X, Y = [7.5, 8.25, 9.0], [47.0, 46.5, 46.0]


def wkb(x, y, order="<", kind=1, srid=None):
    head = struct.pack(f"{order}BI", order == "<", kind | (0x20000000 if srid else 0))
    return head + (struct.pack(f"{order}I", srid) if srid else b"") + struct.pack(f"{order}dd", x, y)


def written(path, geometry, described, **columns):
    table = pa.table({**columns, "where": geometry})
    geo = {"version": "1.1.0", "primary_column": "where", "columns": {"where": {"geometry_types": [], **described}}}
    pq.write_table(table.replace_schema_metadata({b"geo": json.dumps(geo).encode()}), path)
    return path


PROJECTED = {"encoding": "WKB", "crs": {"type": "ProjectedCRS", "name": "CH1903+ / LV95"}}
GEOGRAPHIC = {"encoding": "WKB", "crs": {"type": "GeographicCRS", "name": "WGS 84"}}


@pytest.mark.parametrize(
    ("described", "names"),
    [({"encoding": "WKB"}, ["lon", "lat"]), (GEOGRAPHIC, ["lon", "lat"]), (PROJECTED, ["x", "y"])],
)
def test_points_become_coordinates(tmp_path, described, names):
    points = [wkb(X[0], Y[0]), wkb(X[1], Y[1], ">", 1001) + bytes(8), wkb(X[2], Y[2], srid=4326)]
    path = written(
        tmp_path / "a.parquet", pa.array(points, pa.binary()), described, day=[1, 2, 3], ozone=[3.0, 4.0, 5.0]
    )
    frame = read_table(path)
    assert list(frame.columns) == ["day", "ozone", *names]
    np.testing.assert_array_equal(frame[names], np.column_stack([X, Y]))
    snapshots = snapshots_from(path, Columns("day", names, "ozone"))
    np.testing.assert_array_equal([one.x[0] for one in snapshots], np.column_stack([X, Y]))


def test_points_that_are_structs(tmp_path):
    points = pa.array([{"x": x, "y": y} for x, y in zip(X, Y)])
    frame = read_table(written(tmp_path / "a.geoparquet", points, {"encoding": "point"}, t=[1, 1, 1]))
    np.testing.assert_array_equal(frame[["lon", "lat"]], np.column_stack([X, Y]))


def test_columns_that_are_there_stay(tmp_path):
    points = pa.array([wkb(0.0, 0.0)] * 3, pa.binary())
    frame = read_table(written(tmp_path / "a.parquet", points, {"encoding": "WKB"}, lon=X, lat=Y))
    np.testing.assert_array_equal(frame[["lon", "lat"]], np.column_stack([X, Y]))


@pytest.mark.parametrize(
    ("second", "said"),
    [(wkb(0, 0, kind=3), "row 3: the geometry is an area; a location is a point"), (b"\x01", "row 3: the geometry is")],
)
def test_what_is_no_point_is_named(tmp_path, second, said):
    points = pa.array([wkb(0.0, 0.0), second], pa.binary())
    with pytest.raises(TableError, match=said):
        read_table(written(tmp_path / "a.parquet", points, {"encoding": "WKB"}, t=[1, 2]))


def test_a_missing_point_is_a_missing_coordinate(tmp_path):
    points = pa.array([wkb(X[0], Y[0]), None], pa.binary())
    path = written(tmp_path / "a.parquet", points, {"encoding": "WKB"}, t=[1, 2], y=[1.0, 2.0])
    with pytest.raises(TableError, match="row 3, column 'lon': the number is missing"):
        snapshots_from(path, Columns("t", ["lon", "lat"], "y"))


@pytest.mark.parametrize(("names", "degrees"), [(("lon", "lat"), True), (("east", "north"), False)])
def test_what_is_written_is_read_again(tmp_path, names, degrees):
    frame = pd.DataFrame({"site": list("abc"), names[0]: X, names[1]: Y, "f_mean": [1.0, 2.0, 3.0]})
    write_table(tmp_path / "out.geoparquet", frame, names)
    schema = pq.read_schema(tmp_path / "out.geoparquet")
    geo = json.loads(schema.metadata[b"geo"])
    assert geo["columns"]["geometry"]["encoding"] == "WKB"
    assert ("crs" not in geo["columns"]["geometry"]) == degrees
    first = pq.read_table(tmp_path / "out.geoparquet")["geometry"][0].as_py()
    assert first == wkb(X[0], Y[0])
    again = read_table(tmp_path / "out.geoparquet")
    pd.testing.assert_frame_equal(again.reindex(columns=frame.columns), frame)
