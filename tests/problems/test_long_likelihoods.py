"""The particle filter behind ``python -m experiments.long_likelihoods``: evidence that is known."""

import jax
import numpy as np
import pytest
from experiments import long_likelihoods as long
from scipy import stats


def test_without_a_latent_the_evidence_is_that_of_independent_data():
    name = "Poisson, mean 0.3"
    y = long.drawn(long.STREAMS[name], 0)
    found = long.log_evidence(name, y, jax.random.key(0), 1.0, 1e-9, -1.2, np.nan)
    assert float(found) == pytest.approx(stats.poisson(np.exp(-1.2)).logpmf(y).sum(), abs=1e-6)


def test_far_from_the_limit_the_evidence_is_that_of_gaussian_data():
    name = "Censored, half of them"
    rng = np.random.default_rng(0)
    y = 5 + 0.3 * rng.standard_normal((long.STEPS, 1))
    found = [float(long.log_evidence(name, y, jax.random.key(i), 1.0, 0.3, 5.0, 0.3)) for i in range(4)]
    r = 3**0.5 * long.APART * np.abs(np.subtract.outer(np.arange(long.STEPS), np.arange(long.STEPS)))
    covariance = 0.09 * ((1 + r) * np.exp(-r) + np.eye(long.STEPS))
    truth = stats.multivariate_normal(np.full(long.STEPS, 5.0), covariance).logpdf(y[:, 0])
    assert np.mean(found) == pytest.approx(truth, abs=0.3)


def test_two_stations_have_the_evidence_of_gaussian_data():
    name, steps = "Censored, half of them", 20
    rng = np.random.default_rng(1)
    y = 5 + 0.5 * rng.standard_normal((steps, 2))
    found = [float(long.log_evidence(name, y, jax.random.key(i), 1.0, 0.3, 5.0, 0.5)) for i in range(4)]
    r = 3**0.5 * long.APART * np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    space = long.space_root(2) @ long.space_root(2).T
    covariance = 0.09 * np.kron((1 + r) * np.exp(-r), space) + 0.25 * np.eye(2 * steps)
    truth = stats.multivariate_normal(np.full(2 * steps, 5.0), covariance).logpdf(y.reshape(-1))
    assert np.mean(found) == pytest.approx(truth, abs=0.3)


def test_dense_importance_has_the_evidence_of_gaussian_data_and_of_the_particle_filter():
    """Two stations with Gaussian data, by closed form; counts, by the particle filter, within four standard errors."""
    name, steps = "Censored, half of them", 20
    y = 5 + 0.5 * np.random.default_rng(1).standard_normal((steps, 2))
    row = np.array([1.0, 0.3, 5.0, 0.5])
    (found,) = long.dense_evidences(name, y, row[None], row, 0, 256)
    space = long.space_root(2) @ long.space_root(2).T
    covariance = 0.09 * np.kron(long.time_correlation(steps), space) + 0.25 * np.eye(2 * steps)
    truth = stats.multivariate_normal(np.full(2 * steps, 5.0), covariance).logpdf(y.reshape(-1))
    assert found.log_evidence == pytest.approx(truth, abs=1e-4)
    name, rows = "Poisson, mean 0.3", np.array([[1.0, 1.0, -1.5, np.nan], [0.5, 2.0, -2.0, np.nan]])
    y = long.drawn(long.STREAMS[name], 0, steps=40)
    for row, one in zip(rows, long.dense_evidences(name, y, rows, rows[0], 0, 4096)):
        runs = [float(long.log_evidence(name, y, jax.random.key(i), *row)) for i in range(8)]
        error = np.hypot(np.sqrt(one.variance), np.std(runs) / np.sqrt(8))
        assert abs(one.log_evidence - np.mean(runs)) < 4 * error
        assert error < 0.1


def test_the_page_says_which_goals_are_met():
    row = {
        "stream": "Gamma", "stations": 1, "paths": "auto", "dataset": 0, "bias": {"scale": 0.05, "mean": -0.1},
        "ratio": {"scale": 1.0, "mean": 0.9}, "off": 0.1, "se": 0.08, "exact error": 0.05, "apart": 0.1,
        "filter gap": 0.01, "filter error": 0.02,
    }  # fmt: skip
    good = long.page([row])
    assert '## 1 station, `paths="auto"`' in good
    assert "| Gamma | 1 | 0.10 | 0.08 | 0.90–1.00 | +0.10 | 0.08 | 0.10 | +0.01 ± 0.02 |" in good
    assert good.count("| met |") == 3
    assert "median: at most 0.07 sd | 0.08 | **not met** |" in good
    bad = long.page([row, row | {"bias": {"scale": 0.9, "mean": 0.0}, "off": 2.0}])
    assert "95% of all cases: at most 0.15 sd | 0.78 | **not met** |" in bad
    assert "log evidence within 0.5 or three standard errors | 50% of the runs | **not met** |" in bad


@pytest.mark.parametrize("name", long.STREAMS)
def test_data_of_each_stream_suit_its_likelihood(name):
    stream = long.STREAMS[name]
    y = long.drawn(stream, 0, steps=4, stations=2)
    f = np.full_like(y, stream.level)
    own = np.asarray(long.log_density(stream, y, f, stream.own))
    assert np.isfinite(own).all()
    of = long.model(stream)
    own_name = {one: stream.own for one in of.inferred if one not in ("time.lengthscale", "scale", "mean")}
    parameters = dict(of.parameters(of.prior_of_z()[0])) | own_name
    missing = np.zeros(y.shape[1], bool)
    theirs = [float(stream.likelihood.log_prob(f[0], row, missing, None, parameters)) for row in y]
    np.testing.assert_allclose(own.sum(1), theirs, rtol=1e-6)
