"""Cox processes: the disasters are the published ones, and the simulated events have the intensity they say."""

import datetime

import numpy as np
import pytest
from experiments import cox


def test_the_disasters_are_those_of_jarrett():
    """191 of them, from 15 March 1851 to 22 March 1962; counts by year as Raftery and Akman (1986) have them."""
    days = cox.disasters()
    assert len(days) == 191
    first = datetime.date(1851, 3, 15)
    dates = [first + datetime.timedelta(days=int(day)) for day in days]
    assert dates[-1] == datetime.date(1962, 3, 22)
    by_year = np.bincount([date.year for date in dates], minlength=1963)[1851:]
    assert by_year[:10].tolist() == [4, 5, 4, 1, 0, 4, 3, 4, 0, 6]
    assert by_year[-12:].tolist() == [1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1]
    snapshots = cox.coal_snapshots(None)
    assert sum(s.y.sum() for s in snapshots) == 191
    assert len(snapshots) == 811
    assert snapshots[-1].t == pytest.approx(1962.22, abs=0.1)


def test_events_have_the_true_intensity():
    """Counts over 40 patterns are Poisson: chi-square of 18 cells below 42.3, a false alarm in 1000 seeds."""
    expected = cox.mean_intensity(3, 2) / 18
    total = np.sum([[s.y for s in cox.pattern(seed, 3, 2)] for seed in range(40)], axis=0)
    assert np.sum((total - 40 * expected) ** 2 / (40 * expected)) < 42.3
    assert np.sum((total - 40 * expected[::-1]) ** 2 / (40 * expected[::-1])) > 1000


def test_maps_are_of_their_cells():
    """The last side of a cell runs fastest, and is the height of a map."""
    truth = cox.mean_intensity(4, 2)
    picture = cox.pattern_figure({"truth": truth}, [0.25, 0.75], 4)
    shown = picture.axes[0].images[0].get_array()
    assert shown[3, 0] == truth[0, 3]


def test_it_runs():
    """Few bins of one model: the disasters there are far more than one a year."""
    args = cox.parse(["--quick"])
    snapshots = cox.coal_snapshots(args.bins)
    runs, log_rate = cox.runs_of({"Matern12": cox.coal_models()["Matern12"]}, snapshots, args)
    assert len(runs["Matern12"].infos) == 3
    assert log_rate.shape == (50, 3, 1)
    assert np.exp(log_rate).mean() > 1.0
    assert cox.band(np.linspace(0, 2, 201)) == "1.00 (0.05 to 1.95)"
