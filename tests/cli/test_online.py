"""A run of the online sampler from the command line: what ``auto`` takes, and every command on its store."""

import json

import jax
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import seqgp
from cli_tables import CONFIG, rows

SEQUENTIAL = 'draws = 20\nchains = 2\nwarmup = 10\nthin = 1\nlatent = "dense"\nupdates = "plain"\n'
ONLINE = CONFIG.replace(SEQUENTIAL, "draws = 30\nparticles = 16\n").replace("SquaredExponential", "Matern32", 1)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.toml").write_text(ONLINE)
    (tmp_path / "table.csv").write_text(rows([0, 1, 2]))
    (tmp_path / "more.csv").write_text(rows([3]))
    (tmp_path / "points.csv").write_text("x1,x2\n0.25,0.5\n")
    return tmp_path


def test_every_command_takes_a_run_of_the_online_sampler(seqgp_, folder):
    code, out, _ = seqgp_("fit", folder / "config.toml", "--json")
    assert code == 0
    assert json.loads(out)["steps"] == 3
    run = folder / "run"
    assert seqgp.Store(run)[2].info.settings["sampler"] == "online"
    assert seqgp_("update", run, folder / "more.csv")[0] == 0
    shown = seqgp_("summary", run)[1]
    assert "particles, log evidence" in shown
    assert "nan" not in shown
    assert "R-hat" not in shown
    assert seqgp_("check", run)[0] == 0
    assert seqgp_("predict", run, folder / "points.csv", "-o", folder / "out.csv", "--time", "3.5")[0] == 0
    assert np.isfinite(pd.read_csv(folder / "out.csv").to_numpy()).all()
    assert seqgp_("export", run, folder / "out.nc", "--arviz")[0] == 0
    with xr.open_datatree(folder / "out.nc", engine="h5netcdf") as tree:
        assert tree["posterior/latent"].sizes["draw"] == 30
    assert seqgp_("report", run, "-o", folder / "report.html")[0] == 0
    assert "The effective number of particles" in (folder / "report.html").read_text()


def test_many_predictions_from_a_stored_state_run_its_filters_once(seqgp_, folder, monkeypatch):
    """They follow from the data: without care each block of a map would run them anew."""
    from seqgp.samplers.online import state as online_state

    assert seqgp_("fit", folder / "config.toml")[0] == 0
    store = seqgp.Store(folder / "run")
    runs = []
    real = online_state.run_filters
    monkeypatch.setattr(online_state, "run_filters", lambda *args: runs.append(1) or real(*args))
    state = store.latest().state.ready(store.model)
    for seed in range(3):
        assert np.isfinite(seqgp.predict(jax.random.key(seed), store.model, state, [[0.3, 0.3]]).f).all()
    assert len(runs) == 1


def test_an_update_runs_the_filters_of_the_stored_state_once(seqgp_, folder, monkeypatch):
    """The forecast of the new snapshot and the step share them."""
    from seqgp.samplers.online import state as online_state

    assert seqgp_("fit", folder / "config.toml")[0] == 0
    runs = []
    real = online_state.run_filters
    monkeypatch.setattr(online_state, "run_filters", lambda *args: runs.append(1) or real(*args))
    assert seqgp_("update", folder / "run", folder / "more.csv")[0] == 0
    assert len(runs) == 1


def test_auto_looks_at_the_first_snapshot(seqgp_, folder):
    """A noise that the filters cannot hold: as in Python, the sequential sampler is taken, and the reason printed."""
    tiny = ONLINE.replace("particles = 16\n", "").replace("noise = { low = 0, high = 1 }", "noise = 1e-9")
    assert "noise = 1e-9" in tiny
    (folder / "config.toml").write_text(tiny)
    code, out, err = seqgp_("fit", folder / "config.toml")
    assert code == 0, err
    assert "sampler: the sequential sampler, because OnlineSampler: a noise of 1e-09 is lost" in " ".join(out.split())
    assert seqgp.Store(folder / "run")[2].info.settings.get("sampler") != "online"
    assert seqgp_("update", folder / "run", folder / "more.csv")[0] == 0
