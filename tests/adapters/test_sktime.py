"""The sktime forecaster: its forecasts are those of the sampler, and ``update`` never refits."""

import importlib

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp

pd = pytest.importorskip("pandas")
pytest.importorskip("sktime", reason="sktime is not installed: pip install 'seqgp[sktime]'")
adapter = importlib.import_module("seqgp.adapters.sktime")
SeqgpForecaster, times_of = adapter.SeqgpForecaster, adapter._times

KNOWN = seqgp.Model(
    kernel=seqgp.Separable(seqgp.kernels.Matern12(4.0), seqgp.kernels.Matern32(1.0), scale=1.5),
    mean=0.5,
    likelihood=seqgp.likelihoods.Gaussian(noise=dist.LogNormal(-1.0, 0.01)),
)
Y = pd.Series(0.5 + np.cumsum(np.random.default_rng(0).standard_normal(9)) / 2, name="level")


@pytest.fixture(scope="module")
def fitted():
    return SeqgpForecaster(KNOWN, particles=16, draws=4000).fit(Y, fh=[1, 3])


def kriged(horizon):
    """Mean and sd of a new value by dense algebra, at the median of the noise."""

    def covariance(a, b):
        return 1.5**2 * np.exp(-np.abs(np.subtract.outer(a, b)) / 4.0)

    at, t = np.arange(9.0), np.array([8.0 + horizon])
    noise = np.exp(-2.0)
    gain = np.linalg.solve(covariance(at, at) + noise * np.eye(9), covariance(at, t)).T
    return (0.5 + gain @ (Y.to_numpy() - 0.5))[0], np.sqrt((1.5**2 + noise - gain @ covariance(at, t))[0, 0])


def test_forecasts_are_those_of_dense_algebra(fitted):
    """4000 draws: means within 4 standard errors (0.063 sd), sds within 5 %."""
    forecast, variance = fitted.predict(), fitted.predict_var()
    assert forecast.index.tolist() == [9, 11]
    for i, horizon in enumerate((1, 3)):
        mean, sd = kriged(horizon)
        assert abs(forecast.iloc[i] - mean) < 0.07 * sd
        assert abs(np.sqrt(variance.iloc[i, 0]) / sd - 1) < 0.05


def test_intervals_and_distribution_have_the_same_draws(fitted):
    interval = fitted.predict_interval(coverage=0.9)
    lower = interval.xs("lower", axis=1, level=-1).to_numpy().ravel()
    np.testing.assert_allclose(fitted.predict_quantiles(alpha=[0.05]).to_numpy().ravel(), lower)
    distribution = fitted.predict_proba()
    np.testing.assert_allclose(distribution.mean().to_numpy().ravel(), fitted.predict().to_numpy())


def test_update_steps_and_never_refits(fitted, monkeypatch):
    """The same draws as a fit to the whole series, because a step depends on its number alone; no second ``init``."""
    begun = SeqgpForecaster(KNOWN, particles=16, draws=4000).fit(Y[:6], fh=[1, 3])
    monkeypatch.setattr(seqgp.OnlineSampler, "init", lambda *_, **__: pytest.fail("update began anew"))
    begun.update(Y[6:])
    np.testing.assert_array_equal(begun.predict(), fitted.predict())
    begun.update(Y[6:])  # seen before: nothing happens
    np.testing.assert_array_equal(begun.predict(), fitted.predict())


def test_times_of_every_index():
    days = pd.date_range("2020-01-30", periods=3, freq="D")
    np.testing.assert_array_equal(np.diff(times_of(days)), 1)
    np.testing.assert_array_equal(np.diff(times_of(pd.date_range("2020-01-31", periods=3, freq="ME"))), 1)
    np.testing.assert_array_equal(np.diff(times_of(pd.DatetimeIndex(["2020-01-01", "2020-01-04"]))), 3)
    np.testing.assert_array_equal(times_of(pd.RangeIndex(2, 5)), [2, 3, 4])
    np.testing.assert_array_equal(np.diff(times_of(pd.period_range("2020-01", periods=3, freq="M"))), 1)


def test_a_series_without_values_is_refused():
    with pytest.raises(seqgp.DataError, match="missing"):
        SeqgpForecaster(particles=16).fit(pd.Series([np.nan, np.nan]))


def test_sktime_checks_the_forecaster():
    """sktime's own suite, but for what compiles anew for each of many scenarios."""
    from sktime.utils.estimator_checks import check_estimator

    wanted = ["test_constructor", "test_set_params", "test_clone", "test_repr", "test_valid_estimator_class_tags",
              "test_get_test_params", "test_fit_updates_state", "test_methods_have_no_side_effects",
              "test_update_predict_single", "test_predict_interval"]  # fmt: skip
    check_estimator(SeqgpForecaster, raise_exceptions=True, tests_to_run=wanted, verbose=False)


def test_the_key_is_the_seed():
    assert SeqgpForecaster(seed=3).get_params()["seed"] == 3
    assert jax.config.jax_enable_x64
