"""The season: what it is compared with forecasts what it says, and the table is of the forecasts."""

import numpy as np
import pytest
from experiments import season


def test_baselines_use_the_data_up_to_a_week_before():
    """A cycle of three harmonics without noise: regression is exact; persistence is the value a week before."""
    turn = 2 * np.pi * np.arange(800) / season.YEAR
    cycle = 3 + np.cos(turn) + 0.5 * np.sin(3 * turn)
    y = np.stack([cycle, 2 * cycle], axis=1)
    y[694:] = np.nan  # nothing later than a week before is looked at
    mean, spread = season.regression(y, 700)
    assert mean == pytest.approx([cycle[700], 2 * cycle[700]], abs=1e-8)
    assert spread < 1e-8
    mean, spread = season.persistence(y, 700)
    assert mean == pytest.approx([cycle[693], 2 * cycle[693]])
    assert spread == pytest.approx(np.std(y[7:694] - y[:687]))


def test_the_cycle_drifts_and_weather_has_the_sd_it_says():
    """Differences of one day are weather and noise: ``2 · (4 (1 − exp(−1/4)) + 0.25)``, to a tenth over ten years."""
    y = season.simulated(3, 3652)
    assert y.shape == (3652, 4)
    assert np.var(np.diff(y, axis=0)) == pytest.approx(2 * (4 * (1 - np.exp(-0.25)) + 0.25), rel=0.1)


def test_it_runs():
    """One model stands for both: forecasts of the days they say, a table that compares them, a figure."""
    args = season.parse(["--quick"])
    y = season.simulated(0, 17)
    run, found = season.forecasts(season.models()[season.WITH], y, args)
    assert run.state.t == 16
    assert [one.day for one in found] == [15, 16]
    assert found[0].draws.shape == (100, 4)
    both = {season.WITH: found, season.WITHOUT: found}
    crps = season.crps_of(y, both)
    assert set(crps) == {"persistence", "harmonic regression", *both}
    assert "| without Periodic |" in season.table(crps)
    assert "+0.000 ± 0.000" in season.table(crps)
    assert len(season.figure(y, both, crps).axes) == 2
