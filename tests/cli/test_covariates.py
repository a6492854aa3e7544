"""A mean with covariates from the command line: fitted, predicted, and what is wrong with a covariate named."""

import numpy as np
import pandas as pd
import pytest

import seqgp

CONFIG = """\
[data]
file = "table.csv"
time = "t"
inputs = ["x"]
value = "y"
covariates = { elevation = "height_m" }

[model]
mean = { features = ["elevation", { period = 8.0 }], weights = { distribution = "Normal", loc = 0, scale = 2 }, \
intercept = { distribution = "Normal", loc = 0, scale = 2 } }
time = { kernel = "Matern12", lengthscale = 1.0 }
space = { kernel = "Matern12", lengthscale = 1.0 }
scale = 0.3
likelihood = { noise = 0.1 }

[sampler]
particles = 16
draws = 400

[run]
folder = "run"
"""


def table(steps=6, height=None):
    """``y = 1 + 0.5 elevation + cos(2 π t / 8)`` and a little noise, at five stations."""
    rng = np.random.default_rng(0)
    t, i = (grid.ravel() for grid in np.meshgrid(np.arange(steps), np.arange(5), indexing="ij"))
    heights = np.array([0.0, 1.0, 3.0, 2.0, 5.0])[i] if height is None else np.full(len(t), height)
    y = 1 + 0.5 * heights + np.cos(2 * np.pi * t / 8) + 0.1 * rng.standard_normal(len(t))
    return pd.DataFrame({"t": t, "x": i * 1.0, "height_m": heights, "y": y})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.toml").write_text(CONFIG)
    table().to_csv(tmp_path / "table.csv", index=False)
    return tmp_path


def test_fit_and_predict(seqgp_, folder):
    """The weight is found within a few of its sds, and a high place is predicted higher by what it says."""
    code, _, err = seqgp_("fit", folder / "config.toml")
    assert code == 0, err
    parameters = seqgp.Store(folder / "run").latest().state.parameters
    weight = np.asarray(parameters["mean.elevation"])
    assert abs(weight.mean() - 0.5) < 4 * weight.std() < 0.6
    points = folder / "points.csv"
    points.write_text("x,height_m\n2.5,0\n2.5,10\n")
    code, _, err = seqgp_("predict", folder / "run", points, "-o", folder / "out.csv", "--time", "6")
    assert code == 0, err
    low, high = pd.read_csv(folder / "out.csv")["f_mean"]
    assert high - low == pytest.approx(10 * weight.mean(), abs=0.2)
    points.write_text("x\n2.5\n")
    code, _, err = seqgp_("predict", folder / "run", points, "-o", folder / "other.csv", "--time", "6")
    assert code == 2
    assert "height_m" in err


def test_a_covariate_that_does_not_vary_or_is_no_number_is_named(seqgp_, folder):
    table(height=2.0).to_csv(folder / "table.csv", index=False)
    code, _, err = seqgp_("fit", folder / "config.toml")
    assert code == 2
    assert "covariate 'elevation' is 2 at all 30 data" in " ".join(err.split())
    data = table()
    data.loc[3, "height_m"] = np.nan
    data.to_csv(folder / "table.csv", index=False)
    code, _, err = seqgp_("fit", folder / "config.toml")
    assert code == 2
    assert "height_m" in err or "elevation" in err
    assert not (folder / "run").exists()


EXPOSED = CONFIG.replace('elevation = "height_m"', 'hours = "open"').replace(
    "likelihood = { noise = 0.1 }", 'likelihood = { family = "Poisson", exposure = "hours" }'
)
EXPOSED = "\n".join(line for line in EXPOSED.splitlines() if not line.startswith("mean = "))


def test_a_row_without_a_value_needs_no_exposure(seqgp_, tmp_path):
    """A counter that was closed has neither count nor hours; a count without hours is named by its row."""
    (tmp_path / "config.toml").write_text(EXPOSED)
    rows = "t,x,open,y\n0,0,2,3\n0,1,1,0\n1,0,,\n1,1,1.5,2\n2,0,2,4\n2,1,1,1\n"
    (tmp_path / "table.csv").write_text(rows)
    code, _, err = seqgp_("fit", tmp_path / "config.toml")
    assert code == 0, err
    assert "not forecast" not in err
    code, _, err = seqgp_("report", tmp_path / "run", "-o", tmp_path / "report.html")
    assert code == 0, err
    (tmp_path / "table.csv").write_text(rows.replace("1,1,1.5,2", "1,1,,2"))
    code, _, err = seqgp_("fit", tmp_path / "config.toml")
    assert code == 2
    said = " ".join(err.split())
    assert "row 5, column 'open': the number is missing; every row needs one that has a value" in said
