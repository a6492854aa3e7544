"""Grids and border lines that maps are drawn over."""

import json

import jax
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import seqgp
from seqgp.io.errors import TableError
from seqgp.io.ground import MOST_POINTS, border_lines, box_ground, ground_from
from seqgp.io.lattice import surface_on
from seqgp.io.tables import Columns

COLUMNS = Columns("t", ("lon", "lat"), "y", covariates={"height": "alt"})


def altitude(lon, lat):
    return 100 * lon + lat


@pytest.fixture
def grid(tmp_path):
    lon, lat = np.arange(5.0), np.arange(4.0) + 50
    values = altitude(lon[:, None], lat[None])
    values[1, 2] = np.nan  # the sea
    path = tmp_path / "grid.nc"
    xr.Dataset({"alt": (("lon", "lat"), values)}, {"lon": lon, "lat": lat}).to_netcdf(path, engine="h5netcdf")
    return path


@pytest.mark.filterwarnings("ignore:.*have no value")
def test_a_grid_has_a_cell_for_each_point(grid):
    ground = ground_from(grid, COLUMNS)
    assert ground.context is not None
    np.testing.assert_array_equal(ground.context["height"], altitude(*ground.x.T))
    whole = ground.spread(ground.x[:, 0] + 10 * ground.x[:, 1])
    expected = ground.axes[0][None, :] + 10 * ground.axes[1][:, None]
    assert np.argwhere(np.isnan(whole)).tolist() == [[2, 1]]
    np.testing.assert_array_equal(whole[~np.isnan(whole)], expected[~np.isnan(whole)])
    few = ground.thinned(3)
    assert [axis.tolist() for axis in few.axes] == [[0, 2, 4], [50, 52]]
    np.testing.assert_array_equal(few.spread(few.x[:, 1]), [[50] * 3, [52] * 3])
    assert few.context is not None
    np.testing.assert_array_equal(few.context["height"], altitude(*few.x.T))


@pytest.mark.filterwarnings("ignore:.*have no value")
def test_the_map_is_the_posterior_at_the_points_with_their_covariates(grid):
    kernel = seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(2.0))
    mean = seqgp.means.Linear(["height"], weights=0.01)
    model = seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.1), mean)
    sampler = seqgp.OnlineSampler(model, particles=16, draws=4000)
    x = np.array([[0.0, 50.0], [3.0, 52.0]])
    state, _ = sampler.init(jax.random.key(0), seqgp.Snapshot(0.0, x, [1.0, 4.0], {"height": altitude(*x.T)}))
    ground = ground_from(grid, COLUMNS)
    surface = surface_on(model, state, ground)
    drawn = seqgp.predict(jax.random.key(1), model, state, ground.x, context=ground.context).f
    seen = ~np.isnan(surface.mean)
    assert seen.sum() == len(ground.x) == 19
    np.testing.assert_allclose(surface.mean[seen], ground.spread(np.mean(drawn, axis=0))[seen], atol=0.08)
    np.testing.assert_allclose(surface.sd[seen], ground.spread(np.std(drawn, axis=0))[seen], rtol=0.06, atol=0.01)


def test_a_box():
    ground = box_ground([(0.0, 1.0), (2.0, 4.0)], 3)
    np.testing.assert_array_equal(ground.spread(ground.x[:, 1]), [[2] * 3, [3] * 3, [4] * 3])


def test_grids_that_are_refused(tmp_path):
    path = tmp_path / "points.csv"
    rng = np.random.default_rng(0)
    pd.DataFrame({"lon": rng.random(200), "lat": rng.random(200), "alt": 1.0}).to_csv(path, index=False)
    with pytest.raises(TableError, match="200 points with 200 values of lon and 200 of lat are no regular grid"):
        ground_from(path, COLUMNS)
    pd.DataFrame({"lon": [0, 1, 0, 1, 0], "lat": [0, 0, 1, 1, 0], "alt": 1.0}).to_csv(path, index=False)
    with pytest.raises(TableError, match="not those of a grid in lon and lat, one in a cell"):
        ground_from(path, COLUMNS)
    with pytest.raises(TableError, match="a map needs two inputs, but the run has 1"):
        ground_from(path, COLUMNS._replace(inputs=("lon",)))


def geojson(path, *geometries):
    features = [{"type": "Feature", "properties": {}, "geometry": one} for one in geometries]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def test_border_lines(tmp_path):
    ring = [[0, 0], [1, 0, 7.5], [1, 1], [0, 0]]
    path = geojson(
        tmp_path / "a.geojson",
        {"type": "LineString", "coordinates": [[5, 5], [6, 6]]},
        {"type": "MultiPolygon", "coordinates": [[ring, ring], [ring]]},
        {"type": "Point", "coordinates": [3, 3]},
        None,
    )
    lines = border_lines(path)
    assert [len(line) for line in lines] == [2, 4, 4, 4]
    np.testing.assert_array_equal(lines[1], [[0, 0], [1, 0], [1, 1], [0, 0]])
    long = np.column_stack([np.arange(50_000.0), np.zeros(50_000)]).tolist()
    (line,) = border_lines(geojson(path, {"type": "LineString", "coordinates": long}))
    assert len(line) <= MOST_POINTS + 1
    assert (line[0, 0], line[-1, 0]) == (0, 49_999)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no json", "cannot be read as GeoJSON"),
        ('{"type": "FeatureCollection"}', "cannot be read as GeoJSON"),
        ('{"type": "Point", "coordinates": [1, 2]}', "no line and no area in it"),
        ('{"type": "LineString", "coordinates": [1, 2]}', "cannot be read as GeoJSON"),
    ],
)
def test_borders_that_are_refused(tmp_path, text, said):
    path = tmp_path / "a.geojson"
    path.write_text(text)
    with pytest.raises(TableError, match=said):
        border_lines(path)
