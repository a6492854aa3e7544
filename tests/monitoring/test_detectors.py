"""The sequential tests: their recursions against sums over all beginnings, and their false alarms by simulation."""

import numpy as np
import pytest
from scipy.stats import norm, poisson

from seqgp.monitoring import detectors as tests
from seqgp.monitoring.detectors import DRIFTS, LEVELS, SPREADS, Readings


def scores(z, y=None, t=0.0):
    z = np.asarray(z, float)
    y = z if y is None else np.asarray(y, float)
    return Readings(t, y, z, np.zeros_like(z), np.ones_like(z))


def after(series, start=None):
    """The statistics after rows of scores."""
    found = tests.joined(tests.no_detectors(), series.shape[1]) if start is None else start
    for t, z in enumerate(series):
        found = tests.after_readings(found, scores(z, t=float(t)))
    return found


def test_statistics_are_sums_of_likelihood_ratios_over_all_beginnings():
    z = np.random.default_rng(0).normal(size=(7, 1))
    found = after(z)
    z = z[:, 0]
    for k, (first, rest) in enumerate(LEVELS):
        ratios = []
        for tau in range(7):
            shape = np.where(np.arange(tau, 7) == tau, first, rest)
            ratios.append(np.sum(norm.logpdf(z[tau:], shape) - norm.logpdf(z[tau:])))
        assert found.level.log[0, k] == pytest.approx(np.logaddexp.reduce(ratios))
        assert found.level.peak[0, k] == pytest.approx(np.max(ratios))
        assert found.level.since[0, k] == np.argmax(ratios)
    for k, shift in enumerate(DRIFTS):
        ratios = [np.sum(norm.logpdf(z[tau:], shift) - norm.logpdf(z[tau:])) for tau in range(7)]
        assert found.drift.log[0, k] == pytest.approx(np.logaddexp.reduce(ratios))
    for k, sd in enumerate(SPREADS):
        ratios = [np.sum(norm.logpdf(z[tau:], 0, sd) - norm.logpdf(z[tau:])) for tau in range(7)]
        assert found.spread.log[0, k] == pytest.approx(np.logaddexp.reduce(ratios))


def test_a_gap_leaves_the_statistics_as_they_are_and_stations_join_at_zero():
    z = np.random.default_rng(1).normal(size=(6, 2))
    gaps = z.copy()
    gaps[3, 1] = np.nan
    whole, with_gap = after(np.delete(z, 3, axis=0)), after(gaps)
    np.testing.assert_allclose(with_gap.level.log[1], whole.level.log[1])
    np.testing.assert_allclose(with_gap.stuck.log[1], whole.stuck.log[1], atol=1.0)  # pairs of station 0 count too
    more = tests.joined(with_gap, 1)
    assert np.isneginf(more.level.log[2]).all()
    np.testing.assert_array_equal(tests.of_stations(more, np.array([2, 0])).level.log[1], more.level.log[0])


@pytest.mark.parametrize("kind", ["level", "drift", "spread", "stuck", "spike"])
def test_false_alarms_are_at_most_as_many_as_stated(kind):
    """At a rate of 25 in 1000 readings for five kinds, each is allowed 5 in 1000.

    Of 400 stations by 250 readings that are 500; more than 560 come with probability 0.4 % if the rate is exact.
    """
    rate, stations, times = 25.0, 400, 250
    allowed = stations * times / tests.threshold(rate)
    assert allowed == 500
    assert poisson.sf(560, allowed) < 0.005
    rng = np.random.default_rng(2)
    found, count = tests.joined(tests.no_detectors(), stations), 0
    for t in range(times):
        z = rng.normal(size=stations)
        if kind == "spike":
            count += int((np.abs(z) >= tests.spike_bound(rate)).sum())
            continue
        y = np.round(z, 1) if kind == "stuck" else z  # rounded: values repeat by chance
        found = tests.after_readings(found, scores(z, y, float(t)))
        rung = tests.alarms(getattr(found, kind), rate)
        count += int(rung.sum())
        found = tests.restarted(found, rung)
    assert count <= 560
    assert count >= 20  # and the tests are not idle


def test_a_stuck_value_is_noticed_and_many_zeros_are_not():
    rng = np.random.default_rng(3)
    found = tests.joined(tests.no_detectors(), 20)
    dry, rung = rng.random((60, 20)) < 0.5, np.zeros(20, int)
    for t in range(60):  # half of all values are zero, as of rain
        z = rng.normal(size=20)
        found = tests.after_readings(found, scores(z, np.where(dry[t], 0.0, z), float(t)))
        rung += tests.alarms(found.stuck, 0.1)
    assert not rung.any()
    found = tests.joined(tests.no_detectors(), 20)
    for t in range(40):
        y = np.round(rng.normal(size=20), 1)
        y[4] = 0.3 if t >= 30 else y[4]
        found = tests.after_readings(found, scores(rng.normal(size=20), y, float(t)))
        if tests.alarms(found.stuck, 0.1)[4]:
            break
    assert 32 <= t <= 36
    assert tests.beginnings(found.stuck)[4] == 31  # the first value that repeats


def test_the_threshold_of_single_readings_is_a_quantile():
    assert tests.threshold(0.1) == 50_000
    assert 2 * norm.sf(tests.spike_bound(0.1)) == pytest.approx(1 / 50_000)
