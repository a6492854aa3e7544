"""The point where a quadratic approximation is found, and the approximation there."""

import jax
import jax.numpy as jnp
import numpy as np

import seqgp
import small
from seqgp.mcmc.exploration import approximation_at, search

Y = np.array([1.0, 3.0, 0.0])
POISSON = small.model(likelihood=seqgp.likelihoods.Poisson())
Z = jnp.asarray(small.MEAN[:4])


def poisson_target():
    return small.target(Y, POISSON, mean=small.MEAN[:4], covariance=small.COVARIANCE[:4, :4])


def test_the_search_ends_where_the_gradient_is_zero():
    target = poisson_target()
    found = jax.jit(lambda: search(target, Z, jnp.zeros(target.size)))()
    conditional = target.conditional(Z)
    offset, root = target.offset(conditional), target.root(conditional)

    def log_density(nu):
        return target.log_likelihood(offset + root.apply(nu), Z) - 0.5 * jnp.dot(nu, nu)

    assert bool(found.converged)
    np.testing.assert_allclose(jax.grad(log_density)(found.nu), 0.0, atol=0.05)
    np.testing.assert_allclose(found.sites, offset + root.apply(found.nu))


def test_the_quadratic_of_counts_is_their_fisher_information():
    """For Poisson counts with mean ``exp(u)``, ``H = exp(u)`` and ``b = H u + y − exp(u)``."""
    target = poisson_target()
    sites = jnp.asarray([0.3, -0.2, 0.5])
    f = sites + target.constant_mean(Z)
    found = approximation_at(target, sites, Z)
    np.testing.assert_allclose(found.factor**2, jnp.exp(f), rtol=1e-9)
    np.testing.assert_allclose(found.slope, jnp.exp(f) * f + Y - jnp.exp(f), rtol=1e-9)
    np.testing.assert_allclose(found.growth, 0.0)
