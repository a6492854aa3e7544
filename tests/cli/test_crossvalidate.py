"""``seqgp crossvalidate``: from a configuration to a table of scores."""

import json

import numpy as np
import pandas as pd
import pytest

from score_tables import CONFIG, table


@pytest.fixture
def config(tmp_path):
    (tmp_path / "config.toml").write_text(CONFIG)
    table(6).to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "config.toml"


def test_stations_are_left_out_in_turn(seqgp_, config, tmp_path):
    each = tmp_path / "each.csv"
    code, out, err = seqgp_("crossvalidate", config, "--folds", 3, "-o", each, "--json", "--draws", 50)
    assert code == 0, err
    rows = {(row["way"], row["forecaster"]): row for row in json.loads(out)["scores"]}
    assert rows["filtered", "this model"]["crps"] > 0
    assert rows["smoothed", "persistence"]["crps_difference_se"] > 0
    frame = pd.read_csv(each)
    mine = frame[(frame.forecaster == "this model") & (frame.prediction == "smoothed")]
    assert sorted(mine.station.unique()) == [f"S{i}" for i in range(6)]
    assert len(mine) == 36
    np.testing.assert_allclose(np.sort(mine.y), np.sort(table(6).level))
    assert not (tmp_path / "run").exists()


def test_blocks_of_time_and_kept_runs(seqgp_, config, tmp_path):
    runs = tmp_path / "folds"
    code, out, err = seqgp_(
        "crossvalidate", config, "--leave-out", "time", "--folds", 2, "--block", 1, "--runs", runs, "--no-smoothed"
    )
    assert code == 0, err
    assert "filtered" in out
    assert "smoothed" not in out
    code, out, _ = seqgp_("summary", runs / "fold2", "--json")
    assert json.loads(out)["steps"] == 3


def test_what_is_refused(seqgp_, config, tmp_path):
    code, _, err = seqgp_("crossvalidate", config, "--folds", 9)
    assert (code, err) == (2, "seqgp: crossvalidate: 9 folds of 6 stations; give at least 2, and at most 6\n")
    code, _, err = seqgp_("crossvalidate", config, "--leave-out", "region")
    assert code == 2
    code, _, err = seqgp_("crossvalidate", config, "-o", tmp_path / "each.txt")
    assert code == 2
    assert "ends in '.txt'; expected .csv or .parquet" in err
