"""A transform of the data from the command line: fitted on its scale, shown in the units of the table."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import seqgp
from seqgp.base.flags import shown_pair
from seqgp.plots.history import history_of
from seqgp.report.catalogue import RunCatalogue

CONFIG = """\
[data]
file = "table.csv"
time = "day"
inputs = ["x"]
value = "pm10"
location = "station"
transform = "log"

[model]
time = { kernel = "Matern12", lengthscale = 3.0 }
space = { kernel = "Matern12", lengthscale = 1.0 }
scale = 0.5
mean = 3.0
likelihood = { noise = 0.2 }

[sampler]
particles = 16
draws = 400

[run]
folder = "run"
"""


def table(steps=5):
    rng = np.random.default_rng(2)
    t, i = (grid.ravel() for grid in np.meshgrid(np.arange(steps), np.arange(4), indexing="ij"))
    dates = pd.date_range("2024-05-01", periods=steps)[t].strftime("%Y-%m-%d")
    y = np.round(20 * np.exp(0.5 * np.sin(t + i) + 0.1 * rng.standard_normal(len(t))), 1)
    return pd.DataFrame({"day": dates, "station": [f"S{n}" for n in i], "x": i * 0.7, "pm10": y})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.toml").write_text(CONFIG)
    table().to_csv(tmp_path / "table.csv", index=False)
    return tmp_path


def test_results_are_in_the_units_of_the_table(seqgp_, folder):
    """Export, prediction, NetCDF, figures and scores; the state is that of a run on the logs."""
    code, _, err = seqgp_("fit", folder / "config.toml")
    assert code == 0, err
    store, given = seqgp.Store(folder / "run"), table()
    draws = np.asarray(store.latest().state.latent)
    assert abs(draws.mean() - np.log(given.pm10).mean()) < 0.5

    seqgp_("export", folder / "run", folder / "out.csv")
    out = pd.read_csv(folder / "out.csv")
    assert (out.pm10 == given.pm10).all()
    np.testing.assert_allclose(out["mean"].tail(4), np.exp(draws).mean(axis=0))
    np.testing.assert_allclose(history_of(store).steps[-1].y, given.pm10.tail(4), rtol=0)

    (folder / "points.csv").write_text("x\n0\n0.7\n")
    code, _, err = seqgp_("predict", folder / "run", folder / "points.csv", "-o", folder / "p.csv")
    assert code == 0, err
    predicted = pd.read_csv(folder / "p.csv")
    assert np.allclose(predicted.f_q50, np.exp(np.median(draws, axis=0))[:2], rtol=0.1)
    assert (predicted["y_q2.5"] > 0).all()
    assert (predicted.y_sd > predicted.f_sd).all()

    seqgp_("export", folder / "run", folder / "out.nc", "--arviz")
    with xr.open_datatree(folder / "out.nc", engine="h5netcdf") as tree:
        assert (tree["observed_data/y"].to_numpy()[-1] == given.pm10.tail(4)).all()

    plain = CONFIG.replace('transform = "log"\n', "").replace('"run"', '"logs"').replace("table.csv", "logs.csv")
    (folder / "plain.toml").write_text(plain)
    given.assign(pm10=np.log(given.pm10)).to_csv(folder / "logs.csv", index=False, float_format="%.17g")
    assert seqgp_("fit", folder / "plain.toml")[0] == 0
    other = seqgp.Store(folder / "logs")
    np.testing.assert_allclose(draws, np.asarray(other.latest().state.latent), atol=1e-9)
    ours, theirs = store.latest().info.scores, other.latest().info.scores
    jacobian = np.log(given.pm10.tail(4)).sum()
    assert ours["log_score"] == pytest.approx(theirs["log_score"] - jacobian, abs=1e-7)
    assert ours["crps"] > 5 * theirs["crps"]

    code, out, _ = seqgp_("summary", folder / "run", "--json")
    assert json.loads(out)["transform"] == "log(pm10)"


def test_an_update_is_transformed_too(seqgp_, folder):
    """Later rows are read in the same way, and refused in the same words."""
    seqgp_("fit", folder / "config.toml")
    later = table(6).tail(4)
    later.to_csv(folder / "later.csv", index=False)
    code, _, err = seqgp_("update", folder / "run", folder / "later.csv")
    assert code == 0, err
    np.testing.assert_allclose(seqgp.Store(folder / "run").latest().snapshot.y, np.log(later.pm10))
    later.assign(day="2024-05-09", pm10=[1.0, 0.0, 2.0, 0.0]).to_csv(folder / "zero.csv", index=False)
    code, _, err = seqgp_("update", folder / "run", folder / "zero.csv")
    assert code == 2
    assert "row 3 (day 2024-05-09, station 'S1'), column 'pm10': 0 is not above 0" in err
    assert "(and 1 more)" in err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("likelihood = { noise = 0.2 }", 'likelihood = { family = "StudentT", noise = 0.2 }'),
            "the StudentT likelihood",
        ),
        (('transform = "log"', "transform = { boxcox = { low = 0, high = 1 } }"), "with a prior is not inferred"),
        (('transform = "log"', 'transform = "ln"'), "line 7: data.transform: 'ln' is no transform"),
        (('transform = "log"', "transform = { boxcox = -1 }"), "boxcox = -1 is negative"),
    ],
)
def test_what_is_refused(seqgp_, folder, change, said):
    """By name, before anything is written."""
    (folder / "config.toml").write_text(CONFIG.replace(*change))
    code, _, err = seqgp_("fit", folder / "config.toml")
    assert code == 2
    assert said in err
    assert not (folder / "run").exists()


def test_another_transform_for_the_same_run(seqgp_, folder):
    """A run has one transform."""
    seqgp_("fit", folder / "config.toml")
    (folder / "config.toml").write_text(CONFIG.replace('"log"', '"sqrt"'))
    code, _, err = seqgp_("fit", folder / "config.toml")
    assert code == 2
    assert "data.transform is 'sqrt', but the run" in err
    assert "begun with 'log'" in err


def test_a_value_that_the_likelihood_refuses_is_named_with_row_date_and_station(seqgp_, folder):
    """A zero in LogNormal data."""
    text = CONFIG.replace('transform = "log"\n', "").replace("{ noise", '{ family = "LogNormal", noise')
    (folder / "config.toml").write_text(text)
    zero = table()
    zero.loc[9, "pm10"] = 0.0
    zero.to_csv(folder / "table.csv", index=False)
    code, _, err = seqgp_("fit", folder / "config.toml")
    assert code == 2
    assert "row 11 (2024-05-03 (t = 2), location 'S1'): LogNormal: 1 of 4 values" in err


def test_scores_are_in_the_units_of_the_table(seqgp_, folder):
    """PIT is that of the logs, the log score has the Jacobian, and errors are those of the data."""
    whole = table()
    held, kept = whole[whole.station == "S1"], whole[whole.station != "S1"]
    kept.to_csv(folder / "table.csv", index=False)
    held.to_csv(folder / "held.csv", index=False)
    plain = CONFIG.replace('transform = "log"\n', "").replace('"run"', '"logs"').replace("table.csv", "logs.csv")
    (folder / "logs.toml").write_text(plain)
    for frame, name in ((kept, "logs.csv"), (held, "held_logs.csv")):
        frame.assign(pm10=np.log(frame.pm10)).to_csv(folder / name, index=False)
    rows = []
    for run, config, table_ in (("run", "config", "held"), ("logs", "logs", "held_logs")):
        assert seqgp_("fit", folder / f"{config}.toml")[0] == 0
        each = folder / f"{run}_each.csv"
        code, _, err = seqgp_("score", folder / run, folder / f"{table_}.csv", "-o", each, "--draws", 100)
        assert code == 0, err
        rows.append(pd.read_csv(each))
    units, logs = rows
    assert (units.y.unique() == held.pm10).all()
    np.testing.assert_allclose(units.pit, logs.pit, atol=1e-9)
    np.testing.assert_allclose(units.log_score, logs.log_score - np.log(units.y), atol=1e-9)
    np.testing.assert_allclose(units["median"], np.exp(logs["median"]), rtol=1e-9)
    assert (np.abs(units["mean"] - units.y) < 25).all()
    assert set(units.forecaster) == {"this model", "persistence", "AR(1)"}


@pytest.mark.parametrize("columns", [None, "80"])
def test_a_broken_station_is_said_in_the_units_of_the_table(seqgp_, folder, monkeypatch, columns):
    """Of logarithms, how many times its neighbours it reads; absent rows are missing. Nothing is cut at 80 columns."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    rng = np.random.default_rng(5)
    days, sites = 24, 8
    t, i = (grid.ravel() for grid in np.meshgrid(np.arange(days), np.arange(sites), indexing="ij"))
    y = 20 * np.exp(0.1 * np.sin(t + i) + 0.2 * rng.standard_normal(len(t)))
    y[(i == 3) & (t >= 10)] *= 6.0
    dates = pd.date_range("2024-05-01", periods=days)[t].strftime("%Y-%m-%d")
    full = pd.DataFrame({"day": dates, "station": [f"S{n}" for n in i], "x": i * 0.7, "pm10": y.round(1)})
    absent = ((i == 5) & (t < 4)) | ((i == 6) & (t == 7))
    full.loc[(i == 6) & (t == 9), "pm10"] = np.nan
    full[~absent].to_csv(folder / "table.csv", index=False)
    code, out, err = seqgp_("fit", folder / "config.toml")
    assert code == 0, err
    assert out.count("flagged: Station S3 reads") == 1
    code, out, _ = seqgp_("stations", folder / "run", "--json")
    found = json.loads(out)
    rows = {row["station"]: row for row in found["stations"]}
    assert rows["S3"]["unit"] == "times"
    assert abs(rows["S3"]["size"] - 6.0) < 3 * rows["S3"]["se"]
    assert found["flagged"] == [
        f"Station S3 reads {shown_pair(rows['S3']['size'], rows['S3']['se'])} times its neighbours since 2024-05-11"
    ]
    assert {name: row["missing"] for name, row in rows.items() if row["missing"]} == {"S5": 4, "S6": 2}
    code, out, _ = seqgp_("stations", folder / "run")
    assert "…" not in out
    assert "S3" in out
    assert columns or "error in log(y)" in out
    assert json.loads(seqgp_("summary", folder / "run", "--json")[1])["missing"] == {"values": 6, "of": days * sites}
    page = folder / "report.html"
    assert seqgp_("report", folder / "run", "-o", page)[0] == 0
    text = page.read_text()
    assert text.count(found["flagged"][0]) == 1
    assert "t = " not in text.split("<script")[0]
    catalogue = RunCatalogue(folder)
    (entry,) = catalogue.entries().values()
    served = catalogue.summary(entry)
    assert served["warnings"][0] == served["flags"][0]["text"] == found["flagged"][0]
    assert served["flags"][0]["size"] == pytest.approx(rows["S3"]["size"])
