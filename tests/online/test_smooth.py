"""The past revised: against the exact posterior at known parameters."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.reference import gaussian_posterior
from streams import sampled, snapshots


def known(mean=0.5):
    return seqgp.Model(
        kernel=seqgp.Separable(time=seqgp.Matern32(2.0), space=seqgp.Matern12(1.0), scale=1.0),
        mean=mean,
        likelihood=seqgp.Gaussian(0.3),
    )


def test_paths_are_of_the_exact_posterior():
    """Means and variances at three past times; 4 standard errors of 1500 draws."""
    data = snapshots(missing=0.2)
    sampler = seqgp.OnlineSampler(known(), particles=16, draws=1500)
    state, _ = sampled(sampler, data)
    times = [data[i].t for i in (0, 5, 10)]
    found = seqgp.smooth(jax.random.key(1), sampler, state, times, draws=1500)
    exact = gaussian_posterior(known(), data, known().parameters(np.zeros(0)))
    for i, latent in zip((0, 5, 10), found.latent):
        sd = np.sqrt(np.diag(exact[i].covariance))
        assert np.abs((latent.mean(axis=0) - exact[i].mean) / sd).max() < 4 / np.sqrt(1500)
        assert latent.std(axis=0) / sd == pytest.approx(np.ones(5), abs=4 / np.sqrt(2 * 1500))


def test_a_time_between_snapshots_is_between_them():
    data = snapshots()
    sampler = seqgp.OnlineSampler(known(dist.Normal(0.0, 1.0)), particles=16, draws=400)
    state, _ = sampled(sampler, data)
    between = 0.5 * (data[4].t + data[5].t)
    found = seqgp.smooth(jax.random.key(1), sampler, state, [data[4].t, between, data[5].t], draws=400)
    before, middle, after = (latent.mean(axis=0) for latent in found.latent)
    assert np.abs(middle - 0.5 * (before + after)).max() < 0.35
    with pytest.raises(seqgp.DataError, match="not between the first and the last time"):
        seqgp.smooth(jax.random.key(1), sampler, state, [data[-1].t + 1])
    for times in (data[4].t, []):
        with pytest.raises(seqgp.DataError, match=r"is not a list of times; for one time give \[t\]"):
            seqgp.smooth(jax.random.key(1), sampler, state, times)
    with pytest.raises(seqgp.SamplerError, match="draws = 0 is not a whole number"):
        seqgp.smooth(jax.random.key(1), sampler, state, [data[4].t], draws=0)
    another = seqgp.OnlineSampler(known(0.7), particles=16)
    with pytest.raises(seqgp.SamplerError, match="smooth: the state is of another model"):
        seqgp.smooth(jax.random.key(1), another, state, [data[4].t])
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(seqgp.SamplerError, match="double precision"):
            seqgp.smooth(jax.random.key(1), sampler, state, [data[4].t])
    finally:
        jax.config.update("jax_enable_x64", True)
