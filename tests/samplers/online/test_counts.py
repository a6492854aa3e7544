"""Counts and labels at one station, known parameters: against quadrature over the whole path."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqgp

TIMES = np.array([0.0, 0.5, 1.2])


def by_quadrature(likelihood, y, mean):
    """Log evidence, and mean and sd of ``f`` at the last time."""
    line = np.linspace(-6, 6, 121)
    path = np.stack(np.meshgrid(line, line, line, indexing="ij"), axis=-1)  # without the mean
    distance = np.abs(TIMES[:, None] - TIMES[None, :])
    covariance = (1 + 3**0.5 * distance) * np.exp(-(3**0.5) * distance) + 1e-8 * np.eye(3)
    log_prior = -0.5 * np.einsum("...i,ij,...j->...", path, np.linalg.inv(covariance), path)
    log_prior -= 0.5 * np.log(np.linalg.det(2 * np.pi * covariance))
    data = sum(
        np.asarray(likelihood.distribution(jnp.asarray(mean + path[..., i]), None, {}).log_prob(y[i])) for i in range(3)
    )
    mass = np.exp(log_prior + data) * (line[1] - line[0]) ** 3
    last = mass.sum(axis=(0, 1)) / mass.sum()
    centre = mean + last @ line
    return np.log(mass.sum()), centre, np.sqrt(last @ (mean + line - centre) ** 2)


@pytest.mark.parametrize(
    "likelihood, y, mean",
    [
        (seqgp.likelihoods.Poisson(), np.array([0.0, 3.0, 0.0]), -0.7),
        (seqgp.likelihoods.Bernoulli(), np.array([1.0, 1.0, 0.0]), 0.2),
    ],
    ids=["counts of mean 0.5", "labels"],
)
def test_the_hard_cases_are_close_to_exact(likelihood, y, mean):
    kernel = seqgp.Separable(time=seqgp.kernels.Matern32(1.0), space=seqgp.kernels.Matern12(1.0), scale=1.0)
    model = seqgp.Model(kernel=kernel, mean=mean, likelihood=likelihood)
    sampler = seqgp.OnlineSampler(model, particles=16, draws=20000, paths=0)
    state, info = sampler.init(jax.random.key(0), seqgp.Snapshot(TIMES[0], np.zeros((1, 1)), y[:1]))
    for i in (1, 2):
        snapshot = seqgp.Snapshot(TIMES[i], np.zeros((1, 1)), y[i : i + 1])
        state, info = sampler.step(jax.random.key(i), state, snapshot)
    evidence, centre, sd = by_quadrature(likelihood, y, mean)
    assert info.log_evidence == pytest.approx(evidence, abs=0.02)
    f = np.asarray(state.latent)[:, 0]
    assert abs(f.mean() - centre) < 0.05 * sd
    assert f.std() == pytest.approx(sd, rel=0.05)
