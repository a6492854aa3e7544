"""The kernel's parameters at fixed ``nu`` (Update 2)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import small
from geweke import BOUND, largest_score, standard_form
from seqgp.mcmc.charts import whitened_at
from seqgp.mcmc.moves import move_parameters


def move_kernel(key, target, position):
    return move_parameters(key, target, position, target.kernel_block, lambda z: whitened_at(target, z))


def test_posterior_is_invariant():
    assert largest_score(standard_form(jax.random.key(0), move_kernel)) < BOUND


def prior_twice(y):
    true = small.target(y)

    def log_likelihood(sites, z):
        return true.log_likelihood(sites, z) - 0.5 * jnp.sum((z - small.MEAN) ** 2)

    return small.Changed(true, log_likelihood=log_likelihood)


def mean_ignored(y):
    true = small.target(y)
    centre = true.mean.at[small.BLOCKS.kernel].set(0.0)
    return true._replace(kernel_block=true.kernel_block._replace(centre=centre))


def marginal_block(y):
    """The block's own covariance, where that given the rest is meant."""
    true = small.target(y)
    block = true.kernel_block
    root = np.linalg.cholesky(small.COVARIANCE[np.ix_(small.BLOCKS.kernel, small.BLOCKS.kernel)])
    changed = block._replace(root=jnp.asarray(root), regression=jnp.zeros_like(block.regression))
    return true._replace(kernel_block=changed)


@pytest.mark.parametrize("mutant", [prior_twice, mean_ignored, marginal_block])
def test_mutants_are_caught(mutant):
    assert largest_score(standard_form(jax.random.key(0), move_kernel, mutant)) > BOUND


def test_nu_stays():
    target = small.target(np.array([0.8, 1.1, -0.2]))
    nu = jnp.asarray([0.3, -1.0, 0.5])
    moved, _ = jax.jit(lambda key, p: move_kernel(key, target, p))(
        jax.random.key(1), small.position(target, jnp.asarray(small.MEAN), nu)
    )
    np.testing.assert_allclose(moved.nu, nu)
    assert (moved.z[:3] != small.MEAN[:3]).all()
    np.testing.assert_array_equal(moved.z[3:], small.MEAN[3:])
