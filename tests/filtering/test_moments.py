"""Moments of a Gaussian times a likelihood: against a fine grid, however narrow, steep or far away it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

from seqgp.filtering.moments import Gaussians, covering, on_bell, on_panels, sides_of

MEANS = np.array([-3.0, -0.5, 0.0, 1.0, 4.0])  # of the Gaussians
GRID = np.linspace(-40, 40, 800_001)
LIKELIHOODS = {
    "exact reading": lambda f: jax.scipy.stats.norm.logpdf(0.7, f, 0.01),
    "heavy tails": lambda f: jax.scipy.stats.t.logpdf(1.5, 3.0, f, 0.05),
    "heaviest tails": lambda f: jax.scipy.stats.cauchy.logpdf(-2.0, f, 0.3),
    "below a limit": lambda f: jax.scipy.stats.norm.logcdf((0.3 - f) / 0.05),
    "no count": lambda f: -jnp.exp(f),
    "large count": lambda f: 2000 * f - jnp.exp(f) - gammaln(2001.0),
    "label": lambda f: -jnp.logaddexp(0.0, -f),
}


def on_a_grid(log_density, sd):
    """Log mass, mean and variance for each Gaussian."""
    data, found = np.asarray(log_density(jnp.asarray(GRID))) + np.log(GRID[1] - GRID[0]), []
    for mean in MEANS:
        logs = data + stats.norm.logpdf(GRID, mean, sd)
        total = logsumexp(logs)
        share = np.exp(logs - total)
        found.append((total, share @ GRID, share @ (GRID - share @ GRID) ** 2))
    return np.array(found).T


@pytest.mark.parametrize("sd", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_on_panels_they_are_those_of_a_fine_grid(name, sd):
    log_density = LIKELIHOODS[name]
    log_mass, mean, variance = on_a_grid(log_density, sd)
    gaussians = Gaussians(jnp.asarray(MEANS), jnp.full(5, sd**2))
    # The posterior is known to within its own width.
    near = Gaussians(jnp.asarray(mean + 0.5 * np.sqrt(variance)), jnp.asarray(1.5 * variance))
    sides = sides_of(log_density, *covering(gaussians, near))
    found, moments = on_panels(log_density, sides, gaussians, near).times(gaussians)
    np.testing.assert_allclose(np.asarray(found), log_mass, atol=2e-3)
    np.testing.assert_array_less(np.abs(moments.mean - mean), 5e-3 * np.sqrt(variance))
    np.testing.assert_allclose(np.asarray(moments.variance), variance, rtol=0.02)


@pytest.mark.parametrize("name", ["no count", "large count", "label"])
def test_around_a_bell_few_nodes_do(name):
    log_density = LIKELIHOODS[name]
    log_mass, mean, variance = on_a_grid(log_density, 1.0)
    near = Gaussians(jnp.asarray(mean + 0.2 * np.sqrt(variance)), jnp.asarray(1.2 * variance))
    found, moments = on_bell(log_density, near).times(Gaussians(jnp.asarray(MEANS), jnp.ones(5)))
    np.testing.assert_allclose(np.asarray(found), log_mass, atol=1e-4)
    np.testing.assert_allclose(np.asarray(moments.mean), mean, atol=1e-4)
    np.testing.assert_allclose(np.asarray(moments.variance), variance, rtol=1e-3)


@pytest.mark.parametrize("name", ["heavy tails", "below a limit"])
def test_where_there_is_no_bell_few_nodes_do_not(name):
    """What the panels are for: nodes around the very moments of the product miss its second bump, or its cliff."""
    log_density = LIKELIHOODS[name]
    log_mass, mean, variance = on_a_grid(log_density, 1.0)
    near = Gaussians(jnp.asarray(mean), jnp.asarray(variance))
    found, _ = on_bell(log_density, near).times(Gaussians(jnp.asarray(MEANS), jnp.ones(5)))
    assert np.abs(found - log_mass).max() > 0.02


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
