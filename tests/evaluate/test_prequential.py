"""Scores of predicted snapshots, and the alarm when they stop being calibrated."""

import numpy as np
import pytest
from scipy.stats import kstest

import seqgp
from seqgp.base.remarks import add_up
from seqgp.evaluate.prequential import drift_alarm, prequential, uniform_p_value


def stream(steps, shift=0.0, factor=1.0, n=30, draws=200, seed=0):
    """Snapshots whose values share much of their error, predicted rightly but for shift and factor."""
    rng = np.random.default_rng(seed)

    def joint(size):
        return rng.normal(size=(size, 1)) + 0.5 * rng.normal(size=(size, n))

    return [prequential(joint(draws), shift + factor * joint(1)[0]) for _ in range(steps)]


def test_a_calibrated_stream_raises_no_alarm_however_dependent_its_values():
    """At a level of 1e-2, 100 streams: more than 5 alarms have a probability of 5e-4."""
    alarms = sum(drift_alarm(stream(20, n=10, draws=100, seed=seed), level=1e-2).alarm for seed in range(100))
    assert alarms <= 5


@pytest.mark.parametrize(
    ("changes", "what", "about"),
    [
        ({"shift": 2.0}, "above", "forecasts too low"),
        ({"shift": -2.0}, "below", "forecasts too high"),
        ({"factor": 3.0}, "further", "forecasts too sure"),
        ({"factor": 0.2}, "closer", "forecasts too unsure"),
    ],
)
def test_drift_is_named(changes, what, about):
    """In the message of the step, and in the line that adds up the steps of a run."""
    found = drift_alarm(stream(20, **changes))
    assert found.alarm
    assert what in found.message
    (total,) = add_up([[found.message], []])
    assert total.among(2) == f"drift in 1 of 2 steps ({about} in 1)"
    assert found.p_value < 1e-3


def test_scores_are_those_of_the_observed_values():
    rng = np.random.default_rng(0)
    draws, y = rng.normal(size=(2000, 4)), np.array([0.0, np.nan, 0.5, 9.0])
    found = prequential(draws, y, log_score=-3.0)
    assert found["coverage_95"] == pytest.approx(2 / 3)
    assert found["log_score"] == -3.0
    # The CRPS of a standard normal at 0 is (√2 − 1)/√π, far out it is |y| − 1/√π.
    normal = [(2**0.5 - 1) / np.pi**0.5, 0.3313, 9 - np.pi**-0.5]
    assert found["crps"] == pytest.approx(np.mean(normal), rel=0.02)
    assert set(found) == {"crps", "coverage_50", "coverage_95", "pit_location", "pit_spread", "log_score"}


def test_nothing_observed_and_too_few_steps():
    assert prequential(np.zeros((10, 2)), np.full(2, np.nan)) == {}
    assert not drift_alarm([{}] * 20).alarm
    assert not drift_alarm(stream(4, shift=9.0)).alarm
    with pytest.raises(seqgp.DataError, match=r"y has shape \(3,\)"):
        prequential(np.zeros((10, 2)), np.zeros(3))


@pytest.mark.parametrize("n", [5, 20])
def test_the_test_of_uniformity_is_scipys_where_it_decides(n):
    """Exact to 1e-6 below 0.05, and never below the exact one."""
    rng, decided = np.random.default_rng(n), 0
    for power in np.linspace(0.2, 4.0, 40):
        values = rng.random(n) ** power
        exact, found = kstest(values, "uniform").pvalue, uniform_p_value(values)
        assert exact * (1 - 1e-9) <= found <= 1
        if exact < 0.05:
            decided += 1
            np.testing.assert_allclose(found, exact, rtol=1e-6)
    assert decided > 10
