"""Forecasts that cost nothing: what they forecast, and that the AR(1) is the better one where there is one."""

import numpy as np

from seqgp.evaluate.baselines import FEWEST, baselines


def test_each_is_made_of_the_past_alone():
    rng = np.random.default_rng(0)
    values = list(rng.normal(size=(8, 4)))
    names = [list("abcd")] * 8
    whole = baselines(names, values)
    changed = baselines(names, [*values[:5], values[5] + 100, *values[6:]])
    for before, after in zip(whole[:6], changed[:6]):
        for name in before:
            np.testing.assert_array_equal(before[name].mean, after[name].mean)
    assert not np.array_equal(whole[6]["persistence"].mean, changed[6]["persistence"].mean)


def test_persistence_is_the_last_value_that_was_seen():
    values = [np.array([1.0, 2.0, 3.0])] * 5 + [np.array([np.nan, 5.0, 6.0]), np.array([7.0, 8.0, 9.0])]
    stations = [list("abc")] * 6 + [list("abd")]
    forecast = baselines(stations, values)[-1]["persistence"]
    np.testing.assert_allclose(forecast.mean, [1.0, 5.0, np.nan])
    differences = [0.0] * 12 + [3.0, 3.0]
    np.testing.assert_allclose(forecast.sd[0], np.sqrt(np.mean(np.square(differences))))


def test_too_little_was_seen():
    (first, second) = baselines([list("abc")] * 2, [np.zeros(3)] * 2)
    assert FEWEST > 3
    assert np.isnan(first["AR(1)"].mean).all()
    assert np.isnan(second["AR(1)"].mean).all()


def test_an_autoregression_is_found_and_covers():
    """5 stations over 400 steps: the share inside 95 % has a standard error of .005."""
    rng = np.random.default_rng(1)
    state, values = np.zeros(5), []
    for _ in range(400):
        state = 0.6 * state + 0.8 * rng.normal(size=5)
        values.append(3.0 + state)
    found = baselines([list("abcde")] * 400, values)[50:]
    late = values[50:]
    np.testing.assert_allclose(found[-1]["AR(1)"].mean, 3.0 + 0.6 * (values[-2] - 3.0), atol=0.15)
    inside = np.mean([f["AR(1)"].inside(y) for f, y in zip(found, late)])
    assert abs(inside - 0.95) < 0.02
    better, worse = (np.mean([f[name].crps(y) for f, y in zip(found, late)]) for name in ("AR(1)", "persistence"))
    assert better < worse
