"""What a likelihood says of itself: for Gaussian data the quadratic is exact, and sums take the place of the data."""

import jax.numpy as jnp
import numpy as np
import pytest

import seqgp

RNG = np.random.default_rng(0)
Y, MISSING = RNG.normal(size=7), np.arange(7) == 3
PARAMETERS = {"noise": jnp.asarray(0.7)}
GAUSSIAN = seqgp.Gaussian(0.7)


def log_prob(level):
    return float(GAUSSIAN.log_prob(jnp.asarray(level), jnp.asarray(Y), jnp.asarray(MISSING), None, PARAMETERS))


def test_the_surrogate_is_the_log_likelihood_up_to_a_constant():
    precision, weighted = GAUSSIAN.exact_surrogate(jnp.asarray(Y), jnp.asarray(MISSING), None)
    scale = jnp.exp(GAUSSIAN.log_precision(PARAMETERS))
    a, b = RNG.normal(size=(2, 7))

    def quadratic(level):
        return float(scale * (-0.5 * precision @ level**2 + weighted @ level))

    np.testing.assert_allclose(log_prob(a) - log_prob(b), quadratic(a) - quadratic(b), rtol=1e-12)


def test_sums_take_the_place_of_data_seen_through_weights():
    weights, sites, mean = RNG.normal(size=(7, 4)), RNG.normal(size=4), 0.3
    sums = GAUSSIAN.sums(weights, Y, MISSING, None)
    np.testing.assert_allclose(
        sums.log_likelihood(sites, mean, PARAMETERS), log_prob(weights @ sites + mean), rtol=1e-12
    )


def test_other_data_have_neither_noise_nor_an_exact_surrogate():
    poisson = seqgp.Poisson()
    assert not poisson.conjugate
    assert not poisson.quadratic
    assert poisson.exact_surrogate(jnp.asarray(Y), jnp.asarray(MISSING), None) is None
    assert poisson.sums(np.eye(7), Y, MISSING, None) is None
    with pytest.raises(seqgp.ModelError, match="Poisson: the data are not Gaussian"):
        poisson.noise(None, {})
