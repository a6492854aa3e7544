"""Ellipses with heavy tails: widths drawn given a point leave the Student-t as it is."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from seqgp.mcmc.student import DEGREES_OF_FREEDOM, Student

ROOT = np.array([[1.0, 0.0], [0.6, 0.5]])
STUDENT = Student(jnp.array([0.3, -1.0]), jnp.asarray(ROOT))
DRAWS = 20_000


def exact(key):
    key_normal, key_width = jax.random.split(key)
    chi = jax.random.normal(key_width, (DRAWS, DEGREES_OF_FREEDOM))
    width = jnp.sqrt(DEGREES_OF_FREEDOM / jnp.sum(chi**2, axis=1, keepdims=True))
    return STUDENT.mean[None] + width * (jax.random.normal(key_normal, (DRAWS, 2)) @ ROOT.T)


def redrawn(z, key, width):
    """New points, each from the Gaussian of a width that was drawn given the old one."""
    key_width, key_normal = jax.random.split(key)
    widths = jax.vmap(width)(jax.random.split(key_width, DRAWS), z)
    return STUDENT.mean[None] + widths[:, None] * (jax.random.normal(key_normal, (DRAWS, 2)) @ ROOT.T)


def p_value(z):
    """``|root⁻¹ (z − mean)|² / 2`` has an F distribution."""
    white = np.linalg.solve(ROOT, np.asarray(z - STUDENT.mean[None]).T)
    return stats.kstest((white**2).sum(axis=0) / 2, stats.f(2, DEGREES_OF_FREEDOM).cdf).pvalue


def test_widths_given_a_point_leave_the_distribution_as_it_is():
    z = exact(jax.random.key(0))
    assert p_value(z) > 1e-3
    assert p_value(redrawn(z, jax.random.key(1), STUDENT.width)) > 1e-3


def test_widths_that_do_not_look_at_the_point_are_caught():
    def blind(key, z):
        return STUDENT.width(key, STUDENT.mean)

    assert p_value(redrawn(exact(jax.random.key(0)), jax.random.key(1), blind)) < 1e-9


def test_the_density_is_that_of_scipy():
    z = np.array([[0.1, 0.4], [3.0, -2.0], [-1.0, 0.5]])
    known = stats.multivariate_t(np.asarray(STUDENT.mean), ROOT @ ROOT.T, df=DEGREES_OF_FREEDOM)
    found = [float(STUDENT.log_density(jnp.asarray(point))) for point in z]
    np.testing.assert_allclose(np.diff(found), np.diff(known.logpdf(z)), rtol=1e-10)
