"""The commands, from a table to a run, and back out of it."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import seqgp
from cli_tables import CONFIG, rows


@pytest.fixture
def run(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy" / "run"


def test_help_and_version(seqgp_):
    code, out, _ = seqgp_("--version")
    assert (code, out) == (0, f"seqgp {seqgp.__version__}\n")
    code, out, _ = seqgp_()
    assert code == 0
    for name in ("demo", "new", "fit", "update", "watch", "predict", "summary", "export", "check", "report"):
        assert name in out
        assert seqgp_(name, "--help")[0] == 0


def test_new_writes_a_configuration_that_is_valid(seqgp_, tmp_path):
    from seqgp.io.configuration import read_configuration

    path = tmp_path / "my.toml"
    assert seqgp_("new", path)[0] == 0
    assert read_configuration(path).run.folder == "runs/my"
    assert read_configuration(path).sampler.method == "auto"
    assert "tau" not in path.read_text()  # which would choose the sequential sampler
    assert seqgp_("new", path)[0] == 2
    assert seqgp_("new", path, "--force")[0] == 0
    odd = tmp_path / "[red]my.toml"
    assert f"seqgp fit {odd}" in seqgp_("new", odd)[1]


def test_fit_again_continues_and_says_the_same(seqgp_, finished):
    code, out, err = seqgp_("fit", finished / "config.toml", "--json")
    said = json.loads(out)
    assert (code, said["steps"], said["t"], said["draws"]) == (0, 3, 2.0, 20)
    assert "\x1b" not in out + err  # quiet: no terminal


def test_empty_rows_are_noted_once(seqgp_, run):
    """A table is read more than once: for its first date, and for its data."""
    table = run.parent / "table.csv"
    table.write_text(table.read_text() + ",,,,\n" * 3)
    code, _, err = seqgp_("fit", run.parent / "config.toml")
    assert (code, err) == (0, f"seqgp: note: {table}: 3 empty rows were left out\n")


def test_fit_is_the_library(finished):
    """The command line adds nothing: the same draws as from Python."""
    import jax

    from seqgp.io.configuration import read_configuration
    from seqgp.io.tables import snapshots_from

    configuration = read_configuration(finished / "config.toml")
    data = snapshots_from(finished / "table.csv", configuration.data.columns())
    state = seqgp.run(configuration.build(), data, jax.random.key(3)).state
    np.testing.assert_array_equal(state.latent, seqgp.Store(finished / "run").latest().state.latent)


def test_update(seqgp_, run, tmp_path):
    more = tmp_path / "more.csv"
    more.write_text(rows([2, 3]))
    code, _, err = seqgp_("update", run, more)
    assert code == 2
    assert "t = 2 is not after the last time of the run" in err
    assert len(seqgp.Store(run)) == 3
    assert seqgp_("update", run, more, "--skip-seen")[0] == 0
    assert seqgp.Store(run).times == [0.0, 1.0, 2.0, 3.0]


def test_predict(seqgp_, finished, tmp_path):
    points = tmp_path / "points.csv"
    points.write_text("x2,x1\n0.5,0.25\n0.1,0.9\n")
    code, _, _ = seqgp_("predict", finished / "run", points, "-o", tmp_path / "out.parquet", "--time", "2.5")
    assert code == 0
    frame = pd.read_parquet(tmp_path / "out.parquet")
    assert len(frame) == 2
    assert (frame["y_sd"] > frame["f_sd"]).all()
    assert (frame["f_q2.5"] < frame["f_q50"]).all()
    assert seqgp_("predict", finished / "run", points, "-o", tmp_path / "out.csv")[0] == 0


def test_predict_replaces_no_column_of_the_table(seqgp_, finished, tmp_path):
    points = tmp_path / "points.csv"
    points.write_text("x2,x1,y_sd\n0.5,0.25,mine\n")
    code, _, err = seqgp_("predict", finished / "run", points, "-o", tmp_path / "out.csv")
    assert (code, "column 'y_sd' is what a result is called; rename it" in err) == (2, True)
    assert not (tmp_path / "out.csv").exists()


def test_summary_export_check(seqgp_, finished, tmp_path):
    code, out, _ = seqgp_("summary", finished / "run", "--json")
    said = json.loads(out)
    assert code == 0
    assert (said["steps"], said["last"]) == (3, 2.0)
    assert set(said["parameters"]["noise"]) >= {"mean", "sd", "2.5%", "97.5%"}
    assert "noise" in seqgp_("summary", finished / "run")[1]
    for ending in (".nc", ".zarr", ".parquet"):
        assert seqgp_("export", finished / "run", tmp_path / f"out{ending}")[0] == 0
    with xr.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as data:
        assert data.station_name.values.tolist() == ["S0", "S1", "S2", "S3"]
        assert data.f.sizes == {"realization": 20, "time": 3, "station": 4}
    assert seqgp_("export", finished / "run", tmp_path / "few.nc", "--draws", 4)[0] == 0
    with xr.open_dataset(tmp_path / "few.nc", engine="h5netcdf") as data:
        assert data.f.sizes["realization"] == 4
    assert seqgp_("export", finished / "run", tmp_path / "tree.nc", "--arviz")[0] == 0
    with xr.open_datatree(tmp_path / "tree.nc", engine="h5netcdf") as tree:
        assert tree["posterior/latent"].location.values.tolist() == ["S0", "S1", "S2", "S3"]
    assert seqgp_("export", finished / "run", tmp_path / "other.csv", "--arviz")[0] == 2
    table = pd.read_parquet(tmp_path / "out.parquet")
    assert len(table) == 12
    assert seqgp_("check", finished / "run")[0] == 0


def test_check_names_and_repairs(seqgp_, run):
    broken = run / "steps" / "000003.npz"
    broken.write_bytes(broken.read_bytes()[:-500])
    code, out, _ = seqgp_("check", run)
    assert code == 3
    assert "000003.npz" in out
    assert seqgp_("summary", run)[0] == 3
    code, out, _ = seqgp_("check", run, "--repair")
    assert code == 0
    assert "000003.npz" in out
    assert "goes on after step 2" in out
    assert seqgp_("fit", run.parent / "config.toml")[0] == 0
    assert len(seqgp.Store(run)) == 3


def test_dates_are_counted_from_the_first(seqgp_, tmp_path):
    (tmp_path / "config.toml").write_text(CONFIG.replace("draws = 20", "draws = 20\ntau = 1"))
    table = rows([0, 1]).replace("\n0,", "\n2024-02-28,").replace("\n1,", "\n2024-03-01,")
    (tmp_path / "table.csv").write_text(table)
    assert seqgp_("fit", tmp_path / "config.toml")[0] == 0
    assert seqgp.Store(tmp_path / "run").times == [0.0, 2.0]
    (tmp_path / "more.csv").write_text(rows([9]).replace("\n9,", "\n2024-03-02T12:00:00,"))
    assert seqgp_("update", tmp_path / "run", tmp_path / "more.csv")[0] == 0
    assert seqgp.Store(tmp_path / "run").times == [0.0, 2.0, 3.5]


def test_demo(seqgp_, tmp_path):
    folder = tmp_path / "demo"
    code, out, _ = seqgp_("demo", "line", "-o", folder, "--steps", "2", "--draws", "20", "--json")
    assert code == 0
    assert json.loads(out)["report"] == str(folder / "report.html")
    assert (folder / "report.html").stat().st_size < 6_000_000
    assert seqgp_("demo", "line", "-o", folder)[0] == 2


def test_debug_shows_the_traceback(tmp_path):
    from seqgp.cli import main

    with pytest.raises(seqgp.StoreError):
        main(["summary", str(tmp_path), "--debug"])
