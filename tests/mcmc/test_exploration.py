"""What updates may ask about a step: the answers of compiled functions are those of the target itself."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
import small
from seqgp.mcmc.exploration import StepExploration, approximation_at

Y = np.array([1.0, 3.0, 0.0])
POISSON = small.model(likelihood=seqgp.likelihoods.Poisson())
Z, SITES = small.MEAN[:4], np.array([0.3, -0.2, 0.5])


def explored(model, window=small.WINDOW):
    size = len(model.names)
    target = small.target(Y, model, window=window, mean=small.MEAN[:size], covariance=np.eye(size))
    return target, StepExploration(model, target.problem, window)


@pytest.fixture(scope="module")
def counts():
    return explored(POISSON)


def test_what_is_known_beforehand(counts):
    _, about = counts
    assert (about.present, about.quadratic, about.differentiable()) == (3, False, True)
    np.testing.assert_allclose(about.mean, Z)
    np.testing.assert_allclose(about.covariance, np.eye(4))
    scale = float(POISSON.parameters(jnp.asarray(Z))["scale"])
    np.testing.assert_allclose(about.prior_variance(Z), scale**2)


def test_curvature_is_that_of_counts(counts):
    target, about = counts
    f = SITES + float(target.constant_mean(jnp.asarray(Z)))
    np.testing.assert_allclose(about.curvature(SITES, Z), np.exp(f))
    assert about.compile_seconds > 0
    before = about.compile_seconds
    about.curvature(2 * SITES, Z)
    assert about.compile_seconds == before  # compiled once


def test_search_and_approximation(counts):
    """The search ends where no step along an axis is better; the approximation is that of the target."""
    target, about = counts
    found, z = about.search(Z), jnp.asarray(Z)
    conditional = target.conditional(z)
    offset, root = target.offset(conditional), target.root(conditional)

    def log_density(nu):
        return float(target.log_likelihood(offset + root.apply(nu), z)) - 0.5 * nu @ nu

    best = log_density(found.nu)
    np.testing.assert_allclose(best, found.log_density)
    assert bool(found.converged)
    for step in 0.3 * np.concatenate([np.eye(3), -np.eye(3)]):
        assert log_density(found.nu + step) < best
    direct = approximation_at(target, jnp.asarray(SITES), z)
    for mine, its in zip(about.approximation(SITES, Z), direct):
        assert isinstance(mine, np.ndarray)
        np.testing.assert_allclose(mine, its, atol=1e-12)


def test_one_time_says_nothing_about_the_time_kernel(counts):
    _, first = explored(POISSON, window=np.zeros((0, 3)))
    assert [POISSON.names[i] for i in first.uninformed] == ["time.lengthscale"]
    assert len(counts[1].uninformed) == 0


def test_gaussian_data_are_quadratic_and_a_callback_has_no_derivative():
    assert explored(small.MODEL)[1].quadratic

    def outside(f, context):
        mean = jax.pure_callback(lambda v: np.exp(v), jax.ShapeDtypeStruct(f.shape, f.dtype), f)
        return dist.Normal(mean, 1.0)

    _, about = explored(small.model(likelihood=seqgp.likelihoods.Likelihood(outside)))
    assert not about.differentiable()
