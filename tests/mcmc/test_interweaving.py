"""The mean at fixed ``f``."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import small
from geweke import BOUND, largest_score, standard_form
from seqgp.mcmc.interweaving import interweave_mean
from seqgp.mcmc.plain import move_mean


@pytest.mark.parametrize("move", [interweave_mean, move_mean])
def test_posterior_is_invariant(move):
    assert largest_score(standard_form(jax.random.key(0), move)) < BOUND


def mean_ignored(y):
    true = small.target(y)
    return true._replace(mean_block=true.mean_block._replace(centre=true.mean.at[small.BLOCKS.mean].set(0.0)))


def marginal_block(y):
    true = small.target(y)
    root = np.sqrt(small.COVARIANCE[np.ix_(small.BLOCKS.mean, small.BLOCKS.mean)])
    block = true.mean_block
    block = block._replace(root=jnp.asarray(root), regression=jnp.zeros_like(block.regression))
    return true._replace(mean_block=block)


def prior_of_the_latent_ignored(y):
    """At fixed ``f`` only the prior of the latent says where the mean is: without it, too wide a root."""
    true = small.target(y)

    class Wide:
        def __init__(self, root):
            self.root = root

        def apply(self, v):
            return self.root.apply(v)

        def solve(self, v):
            return 0.5 * self.root.solve(v)

    return small.Changed(true, root=lambda conditional: Wide(true.root(conditional)))


@pytest.mark.parametrize("mutant", [mean_ignored, marginal_block, prior_of_the_latent_ignored])
def test_mutants_are_caught(mutant):
    assert largest_score(standard_form(jax.random.key(0), interweave_mean, mutant)) > BOUND


def test_f_and_likelihood_stay():
    target = small.target(np.array([0.8, 1.1, -0.2]))
    start = small.position(target, jnp.asarray(small.MEAN), jnp.asarray([0.3, -1.0, 0.5]))
    moved, _ = jax.jit(lambda key: interweave_mean(key, target, start))(jax.random.key(1))
    again = small.position(target, moved.z, moved.nu)
    assert moved.z[3] != start.z[3]
    f = start.sites + target.constant_mean(start.z)
    np.testing.assert_allclose(again.sites + target.constant_mean(moved.z), f, rtol=1e-9)
    np.testing.assert_allclose(again.log_likelihood, start.log_likelihood, rtol=1e-9)
