"""The tree is what ArviZ expects: its statistics and plots work, and files give it back."""

import warnings

import arviz_stats
import numpy as np
import pytest
import xarray as xr

import seqgp
from runs import key, sampler, snapshots
from seqgp.io.export import export_run
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
    export_run(run.store, tmp_path / f"run{ending}")
    with xr.open_datatree(tmp_path / f"run{ending}", engine=engine) as back:
        tree = run.to_datatree()
        for group in tree.children:
            xr.testing.assert_identical(back[group].to_dataset().load(), tree[group].to_dataset())
    assert [path.name for path in tmp_path.iterdir()] == [f"run{ending}"]


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
