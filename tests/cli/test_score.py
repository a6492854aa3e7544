"""``seqgp score``: held-out stations of a table, scored from the command line."""

import json

import pandas as pd
import pytest

import seqgp
from score_tables import CONFIG, table


@pytest.fixture
def folder(tmp_path, seqgp_):
    (tmp_path / "config.toml").write_text(CONFIG)
    whole = table()
    whole[whole.station != "S2"].to_csv(tmp_path / "table.csv", index=False)
    whole[whole.station == "S2"].to_csv(tmp_path / "held_out.csv", index=False)
    assert seqgp_("fit", tmp_path / "config.toml")[0] == 0
    return tmp_path


def test_the_table_and_the_scores_of_each_datum(seqgp_, folder):
    code, out, err = seqgp_("score", folder / "run", folder / "held_out.csv", "-o", folder / "each.csv", "--json")
    assert code == 0, err
    said = json.loads(out)
    rows = {(row["way"], row["forecaster"]): row for row in said["scores"]}
    each = pd.read_csv(folder / "each.csv")
    for way in ("filtered", "1 step ahead", "smoothed"):
        mine = each[(each.prediction == way) & (each.forecaster == "this model")]
        assert set(mine.station) == {"S2"}
        assert sum(said["pit"][way]) == len(mine)
        assert rows[way, "persistence"]["crps_difference_se"] > 0
    kriged = each[(each.prediction == "filtered") & (each.forecaster == "kriging of the day")]
    assert rows["filtered", "kriging of the day"]["data"] <= len(kriged)
    code, out, err = seqgp_("score", folder / "run", folder / "held_out.csv", "--ahead", 2, "--no-smoothed")
    assert code == 0, err
    assert "2 steps ahead" in out
    assert "smoothed" not in out
    assert "PIT of the model, 2 steps ahead, in tenths:" in out


def test_the_tables_fit_into_a_terminal(seqgp_, folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = seqgp_("score", folder / "run", folder / "held_out.csv", "--draws", 50)
    assert code == 0, err
    assert "…" not in out
    assert max(len(line) for line in out.splitlines() if not line.startswith(("PIT", "note"))) <= 80


def test_what_is_refused(seqgp_, folder):
    run, held = folder / "run", folder / "held_out.csv"
    code, _, err = seqgp_("score", run, folder / "table.csv")
    assert code == 2
    assert "the run has seen a value at t = 0" in err
    code, _, err = seqgp_("score", run, held, "-o", folder / "each.txt")
    assert code == 2
    assert "ends in '.txt'; expected .csv or .parquet" in err
    code, _, err = seqgp_("score", run, held, "-o", held)
    assert code == 2
    assert "is there already" in err
    assert seqgp.Store(run).model is not None
