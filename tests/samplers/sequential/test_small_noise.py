"""Data that are almost exact: informed updates keep their precision where the noise is far below the scale."""

import jax
import numpy as np
import pytest

import seqgp


@pytest.mark.parametrize("noise", [1e-8, 1e-10])
def test_draws_are_within_the_noise_of_the_data(noise):
    """All of 40 x 6 normal deviations below 6: a false alarm in 2e6 (seeds fixed). A slice accepts at once."""
    between = seqgp.ScaledSigmoid(0, 3)
    space = seqgp.kernels.SquaredExponential(between)
    model = seqgp.Model(
        kernel=seqgp.Separable(time=seqgp.kernels.SquaredExponential(between), space=space, scale=between),
        likelihood=seqgp.likelihoods.Gaussian(noise=noise),
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
        seqgp.likelihoods.Gaussian(noise=0.0)


def test_knots_refuse_a_noise_that_rounding_would_swallow():
    """Sums of squares over the data are known to 2e-16 of themselves: with noise of 1e-8 that is a misfit of one."""
    x = np.linspace(0, 1, 6)[:, None]
    snapshot = seqgp.Snapshot(0.0, x, np.sin(3 * x[:, 0]))
    kernel = seqgp.Separable(time=seqgp.kernels.Matern12(1.0), space=seqgp.kernels.SquaredExponential(1.0), scale=1.0)
    for noise, refused in ((1e-8, True), (1e-6, False)):
        likelihood = seqgp.likelihoods.Gaussian(noise=noise)
        knots = seqgp.Knots(nodes=8).resolve(kernel, x)
        if not refused:
            assert likelihood.sums(knots.interpolate(x).weights, snapshot.y, np.zeros(6, bool), None) is not None
            continue
        sampler = seqgp.SequentialSampler(seqgp.Model(kernel, likelihood=likelihood), latent=seqgp.Knots(nodes=8))
        with pytest.raises(seqgp.ModelError, match=r"Knots: noise = 1e-08 is lost in the rounding.*Dense\(\)"):
            sampler.init(jax.random.key(0), snapshot)
