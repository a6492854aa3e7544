"""Moments of a Gaussian times a likelihood: against a fine grid, however narrow, steep or far away it is."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

from seqgp.statespace.quadrature import Gaussians, covering, on_panels, sides_of, tabulated

MEANS = np.array([-3.0, -0.5, 0.0, 1.0, 4.0])  # of the Gaussians
GRIDS = {sd: np.linspace(-4 - 9 * max(sd, 4), 4 + 9 * max(sd, 4), 800_001) for sd in (0.1, 1.0, 3.0, 30.0)}
LIKELIHOODS = {
    "exact reading": lambda f: jax.scipy.stats.norm.logpdf(0.7, f, 0.01),
    "heavy tails": lambda f: jax.scipy.stats.t.logpdf(1.5, 3.0, f, 0.05),
    "heaviest tails": lambda f: jax.scipy.stats.cauchy.logpdf(-2.0, f, 0.3),
    "below a limit": lambda f: jax.scipy.stats.norm.logcdf((0.3 - f) / 0.05),
    "no count": lambda f: -jnp.exp(f),
    "large count": lambda f: 2000 * f - jnp.exp(f) - gammaln(2001.0),
    "label": lambda f: -jnp.logaddexp(0.0, -f),
}


def on_a_grid(name, sd):
    """Log mass, mean and variance for each Gaussian."""
    grid, found = GRIDS[sd], []
    data = np.asarray(jax.jit(LIKELIHOODS[name])(grid)) + np.log(grid[1] - grid[0])
    for mean in MEANS:
        logs = data + stats.norm.logpdf(grid, mean, sd)
        total = logsumexp(logs)
        share = np.exp(logs - total)
        found.append((total, share @ grid, share @ (grid - share @ grid) ** 2))
    return np.array(found).T


@functools.cache
def by_panels(name):
    """Log mass and moments, with panels where the posterior is known to be."""

    def moments(gaussians, near):
        sides = sides_of(LIKELIHOODS[name], *covering(gaussians, near))
        return on_panels(LIKELIHOODS[name], sides, gaussians, near).times(gaussians)

    return jax.jit(moments)


@functools.cache
def by_table(name):
    return jax.jit(lambda cavity: tabulated(LIKELIHOODS[name], cavity).times(cavity))


@pytest.mark.parametrize("sd", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_on_panels_they_are_those_of_a_fine_grid(name, sd):
    log_mass, mean, variance = on_a_grid(name, sd)
    gaussians = Gaussians(jnp.asarray(MEANS), jnp.full(5, sd**2))
    # The posterior is known to within its own width.
    near = Gaussians(jnp.asarray(mean + 0.5 * np.sqrt(variance)), jnp.asarray(1.5 * variance))
    found, moments = by_panels(name)(gaussians, near)
    np.testing.assert_allclose(np.asarray(found), log_mass, atol=2e-3)
    np.testing.assert_array_less(np.abs(moments.mean - mean), 5e-3 * np.sqrt(variance))
    np.testing.assert_allclose(np.asarray(moments.variance), variance, rtol=0.02)


@pytest.mark.parametrize("sd", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_nodes_are_placed_where_the_tilted_distribution_is(name, sd):
    """Without being told where that is, within what a table promises: far outside the Gaussian too."""
    log_mass, mean, variance = on_a_grid(name, sd)
    cavity = Gaussians(jnp.asarray(MEANS), jnp.full(5, sd**2))
    found, moments = by_table(name)(cavity)
    np.testing.assert_allclose(np.asarray(found), log_mass, atol=2e-3)
    np.testing.assert_array_less(np.abs(moments.mean - mean), 5e-3 * np.sqrt(variance))
    np.testing.assert_allclose(np.asarray(moments.variance), variance, rtol=0.02)


def test_the_sides_of_a_likelihood():
    """A Gaussian one falls by one at √2 of its standard deviations, over 1/√2; a cliff has one side, at its edge."""
    low, high = jnp.full(1, -8.0), jnp.full(1, 8.0)
    peak = sides_of(LIKELIHOODS["exact reading"], low, high)
    np.testing.assert_allclose(peak.place[:, 0], 0.7 + 0.01 * np.sqrt([2.0, 2.0]) * [-1, 1], atol=2e-4)
    np.testing.assert_allclose(peak.width[:, 0], 0.01 / np.sqrt(2), rtol=0.05)
    cliff = sides_of(LIKELIHOODS["below a limit"], low, high)
    assert float(cliff.place[0, 0]) == -8.0
    assert float(cliff.place[1, 0]) == pytest.approx(0.3, abs=0.05)
    assert float(cliff.width[1, 0]) < 0.05
