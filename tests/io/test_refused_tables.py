"""Tables that would be read as something else than they say: each is refused, by row."""

import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import seqgp
from seqgp.base.errors import ModelError
from seqgp.io import frames
from seqgp.io.errors import TableError
from seqgp.io.stations import Stations
from seqgp.io.tables import Columns, snapshots_from

COLUMNS = Columns("t", ["x"], "y")
GOOD = "t,x,y,note\n0,1,2,a\n0,2,3,b\n1,1,4,c\n"


def read(tmp_path, content, columns=COLUMNS, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return snapshots_from(path, columns)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (GOOD.replace("0,2,3,b", "0,2"), r"row 3 stops after 2 of 4 fields: a field or a comma is missing"),
        (GOOD.replace("0,2,3,b", '0,2,"3,b"').replace("3,b", "3"), r"row 3 stops after 3 of 4 fields"),
        (GOOD.replace("a\n", '"a, and\nmore"\n').replace("0,2,3,b", '0,2,"b,c"'), r"row 4 stops after 3 of 4 fields"),
        (GOOD.replace("0,2,3,b", "0,2").replace("\n", "\r"), r"row 3 stops after 2"),
        (GOOD.replace("1,1,4,c", "1,1"), r"row 4 stops after 2 of 4 fields: the file is cut off"),
        (
            GOOD.replace("0,2,3", f"{2**53 + 1},2,3").replace("0,1,2", f"{2**53},1,2"),
            r"row 2, column 't'.*beyond 2\^53",
        ),
        (GOOD.replace("0,2,3", f"0,{2**60},3"), r"row 3, column 'x'.*beyond 2\^53"),
        (GOOD.replace("0,2,3", '0,2,"1,000"'), r"'1,000' is not a number; write 1000, .*or 1\.000 if it is a decimal"),
        (GOOD.replace("0,2,3", '0,2,"1,000,000.5"'), r"write 1000000\.5, without commas between thousands$"),
        (GOOD.replace("0,2,3", '0,2,"1,5"'), r"write a decimal point, not a comma"),
        ("t,x,y\n0,1,2,\n1,1,4,\n", "the rows have more fields than the header"),
        ("t,x,y\n5,1,2,9\n7,1,4,9\n9,1,4,9\n", "the rows have more fields than the header"),
        (GOOD.encode("utf-16-le"), "in UTF-16, without its mark: save it as UTF-8"),
        (GOOD.encode("utf-16-be"), "in UTF-16, without its mark: save it as UTF-8"),
        (GOOD.encode("utf-16"), "in UTF-16: save it as UTF-8"),
        (GOOD.replace("0,2,3", "0,2\0,3"), "it has zero bytes, as after a crash: write it again"),
        (GOOD + 300 * "1,1,4,c\n" + 100 * "\0", "it has zero bytes"),
    ],
)
def test_what_would_be_misread_is_refused(tmp_path, content, said):
    with pytest.raises(TableError, match=rf"table\.csv: .*{said}"):
        read(tmp_path, content)


def test_empty_fields_and_blank_lines_are_fine(tmp_path):
    first, second = read(tmp_path, GOOD.replace("0,2,3,b", "0,2,,") + "\n  \n")
    assert np.isnan(first.y[1])
    assert second.y.tolist() == [4.0]


def test_a_folder_that_is_called_like_a_table(tmp_path):
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(TableError, match=r"x\.csv: a folder, not a table"):
        snapshots_from(tmp_path / "x.csv", COLUMNS)


