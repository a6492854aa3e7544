"""Data that are almost exact: informed updates keep their precision where the noise is far below the scale."""

import jax
import numpy as np
import pytest

import seqgp


@pytest.mark.parametrize("noise", [1e-8, 1e-10])
def test_draws_are_within_the_noise_of_the_data(noise):
    """All of 40 x 6 normal deviations below 6: a false alarm in 2e6 (seeds fixed). A slice accepts at once."""
    between = seqgp.ScaledSigmoid(0, 3)
    space = seqgp.SquaredExponential(between)
    model = seqgp.Model(
        kernel=seqgp.Separable(time=seqgp.SquaredExponential(between), space=space, scale=between),
        likelihood=seqgp.Gaussian(noise=noise),
    )
    sampler = seqgp.SequentialSampler(model, draws=40, chains=2, warmup=20, updates="informed", latent=seqgp.Dense())
    x = np.linspace(0, 1, 6)[:, None]
    y = np.sin(3 * x[:, 0])
    state, info = sampler.init(jax.random.key(0), seqgp.Snapshot(0.0, x, y))
    after, later = sampler.step(jax.random.key(1), state, seqgp.Snapshot(0.1, x, y))
    for one, spent in ((state, info), (after, later)):
        assert np.abs(np.asarray(one.latent) - y).max() < 6 * noise
        assert spent.updates["latent"].evaluations_per_update < 1.1


def test_exact_interpolation_gets_a_clear_answer():
    with pytest.raises(seqgp.ModelError, match=r"noise = 0\.0 is not positive: data without noise are interpolated"):
        seqgp.Gaussian(noise=0.0)
