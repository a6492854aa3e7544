"""The latent at fixed parameters (Update 1), and the parameters of the likelihood at fixed latent (Update 3)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
import small
from geweke import BOUND, largest_score, standard_form
from seqgp.mcmc.charts import whitened_at
from seqgp.mcmc.interweaving import interweave_mean
from seqgp.mcmc.moves import move_latent, move_parameters
from seqgp.mcmc.surrogate import move_kernel_with_surrogate


def move_likelihood(key, target, position):
    chart = position.chart
    return move_parameters(key, target, position, target.likelihood_block, lambda z: chart)


def move_kernel(key, target, position):
    return move_parameters(key, target, position, target.kernel_block, lambda z: whitened_at(target, z))


def move_latent_thrice(key, target, position):
    return move_latent(key, target, position, 3)


def move_surrogate(key, target, position):
    return move_kernel_with_surrogate(key, target, position, jnp.asarray([2.0, 1.0, 4.0]))


@pytest.mark.parametrize("move", [move_latent, move_latent_thrice, move_likelihood])
def test_posterior_is_invariant(move):
    assert largest_score(standard_form(jax.random.key(0), move)) < BOUND


def prior_twice(y):
    """A target whose likelihood holds the prior of the latent once more."""
    true = small.target(y)

    def log_likelihood(sites, z):
        conditional = true.conditional(z)
        nu = true.root(conditional).solve(sites - true.offset(conditional))
        return true.log_likelihood(sites, z) - 0.5 * jnp.dot(nu, nu)

    def on_planes(middle, columns, z):
        return lambda u, v: lambda c, s: log_likelihood(middle + columns @ (c * u + s * v), z)

    return small.Changed(true, log_likelihood=log_likelihood, log_likelihood_on_planes=on_planes)


def mean_ignored(y):
    true = small.target(y)
    return small.Changed(true, offset=lambda conditional: jnp.zeros(len(small.X)))


def variance_as_sd(y):
    squared = seqgp.likelihoods.Gaussian(seqgp.ScaledSigmoid(0.2, 0.9).through(jnp.square))
    return small.target(y, small.model(likelihood=squared))


@pytest.mark.parametrize("mutant", [prior_twice, mean_ignored, variance_as_sd])
def test_mutants_of_the_latent_are_caught(mutant):
    assert largest_score(standard_form(jax.random.key(0), move_latent, mutant)) > BOUND


def test_mutants_of_the_likelihood_are_caught():
    assert largest_score(standard_form(jax.random.key(0), move_likelihood, variance_as_sd)) > BOUND


@pytest.mark.parametrize("move", [move_latent, move_likelihood, move_kernel, move_surrogate, interweave_mean])
def test_everything_cached_is_in_step(move):
    """After a move the position is what would be computed anew from ``(z, nu)``."""
    target = small.target(np.array([0.8, 1.1, -0.2]))
    start = small.position(target, jnp.asarray(small.MEAN), jnp.asarray([0.3, -1.0, 0.5]))

    @jax.jit
    def run(keys):
        return jax.lax.scan(lambda p, key: (move(key, target, p)[0], None), start, keys)[0]

    moved = run(jax.random.split(jax.random.key(1), 5))
    again = small.position(target, moved.z, moved.nu)
    assert not np.array_equal(moved.sites, start.sites) or not np.array_equal(moved.z, start.z)
    for name in ("sites", "log_likelihood"):
        np.testing.assert_allclose(getattr(moved, name), getattr(again, name), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(moved.place.offset, again.place.offset, rtol=1e-9, atol=1e-12)


def test_missing_data_drop_out():
    """With every datum missing the latent's posterior is its prior: ``nu ~ N(0, I)``."""

    def all_missing(y):
        return small.target(y, missing=np.ones(len(small.X), bool))

    values = standard_form(jax.random.key(5), move_latent, all_missing)
    known = len(small.MEAN) + len(small.X)
    assert largest_score(values[:, :known]) < BOUND


def test_a_latent_that_cannot_be_computed_is_rejected_even_if_no_data_see_it():
    """The covariance of a kernel that is no kernel cannot be factored on one side of ``z = 0``."""
    broken = seqgp.kernels.Covariance(
        lambda a, b, knob: jnp.where(jnp.array_equal(a, b), 1.0, knob), knob=seqgp.ScaledSigmoid(-1.0, 1.0)
    )
    kernel = seqgp.Separable(time=seqgp.kernels.Matern12(1.0), space=broken)
    model = small.model(kernel=kernel, mean=0.0, likelihood=seqgp.likelihoods.Gaussian(0.5))
    target = small.target(
        np.zeros(3), model, missing=np.ones(3, bool), mean=np.array([0.5]), covariance=np.array([[4.0]])
    )
    start = small.position(target, jnp.asarray([0.5]), jnp.zeros(3))

    def body(position, key):
        moved, info = move_kernel(key, target, position)
        return moved, (moved, info)

    _, (chain, info) = jax.lax.scan(body, start, jax.random.split(jax.random.key(2), 300))
    assert np.isfinite(chain.sites).all()
    knob = 2 * jax.nn.sigmoid(chain.z) - 1
    assert (knob > -0.5).all()  # of three equal correlations, the least that is positive definite
    assert int(info.events.not_positive_definite.sum()) > 0
    assert int(info.capped.sum()) == 0
