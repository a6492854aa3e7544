"""The covariance of the window's level: found from draws that are made by a known one."""

import numpy as np
import pytest

from seqgp.samplers.sequential import window_covariance as module
from seqgp.samplers.sequential.window_covariance import Components, oas_intensity, shrinkage_of, window_covariance


def test_shrinkage_only_where_draws_are_few():
    rng = np.random.default_rng(0)
    assert shrinkage_of(rng.normal(size=(1000, 20))) == 0.0
    assert 0.5 < shrinkage_of(rng.normal(size=(30, 20))) <= 1.0  # the truth is the identity, what it is shrunk to


def test_shrinkage_is_that_of_the_literature():
    """Chen et al. (2010), equation 23, at a covariance worked out by hand: diag(4, 1), n = 10."""
    # (1 − 2/2)·17 + 25 = 25; (10 + 1 − 1)·(17 − 25/2) = 45
    assert oas_intensity(np.diag([4.0, 1.0]), 10) == pytest.approx(25 / 45)


@pytest.mark.parametrize("rank", [8, 3])
def test_components_are_a_root(rank):
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(8, rank)))[0]
    sd = np.linspace(2.0, 0.5, rank)
    root = Components(basis, sd, np.asarray(0.7))
    matrix = np.asarray(root.apply(np.eye(8)))
    expected = basis @ np.diag(sd**2) @ basis.T + 0.49 * (np.eye(8) - basis @ basis.T)
    np.testing.assert_allclose(matrix @ matrix.T, expected, atol=1e-12)
    np.testing.assert_allclose(root.solve(matrix), np.eye(8), atol=1e-12)
    np.testing.assert_allclose(root.pull(np.eye(8)), matrix.T, atol=1e-12)
    np.testing.assert_allclose(root.apply(np.ones(8)), matrix @ np.ones(8), atol=1e-12)


SLOPES = np.array([[0.8, 0.0], [0.0, -0.5], [-0.4, 0.3], [0.0, 0.0]])
LEVELS = np.array([1.0, 0.3, 0.1, 0.03])
ROTATION = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))[0]


def spread_errors(n=20_000):
    """Variances of components that follow two correlated parameters, found from draws: log ratios to the truth, in
    standard errors of a log variance."""
    rng = np.random.default_rng(4)
    kappa = rng.normal(size=(n, 2)) @ np.array([[0.5, 0.3], [0.0, 0.2]])
    draws = (LEVELS * np.exp(kappa @ SLOPES.T) * rng.normal(size=(n, 4))) @ ROTATION.T
    mask = np.array([True, True, False, True, True])
    padded = np.zeros((n, 5))
    padded[:, mask] = draws
    spread = window_covariance(padded, mask, kappa)
    errors = []
    for at in (np.zeros(2), np.array([0.5, 0.3]), np.array([-0.5, -0.3])):
        root = np.asarray(Components(spread.basis, spread.sd(at), spread.rest).apply(np.eye(5)))
        covariance = root @ root.T
        np.testing.assert_allclose(covariance[2], np.eye(5)[2], atol=1e-12)  # a site that is only padding
        found = ROTATION.T @ covariance[np.ix_(mask, mask)] @ ROTATION
        errors.append(np.log(np.diag(found) / (LEVELS * np.exp(SLOPES @ at)) ** 2) / (2 / n) ** 0.5)
    return np.abs(errors).max()


def test_the_covariance_follows_the_parameters():
    # One standard deviation out, level and slope add up: √2 standard errors; 12 of them.
    assert spread_errors() < 4 * 2**0.5


def test_mutant_one_covariance_for_all_parameters(monkeypatch):
    monkeypatch.setattr(module, "log_variance_slopes", lambda squares, kappa: np.zeros((squares.shape[1], 2)))
    assert spread_errors() > 20


def test_few_draws_make_little_of_nothing():
    """Draws that do not depend on the parameters, fewer than sites: covariances hardly follow."""
    rng = np.random.default_rng(5)
    draws = rng.normal(size=(15, 20))
    spread = window_covariance(draws, np.ones(20, bool), rng.normal(size=(15, 6)))
    assert shrinkage_of(draws) > 0.5
    assert np.isfinite(spread.log_sd).all()
    assert max(np.abs(spread.low).max(), np.abs(spread.high).max()) < 0.7


def test_beyond_the_draws_the_covariance_stays():
    rng = np.random.default_rng(6)
    kappa = rng.normal(size=(500, 1))
    spread = window_covariance(np.exp(kappa) * rng.normal(size=(500, 1)), np.ones(1, bool), kappa)
    np.testing.assert_allclose(spread.sd(np.array([50.0])), spread.sd(np.array([kappa.max()])))


def test_a_large_window_keeps_its_leading_components(monkeypatch):
    """Low rank plus diagonal: the same covariance where the rank is there, the same trace in any case."""
    rng = np.random.default_rng(7)
    draws = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 30)) + 0.1 * rng.normal(size=(400, 30))
    draws -= draws.mean(axis=0)
    mask, kappa = np.ones(30, bool), np.zeros((400, 0))

    def covariance():
        spread = window_covariance(draws, mask, kappa)
        root = np.asarray(Components(spread.basis, spread.sd(np.zeros(0)), spread.rest).apply(np.eye(30)))
        return root @ root.T

    whole = covariance()
    np.testing.assert_allclose(whole, np.cov(draws, rowvar=False), atol=1e-6)
    monkeypatch.setattr(module, "LOW_RANK_ABOVE", 20)
    monkeypatch.setattr(module, "RANK", 3)
    found = covariance()
    assert np.abs(found - whole).max() < 0.01
    np.testing.assert_allclose(np.trace(found), np.trace(whole), rtol=1e-4)
