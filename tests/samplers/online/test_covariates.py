"""Regression in the state: weights of covariates integrated out exactly."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from streams import sampled


def test_weights_are_found_with_their_exact_posterior():
    """A known field and noise: the posterior of the weights is that of generalised least squares."""
    rng = np.random.default_rng(0)
    x, weights = rng.random((6, 2)), np.array([0.4, 1.5, -2.0])
    kernel = seqgp.Separable(time=seqgp.kernels.Matern12(1.0), space=seqgp.kernels.Matern12(0.5), scale=0.5)
    prior = dist.Normal(0.0, 2.0)
    model = seqgp.Model(
        kernel=kernel,
        mean=seqgp.means.Linear(
            features=["height", "day"], weights=prior, intercept=prior
        ),  # not in the order of letters
        likelihood=seqgp.likelihoods.Gaussian(0.2),
    )
    context = [{"height": rng.random(6), "day": rng.random(6)} for _ in range(8)]
    designs = [np.stack([np.ones(6), one["height"], one["day"]], axis=1) for one in context]
    data = [
        seqgp.Snapshot(float(t), x, design @ weights + 0.3 * rng.normal(size=6), one)
        for t, (design, one) in enumerate(zip(designs, context))
    ]
    state, info = sampled(seqgp.OnlineSampler(model, particles=16, draws=4000), data)
    times = np.arange(8.0)
    in_space = np.exp(-np.linalg.norm(x[:, None] - x[None, :], axis=2) / 0.5)
    covariance = 0.25 * np.kron(np.exp(-np.abs(times[:, None] - times[None, :])), in_space) + 0.04 * np.eye(48)
    design = np.concatenate(designs)
    y = np.concatenate([snapshot.y for snapshot in data])
    precision = design.T @ np.linalg.solve(covariance, design) + np.eye(3) / 4
    mean = np.linalg.solve(precision, design.T @ np.linalg.solve(covariance, y))
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    found = np.stack([state.parameters[name] for name in ("mean", "mean.height", "mean.day")], axis=1)
    assert np.abs((found.mean(axis=0) - mean) / sd).max() < 4 / np.sqrt(4000)
    assert found.std(axis=0) / sd == pytest.approx(np.ones(3), abs=0.06)
    joint = covariance + 4 * design @ design.T
    root = np.linalg.cholesky(joint)
    white = np.linalg.solve(root, y)
    truth = -0.5 * white @ white - np.log(np.diag(root)).sum() - 24 * np.log(2 * np.pi)
    assert info.log_evidence == pytest.approx(truth, abs=1e-8)
    there = seqgp.predict(
        jax.random.key(1), model, state, x, t=8.0, context={"height": np.full(6, 10.0), "day": np.full(6, 5.0)}
    )
    assert np.asarray(there.f).mean() == pytest.approx(mean @ [1, 10, 5], abs=0.6)


@pytest.mark.parametrize("gap", [False, True])
def test_a_normal_prior_may_have_arrays_for_its_parameters(gap):
    """Its standard deviation is then an argument of what is compiled, and no number."""
    y = [0.3, np.nan if gap else 1.0]
    data = [seqgp.Snapshot(float(t), np.array([[0.0], [1.0]]), y) for t in range(2)]
    found = []
    for kind in (float, np.array):
        model = seqgp.Model(
            kernel=seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(0.5), 0.5),
            mean=dist.Normal(kind(0.5), kind(2.0)),
            likelihood=seqgp.likelihoods.Gaussian(0.2),
        )
        state, info = sampled(seqgp.OnlineSampler(model, particles=16, draws=50), data)
        prediction = seqgp.predict(jax.random.key(1), model, state, data[0].x)
        found.append((info.log_evidence, np.asarray(state.latent), np.asarray(prediction.f)))
    for number, array in zip(*found):
        np.testing.assert_allclose(array, number, rtol=1e-10, atol=1e-10)
