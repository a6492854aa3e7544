"""Tilted coordinates against dense linear algebra."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from seqgp.fields.operators import Triangular
from seqgp.mcmc.charts import Quadratic, retilt, tilt
from seqgp.mcmc.target import Place

RNG = np.random.default_rng(0)
ROOT = np.tril(RNG.normal(size=(4, 4))) + 2 * np.eye(4)
OFFSET, SLOPE = RNG.normal(size=4), RNG.normal(size=4)
FACTORS = {"diagonal": np.array([1.2, 0.0, 0.4, 2.0]), "few data": RNG.normal(size=(4, 2))}
NU = RNG.normal(size=4)


def chart(factor, offset=OFFSET):
    return tilt(Place(None, jnp.asarray(offset)), Triangular(jnp.asarray(ROOT)), quadratic(factor))


def quadratic(factor):
    return Quadratic(jnp.asarray(factor), jnp.asarray(SLOPE))


def closed_form(factor, offset=OFFSET):
    """``m`` and ``B⁻¹`` of prior times approximation."""
    half = np.diag(factor) if factor.ndim == 1 else factor
    curvature = half @ half.T
    covariance = np.linalg.inv(np.eye(4) + ROOT.T @ curvature @ ROOT)
    return covariance @ ROOT.T @ (SLOPE - curvature @ offset), covariance, curvature


@pytest.mark.parametrize("name", FACTORS)
def test_prior_times_approximation_is_standard(name):
    factor = FACTORS[name]
    tilted, (mean, covariance, curvature) = chart(factor), closed_form(factor)
    np.testing.assert_allclose(tilted.centre(), mean, atol=1e-12)
    root = np.asarray(tilted.centred_nu(jnp.eye(4)))
    np.testing.assert_allclose(root @ root.T, covariance, atol=1e-12)
    coordinates = tilted.coordinates(jnp.asarray(NU))
    np.testing.assert_allclose(tilted.centre() + tilted.centred_nu(coordinates), NU, atol=1e-12)
    # The density of nu under prior times approximation, from its parts.
    sites = OFFSET + ROOT @ NU
    log_joint = norm.logpdf(NU).sum() - 0.5 * sites @ curvature @ sites + SLOPE @ sites
    at_mean = OFFSET + ROOT @ mean
    log_joint -= norm.logpdf(mean).sum() - 0.5 * at_mean @ curvature @ at_mean + SLOPE @ at_mean
    posterior = multivariate_normal(mean, covariance)
    np.testing.assert_allclose(log_joint, posterior.logpdf(NU) - posterior.logpdf(mean), atol=1e-10)
    # log_weight takes back what the chart assumes: N(c) exp(log_weight) is the prior of nu, with the change of volume.
    change = np.log(abs(np.linalg.det(root)))
    weight = tilted.log_weight(jnp.asarray(NU), coordinates)
    np.testing.assert_allclose(norm.logpdf(coordinates).sum() + weight, norm.logpdf(NU).sum() + change, atol=1e-10)


@pytest.mark.parametrize("name", FACTORS)
def test_another_offset_needs_no_factor(name):
    moved = OFFSET + np.array([1.0, -2.0, 0.5, 0.3])
    old = chart(FACTORS[name])
    new = retilt(
        old._replace(place=old.place._replace(offset=jnp.asarray(moved))),
        Triangular(jnp.asarray(ROOT)),
        quadratic(FACTORS[name]),
    )
    np.testing.assert_allclose(new.centre(), closed_form(FACTORS[name], moved)[0], atol=1e-12)
    assert np.array_equal(new.chol, old.chol)
    assert np.abs(new.centre() - old.centre()).max() > 0.1


def test_precise_data_are_met_to_the_last_digits():
    """With noise of 1e-8 the middle puts the sites on the data; the general formula would lose half of the digits."""
    data, factor = np.array([0.5, -1.0, 2.0, 0.1]), np.full(4, 1e8)
    sharp = Quadratic(jnp.asarray(factor), jnp.asarray(factor**2 * data))
    place, root = Place(None, jnp.asarray(OFFSET)), Triangular(jnp.asarray(ROOT))
    np.testing.assert_allclose(OFFSET + ROOT @ tilt(place, root, sharp).centre(), data, rtol=1e-12)
    general = tilt(place, root, sharp._replace(factor=jnp.diag(sharp.factor)))
    assert np.abs(OFFSET + ROOT @ general.centre() - data).max() > 1e-9
