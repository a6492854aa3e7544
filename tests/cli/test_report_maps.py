"""``seqgp report`` with a grid of covariates and a coastline."""

import base64
import gzip
import json
import re

import numpy as np
import pandas as pd
import pytest

import seqgp
from seqgp.report.catalogue import RunCatalogue

CONFIG = """\
[data]
file = "table.csv"
time = "t"
inputs = ["x", "z"]
value = "y"
location = "station"
covariates = { elevation = "height_m" }

[model]
mean = { features = ["elevation"], weights = 0.5 }
time = { kernel = "Matern12", lengthscale = 1.0 }
space = { kernel = "Matern12", lengthscale = 1.0 }
likelihood = { noise = 0.1 }

[sampler]
particles = 16
draws = 40

[run]
folder = "run"
"""


@pytest.fixture
def folder(tmp_path, seqgp_):
    (tmp_path / "config.toml").write_text(CONFIG)
    rows = [(t, f"S{i}", 0.3 * i, (0.7 * i) % 1, float(i), 0.5 * i + 0.1 * t) for t in range(3) for i in range(5)]
    table = pd.DataFrame(rows, columns=["t", "station", "x", "z", "height_m", "y"])
    table[(table.t != 1) | (table.station != "S2")].to_csv(tmp_path / "table.csv", index=False)
    x, z = (axis.ravel() for axis in np.meshgrid(np.linspace(0, 2, 9), np.linspace(0, 1, 5)))
    pd.DataFrame({"x": x, "z": z, "height_m": 10 * z}).to_csv(tmp_path / "grid.csv", index=False)
    line = {"type": "LineString", "coordinates": [[0, 0], [1, 1], [2, 0]]}
    (tmp_path / "coast.geojson").write_text(json.dumps(line))
    assert seqgp_("fit", tmp_path / "config.toml")[0] == 0
    return tmp_path


def figures(page):
    packed = re.search(r'id="figures">([^<]*)<', page.read_text())
    assert packed is not None
    return list(json.loads(gzip.decompress(base64.b64decode(packed.group(1)))).values())


def test_maps_over_a_grid_with_a_coastline(seqgp_, folder):
    page = folder / "page.html"
    arguments = [
        "report",
        folder / "run",
        "-o",
        page,
        "--grid",
        folder / "grid.csv",
        "--border",
        folder / "coast.geojson",
    ]
    code, _, err = seqgp_(*arguments)
    assert code == 0, err
    maps = [one for one in figures(page) if any(trace["type"] == "heatmap" for trace in one["data"])]
    assert len(maps) == 3  # mean, sd, and the slider
    assert all(one["data"][-1]["mode"] == "lines" for one in maps)
    assert all(frame["traces"] == [0, 1] for frame in maps[2]["frames"])
    text = page.read_text()
    assert "Mean and standard deviation of the posterior at the points of a grid" in text
    assert "of 15 data are missing" in text  # an absent row is one
    assert "1 of 15 data are missing" in seqgp_("summary", folder / "run")[1]


def test_without_a_grid_it_says_how_to_get_a_map(seqgp_, folder):
    code, _, err = seqgp_("report", folder / "run", "-o", folder / "page.html")
    assert code == 0, err
    assert "seqgp report --grid draws one over a grid that has them" in (folder / "page.html").read_text()
    code, _, err = seqgp_("report", folder / "run", "-o", folder / "other.html", "--border", folder / "config.toml")
    assert code == 2
    assert "cannot be read as GeoJSON" in err
    assert not (folder / "other.html").exists()


def test_a_served_prediction_says_which_covariate_it_lacks(folder):
    catalogue = RunCatalogue(folder)
    (entry,) = catalogue.entries().values()
    with pytest.raises(seqgp.SeqgpError, match="'elevation' is missing; give one value for each point: elevation=…"):
        catalogue.predict(entry, np.zeros((1, 2)), {}, None)