def test_a_parquet_file_with_two_equal_columns(tmp_path):
    values = pa.array([0.0, 1.0])
    pq.write_table(pa.Table.from_arrays([values, values, values, values], ["t", "x", "y", "y"]), tmp_path / "a.parquet")
    with pytest.raises(TableError, match=r"a\.parquet: two columns are called 'y'; rename one"):
        snapshots_from(tmp_path / "a.parquet", COLUMNS)
    pd.DataFrame({"t": [0], "x": [2**53 + 1], "y": [1.0]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r"row 2, column 'x': 9007199254740993 is beyond 2\^53"):
        snapshots_from(tmp_path / "b.parquet", COLUMNS)


@pytest.mark.parametrize("change", ["longer", "shorter"])
def test_a_file_that_changes_while_it_is_read_is_named(tmp_path, monkeypatch, change):
    path = tmp_path / "a.csv"
    path.write_text("t,x,y\n0,0,1\n1,0,2\n")
    honest = frames._open_given

    def opened(path):
        file = honest(path)
        path.write_text("t,x,y\n0,0,1\n" + ("1,0,2\n2,0,3\n" if change == "longer" else ""))
        return file

    monkeypatch.setattr(frames, "_open_given", opened)
    frames.read_bytes(path)  # written before it is read, and whole
    read = io.BufferedReader.read

    class Late(io.BufferedReader):
        def read(self, *size):
            content = read(self, *size)
            with path.open("a") as more:
                more.write("9,0,9\n")
            return content

    monkeypatch.setattr(frames, "_open_given", lambda path: Late(io.FileIO(path)))
    with pytest.raises(TableError, match=r"a\.csv: changed while it was read; try again when it is written whole"):
        snapshots_from(path, COLUMNS)


def test_a_table_that_is_shorter_when_its_lines_are_counted(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("t,x,y\n0,0,1\n1,0,2\n")
    honest = frames.read_table

    def then_cut(path):
        found = honest(path)
        path.write_text("t,x,y\n0,0,1\n")
        return found

    monkeypatch.setattr(frames, "read_table", then_cut)
    with pytest.raises(TableError, match="changed while it was read"):
        frames.read_numbered(path)


def test_priors_and_jitter_beyond_double_precision():
    with pytest.raises(ModelError, match=r"low = -1e\+308 and high = 1e\+308 are further apart"):
        seqgp.ScaledSigmoid(-1e308, 1e308)
    with pytest.raises(ModelError, match="its prior reaches below zero"):
        seqgp.likelihoods.Gaussian(noise=seqgp.ScaledSigmoid(-1e307, 1e307))
    kernel = seqgp.Separable(seqgp.kernels.Matern32(1.0), seqgp.kernels.Matern32(1.0))
    with pytest.raises(ModelError, match=r"jitter = 1e\+18 is relative to scale², and above 0\.01 it is noise"):
        seqgp.Model(kernel, seqgp.likelihoods.Gaussian(noise=1.0), jitter=1e18)


def test_coordinates_beyond_a_pole_are_named():
    kernel = seqgp.Separable(seqgp.kernels.Matern32(1.0), seqgp.kernels.GreatCircle(seqgp.kernels.Matern32(500.0)))
    model = seqgp.Model(kernel, seqgp.likelihoods.Gaussian(noise=1.0))
    swapped = seqgp.Snapshot(0.0, np.array([[48.0, 11.5], [35.7, 139.7]]), np.zeros(2))
    from seqgp.samplers.validation import check_snapshot

    with pytest.raises(seqgp.DataError, match=r"latitude = 139\.7 \(row 1 of 2\) is not between -90 and 90.*swapped\?"):
        check_snapshot(model, swapped)
    check_snapshot(model, swapped._replace(x=swapped.x[:, ::-1]))


def shuffled(frame, tmp_path):
    return read(tmp_path, frame.to_csv(index=False), COLUMNS._replace(location="station"))


def network():
    """Three stations at four times, of which one joins late."""
    rows = [(t, station, x, 10 * t + x) for t in range(4) for station, x in (("A", 1), ("B", 2), ("C", 3))]
    return pd.DataFrame(rows[:2] + rows[3:], columns=["t", "station", "x", "y"])


@pytest.mark.parametrize("by", [["station", "t"], ["x", "t"], ["station", "t desc"], ["t desc"]], ids=str)
def test_rows_station_by_station_or_newest_first_are_put_in_order(tmp_path, by):
    names = [name.removesuffix(" desc") for name in by]
    table = network().sort_values(names, ascending=["desc" not in name for name in by], kind="stable")
    for one, expected in zip(shuffled(table, tmp_path), shuffled(network(), tmp_path), strict=True):
        np.testing.assert_array_equal(one.t, expected.t)
        np.testing.assert_array_equal(one.x, expected.x)
        np.testing.assert_array_equal(one.y, expected.y)
        assert one.labels == expected.labels
        np.testing.assert_array_equal(table.t.iloc[one.records], one.t)
        np.testing.assert_array_equal(table.y.iloc[one.records], one.y)


def test_a_time_that_goes_back_among_rows_of_a_station_is_a_slip(tmp_path):
    table = network().sort_values(["station", "t"])
    table.iloc[2, 0], table.iloc[1, 0] = table.iloc[1, 0], table.iloc[2, 0]
    with pytest.raises(TableError, match=r"row 4: its time \(1\) is before that of the row above \(2\)"):
        shuffled(table, tmp_path)
    parts = pd.concat([network().iloc[5:], network().iloc[2:5]])
    with pytest.raises(TableError, match=r"row 8: its time \(1\) is before that of the row above \(3\)"):
        shuffled(parts, tmp_path)


def test_a_row_is_named_as_it_stands_in_a_file_station_by_station(tmp_path):
    table = network().sort_values(["station", "t"]).astype({"x": float})
    table.iloc[7, 2] = 2.5
    snapshots = shuffled(table, tmp_path)
    with pytest.raises(TableError, match=r"row 9: location 'B' is at \(x = 2\.5\), but in row 6 at \(x = 2\.0\)"):
        Stations(("x",), None).check(tmp_path / "table.csv", snapshots)
    assert snapshots[0].rows(tmp_path / "table.csv") == "row 2 and 1 more"
