"""Moves with gradients and waste-free SMC on Gaussian targets in 30 dimensions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from seqgp.statespace.gradient_moves import MoveTuning, hmc, mala, particle_root, points_at
from seqgp.statespace.waste_free import next_power, rejuvenate_waste_free, temper_waste_free

D = 30


@pytest.fixture(scope="module")
def gaussian():
    """A prior N(0, I), a datum with correlated noise; posterior and evidence in closed form."""
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(D, D)) / np.sqrt(D)
    noise = 0.3 * np.diag(np.exp(rng.normal(size=D))) + 0.3 * factor @ factor.T
    y = rng.normal(size=D) * 1.3
    precision = np.linalg.inv(noise)
    cov = np.linalg.inv(np.eye(D) + precision)
    evidence = multivariate_normal.logpdf(y, np.zeros(D), np.eye(D) + noise)
    constant = multivariate_normal.logpdf(y, y, noise)

    def log_likelihood(z):
        gap = y - z
        return constant - 0.5 * gap @ jnp.asarray(precision) @ gap

    return jax.value_and_grad(log_likelihood), cov @ precision @ y, cov, evidence


def prior(z):
    return -0.5 * z @ z - 0.5 * D * jnp.log(2 * jnp.pi), -z


@pytest.mark.parametrize("langevin", [False, True])
def test_posterior_and_evidence_are_those_of_the_closed_form(gaussian, langevin):
    likelihood, mean, cov, evidence = gaussian
    particles = jax.random.normal(jax.random.key(1), (2048, D))
    found = temper_waste_free(jax.random.key(2), particles, prior, likelihood, chains=64, langevin=langevin)
    sd = np.sqrt(np.diag(cov))
    assert np.abs((np.mean(found.particles, axis=0) - mean) / sd).max() < (0.15 if not langevin else 0.3)
    np.testing.assert_allclose(np.std(found.particles, axis=0) / sd, 1.0, atol=0.12 if not langevin else 0.2)
    assert abs(found.log_evidence - evidence) < 0.7
    assert found.powers[-1] == 1.0
    assert all(0.3 < float(info.acceptance) <= 1.0 for info in found.infos)


@pytest.mark.parametrize("move", [hmc, mala])
def test_moves_leave_a_target_that_is_not_gaussian_invariant(move):
    """Draws of a logistic distribution stay logistic: moments within 5 Monte Carlo errors."""

    def target(z):
        return jax.value_and_grad(lambda z: jnp.sum(z - 2 * jnp.logaddexp(0.0, z)))(z)

    draws = jax.random.logistic(jax.random.key(0), (20_000, 3))
    tuning = MoveTuning(2.0 * jnp.eye(3), jnp.asarray(1.0), jnp.asarray(2), jnp.asarray(0.0))
    points = points_at(draws, target)
    keys = jax.random.split(jax.random.key(1), 20_000)
    moved, acceptance = jax.jit(jax.vmap(lambda k, p: move(k, p, target, tuning)))(keys, points)
    assert 0.3 < float(acceptance.mean()) < 0.99
    for power, true, spread in [(1, 0.0, np.pi**2 / 3), (2, np.pi**2 / 3, 7 * np.pi**4 / 15 - np.pi**4 / 9)]:
        error = np.sqrt(spread / 60_000)
        assert abs(float((moved.z**power).mean()) - true) < 5 * error


def test_a_target_without_finite_values_refuses():
    def target(z):
        return jnp.where(z[0] > 0, -0.5 * z @ z, -jnp.inf), -z

    point = points_at(jnp.asarray([[0.01, 0.0]]), target)
    one = jax.tree.map(lambda leaf: leaf[0], point)
    tuning = MoveTuning(jnp.eye(2), jnp.asarray(0.7), jnp.asarray(3), jnp.asarray(0.0))
    moved, _ = jax.vmap(lambda key: hmc(key, one, target, tuning))(jax.random.split(jax.random.key(0), 200))
    assert np.all(moved.z[:, 0] > 0)


def test_rejuvenation_resamples_by_weight_and_refuses_other_divisors():
    target = prior
    particles = jnp.concatenate([jnp.full((32, D), 50.0), jax.random.normal(jax.random.key(0), (32, D))])
    log_weights = jnp.where(jnp.arange(64) < 32, -jnp.inf, 0.0)
    points, _ = rejuvenate_waste_free(jax.random.key(1), particles, log_weights, target, chains=8)
    assert points.z.shape == (64, D)
    assert np.abs(points.z).max() < 8
    np.testing.assert_allclose(points.log_prob, jax.vmap(prior)(points.z)[0])
    with pytest.raises(ValueError, match="does not divide 64"):
        rejuvenate_waste_free(jax.random.key(1), particles, log_weights, target, chains=7)


def test_powers_keep_a_share_of_the_ess():
    values = np.random.default_rng(0).normal(size=1000) * 20
    power = next_power(values, 0.0, 0.5)
    weights = np.exp(power * (values - values.max()))
    assert weights.sum() ** 2 / (weights**2).sum() == pytest.approx(500, rel=1e-3)
    assert next_power(values * 1e-3, 0.2, 0.5) == 1.0


def test_root_is_that_of_the_weighted_particles():
    z = np.random.default_rng(0).normal(size=(500, 3)) @ np.diag([1.0, 2.0, 0.1])
    weights = np.random.default_rng(1).dirichlet(np.ones(500))
    root = particle_root(jnp.asarray(z), jnp.asarray(weights))
    np.testing.assert_allclose(root @ root.T, np.cov(z.T, aweights=weights, ddof=0), rtol=0.03, atol=2e-3)
