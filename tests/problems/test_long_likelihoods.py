"""The particle filter behind ``python -m experiments.long_likelihoods``: evidence that is known."""

import jax
import numpy as np
import pytest
from experiments import long_likelihoods as long
from scipy import stats


def test_without_a_latent_the_evidence_is_that_of_independent_data():
    name = "Poisson, one in four"
    y = long.drawn(long.STREAMS[name], 0)
    found = long.log_evidence(name, y, jax.random.key(0), 1.0, 1e-9, -1.2, np.nan)
    assert float(found) == pytest.approx(stats.poisson(np.exp(-1.2)).logpmf(y).sum(), abs=1e-6)


def test_far_from_the_limit_the_evidence_is_that_of_gaussian_data():
    name = "Censored, half of them"
    rng = np.random.default_rng(0)
    y = 5 + 0.3 * rng.standard_normal(long.STEPS)
    found = [float(long.log_evidence(name, y, jax.random.key(i), 1.0, 0.3, 5.0, 0.3)) for i in range(4)]
    r = 3**0.5 * long.APART * np.abs(np.subtract.outer(np.arange(long.STEPS), np.arange(long.STEPS)))
    covariance = 0.09 * ((1 + r) * np.exp(-r) + np.eye(long.STEPS))
    truth = stats.multivariate_normal(np.full(long.STEPS, 5.0), covariance).logpdf(y)
    assert np.mean(found) == pytest.approx(truth, abs=0.3)
