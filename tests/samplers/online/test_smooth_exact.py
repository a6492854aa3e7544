"""Draws of the past by weighted paths, for counts: skew as their posterior is, which Gaussians are not."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import seqgp

TIMES, COUNTS, MEAN, SCALE = np.array([0.0, 0.6, 1.4]), np.array([0.0, 4.0, 0.0]), -0.5, 2.5
DRAWS = 4000


def model(scale=SCALE):
    kernel = seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(1.0), scale)
    return seqgp.Model(kernel, seqgp.likelihoods.Poisson(), mean=MEAN)


def snapshots():
    return [seqgp.Snapshot(float(t), np.zeros((1, 1)), np.array([y])) for t, y in zip(TIMES, COUNTS)]


def reached(sampler):
    state, _ = sampler.init(jax.random.key(0), snapshots()[0])
    for i, snapshot in enumerate(snapshots()[1:], start=1):
        state, _ = sampler.step(jax.random.key(i), state, snapshot)
    return state


def by_quadrature(t):
    """Mean, sd and skewness of the latent function at a time, and at another a little later."""
    line = np.linspace(-14, 7, 64)
    path = np.stack(np.meshgrid(*[line] * 3, indexing="ij"), axis=-1)
    covariance = SCALE**2 * np.exp(-np.abs(TIMES[:, None] - TIMES))
    logs = stats.multivariate_normal(np.zeros(3), covariance).logpdf(path)
    logs = logs + stats.poisson.logpmf(COUNTS, np.exp(path + MEAN)).sum(-1)
    mass = np.exp(logs - logs.max())
    weights = np.linalg.solve(covariance, SCALE**2 * np.exp(-np.abs(TIMES - t)))
    noise = SCALE**2 - weights @ covariance @ weights  # of the other time, given the latent at the data
    found = []
    for values, spread in ((path[..., 0], 0.0), (path @ weights, noise)):
        mean = np.average(values, weights=mass)
        second, third = (np.average((values - mean) ** k, weights=mass) for k in (2, 3))
        variance = second + spread
        found.append((mean + MEAN, np.sqrt(variance), third / variance**1.5))
    return found


@pytest.mark.parametrize("paths", [0, 1024])
def test_the_past_is_skew_as_the_posterior_is(paths):
    """Mean, sd and skewness within four Monte Carlo errors with paths; EP's draws have no skewness.

    There are far more paths than draws, whose errors are then those of independent ones.
    """
    sampler = seqgp.OnlineSampler(model(), particles=64, draws=DRAWS, paths=paths)
    found = seqgp.smooth(jax.random.key(7), sampler, reached(sampler), [0.0, 0.3], draws=DRAWS)
    truth, draws = by_quadrature(0.3), [latent[:, 0] for latent in found.latent]
    if not paths:
        assert abs(stats.skew(draws[0]) - truth[0][2]) > 6 * np.sqrt(6 / DRAWS)
        return
    for one, (mean, sd, skew) in zip(draws, truth):
        assert abs(one.mean() - mean) < 4 * sd / np.sqrt(DRAWS)
        assert abs(one.std() / sd - 1) < 4 * np.sqrt((2 + 3 * abs(skew)) / 4 / DRAWS)
        assert abs(stats.skew(one) - skew) < 5 * np.sqrt(6 / DRAWS)


def test_parameters_new_places_and_stations_that_joined():
    """Draws belong to the values of the parameters that they are of; places that are no sites are asked about too."""
    kernel = seqgp.Separable(seqgp.kernels.Matern32(dist.LogNormal(0.0, 0.5)), seqgp.kernels.Matern12(1.0), 1.0)
    counts = seqgp.Model(kernel, seqgp.likelihoods.Poisson(), mean=dist.Normal(0.0, 2.0))
    x = np.array([[0.0], [1.0], [2.0]])
    data = [seqgp.Snapshot(0.5 * i, x[: 2 + (i > 1)], np.full(2 + (i > 1), 20.0)) for i in range(4)]
    sampler = seqgp.OnlineSampler(counts, particles=32, draws=64, paths=8)
    state, _ = sampler.init(jax.random.key(0), data[0])
    for i, snapshot in enumerate(data[1:], start=1):
        state, _ = sampler.step(jax.random.key(i), state, snapshot)
    at_data = seqgp.smooth(jax.random.key(1), sampler, state, [0.0, 0.75, 1.5])
    assert [one.shape for one in at_data.latent] == [(64, 2), (64, 2), (64, 3)]
    for one in at_data.latent:
        np.testing.assert_allclose(one.mean(0), np.log(20.0), atol=0.3)
    anywhere = seqgp.smooth(jax.random.key(1), sampler, state, [0.0, 1.5], x=np.array([[1.0], [0.5], [9.0]]))
    for one in anywhere.latent:
        np.testing.assert_allclose(one.mean(0)[:2], np.log(20.0), atol=0.3)
        assert one[:, 2].std() > 3 * one[:, 0].std()


def test_new_places_beside_stations_of_which_some_are_padding():
    """Logs of log-normal data are Gaussian: mean and sd by dense algebra, within five Monte Carlo errors."""
    noise, x = 0.8, np.array([[0.0], [0.7], [1.1], [1.6], [2.2]])
    first, second = np.random.default_rng(0).normal(size=(2, 5))
    data = [seqgp.Snapshot(0.0, x[:3], np.exp(first[:3])), seqgp.Snapshot(1.0, x, np.exp(second))]
    between = seqgp.Separable(seqgp.kernels.Matern12(2.0), seqgp.kernels.Matern12(1.0), 1.4)
    sampler = seqgp.OnlineSampler(
        seqgp.Model(between, seqgp.likelihoods.LogNormal(noise)), particles=64, draws=2000, paths=32
    )
    state = seqgp.run(sampler, data, jax.random.key(0)).state
    new = np.array([[2.3], [9.0]])
    (drawn,) = seqgp.smooth(jax.random.key(1), sampler, state, [0.5], x=new, draws=2000).latent

    def covariance(t, x, s, z):
        return 1.4**2 * np.exp(-np.abs(t[:, None] - s) / 2 - np.abs(x[:, None] - z))

    at, places = np.repeat([0.0, 1.0], [3, 5]), np.append(x[:3, 0], x[:, 0])
    logs, cross = np.append(first[:3], second), covariance(at, places, np.full(2, 0.5), new[:, 0])
    weights = np.linalg.solve(covariance(at, places, at, places) + noise**2 * np.eye(8), cross)
    sd = np.sqrt(1.4**2 - (weights * cross).sum(0))
    assert (np.abs(drawn.mean(0) - weights.T @ logs) < 5 * sd / np.sqrt(500)).all()
    np.testing.assert_allclose(drawn.std(0), sd, rtol=5 / np.sqrt(2 * 500))
