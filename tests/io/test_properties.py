"""Whatever is in a table or a configuration: it is read as what it says, or refused with one line that names it."""

import datetime
import tomllib
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli_tables import CONFIG
from seqgp.io.configuration import ConfigurationError, read_configuration
from seqgp.io.errors import TableError
from seqgp.io.tables import Columns, points_from, snapshots_from

COLUMNS = Columns("t", ["x"], "y")
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CELLS = ["", "0", "1", "1e999", "x", '"', "2024-01-01", "-0", "NaN", ";", "\t", " "]
DATES = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)).map(
    lambda d: d.replace(microsecond=0)
)
NUMBERS = st.floats(-1e6, 1e6).map(lambda v: round(v, 6))


@QUICK
@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=12, unique_by=lambda row: row[:2]))
def test_numbers_come_back_as_they_were_written(tmp_path, rows):
    rows = sorted(rows)
    path = tmp_path / "table.csv"
    path.write_text("t,x,y\n" + "".join(f"{t!r},{x!r},{y!r}\n" for t, x, y in rows))
    found = snapshots_from(path, COLUMNS)
    assert [s.t for s in found] == sorted({row[0] for row in rows})
    np.testing.assert_array_equal(np.concatenate([s.y for s in found]), [row[2] for row in rows])


@QUICK
@given(st.text(max_size=300) | st.binary(max_size=300))
def test_any_content_is_a_table_or_is_refused_by_name(tmp_path, content):
    path = tmp_path / "table.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))
    with pytest.raises(TableError, match=r"table\.csv"):
        snapshots_from(path, COLUMNS._replace(time="no such column"))


@QUICK
@given(st.lists(st.sampled_from(CELLS), max_size=30))
def test_any_cells_are_a_table_or_are_refused_by_name(tmp_path, cells):
    path = tmp_path / "table.csv"
    lines = [",".join(cells[i : i + 3]) for i in range(0, len(cells), 3)]
    path.write_text("t,x,y\n" + "\n".join(lines))
    try:
        found = snapshots_from(path, COLUMNS)
    except TableError as error:
        assert "table.csv" in str(error)  # noqa: PT017
    else:
        assert all(np.isfinite(s.x).all() and not np.isinf(s.y).any() for s in found)


@QUICK
@given(
    st.lists(
        st.tuples(
            DATES,
            st.integers(-12, 14),
        ),
        min_size=2, max_size=6, unique_by=lambda pair: pair[0] - datetime.timedelta(hours=pair[1]),
    )
)  # fmt: skip
def test_dates_with_any_offsets_are_counted_in_utc(tmp_path, pairs):
    pairs = sorted(pairs, key=lambda pair: pair[0] - datetime.timedelta(hours=pair[1]))
    zoned = [date.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=hours))) for date, hours in pairs]
    path = tmp_path / "table.csv"
    path.write_text("t,x,y\n" + "".join(f"{date.isoformat()},0,1\n" for date in zoned))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = snapshots_from(path, COLUMNS._replace(unit="seconds"))
    assert [s.t for s in found] == [(date - zoned[0]).total_seconds() for date in zoned]


@QUICK
@given(st.integers(0, len(CONFIG) - 1), st.text(max_size=8))
def test_any_edit_of_a_configuration_is_read_or_refused_by_name(tmp_path, place, text):
    path = tmp_path / "config.toml"
    content = (CONFIG[:place] + text + CONFIG[place + len(text) :]).encode("utf-8", "replace")
    path.write_bytes(content)
    try:
        found = read_configuration(path)
    except ConfigurationError as error:
        assert "config.toml" in str(error)  # noqa: PT017
    else:
        assert found.run.seed == tomllib.loads(content.decode("utf-8-sig")).get("run", {}).get("seed", 0)


def test_names_are_kept_as_they_stand(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("t,x,y,id,note\n0,1,2,007,NA\n0,2,NA,NA,\n")
    columns = Columns("t", ["x"], "y", location="id")
    (snapshot,) = snapshots_from(path, columns)
    assert snapshot.labels == ["007", "NA"]
    assert np.isnan(snapshot.y).tolist() == [False, True]
    _, _, frame = points_from(path, columns)
    assert frame[["id", "note"]].to_numpy().tolist() == [["007", "NA"], ["NA", ""]]


def test_empty_rows_are_left_out_and_counted(tmp_path):
    """Spreadsheets leave rows of separators behind; those that follow keep the numbers that they have in the file."""
    path = tmp_path / "table.csv"
    path.write_text('t,x,y,id\n,,,\n20240501,1,2,"a\n,,,\nb"\n , ,"",\n20240502,2,,c\n,,,\n,\n')
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first, second = snapshots_from(path, COLUMNS._replace(location="id"))
    assert (first.labels, second.labels) == (["a\n,,,\nb"], ["c"])
    assert second.rows(path) == "row 7"
    empty, dates = (str(warning.message) for warning in caught)
    assert empty == f"{path}: 4 empty rows were left out"
    assert "20240501 is taken as a number" in dates  # whole numbers are whole without the empty rows


def test_empty_rows_above_the_header_are_left_out_too(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(",,\n\n ,\nt,x,y\n0,1,2\n1,much,2\n")
    with (
        pytest.warns(UserWarning, match="2 empty rows were left out"),
        pytest.raises(TableError, match=r"row 6, .*much"),
    ):
        snapshots_from(path, COLUMNS)


def test_a_row_that_says_it_is_missing_is_not_empty(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("t,x,y\n0,1,2\nNA,NA,NA\n")
    with pytest.raises(TableError, match="row 3, column 't': the number is missing"):
        snapshots_from(path, COLUMNS)


def test_the_index_of_a_parquet_file_is_columns(tmp_path):
    """Of frames whose times and names were an index when pandas wrote them."""
    frame = pd.DataFrame({"t": [0, 0, 1], "id": ["a", "b", "a"], "x": [1.0, 2.0, 1.0], "y": [3.0, 4.0, 5.0]})
    frame.set_index(["t", "id"]).to_parquet(tmp_path / "table.parquet")
    first, second = snapshots_from(tmp_path / "table.parquet", COLUMNS._replace(location="id"))
    assert (first.labels, second.labels, second.t) == (["a", "b"], ["a"], 1.0)
