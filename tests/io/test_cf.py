"""The NetCDF file after the CF conventions: what other tools find in it."""

import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import seqgp
from runs import key, sampler, snapshots
from seqgp.io.cf import cf_dataset
from seqgp.io.export import export_run
from seqgp.io.tables import Labelled

SECTION = {
    "time": "day",
    "inputs": ["lon", "lat"],
    "value": "pm 2.5",
    "location": "site",
    "origin": "2024-02-28T06:00:00+01:00",
    "unit": "weeks",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    names, data = np.array(list("abcde")), []
    for rows, s in zip(([0, 1, 2, 3], [4, 2, 0], [0, 1, 2, 3, 4]), snapshots(3)):  # stations come, go and change order
        y = np.where(np.arange(len(rows)) == 1, np.nan, s.y[rows])
        data.append(Labelled(s.t, s.x[rows], y, {"w": np.array(rows, float)}, names[rows].tolist()))
    folder = tmp_path_factory.mktemp("cf") / "run"
    return seqgp.run(sampler(), data, key(), store=folder, configuration={"data": SECTION})


@pytest.fixture(scope="module")
def opened(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("out") / "run.nc"
    export_run(run.store, path)
    with xr.open_dataset(path, engine="h5netcdf") as found:
        yield found


def test_what_the_conventions_ask_for(opened, tmp_path):
    assert opened.attrs["Conventions"].startswith("CF-1.")
    assert opened.attrs["featureType"] == "timeSeries"
    assert opened.station_name.attrs["cf_role"] == "timeseries_id"
    assert (opened.lon.attrs["standard_name"], opened.lon.attrs["units"]) == ("longitude", "degrees_east")
    assert (opened.lat.attrs["standard_name"], opened.lat.attrs["units"]) == ("latitude", "degrees_north")
    assert opened.realization.attrs["standard_name"] == "realization"
    assert all(re.fullmatch(r"[A-Za-z]\w*", str(name), re.ASCII) for name in opened.variables)
    for name in ("f", "f_mean", "pm_2_5"):
        assert set(opened[name].encoding["coordinates"].split()) == {"station_name", "lon", "lat"}


def test_time_is_a_date_in_utc(opened):
    expected = pd.to_datetime("2024-02-28T05:00:00") + pd.to_timedelta(np.array([0.0, 0.1, 0.25]) * 7, unit="D")
    assert (np.abs(opened.time.values - expected.values) < np.timedelta64(1, "ms")).all()


def test_values_stand_where_their_stations_are(run, opened):
    for i, step in enumerate(run.store):
        at = {"time": i, "station": ["abcde".index(name) for name in step.labels]}
        np.testing.assert_allclose(opened.pm_2_5[at], step.snapshot.y)
        np.testing.assert_allclose(opened.f_mean[at], step.summary.row("mean"))
        np.testing.assert_allclose(opened.f_q97_5[at], step.summary.row("97.5%"))
        np.testing.assert_allclose(np.stack([opened.lon[at["station"]], opened.lat[at["station"]]], 1), step.snapshot.x)
    assert np.isnan(opened.f_mean[1, [1, 3]]).all()
    assert opened.noise_mean[2] == pytest.approx(run.state.parameters["noise"].mean())
    assert opened.station_name.values.tolist() == list("abcde")


def test_draws_are_some_of_the_state_or_all(run, opened):
    whole = np.asarray(run.state.latent)
    np.testing.assert_allclose(opened.f[:, 2], whole, rtol=1e-6)  # 20, fewer than 200
    few = cf_dataset(run.store, 5)
    assert few.f.sizes == {"realization": 5, "time": 3, "station": 5}
    assert few.f.dtype == np.float32
    rows = [int(np.argmin(np.abs(whole - draw).sum(axis=1))) for draw in few.f.values[:, 2]]
    assert (rows[0], rows[-1], len(set(rows))) == (0, 19, 5)
    np.testing.assert_allclose(few.noise[:, 2], np.asarray(run.state.parameters["noise"])[rows], rtol=1e-6)
    assert cf_dataset(run.store, None).f.sizes["realization"] == 20
    assert "f" not in cf_dataset(run.store, 0)


def test_a_run_without_a_table(tmp_path):
    """Times are numbers, locations are rows, and inputs that move have a value for each time."""
    data = [seqgp.Snapshot(s.t, s.x + s.t, s.y, {"w": np.ones(5)}) for s in snapshots(3)]
    run = seqgp.run(sampler(), data, key(), store=tmp_path / "run", keep=1)
    assert run.store is not None
    found = cf_dataset(run.store)
    assert found.x0.dims == ("time", "station")
    np.testing.assert_array_equal(found.time, [0.0, 0.1, 0.25])
    assert found.time.attrs["units"] == "1"
    assert np.isfinite(found.f_mean).all()
    assert np.isnan(found.f[:, 0]).all()  # its step keeps a summary alone
    assert np.isfinite(found.f[:, 2]).all()


def test_the_file_is_a_tenth_of_the_tree(tmp_path):
    """With the default of 1000 draws."""
    model = seqgp.Model(
        seqgp.Separable(seqgp.kernels.Matern12(2.0), seqgp.kernels.Matern12(1.0)), seqgp.likelihoods.Gaussian(0.3)
    )
    rng = np.random.default_rng(0)
    data = [seqgp.Snapshot(t, np.arange(60.0)[:, None], rng.normal(size=60)) for t in range(12)]
    run = seqgp.run(seqgp.OnlineSampler(model, particles=16), data, key(), store=tmp_path / "run")
    assert run.store is not None
    export_run(run.store, tmp_path / "cf.nc")
    export_run(run.store, tmp_path / "tree.nc", arviz=True)
    assert (tmp_path / "cf.nc").stat().st_size < 0.1 * (tmp_path / "tree.nc").stat().st_size
