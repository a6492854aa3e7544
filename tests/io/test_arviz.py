"""The tree is what ArviZ expects: its statistics and plots work, and files give it back."""

import shutil
import warnings

import arviz_stats
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import seqgp
from runs import key, sampler, snapshots
from seqgp.io.export import export_run, latent_table
from seqgp.io.tables import Labelled


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    data = snapshots(3)
    data[1] = seqgp.Snapshot(0.1, data[1].x[:4], np.where(np.arange(4) == 2, np.nan, data[1].y[:4]), {"w": np.ones(4)})
    data[0], data[2] = (seqgp.Snapshot(s.t, s.x, s.y, {"w": np.arange(5.0)}) for s in (data[0], data[2]))
    return seqgp.run(sampler(), data, key(), store=tmp_path_factory.mktemp("arviz") / "run")


def test_groups_and_coordinates(run):
    tree = run.to_datatree()
    groups = {"posterior", "posterior_predictive", "sample_stats", "observed_data", "constant_data"}
    assert set(tree.children) == groups
    latent = tree["posterior/latent"]
    assert latent.sizes == {"chain": 2, "draw": 10, "time": 3, "location": 5}
    np.testing.assert_array_equal(latent.time, [0.0, 0.1, 0.25])
    state = run.state
    np.testing.assert_array_equal(latent.sel(time=0.25).values.reshape(20, 5), state.latent)
    np.testing.assert_array_equal(tree["posterior/noise"].sel(time=0.25).values.ravel(), state.parameters["noise"])
    assert tree["posterior/noise"].attrs["units"] == "natural scale"
    assert np.isnan(latent.sel(time=0.1, location=4)).all()
    assert np.isnan(tree["observed_data/y"].sel(time=0.1).values[[2, 4]]).all()
    assert tree["constant_data/w"].dims == ("time", "location")
    assert tree["sample_stats/rhat.noise"].sel(time=0.25) == run.infos[-1].rhat["noise"]


def test_replicated_data_follow_the_likelihood(run):
    tree = run.to_datatree()
    residual = (tree["posterior_predictive/y"] - tree["posterior/latent"]) / tree["posterior/noise"]
    assert abs(float(residual.mean())) < 0.25  # 280 standard normal values: 4 standard errors
    assert abs(float(residual.std()) - 1) < 0.2
    assert run.to_datatree().equals(tree)


def test_store_and_run_in_memory_agree(run):
    assert run.store.to_datatree().equals(run.to_datatree())
    assert run._replace(store=None).to_datatree()["posterior/scale"].sizes["time"] == 1


@pytest.mark.parametrize("ending, engine", [(".nc", "h5netcdf"), (".zarr", "zarr")])
def test_to_disk_and_back(run, tmp_path, ending, engine):
    export_run(run.store, tmp_path / f"run{ending}", arviz=True)
    with xr.open_datatree(tmp_path / f"run{ending}", engine=engine) as back:
        tree = run.to_datatree()
        for group in tree.children:
            xr.testing.assert_identical(back[group].to_dataset().load(), tree[group].to_dataset())
    assert [path.name for path in tmp_path.iterdir()] == [f"run{ending}"]


@pytest.fixture
def dated(run, tmp_path):
    """The same run with a table that has names and dates, one of them the name of a statistic."""
    shutil.copytree(run.store.path, tmp_path / "dated")
    data = {"time": "day", "inputs": ["lon", "lat"], "value": "mean", "origin": "2024-02-28T00:00:00+00:00"}
    steps = [step.snapshot for step in run.store]
    return seqgp.run(
        sampler(), steps, store=tmp_path / "dated", configuration={"data": {**data, "unit": "weeks"}}
    ).store


DATES = ["2024-02-28T00:00:00", "2024-02-28T16:48:00", "2024-02-29T18:00:00"]  # after 0, 0.1 and 0.25 weeks


def test_a_flat_table_has_the_names_and_dates_of_the_run_s_own(run, dated, tmp_path):
    for ending in (".parquet", ".csv"):
        export_run(dated, tmp_path / f"out{ending}")
    table = pd.read_parquet(tmp_path / "out.parquet")
    assert table.columns[:6].tolist() == ["day", "weeks", "location", "lon", "lat", "mean (data)"]
    assert table["day"].drop_duplicates().tolist() == [pd.Timestamp(date, tz="UTC") for date in DATES]
    assert pd.read_csv(tmp_path / "out.csv", parse_dates=["day"]).equals(table.astype({"location": int}))
    last = table[table["weeks"] == 0.25]
    np.testing.assert_array_equal(last["mean (data)"], run.snapshot.y)
    np.testing.assert_array_equal(last[["lon", "lat"]], run.snapshot.x)
    np.testing.assert_array_equal(last["mean"], np.asarray(run.state.latent).mean(axis=0))
    plain = latent_table(run.store)  # of a run that has no table
    assert plain.columns[:5].tolist() == ["time", "location", "x0", "x1", "y"]
    np.testing.assert_array_equal(plain.iloc[:, 5:], table.iloc[:, 6:])


def test_the_tree_has_the_names_and_dates_of_the_run_s_own(dated, tmp_path):
    export_run(dated, tmp_path / "run.nc", arviz=True)
    with xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf") as tree:
        latent = tree["posterior/latent"]
        assert latent.date.values.tolist() == np.array(DATES, dtype=latent.date.dtype).tolist()
        assert latent.time.attrs["long_name"] == "day"
        assert tree["constant_data/x"].dimension.values.tolist() == ["lon", "lat"]
        assert tree["observed_data/y"].attrs["long_name"] == "mean"


def test_arviz_works_on_it(run):
    plots = pytest.importorskip("arviz_plots")
    tree = run.to_datatree()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 20 draws are few, and ArviZ says so
        table = arviz_stats.summary(tree, var_names=["scale", "noise", "space.lengthscale"])
        plots.plot_dist(tree, var_names=["scale"], backend="none")
        plots.plot_trace(tree, var_names=["noise"], backend="none")
        plots.plot_ppc_dist(tree, num_samples=10, backend="none")
    assert len(table) == 3 + 3 + 6


def test_a_location_is_the_same_place_at_all_times(tmp_path):
    names, data = np.array(list("abcde")), []
    for rows, s in zip(([0, 1, 2, 3], [4, 2, 0], [0, 1, 2, 3, 4]), snapshots(3)):  # stations come, go and change order
        data.append(Labelled(s.t, s.x[rows], s.y[rows], {"w": np.array(rows, float)}, names[rows].tolist()))
    run = seqgp.run(sampler(), data, key(), store=tmp_path / "run")
    tree = run.to_datatree()
    assert tree["posterior/latent"].location.values.tolist() == list("abcde")
    second = next(step for step in run.store if step.number == 2)
    for i, name in enumerate("eca"):
        at = {"time": 0.1, "location": name}
        assert tree["observed_data/y"].sel(at) == data[1].y[i]
        assert tree["constant_data/w"].sel(at) == data[1].context["w"][i]
        np.testing.assert_array_equal(tree["constant_data/x"].sel(at), data[1].x[i])
        np.testing.assert_array_equal(tree["posterior/latent"].sel(at).values.ravel(), second.state.latent[:, i])
    for group in ("posterior/latent", "posterior_predictive/y", "observed_data/y"):
        assert np.isnan(tree[group].sel(time=0.1, location=["b", "d"])).all()
