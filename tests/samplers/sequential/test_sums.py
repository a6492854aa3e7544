"""Sums of separable terms in the sequential sampler: what it samples, and what does not take them."""

import jax
import numpy as np
import pytest

import seqgp
from seqgp.reference import sequential_target
from sequences import MEAN, NOISE, snapshots

KERNEL = seqgp.Separable(
    time=seqgp.kernels.Matern12(1.3), space=seqgp.kernels.SquaredExponential(0.7), scale=1.0
) + seqgp.Separable(
    time=seqgp.kernels.Constant(scale=1.0) + seqgp.kernels.Periodic(1.0, 0.7),
    space=seqgp.kernels.WhiteNoise(1.0),
    scale=0.5,
)
MODEL = seqgp.Model(kernel=KERNEL, mean=MEAN, likelihood=seqgp.likelihoods.Gaussian(NOISE))
DATA = snapshots([5, 4])


def test_a_step_is_the_recursion_of_the_whole_kernel():
    """Twice nine means of 1000 independent draws: beyond 4.5 sds in less than one run of 10,000."""
    sampler = seqgp.SequentialSampler(MODEL, draws=1000, chains=2)
    state, info = sampler.init(jax.random.key(0), DATA[0])
    assert info.settings["latent"] == "dense"
    following, _ = sampler.step(jax.random.key(1), state, DATA[1])
    for found, exact in zip((state, following), sequential_target(MODEL, DATA)):
        spread = np.diag(exact.covariance)
        score = (np.asarray(found.latent).mean(0) - exact.mean) / np.sqrt(spread / 1000)
        ratio = (np.asarray(found.latent).var(0) / spread - 1) / np.sqrt(2 / 1000)
        assert np.abs(score).max() < 4.5
        assert np.abs(ratio).max() < 4.5


@pytest.mark.parametrize("latent", [seqgp.Grid(), seqgp.Knots(6)], ids=["Grid", "Knots"])
def test_representations_on_shared_sites_say_that_they_take_one_term(latent):
    sampler = seqgp.SequentialSampler(MODEL, draws=10, chains=1, latent=latent)
    with pytest.raises(seqgp.ModelError, match=r"needs one separable term, and the kernel is a sum of 2"):
        sampler.init(jax.random.key(0), DATA[0])


def test_parameters_of_terms_have_names():
    model = seqgp.Model(
        kernel=seqgp.Separable(
            seqgp.kernels.Matern12(seqgp.ScaledSigmoid(0, 2)), seqgp.kernels.Matern12(1.0), scale=1.0
        )
        + seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(1.0), scale=seqgp.ScaledSigmoid(0, 1)),
        likelihood=seqgp.likelihoods.Gaussian(0.3),
    )
    assert model.names == ["0.time.lengthscale", "1.scale"]
    layout = model.layout()
    assert layout.kernel.tolist() == [0, 1]
    assert layout.time.tolist() == [0]
