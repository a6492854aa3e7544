"""``smooth`` with a delay: the posterior of the dense kernel, at times and places anywhere."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from dense_delay import matern
from seqgp import kernels, likelihoods
from seqgp.samplers.online import smooth_delayed

SLOWNESS, NOISE = 0.8, 0.3
X = np.array([[0.0], [1.0], [1.6]])
TIMES = (0.0, 0.5, 1.3, 2.0)


def model(likelihood):
    term = seqgp.Separable(kernels.Matern32(1.0), kernels.Matern12(2.0), 1.2)
    return seqgp.Model(seqgp.Delayed(term, slowness=[SLOWNESS]), likelihood, mean=dist.Normal(0.5, 2.0))


def covariance(t, x, u, v):
    lag, distance = t[:, None] - u, x[:, None] - v
    return 1.44 * matern(2, lag - SLOWNESS * distance) * np.exp(-np.abs(distance) / 2) + 4.0


def data(counts=False):
    rng = np.random.default_rng(0)
    snapshots = [seqgp.Snapshot(t, X, rng.normal(size=3)) for t in TIMES]
    snapshots[1].y[2] = np.nan
    return [one._replace(y=np.round(2 * np.abs(one.y))) for one in snapshots] if counts else snapshots


def test_paths_are_draws_of_the_posterior():
    """4000 draws at known parameters: means within 5 standard errors, covariances within 5 of theirs."""
    sampler = seqgp.OnlineSampler(model(likelihoods.Gaussian(noise=NOISE)), particles=16, draws=4000)
    snapshots = data()
    state, _ = sampler.init(jax.random.key(0), snapshots[0])
    for k, snapshot in enumerate(snapshots[1:]):
        state, _ = sampler.step(jax.random.key(k + 1), state, snapshot)
    new = np.array([[0.4], [3.0]])
    found = seqgp.smooth(jax.random.key(9), sampler, state, [0.2, 1.3], x=new, draws=4000)
    draws = np.concatenate(found.latent, axis=1)
    t, x = np.repeat(TIMES, 3), np.tile(X[:, 0], 4)
    y = np.concatenate([one.y for one in snapshots])
    seen = ~np.isnan(y)
    t, x, y = t[seen], x[seen], y[seen] - 0.5
    at, where = np.repeat([0.2, 1.3], 2), np.tile(new[:, 0], 2)
    cross = covariance(at, where, t, x)
    gain = np.linalg.solve(covariance(t, x, t, x) + NOISE**2 * np.eye(len(y)), cross.T).T
    mean, cov = 0.5 + gain @ y, covariance(at, where, at, where) - gain @ cross.T
    sd = np.sqrt(np.diag(cov))
    assert np.all(np.abs(draws.mean(0) - mean) < 5 * sd / np.sqrt(4000))
    error = np.sqrt((np.outer(sd, sd) ** 2 + cov**2) / 4000)
    assert np.all(np.abs(np.cov(draws.T) - cov) < 5 * error)
    here = seqgp.smooth(jax.random.key(9), sampler, state, [0.5])
    assert here.latent[0].shape == (200, 3)


def test_counts_at_the_last_time_agree_with_the_filter():
    """EP of all data together and of one snapshot after the other: the same within 0.15 sd."""
    sampler = seqgp.OnlineSampler(model(likelihoods.Poisson()), particles=16, draws=2000, paths=0)
    snapshots = data(counts=True)
    state, _ = sampler.init(jax.random.key(0), snapshots[0])
    for k, snapshot in enumerate(snapshots[1:]):
        state, _ = sampler.step(jax.random.key(k + 1), state, snapshot)
    past = seqgp.smooth(jax.random.key(9), sampler, state, [2.0], draws=2000).latent[0]
    now = np.asarray(state.latent)
    np.testing.assert_allclose(past.mean(0), now.mean(0), atol=0.15 * now.std(0).max())
    np.testing.assert_allclose(past.std(0), now.std(0), rtol=0.12)


def test_what_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(smooth_delayed, "LARGEST", 10)
    sampler = seqgp.OnlineSampler(model(likelihoods.Gaussian(noise=NOISE)), particles=16, draws=20)
    state, _ = sampler.init(jax.random.key(0), data()[0])
    with pytest.raises(seqgp.SamplerError, match="15 points of data and asked for are more than 10"):
        seqgp.smooth(jax.random.key(1), sampler, state, [0.0], x=np.linspace(0, 1, 12)[:, None])
