"""Snapped proposals: their density is exact, and importance weights with it integrate to the right constant."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, multivariate_t, norm

from seqgp.statespace.shared_lengthscales import LengthscaleGrid, snap, snapped_log_density

MEAN = np.array([0.3, -1.0, 2.0])
ROOT = np.array([[0.5, 0.0, 0.0], [0.4, 0.3, 0.0], [-0.2, 0.1, 0.6]])
COV = ROOT @ ROOT.T


def grid_of(index, width=0.5):
    """Cells that are ``width`` standard deviations wide, each of an entry given those before it."""
    chosen = list(index)
    root = np.linalg.cholesky(COV[np.ix_(chosen, chosen)])
    steps = width * np.linalg.solve(root, COV[chosen]).T
    steps[chosen] = width * root
    return LengthscaleGrid(tuple(index), MEAN[chosen], steps)


def test_snapped_points_lie_on_the_grid_and_on_the_regression_line():
    grid = grid_of((1,))
    z = np.random.default_rng(0).multivariate_normal(MEAN, COV, size=500)
    snapped = snap(z, grid)
    sd = np.sqrt(COV[1, 1])
    places = (snapped[:, 1] - MEAN[1]) / (0.5 * sd)
    np.testing.assert_allclose(places, np.rint(places), atol=1e-9)
    assert np.max(np.abs(snapped[:, 1] - z[:, 1])) <= 0.25 * sd * (1 + 1e-9)
    slope = COV[:, 1] / COV[1, 1]
    np.testing.assert_allclose(snapped - z, (snapped - z)[:, [1]] * slope[None, :], atol=1e-9)
    np.testing.assert_array_equal(snap(snapped, grid), snapped)


@pytest.mark.parametrize("index", [(1,), (0,)])
def test_density_of_a_gaussian_in_closed_form(index):
    """Along its own regression line: the probability of the cell times the density of the others given its centre."""
    grid = grid_of(index)
    snapped = snap(np.random.default_rng(1).multivariate_normal(MEAN, COV, size=50), grid)
    (j,), others = index, [i for i in range(3) if i not in index]
    sd, slope = np.sqrt(COV[j, j]), COV[others, j] / COV[j, j]
    width = 0.5 * sd
    ends = (snapped[:, j] - MEAN[j])[:, None] + np.array([-0.5, 0.5]) * width
    mass = np.diff(norm.cdf(ends / sd), axis=1)[:, 0]
    rest = COV[np.ix_(others, others)] - np.outer(slope, slope) * COV[j, j]
    given = MEAN[others] + (snapped[:, [j]] - MEAN[j]) * slope
    expected = np.log(mass / width) + multivariate_normal(cov=rest).logpdf(snapped[:, others] - given)
    found = snapped_log_density(multivariate_normal(MEAN, COV).logpdf, snapped, grid)
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_two_lengthscales():
    """The mass of a Gaussian over all cells of two lengthscales and the third parameter is one."""
    grid = grid_of((0, 2))
    span = np.arange(-14, 15)
    centres = np.array([[a, b] for a in span for b in span])
    base = MEAN[None, :] + centres @ grid.steps.T
    line = np.linalg.norm([COV[1, 1]]) ** 0.5 * np.linspace(-8, 8, 161)
    points = (base[:, None, :] + line[None, :, None] * np.eye(3)[1]).reshape(-1, 3)
    log_prob = snapped_log_density(multivariate_normal(MEAN, COV).logpdf, points, grid, nodes=4)
    volume = abs(np.linalg.det(grid.cell)) * (line[1] - line[0])
    assert np.sum(np.exp(log_prob)) * volume == pytest.approx(1.0, abs=1e-6)


def weights(integrated, size=200_000):
    """Importance weights of a target with constant 1; proposals one standard deviation off, on cells of 1.2."""
    shift = COV[:, 1] / np.sqrt(COV[1, 1])
    proposal = multivariate_t(MEAN + shift, 1.3 * COV, df=7, seed=3)
    grid = grid_of((1,), width=1.2)
    z = snap(proposal.rvs(size), grid)
    log_prob = snapped_log_density(proposal.logpdf, z, grid, nodes=6) if integrated else proposal.logpdf(z)
    return z, np.exp(multivariate_normal(MEAN, COV).logpdf(z) - log_prob)


def test_importance_weights_integrate_to_the_constant():
    """Within four standard errors of 1 (false alarms 6e-5), and so do means.

    The mutant, the density at the snapped point instead of its integral over the cell, is off by more than six.
    """
    z, found = weights(True)
    error = np.std(found) / np.sqrt(len(found))
    assert error < 0.004
    assert abs(np.mean(found) - 1) < 4 * error
    assert np.max(np.abs(found @ (z - MEAN) / found.sum() / np.sqrt(np.diag(COV)))) < 0.02
    _, mutant = weights(False)
    assert abs(np.mean(mutant) - 1) > 6 * error


def test_a_symmetric_walk_stays_symmetric_on_the_grid():
    grid = grid_of((1,))
    a, b = snap(np.random.default_rng(5).multivariate_normal(MEAN, COV, size=2), grid)
    there = snapped_log_density(multivariate_normal(a, 0.5 * COV).logpdf, b[None], grid)
    back = snapped_log_density(multivariate_normal(b, 0.5 * COV).logpdf, a[None], grid)
    np.testing.assert_allclose(there, back, atol=1e-10)
