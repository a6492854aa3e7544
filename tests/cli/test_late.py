"""Late and corrected rows in `update`, `watch` and `fit`: what they change, what is listed, and what is refused."""

import json
import os
import shutil

import jax
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import seqgp
from cli_tables import CONFIG, rows
from seqgp.io.unused_rows import left_out

SEQUENTIAL = 'draws = 20\nchains = 2\nwarmup = 10\nthin = 1\nlatent = "dense"\nupdates = "plain"\n'
ONLINE = CONFIG.replace(SEQUENTIAL, "draws = 30\nparticles = 16\n").replace("SquaredExponential", "Matern32", 1)
LATE = "t,x1,x2,y,station\n1,0.0,0.0,7,S0\n1,0.2,0.37,,S1\n1,0.9,0.9,0.5,S9\n"  # corrected, retracted, a new station


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    from seqgp.cli import main

    folder = tmp_path_factory.mktemp("online")
    (folder / "config.toml").write_text(ONLINE)
    (folder / "table.csv").write_text(rows([0, 1, 2]))
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(folder / "config.toml")])
    assert ended.value.code == 0
    return folder


@pytest.fixture
def run(watched):
    return watched


def given(run, text, name="late.csv"):
    path = run.parent / name
    path.write_text(text)
    return path


def values(run, t):
    """The data of a time as they are now, by place."""
    (found,) = [one for one in seqgp.Store(run).snapshots() if one.t == t]
    return {tuple(x): y for x, y in zip(found.x.tolist(), found.y.tolist())}


def test_late_rows_revise_the_past_and_the_log_has_what_they_replaced(seqgp_, run):
    before = values(run, 1.0)
    code, out, err = seqgp_("update", run, given(run, LATE))
    assert code == 0
    assert "late data for 1 time (1 corrected): the last state moved by up to" in out
    assert "step 4, t = 2: " in err  # one line a step
    after = values(run, 1.0)
    assert after[0.0, 0.0] == 7
    assert np.isnan(after[0.2, 0.37])
    assert after[0.9, 0.9] == 0.5
    assert after[0.4, 0.74] == before[0.4, 0.74]  # rows that were not given stay
    store = seqgp.Store(run)
    assert store.check() == []
    assert store.latest().late.labels == (["S0", "S1", "S2", "S3", "S9"],)
    assert store.latest().labels == ["S0", "S1", "S2", "S3"]
    shown = seqgp_("log", run)[1]
    for line in ("t = 1, S0: 0 -> 7", "t = 1, S1: 0.7 -> missing", "t = 1, S9: none -> 0.5"):
        assert line in shown
    (revision,) = json.loads(seqgp_("log", run, "--json")[1])["revisions"]
    assert {change["location"] for change in revision["changes"]} == {"S0", "S1", "S9"}
    assert revision["changes"][0]["before"] == pytest.approx(before[0.0, 0.0])
    code, out, _ = seqgp_("update", run, given(run, LATE), "--skip-seen")
    assert code == 0
    assert "nothing new was added" in out
    shutil.copy(run.parent / "table.csv", run.parent / "old.csv")
    code, out, _ = seqgp_("update", run, run.parent / "old.csv")  # given on purpose: the values are put back
    assert code == 0
    assert values(run, 1.0)[0.0, 0.0] == before[0.0, 0.0]
    for command in (["summary", run], ["export", run, run.parent / "out.nc"], ["export", run, run.parent / "out.csv"]):
        assert seqgp_(*command)[0] == 0


def test_late_and_new_rows_in_one_table(seqgp_, run):
    code, out, _ = seqgp_("update", run, given(run, rows([0.5, 3])), "--json")
    said = json.loads(out)
    assert code == 0
    assert (said["added"], said["steps"], said["t"]) == (1, 5, 3.0)
    assert said["revised"][0]["added"] == 1
    assert [one.t for one in seqgp.Store(run).snapshots()] == [0.0, 0.5, 1.0, 2.0, 3.0]


def test_refused_and_skipped_by_name(seqgp_, run):
    late = given(run, rows([0.5, 3]))
    code, _, err = seqgp_("update", run, late, "--late=refuse")
    assert code == 2
    assert "rows 2 to 5: t = 0.5 is before the last stored time, t = 2, but was never seen; nothing was added" in err
    code, _, err = seqgp_("update", run, late, "--revise")
    assert code == 2
    assert "--late=skip now" in err
    assert len(seqgp.Store(run)) == 3
    code, _, err = seqgp_("update", run, late, "--late=skip")
    assert code == 0
    assert "left out: rows 2 to 5" in err
    assert seqgp.Store(run).times == [0.0, 1.0, 2.0, 3.0]
    assert "t = 0.5" in left_out(run)[0].why


def test_a_moved_station_is_refused_in_late_rows_too(seqgp_, run):
    code, _, err = seqgp_("update", run, given(run, "t,x1,x2,y,station\n1,0.8,0.8,7,S0\n"))
    assert code == 2
    assert "location 'S0' is at (x1 = 0.8, x2 = 0.8), but in the run" in err
    assert len(seqgp.Store(run)) == 3


