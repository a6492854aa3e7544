"""Conditionals of blocks of a Gaussian."""

import jax.numpy as jnp
import numpy as np

import small
from seqgp.mcmc.gaussian import condition, log_normal_density


def test_conditional_is_that_of_the_precision_matrix():
    """In terms of the precision ``P``: covariance ``P_bb⁻¹``, mean ``m_b − P_bb⁻¹ P_br (z_r − m_r)``."""
    index, rest = np.array([1, 4]), np.array([0, 2, 3])
    block = condition(jnp.asarray(small.MEAN), jnp.asarray(small.COVARIANCE), index)
    precision = np.linalg.inv(small.COVARIANCE)
    inner = np.linalg.inv(precision[np.ix_(index, index)])
    z = np.array([0.1, 0.2, -0.3, 0.4, 0.5])
    mean = small.MEAN[index] - inner @ precision[np.ix_(index, rest)] @ (z - small.MEAN)[rest]
    np.testing.assert_allclose(block.root @ block.root.T, inner, rtol=1e-10)
    np.testing.assert_allclose(block.mean(jnp.asarray(z)), mean, rtol=1e-10)
    np.testing.assert_array_equal(block.insert(jnp.asarray(z), jnp.asarray([7.0, 8.0])), [0.1, 7.0, -0.3, 0.4, 8.0])


def test_the_whole_vector_is_unconditional():
    block = condition(jnp.asarray(small.MEAN), jnp.asarray(small.COVARIANCE), np.arange(5))
    np.testing.assert_allclose(block.root @ block.root.T, small.COVARIANCE, rtol=1e-12)
    np.testing.assert_allclose(block.mean(jnp.zeros(5)), small.MEAN)


def test_log_density():
    root = np.linalg.cholesky(small.COVARIANCE)
    v = np.array([0.3, -0.1, 0.2, 0.9, 0.0])
    delta = v - small.MEAN
    expected = -0.5 * delta @ np.linalg.solve(small.COVARIANCE, delta) - 0.5 * np.linalg.slogdet(small.COVARIANCE)[1]
    found = log_normal_density(jnp.asarray(v), jnp.asarray(small.MEAN), jnp.asarray(root))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
