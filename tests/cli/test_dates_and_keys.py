"""Dates wherever times are taken; keys without an effect are mistakes."""

import datetime

import pytest

from cli_tables import CONFIG, rows
from seqgp.io.dates import time_from
from seqgp.io.errors import TableError
from seqgp.io.tables import Columns, snapshots_from
from seqgp.io.timestamps import date_of, moment_text


@pytest.mark.parametrize(
    "text, origin, unit, t",
    [
        ("2.5", None, "days", 2.5),
        ("2.5", "2024-02-28T00:00:00", "days", 2.5),
        ("2024-03-01", "2024-02-28T00:00:00", "days", 2.0),
        ("2024-02-28T12:00", "2024-02-28T00:00:00", "hours", 12.0),
        ("2024-02-28T12:00:00+02:00", "2024-02-28T00:00:00+00:00", "hours", 10.0),
        ("1971-02-22", "1971-02-15", "weeks", 1.0),
        ("20240301", "2024-02-28", "days", 2.0),
        ("20240301", None, "days", 20240301.0),
    ],
)
def test_a_time_is_a_number_or_a_date(text, origin, unit, t):
    assert time_from(text, origin, unit) == t


@pytest.mark.parametrize(
    "text, origin, said",
    [
        ("2024-03-01", None, "the times of the run are numbers"),
        ("tomorrow", "2024-02-28", "is not a date like 2024-05-31"),
        ("nan", None, "not a finite number"),
        ("2024-03-01T00:00Z", "2024-02-28T00:00:00", "leave the offset out"),
        ("2024-03-01", "2024-02-28T00:00:00+00:00", "add an offset"),
    ],
)
def test_what_is_neither_is_named(text, origin, said):
    with pytest.raises(ValueError, match=said):
        time_from(text, origin, "days")


@pytest.mark.parametrize("unit, minutes", [("minutes", 1), ("hours", 60), ("days", 1440), ("weeks", 10080)])
def test_a_date_is_said_as_it_was_given(unit, minutes):
    zero = datetime.datetime(1970, 1, 1)
    for k in range(0, 30_000_000, 77_777):
        date = (zero + datetime.timedelta(minutes=k)).isoformat()
        assert date_of(k / minutes, zero.isoformat(), unit) == date
    assert moment_text(2.5, {"origin": "2024-02-28", "unit": "hours"}) == "2024-02-28T02:30:00 (t = 2.5)"
    assert moment_text(1e300, {"origin": "2024-02-28"}) == "t = 1e+300"


def test_dates_without_dashes_are_noted_and_late_ones_are_named_as_they_stand(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("t,x,y\n20240131,0,1\n20240201,0,1\n")
    with pytest.warns(UserWarning, match="20240131 is taken as a number, and not as a date"):
        snapshots_from(path, Columns("t", ["x"], "y"))
    path.write_text("t,x,y\n2024-02-01,0,1\n2024-01-31,0,1\n")
    with pytest.raises(TableError, match=r"its time \(2024-01-31\) is before that of the row above \(2024-02-01\)"):
        snapshots_from(path, Columns("t", ["x"], "y"))


def test_predict_takes_a_date(seqgp_, tmp_path):
    (tmp_path / "config.toml").write_text(CONFIG)
    (tmp_path / "table.csv").write_text(rows([0, 1]).replace("\n0,", "\n2024-02-28,").replace("\n1,", "\n2024-02-29,"))
    code, out, _ = seqgp_("fit", tmp_path / "config.toml")
    assert code == 0
    assert "2 steps, the last at 2024-02-29 (t = 1)" in out
    assert "2024-02-28 (t = 0) to 2024-02-29 (t = 1)" in seqgp_("summary", tmp_path / "run")[1]
    _, _, err = seqgp_("update", tmp_path / "run", tmp_path / "table.csv")
    assert "2024-02-28 (t = 0) is not after the last time of the run, 2024-02-29 (t = 1)" in err
    points = tmp_path / "points.csv"
    points.write_text("x2,x1\n0.5,0.25\n")
    predict = ("predict", tmp_path / "run", points, "-o", tmp_path / "out.csv", "--json")
    code, out, _ = seqgp_(*predict, "--time", "2024-03-01")
    assert code == 0
    assert '"t": 2.0' in out
    _, _, err = seqgp_(*predict, "--time", "2024-02-01", "--force")
    assert "--time 2024-02-01: before the last time of the run, 2024-02-29 (t = 1)" in err
    code, _, err = seqgp_(*predict, "--time", "2024-03-01T00:00Z", "--force")
    assert code == 2
    assert "leave the offset out" in err


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("[model]", 'covariates = { wind = "x1" }\n\n[model]', "data.covariates.wind has no effect: a Gaussian"),
        ("draws = 20", "draws = 20\nnodes = [4, 4]", "sampler.nodes has no effect with latent = 'dense'"),
        ("[model]", 'unit = "hours"\n\n[model]', "data.unit has no effect"),
    ],
)
def test_keys_without_an_effect_are_mistakes(seqgp_, tmp_path, old, new, said):
    assert old in CONFIG
    (tmp_path / "config.toml").write_text(CONFIG.replace(old, new, 1))
    (tmp_path / "table.csv").write_text(rows([0, 1]))
    code, _, err = seqgp_("fit", tmp_path / "config.toml")
    assert code == 2
    assert said in err