def test_watch_takes_late_rows_once_and_puts_files_of_one_time_together(run, inbox, look, watching):
    (inbox / "a.csv").write_text(LATE)
    (inbox / "b.csv").write_text("t,x1,x2,y,station\n1,0.4,0.74,3,S2\n")  # of the same time, another station
    (inbox / "c.csv").write_text("t,x1,x2,y,station\n3,0.4,0.74,3,S2\n")
    (inbox / "d.csv").write_text("t,x1,x2,y,station\n3,0.0,0.0,1,S0\n")
    (inbox / "e.csv").write_text("t,x1,x2,y,station\n3,0.0,0.0,2,S0\n")  # in conflict with the one before
    said = look()
    named = {os.path.basename(entry["file"]): entry["error"] for entry in said if "error" in entry}
    assert set(named) == {"e.csv"}
    found = values(run, 1.0)
    assert (found[0.0, 0.0], found[0.4, 0.74]) == (7, 3)
    assert values(run, 3.0) == {(0.4, 0.74): 3, (0.0, 0.0): 1}
    assert len(seqgp.Store(run)) == 5
    (inbox / "f.csv").write_text("t,x1,x2,y,station\n1,0.0,0.0,8,S0\n")
    assert look()[0]["revised"][0]["replaced"] == 1
    (inbox / "e.csv").unlink()
    again = watching(run, inbox)  # as after a restart: what was used is not put back
    assert again() == []
    assert values(run, 1.0)[0.0, 0.0] == 8


def test_fit_takes_what_its_table_has_late(seqgp_, run):
    (run.parent / "table.csv").write_text(rows([0, 0.5, 1, 2, 3]))
    code, out, _ = seqgp_("fit", run.parent / "config.toml", "--json")
    assert code == 0
    assert json.loads(out)["revised"][0]["added"] == 1
    assert [one.t for one in seqgp.Store(run).snapshots()] == [0.0, 0.5, 1.0, 2.0, 3.0]
    code, out, _ = seqgp_("fit", run.parent / "config.toml", "--json")
    assert "revised" not in json.loads(out)


def test_predictions_of_the_past_are_smoothed_and_have_dates(seqgp_, tmp_path):
    """The moments of the smoother at its own draws; points from a table and from a grid in NetCDF are the same."""
    text = rows([0, 1, 2, 4])
    for day in (0, 1, 2, 4):
        text = text.replace(f"\n{day},0", f"\n2005-02-0{day + 1},0")
    (tmp_path / "table.csv").write_text(text)
    (tmp_path / "config.toml").write_text(ONLINE.replace("draws = 30", "draws = 400"))
    assert seqgp_("fit", tmp_path / "config.toml")[0] == 0
    run, points = tmp_path / "run", tmp_path / "points.csv"
    points.write_text("x1,x2,name\n0.1,0.2,a\n0.1,0.5,b\n0.6,0.2,c\n0.6,0.5,d\n")
    grid = xr.Dataset({"altitude": (("x1", "x2"), np.arange(4.0).reshape(2, 2))}, {"x1": [0.1, 0.6], "x2": [0.2, 0.5]})
    grid.to_netcdf(tmp_path / "grid.nc", engine="h5netcdf")
    for name, option in (("points.csv", "--points"), ("grid.nc", "--grid")):
        output = tmp_path / f"{name}.csv"
        assert seqgp_("predict", run, option, tmp_path / name, "--time", "2005-02-04", "-o", output)[0] == 0
    found, of_grid = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("points.csv", "grid.nc"))
    assert found["t"].tolist() == ["2005-02-04"] * 4
    assert np.array_equal(found.f_mean, of_grid.f_mean)
    assert of_grid.altitude.tolist() == [0, 1, 2, 3]
    store = seqgp.Store(run)
    sampler = seqgp.OnlineSampler(store.model, particles=16)
    x = found[["x1", "x2"]].to_numpy()
    paths = seqgp.smooth(jax.random.key(9), sampler, store.latest().state, [3.0], x=x, draws=400).latent[0]
    # 400 draws each: the means differ by 5 standard errors with probability below 1e-5.
    assert (np.abs(found.f_mean - paths.mean(axis=0)) < 5 * np.sqrt(2 / 400) * paths.std(axis=0)).all()
    assert np.allclose(found.f_sd, paths.std(axis=0), rtol=0.25)
    assert (found.y_sd > found.f_sd).all()
    assert seqgp_("predict", run, points, "-o", tmp_path / "now.csv")[0] == 0
    assert pd.read_csv(tmp_path / "now.csv")["t"].tolist() == ["2005-02-05"] * 4
    code, _, err = seqgp_("predict", run, points, "--time", "2005-01-04", "-o", tmp_path / "before.csv")
    assert code == 2
    assert "is not between the first and the last time" in err
    code, _, err = seqgp_("predict", run, points, "--grid", points, "-o", tmp_path / "both.csv")
    assert code == 2
    assert "give the points once" in err
