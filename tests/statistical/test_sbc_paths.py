"""Simulation-based calibration, short, of whole sequences of counts corrected by paths; the long: make calibrate."""

import jax
import pytest
from experiments import calibration

import seqgp
from seqgp.evaluate.simulate import default_design

SIMULATIONS, STEPS, STATIONS = 200, 3, 2


def model(spread=1.5):
    def sigmoid(low, high):
        return seqgp.ScaledSigmoid(low, high, 0.0, spread)

    kernel = seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(1.0), sigmoid(0.2, 3))
    return seqgp.Model(kernel, seqgp.likelihoods.Poisson(), mean=sigmoid(-1, 2))


def ranks(sampled):
    """Data from the model as it should be, draws from the one that is sampled."""
    sampler = seqgp.OnlineSampler(sampled, particles=32, draws=99, paths=8)
    design = default_design(model(), n=STATIONS, steps=STEPS)
    return seqgp.calibrate(jax.random.key(3), model(), sampler, SIMULATIONS, design=design)


def test_counts_corrected_by_paths_are_calibrated():
    found = ranks(model())
    assert not found.failures
    assert found.calibrated(1e-3), found.table()


@pytest.mark.parametrize("mutant", ["prior counted twice", "site taken for the likelihood"])
def test_mutants_are_found_out(mutant):
    if mutant == "prior counted twice":  # the square of the density of N(0, 1.5²) is that of N(0, 1.5²/2)
        found = ranks(model(spread=1.5 / 2**0.5))
    else:
        with calibration.broken(smc_paths=calibration.sites_alone):
            found = ranks(model())
    assert not found.calibrated(1e-3), found.table()
