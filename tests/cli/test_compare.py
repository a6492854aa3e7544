"""``seqgp compare``, and ``seqgp predict`` with several runs."""

import json

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

[model]
time = { kernel = "Matern12", lengthscale = 3.0 }
space = { kernel = "Matern12", lengthscale = 1.0 }
mean = 0.0
likelihood = { noise = NOISE }

[sampler]
particles = 16
draws = 100

[run]
folder = "runs/NAME"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from seqgp.cli import main

    where = tmp_path_factory.mktemp("compared")
    rng = np.random.default_rng(0)
    t, i = (grid.ravel() for grid in np.meshgrid(np.arange(14), np.arange(4), indexing="ij"))
    pd.DataFrame({"t": t, "x": 0.5 * i, "y": np.sin(0.3 * t + i) + 0.3 * rng.normal(size=len(t))}).to_csv(
        where / "table.csv", index=False
    )
    pd.DataFrame({"x": [0.1, 0.7]}).to_csv(where / "points.csv", index=False)
    for name, noise in (("good", "0.3"), ("bad", "1.5")):
        (where / f"{name}.toml").write_text(CONFIG.replace("NOISE", noise).replace("NAME", name))
        with pytest.raises(SystemExit) as ended:
            main(["fit", str(where / f"{name}.toml")])
        assert ended.value.code == 0
    return where


def test_compare_prints_the_table(seqgp_, folder):
    good, bad = folder / "runs/good", folder / "runs/bad"
    code, out, err = seqgp_("compare", bad, good)
    assert code == 0, err
    assert out.splitlines()[2].startswith("| good |")
    said = json.loads(seqgp_("compare", bad, good, "--json")[1])
    assert said["steps"] == 13
    assert said["candidates"][1]["crps_difference"]["value"] > 0
    assert said["candidates"][1]["crps_difference"]["se"] > 0
    assert said["disagreements"] == []
    for given, why in (((good,), "1 run was given"), ((good, good), "the same run is given twice")):
        code, _, err = seqgp_("compare", *given)
        assert code == 2
        assert why in err


def test_predict_averages_runs(seqgp_, folder):
    good, bad, points = folder / "runs/good", folder / "runs/bad", folder / "points.csv"
    one, both = folder / "one.csv", folder / "both.csv"
    assert seqgp_("predict", good, points, "-o", one)[0] == 0
    code, out, err = seqgp_("predict", good, points, "-o", both, "--average", bad, "--by", "evidence", "--json")
    assert code == 0, err
    said = json.loads(out)
    evidence = {name: seqgp.Store(folder / "runs" / name).latest().info.log_evidence for name in ("good", "bad")}
    weight = 1 / (1 + np.exp(evidence["bad"] - evidence["good"]))
    assert said["weights"]["good"] == pytest.approx(weight)
    a, b = pd.read_csv(one), pd.read_csv(both)
    np.testing.assert_allclose(a.f_mean, b.f_mean, atol=4 * a.f_sd.max() / 10)  # 100 draws each
    code, out, err = seqgp_("predict", good, points, "-o", both, "--average", bad, "--force")
    assert code == 0, err
    assert "weights by forecasts: good 0.9" in out or "weights by forecasts: good 1.0" in out
    assert (
        "expected 'evidence', 'forecasts'"
        in seqgp_("predict", good, points, "-o", folder / "no.csv", "--average", bad, "--by", "luck")[2]
    )
