"""Data that are almost exact: filters keep covariances, in which a noise far below the scale has no digits."""

import jax
import numpy as np
import pytest

import seqgp
from seqgp.evaluate.choose import best_sampler
from seqgp.samplers.online import sampler as module

X = np.linspace(0, 1, 6)[:, None]
Y = np.sin(3 * X[:, 0])


def model(likelihood):
    between = seqgp.ScaledSigmoid(0, 3)
    smooth = seqgp.kernels.SquaredExponential(between)
    return seqgp.Model(seqgp.Separable(time=smooth, space=smooth, scale=between), likelihood)


def run(noise, steps=4):
    """A few steps, the third with a value missing, which takes the filter that keeps the covariance whole."""
    sampler, state = seqgp.OnlineSampler(model(seqgp.likelihoods.Gaussian(noise)), particles=16, draws=40), None
    for i in range(steps):
        y = np.where((np.arange(6) == 2) & (i == 2), np.nan, (1 + 0.1 * i) * Y)
        snapshot, key = seqgp.Snapshot(0.1 * i, X, y), jax.random.key(i)
        state, _ = sampler.init(key, snapshot) if state is None else sampler.step(key, state, snapshot)
        yield y, np.asarray(state.latent)


def test_draws_are_within_the_noise_of_the_data():
    """The smallest that is taken: all of 40 x 23 normal deviations below 6, a false alarm in 5e5 (seeds fixed)."""
    noise = 1.1 * module.MIN_NOISE_RATIO * 1.5
    for y, latent in run(noise):
        assert np.nanmax(np.abs(latent - y)) < 6 * noise


@pytest.mark.parametrize(("errors", "noise"), [(None, 1e-8), ("se", 1.0)])
def test_a_noise_that_rounding_would_swallow_is_refused(errors, noise):
    """Also where it is the context that says so; the best sampler is then another one."""
    one, snapshot = (
        model(seqgp.likelihoods.Gaussian(noise, errors=errors)),
        seqgp.Snapshot(0.0, X, Y, {"se": np.full(6, 1e-8)}),
    )
    with pytest.raises(seqgp.ModelError, match=r"noise of 1e-08 is lost in the rounding.*latent=Dense"):
        seqgp.OnlineSampler(one).init(jax.random.key(0), snapshot)
    chosen, why = best_sampler(one, snapshot)
    assert isinstance(chosen, seqgp.SequentialSampler)
    assert "because OnlineSampler: a noise of 1e-08 is lost" in why


def test_a_scale_whose_square_is_no_number_is_refused():
    wide = seqgp.Separable(
        seqgp.kernels.Matern32(1.0), seqgp.kernels.Matern32(1.0), scale=seqgp.ScaledSigmoid(0.0, 1e308)
    )
    sampler = seqgp.OnlineSampler(seqgp.Model(wide, seqgp.likelihoods.Gaussian(0.1)))
    with pytest.raises(seqgp.ModelError, match=r"noise of 0.1 is lost .* standard deviation of 5e\+307"):
        sampler.init(jax.random.key(0), seqgp.Snapshot(0.0, X, Y))


def test_draws_that_are_not_finite_are_never_given(monkeypatch):
    monkeypatch.setattr(module, "MIN_NOISE_RATIO", 0.0)
    with pytest.raises(seqgp.SamplerError, match=r"40 draws of the latent are not finite: .* no digits left"):
        list(run(1e-9))
