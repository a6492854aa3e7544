"""Simulation-based calibration, short: the initial sampler passes, its mutants do not. The long one: make calibrate."""

import jax
import numpyro.distributions as dist
import pytest

import seqgp
import small
from seqgp.evaluate.simulate import default_design

SIMULATIONS = 100


def model(spread=1.5, likelihood=None):
    def sigmoid(low, high):
        return seqgp.ScaledSigmoid(low, high, 0.0, spread)

    return small.model(
        time=seqgp.kernels.SquaredExponential(sigmoid(0.1, 3)),
        space=seqgp.kernels.SquaredExponential(dist.Gamma(3.0, 5.0)),
        scale=sigmoid(0.1, 2),
        mean=sigmoid(-1, 1),
        likelihood=likelihood or seqgp.likelihoods.Gaussian(sigmoid(0.05, 1)),
        jitter=1e-6,
    )


def ranks(sampled, **settings):
    """Data from the model as it should be, draws from the one that is sampled."""
    sampler = seqgp.SequentialSampler(sampled, draws=99, chains=1, **settings)
    design = default_design(model(), n=5)
    return seqgp.calibrate(jax.random.key(3), model(), sampler, SIMULATIONS, design=design)


@pytest.mark.parametrize(
    "settings", [{"updates": "plain", "thin": 8, "warmup": 100}, {"updates": "informed", "thin": 4, "warmup": 100}]
)
def test_the_initial_sample_is_calibrated(settings):
    found = ranks(model(), **settings)
    assert not found.failures
    assert found.calibrated(1e-3), found.table()


def test_a_variance_taken_for_a_standard_deviation_is_found_out():
    def mutant(f, context, noise):
        return dist.Normal(f, noise**2)

    noise = seqgp.ScaledSigmoid(0.05, 1)
    likelihood = seqgp.likelihoods.Likelihood(mutant, pointwise=True, noise=noise)
    found = ranks(model(likelihood=likelihood), updates="plain", thin=8, warmup=100)
    assert found.corrected["noise"] < 1e-6


def test_a_prior_counted_twice_is_found_out():
    # The square of the density of N(0, 1.5²) is that of N(0, 1.5²/2).
    found = ranks(model(spread=1.5 / 2**0.5), updates="informed", thin=4, warmup=100)
    assert not found.calibrated(1e-3)
