"""Leave-one-out predictions from the state given all data are those of the innovations' precision."""

import numpy as np

from seqgp.statespace.leave_one_out import leave_one_out


def problem(n=6, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    return root @ root.T / n, rng.uniform(0.1, 0.9, n), rng.normal(size=n), rng.normal(size=n)


def test_it_is_the_formula_of_the_precision():
    cov, noise_variance, mean, y = problem()
    precision = np.linalg.inv(cov + np.diag(noise_variance))
    expected_mean = y - (precision @ (y - mean)) / np.diag(precision)
    after = mean + cov @ precision @ (y - mean)
    left = np.diag(cov - cov @ precision @ cov)
    found_mean, found_variance = leave_one_out(y, noise_variance, after, left)
    np.testing.assert_allclose(found_mean, expected_mean, rtol=1e-10)
    np.testing.assert_allclose(found_variance, 1 / np.diag(precision), rtol=1e-10)


def test_without_digits_left_it_is_nan():
    mean, variance = leave_one_out(np.ones(2), np.full(2, 0.1), np.zeros(2), np.array([0.1, 0.05]))
    assert np.isnan(mean[0])
    assert np.isnan(variance[0])
    assert np.isfinite(mean[1])
    assert np.isfinite(variance[1])
