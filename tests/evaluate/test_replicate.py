"""The Monte Carlo error of a sequence, between independent runs of it."""

import jax
import numpy as np
import pytest

import seqgp


def sampler(draws):
    kernel = seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern32(1.0), 1.0)
    model = seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.5), mean=seqgp.ScaledSigmoid(-1, 1))
    return seqgp.SequentialSampler(model, draws=draws, chains=2, warmup=20, updates="informed")


def test_errors_between_runs():
    x, rng = np.array([[0.0], [1.0]]), np.random.default_rng(0)
    snapshots = [seqgp.Snapshot(t=i, x=x, y=rng.normal(size=2)) for i in range(2)]
    found = seqgp.replicate(jax.random.key(0), sampler(200), snapshots, replicates=6)
    assert found.names == ("mean",)
    assert found.mcse.shape == found.ess.shape == (2, 1)
    assert [error.shape for error in found.latent_mcse] == [(2,), (2,)]
    # Six runs know an error to a third of it: anything between a fifth and five times the draws is possible.
    assert np.all((found.latent_ess > 20) & (found.latent_ess < 2000))
    np.testing.assert_array_less(found.latent_mcse[1], 0.3)


def test_one_run_says_nothing():
    with pytest.raises(seqgp.SamplerError, match="two runs or more"):
        seqgp.replicate(jax.random.key(0), sampler(20), [], replicates=1)
