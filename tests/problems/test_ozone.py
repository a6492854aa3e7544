"""New York ozone: the split is the published one, and scores are those of the held-out stations in ppb."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from experiments.ozone import COVARIATES, HELD_OUT, back, main, read, score

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "ny_ozone"
needs_data = pytest.mark.skipif(not FOLDER.exists(), reason="the ozone data are not part of the package")


def test_scores_leave_missing_data_out():
    truth = np.array([[10.0, np.nan], [20.0, 30.0]])
    draws = np.random.default_rng(0).normal(np.array([[13.0, 0.0], [20.0, 30.0]]), 1.0, size=(4000, 2, 2))
    found = score(draws, truth)
    assert found.values == 3
    assert found.rmse == pytest.approx(np.sqrt(3.0), abs=0.05)  # errors 3, 0 and 0, up to the mean of 4000 draws
    assert found.mae == pytest.approx(1.0, abs=0.05)
    assert found.coverage == pytest.approx(2 / 3)


def test_square_roots_become_ppb_with_their_noise():
    """``E[(f + noise e)²] = f² + noise²``; five standard errors: a false alarm in 10⁶ seeds."""
    ppb = back(np.random.default_rng(0), np.full((100_000, 1), 7.0), np.full(100_000, 0.5))
    assert ppb.mean() == pytest.approx(49.25, abs=5 * 7.0 / np.sqrt(100_000))


def table(days):
    """A made-up table of the same columns: ozone that follows temperature."""
    rng = np.random.default_rng(1)
    sites = rng.uniform(0, 3e5, size=(28, 2))
    rows = []
    for day in range(days):
        heat = rng.normal()
        for i, (x, y) in enumerate(sites, start=1):
            weather = heat + 0.1 * rng.normal(size=3)
            root = 7.0 + 0.8 * weather[0] + 0.1 * rng.normal()
            rows.append([i, x, y, 7, day + 1, root**2, *weather])
    return pd.DataFrame(rows, columns=["s.index", "utmx", "utmy", "Month", "Day", "y8hrmax", *COVARIATES])


def test_a_table_of_our_own_goes_through(tmp_path, capsys):
    """Noise of 0.1 on the square-root scale is 1.4 ppb at 49: held-out stations are found to about that."""
    table(4).to_csv(tmp_path / "nysptime.csv", index=False)
    found = main(["--data", str(tmp_path), "--models", "weather", "--particles", "16", "--draws", "200"])
    said = capsys.readouterr().out
    assert "32 values" in said
    assert "spTimer GPP" in said
    assert found["weather, all days"].values == 4 * len(HELD_OUT)
    assert found["weather, all days"].rmse < 4.0
    assert found["weather, up to the day"].rmse < 4.0


@needs_data
def test_the_split_is_the_published_one():
    """Ordinary least squares on it has the error that is published for linear regression: 9.35 ppb over 488 values."""
    data = read(FOLDER)
    assert len(data.snapshots) == 62
    assert all(len(snapshot.x) == 28 for snapshot in data.snapshots)
    seen = ~np.isnan(data.truth)
    assert seen.sum() == 488
    design = np.stack([np.stack([np.ones(28), *s.context.values()], axis=1) for s in data.snapshots])
    y = np.stack([snapshot.y for snapshot in data.snapshots])
    learnt = ~np.isnan(y)
    assert not learnt[:, data.held_out].any()
    weights = np.linalg.lstsq(design[learnt], y[learnt], rcond=None)[0]
    ppb = (design[:, data.held_out] @ weights) ** 2 + np.var(y[learnt] - design[learnt] @ weights)
    assert np.sqrt(np.mean((ppb - data.truth)[seen] ** 2)) == pytest.approx(9.35, abs=0.05)
