"""The point where a surrogate is found, the surrogate there, and the curvature that plain updates use."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
import small
from seqgp.chains.exploration import StepExploration
from seqgp.chains.fisher import surrogate_of
from seqgp.chains.search import search, surrogate_at
from seqgp.mcmc.curvature import diagonal_curvature, differentiable
from seqgp.sequential.carry import PaperCarry

Y = np.array([1.0, 3.0, 0.0])
POISSON = small.model(likelihood=seqgp.Poisson())
Z = jnp.asarray(small.MEAN[:4])


def poisson_target():
    return small.target(Y, POISSON, mean=small.MEAN[:4], covariance=small.COVARIANCE[:4, :4])


def test_the_search_ends_where_the_gradient_is_zero():
    target = poisson_target()
    found = jax.jit(lambda: search(target, Z, jnp.zeros(target.size)))()
    conditional = target.conditional(Z)
    offset, root = target.offset(conditional, Z, target.constant_mean(Z)), target.root(conditional)

    def log_density(nu):
        return target.log_likelihood(offset + root.apply(nu), Z) - 0.5 * jnp.dot(nu, nu)

    assert bool(found.converged)
    np.testing.assert_allclose(jax.grad(log_density)(found.nu), 0.0, atol=0.05)
    np.testing.assert_allclose(found.sites, offset + root.apply(found.nu))


def test_the_surrogate_of_counts_is_their_fisher_information():
    """For Poisson counts with mean ``exp(u)``, ``H = exp(u)`` and ``b = H u + y − exp(u)``."""
    target = poisson_target()
    sites = jnp.asarray([0.3, -0.2, 0.5])
    level = sites + target.constant_mean(Z)
    found = surrogate_at(target, sites, Z)
    np.testing.assert_allclose(found.factor**2, jnp.exp(level), rtol=1e-9)
    np.testing.assert_allclose(found.slope, jnp.exp(level) * level + Y - jnp.exp(level), rtol=1e-9)
    np.testing.assert_allclose(found.growth, 0.0)


def test_missing_data_have_no_information():
    target = small.target(Y, POISSON, np.array([False, True, False]), mean=small.MEAN[:4], covariance=np.eye(4))
    factor, slope = surrogate_of(POISSON.likelihood, target.problem.observed, jnp.zeros((1, 3)), POISSON.parameters(Z))
    assert factor[1] == slope[1] == 0


@pytest.mark.parametrize("diagonal", [True, False])
def test_the_curvature_is_that_of_the_log_likelihood(diagonal):
    found = diagonal_curvature(lambda s: jnp.sum(Y * s - jnp.exp(s)), jnp.asarray([0.1, 0.4, -1.0]), diagonal)
    np.testing.assert_allclose(found, np.exp([0.1, 0.4, -1.0]))


def test_what_cannot_be_differentiated_is_noticed():
    shape = jax.ShapeDtypeStruct((3,), float)
    assert differentiable(lambda s: jnp.sum(s**2), shape)
    called = jax.ShapeDtypeStruct((), float)
    assert not differentiable(lambda s: jax.pure_callback(lambda v: np.sum(np.asarray(v)), called, s), shape)


def test_an_exploration_answers_for_a_step():
    target = poisson_target()
    about = StepExploration(POISSON, PaperCarry(), target.problem, small.WINDOW)
    assert about.present == 3
    assert not about.quadratic
    assert about.differentiable()
    assert len(about.uninformed) == 0
    np.testing.assert_allclose(about.mean, small.MEAN[:4])
    level = np.array([0.3, -0.2, 0.5]) + float(target.constant_mean(Z))
    np.testing.assert_allclose(about.curvature(np.array([0.3, -0.2, 0.5]), np.asarray(Z)), np.exp(level))
    assert about.compile_seconds > 0
