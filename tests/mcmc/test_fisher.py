"""Quadratic approximations against the Hessians of log likelihoods, and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.fields.sites import Observe
from seqgp.mcmc.fisher import log_precision, quadratic_of
from seqgp.mcmc.observed import Observed

MEAN, NOISE = 0.3, 0.5
SITES = np.array([0.4, -0.7, 1.1])
SEEN = np.array([[1.0, 0.5, -0.3], [0.4, -1.0, 0.8]])  # two data of three sites
PARAMETERS = {"mean": jnp.asarray(MEAN), "noise": jnp.asarray(NOISE)}
WEIGHTS = np.array([[0.7, 0.3, 0.0], [0.0, 0.5, 0.5], [0.2, 0.2, 0.6], [0.0, 0.0, 1.0]])  # four data of three knots


@pytest.fixture(autouse=True)
def promoted():
    """NumPyro's own Bernoulli compares numbers of two kinds."""
    with jax.numpy_dtype_promotion("standard"):
        yield


class WithoutMoments(dist.StudentT):
    """A distribution that does not say its mean; its log density is not concave everywhere."""

    @property
    def mean(self):
        raise NotImplementedError


def data(y, observe=None, missing=None):
    y = jnp.asarray(y)
    missing = np.zeros(y.shape, bool) if missing is None else np.asarray(missing)
    return Observed(Observe() if observe is None else observe, y, missing, None, None, {})


CASES = {  # likelihoods whose Gauss–Newton matrix is the Hessian: exponential families in their natural parameter
    "counts": (seqgp.likelihoods.Poisson(), data([1.0, 0.0, 4.0])),
    "yes or no": (seqgp.likelihoods.Bernoulli(), data([1.0, 0.0, 1.0])),
    "one is missing": (seqgp.likelihoods.Poisson(), data([1.0, 0.0, 4.0], missing=[False, True, False])),
    "chosen sites": (seqgp.likelihoods.Poisson(), data([1.0, 2.0], Observe(index=np.array([2, 0])))),
    "knots": (seqgp.likelihoods.Poisson(), data([1.0, 2.0, 0.0, 1.0], Observe(weights=WEIGHTS))),
    "few data of knots": (seqgp.likelihoods.Poisson(), data([1.0, 2.0], Observe(weights=WEIGHTS[:2]))),
    "whole": (
        seqgp.likelihoods.Likelihood(lambda f, c, noise: dist.Normal(SEEN @ f, noise), noise=NOISE),
        data([0.2, 1.4]),
    ),
}


def found(likelihood, *observed, sites=SITES):
    """``F F'`` and ``b``."""
    blocks = jnp.tile(jnp.asarray(sites), (len(observed), 1))
    factor, slope = jax.jit(lambda at: quadratic_of(likelihood, observed, at, PARAMETERS))(blocks)
    return np.diag(factor**2) if factor.ndim == 1 else np.asarray(factor @ factor.T), np.asarray(slope)


def derivatives(likelihood, observed):
    """Gradient and Hessian of the log likelihood in the sites."""

    def log_likelihood(sites):
        return observed.log_likelihood(likelihood, sites, PARAMETERS)

    return jax.jit(lambda at: (jax.grad(log_likelihood)(at), jax.hessian(log_likelihood)(at)))(jnp.asarray(SITES))


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_second_order_expansion(name):
    """In the level ``u = sites + mean``: curvature ``H``, and a slope such that the gradient at the point is right."""
    likelihood, observed = CASES[name]

    gradient, hessian = derivatives(likelihood, observed)
    curvature, slope = found(likelihood, observed)
    np.testing.assert_allclose(curvature, -hessian, atol=1e-10)
    np.testing.assert_allclose(slope - curvature @ (SITES + MEAN), gradient, atol=1e-10)


def test_gaussian_data_are_exact_at_unit_noise_wherever_it_is_found():
    y, missing = [0.3, -1.0, 2.0], [False, False, True]
    for sites in (SITES, 10 * SITES):
        curvature, slope = found(seqgp.likelihoods.Gaussian(NOISE), data(y, missing=missing), sites=sites)
        np.testing.assert_allclose(curvature, np.diag([1.0, 1.0, 0.0]))
        np.testing.assert_allclose(slope, [0.3, -1.0, 0.0])


def test_the_curvature_is_never_negative():
    """Gauss–Newton where the Hessian is not: and its positive part, where a distribution has no mean."""
    curved = seqgp.likelihoods.Likelihood(
        lambda f, c, noise: dist.Normal(jnp.exp(f), noise), pointwise=True, noise=NOISE
    )
    observed = data([9.0, 9.0, 9.0])
    _, hessian = derivatives(curved, observed)
    assert np.diag(hessian).max() > 0
    np.testing.assert_allclose(found(curved, observed)[0], np.diag(np.exp(SITES + MEAN) ** 2 / NOISE**2))
    silent = seqgp.likelihoods.Likelihood(lambda f, c: WithoutMoments(3.0, f, 1.0), pointwise=True)
    far = data([9.0, -0.5, 9.0])  # in the tails it is convex
    _, hessian = derivatives(silent, far)
    np.testing.assert_allclose(found(silent, far)[0], np.diag(np.maximum(-np.diag(hessian), 0.0)), atol=1e-12)


def test_blocks_of_several_times_stand_side_by_side():
    likelihood, observed = CASES["whole"]
    curvature, slope = found(likelihood, observed, data([5.0, -1.0]))
    one, other = SEEN.T @ SEEN / NOISE**2, np.zeros((3, 3))
    np.testing.assert_allclose(curvature, np.block([[one, other], [other, one]]), atol=1e-10)
    np.testing.assert_allclose(slope, np.concatenate([SEEN.T @ [0.2, 1.4], SEEN.T @ [5.0, -1.0]]) / NOISE**2)


def test_log_precision_counts_what_is_seen():
    gaussian = seqgp.likelihoods.Gaussian(NOISE)
    seen = data([0.3, -1.0, 2.0], missing=[False, True, False])
    value = log_precision(gaussian, (seen, data([1.0, 1.0, 1.0])), jnp.zeros((2, 3)), PARAMETERS)
    np.testing.assert_allclose(value, np.log(5 / NOISE**2))
