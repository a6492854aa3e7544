"""Priors are exact transforms of a Gaussian."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import seqgp
from seqgp.base.priors import Prior, as_entry, as_slot, inverse_softplus

DISTRIBUTIONS = [
    (dist.Gamma(25.0, 4.0), stats.gamma(25, scale=1 / 4)),
    (dist.Gamma(0.7, 2.0), stats.gamma(0.7, scale=1 / 2)),
    (dist.HalfNormal(1.7), stats.halfnorm(scale=1.7)),
    (dist.InverseGamma(3.0, 2.0), stats.invgamma(3, scale=2)),
    (dist.LogNormal(0.3, 0.8), stats.lognorm(0.8, scale=np.exp(0.3))),
    (dist.Normal(-1.0, 2.5), stats.norm(-1, 2.5)),
    (dist.Uniform(-1.0, 3.0), stats.uniform(-1, 4)),
]
NAMES = [type(ours).__name__ for ours, _ in DISTRIBUTIONS]
LOWER = np.logspace(-6, np.log10(0.5), 60)


@pytest.mark.parametrize(("ours", "theirs"), DISTRIBUTIONS, ids=NAMES)
def test_quantiles(ours, theirs):
    """``theta = F⁻¹(Phi(z))`` to 1e-8, between the quantiles 1e-6 and 1 − 1e-6."""
    prior = as_entry(ours, "theta")
    value = jax.jit(jax.vmap(prior.value))
    for z, expected in [(stats.norm.ppf(LOWER), theirs.ppf(LOWER)), (stats.norm.isf(LOWER), theirs.isf(LOWER))]:
        np.testing.assert_allclose(value(jnp.asarray(z)), expected, rtol=1e-8, atol=1e-8)
    assert (prior.loc, prior.scale) == (0.0, 1.0)


@pytest.mark.parametrize(("ours", "theirs"), DISTRIBUTIONS, ids=NAMES)
def test_derivatives(ours, theirs):
    """``d theta / dz = phi(z) / p(theta)``."""
    z = np.linspace(-4, 4, 41) + 0.003  # between the nodes of the table
    found = jax.vmap(jax.grad(as_entry(ours, "theta").value))(jnp.asarray(z))
    theta = np.where(z < 0, theirs.ppf(stats.norm.cdf(z)), theirs.isf(stats.norm.sf(z)))
    np.testing.assert_allclose(found, stats.norm.pdf(z) / theirs.pdf(theta), rtol=1e-5)


def test_far_tails_stay_finite_and_increasing():
    for ours, _ in DISTRIBUTIONS:
        value = as_entry(ours, "theta").value(jnp.linspace(-30.0, 30.0, 601))
        assert np.isfinite(value).all()
        assert (np.diff(value) >= 0).all()


def test_scaled_sigmoid():
    """Eq. 9: ``low + (high − low) / (1 + exp(−z))``, ``z ~ N(0, 1.5²)``."""
    prior = seqgp.ScaledSigmoid(-1, 3)
    z = np.linspace(-5, 5, 11)
    np.testing.assert_allclose(prior.value(jnp.asarray(z)), -1 + 4 / (1 + np.exp(-z)), rtol=1e-14)
    assert (prior.loc, prior.scale) == (0.0, 1.5)


def test_through_a_function():
    """The option model's mean: its level ``softplus(mu)`` has the prior."""
    level = seqgp.ScaledSigmoid(0, 0.5)
    mean = level.through(inverse_softplus)
    z = jnp.linspace(-6.0, 6.0, 13)
    np.testing.assert_allclose(jax.nn.softplus(mean.value(z)), level.value(z), rtol=1e-12)
    assert (mean.loc, mean.scale) == (level.loc, level.scale)
    assert jax.grad(mean.value)(0.0) > 0


@pytest.mark.parametrize("value", [1e-8, 1e-3, 0.2, 1.0, 30.0, 800.0])
def test_inverse_softplus(value):
    np.testing.assert_allclose(jax.nn.softplus(inverse_softplus(jnp.asarray(value))), value, rtol=1e-12)


def test_through_a_distribution_in_a_slot():
    prior = as_entry(dist.LogNormal(0.0, 1.0), "theta").through(jnp.log)
    z = jnp.linspace(-3.0, 3.0, 7)
    np.testing.assert_allclose(prior.value(z), z, atol=1e-9)


def test_slots_take_numbers_priors_and_lists():
    assert as_entry(np.float64(2.0), "a") == 2.0
    assert as_entry(jnp.asarray(3), "a") == 3.0
    one, two = as_slot([1, seqgp.ScaledSigmoid(0, 1)], "a")
    assert one == 1.0
    assert isinstance(two, seqgp.ScaledSigmoid)
    assert as_slot(np.array([1.0, 2.0]), "a") == (1.0, 2.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: seqgp.ScaledSigmoid(2, 1), "low = 2 is not below high = 1"),
        (lambda: seqgp.ScaledSigmoid("a", 1), "low = 'a' is not a number"),
        (lambda: seqgp.ScaledSigmoid(1, 1), "low = 1 is not below high = 1"),
        (lambda: seqgp.ScaledSigmoid(0, np.inf), "high = inf is not finite"),
        (lambda: seqgp.ScaledSigmoid(0, 1, scale=0), "scale = 0 is not positive"),
        (lambda: as_slot(dist.Normal(0.0, np.ones(2)), "noise"), "give a list of priors"),
        (lambda: as_slot(dist.Poisson(3.0), "noise"), "Poisson as a prior: only continuous"),
        (lambda: as_slot("wide", "noise"), "noise: expected a number, a prior or .* got str"),
        (lambda: as_slot([], "noise"), "noise: an empty list"),
        (lambda: as_slot(np.nan, "noise"), "noise = nan is not finite"),
        (lambda: as_slot(10**400, "noise"), "noise = inf is not finite"),
        (lambda: seqgp.ScaledSigmoid(0, 10**400), "high = 10+ is not finite"),
        (lambda: seqgp.ScaledSigmoid(0, 1).through(3), "through: expected a function, got 3"),
    ],
)
def test_bad_priors_are_named(make, message):
    with pytest.raises(seqgp.ModelError, match=message):
        make()


@pytest.mark.parametrize(
    "prior",
    [
        seqgp.ScaledSigmoid(0, 3),
        seqgp.ScaledSigmoid(-2.0, 5.0, 0.4, 0.3),
        *(as_entry(ours, "theta") for ours, _ in DISTRIBUTIONS),
    ],
    ids=lambda prior: type(getattr(prior, "distribution", prior)).__name__,
)
def test_the_smallest_and_the_largest_value_are_those_of_the_transform(prior):
    np.testing.assert_allclose(prior.ends(), Prior.ends(prior), rtol=1e-9)
