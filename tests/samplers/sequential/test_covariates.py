"""Covariates in the mean: the posterior of their weights in closed form, and predictions that need them."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.reference import CollapsedSampler

RNG = np.random.default_rng(2)
N, NOISE, DRAWS = 12, 0.3, 1000
X, HEIGHT = RNG.uniform(-1, 1, (N, 1)), RNG.normal(size=N)
Y = 1.0 + 0.8 * HEIGHT - 0.5 * X[:, 0] + 0.4 * RNG.normal(size=N)
Y[4] = np.nan
SNAPSHOT = seqgp.Snapshot(0.0, X, Y, context={"height": HEIGHT})
MODEL = seqgp.Model(
    kernel=seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.SquaredExponential(0.4), scale=0.5),
    mean=seqgp.means.Linear(
        ["height", seqgp.means.Feature(lambda t, x: x[:, 0], "east")],
        weights=dist.Normal(0.0, 1.0),
        intercept=dist.Normal(0.5, 2.0),
    ),
    likelihood=seqgp.likelihoods.Gaussian(NOISE),
)
NAMES = ["mean", "mean.height", "mean.east"]


def exact():
    """Generalised least squares with a Gaussian prior."""
    design = np.column_stack([np.ones(N), HEIGHT, X[:, 0]])
    seen = ~np.isnan(Y)
    prior_mean, prior_precision = np.array([0.5, 0.0, 0.0]), np.diag([1 / 4.0, 1.0, 1.0])
    covariance = 0.25 * (np.exp(-0.5 * (X - X.T) ** 2 / 0.16) + 1e-8 * np.eye(N)) + NOISE**2 * np.eye(N)
    weight = np.linalg.inv(covariance[np.ix_(seen, seen)])
    precision = prior_precision + design[seen].T @ weight @ design[seen]
    mean = np.linalg.solve(precision, prior_precision @ prior_mean + design[seen].T @ weight @ Y[seen])
    return mean, np.linalg.inv(precision)


def scores(state, info):
    """z-scores of the means, by the number of effective draws, and the ratios of the sds."""
    draws = np.stack([np.asarray(state.parameters[name]) for name in NAMES], axis=1)
    mean, covariance = exact()
    sd = np.sqrt(np.diag(covariance))
    effective = min(info.ess.values()) if isinstance(info.ess, dict) else 200
    return (draws.mean(0) - mean) / sd * np.sqrt(effective), draws.std(0) / sd


@pytest.mark.parametrize("updates", ["informed", "plain"])
def test_weights_have_their_posterior(updates):
    """Three means within 4.5 standard errors, three sds within a fifth: false alarms below one in 10,000."""
    sampler = seqgp.SequentialSampler(MODEL, draws=DRAWS, chains=4, updates=updates)
    state, info = sampler.init(jax.random.key(0), SNAPSHOT)
    score, ratio = scores(state, info)
    assert np.abs(score).max() < 4.5
    assert np.abs(ratio - 1).max() < 0.2


def test_the_collapsed_sampler_agrees():
    state, info = CollapsedSampler(MODEL, draws=DRAWS).sample(jax.random.key(1), SNAPSHOT)
    score, ratio = scores(state, info)
    assert np.abs(score).max() < 4.5
    assert np.abs(ratio - 1).max() < 0.2


def test_a_step_and_a_prediction_with_covariates():
    """Far from all data the level is the regression alone; without its covariates it is refused by name."""
    sampler = seqgp.SequentialSampler(MODEL, draws=200, chains=2)
    state, _ = sampler.init(jax.random.key(0), SNAPSHOT)
    state, _ = sampler.step(jax.random.key(1), state, seqgp.Snapshot(0.5, X, Y, context={"height": HEIGHT}))
    far, height = np.array([[50.0], [50.0]]), np.array([0.0, 2.0])
    prediction = seqgp.predict(jax.random.key(2), MODEL, state, far, context={"height": height})
    difference = np.asarray(prediction.f)[:, 1] - np.asarray(prediction.f)[:, 0]
    expected = 2.0 * np.asarray(state.parameters["mean.height"])
    assert abs(np.mean(difference - expected)) < 0.01  # the two latents are the same one, but for the jitter
    assert np.isfinite(prediction.log_score(np.array([1.0, 2.0])))
    with pytest.raises(seqgp.DataError, match="covariate 'height' is missing"):
        seqgp.predict(jax.random.key(2), MODEL, state, far)


def test_knots_say_that_they_do_not_know_the_covariates():
    sampler = seqgp.SequentialSampler(MODEL, draws=10, chains=1, latent=seqgp.Knots(8))
    with pytest.raises(seqgp.ModelError, match="covariates is known at the data, not at the knots"):
        sampler.init(jax.random.key(0), SNAPSHOT)


def test_an_intercept_that_is_known_is_carried():
    """Data of a steady weight around a level of 2: the weight is found again, and the level is no part of it."""
    mean = seqgp.means.Linear(["height"], weights=dist.Normal(0.0, 3.0), intercept=2.0)
    kernel = seqgp.Separable(seqgp.kernels.Matern32(1.0), seqgp.kernels.Matern32(1.0), 0.3)
    sampler = seqgp.SequentialSampler(seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.1), mean), draws=100)
    x, height = np.linspace(0, 1, 6)[:, None], np.array([-1.0, 1.0, -0.5, 0.5, 0.0, 2.0])
    data = [seqgp.Snapshot(t, x, 2.0 + 1.5 * height, {"height": height}) for t in (0.0, 0.5, 1.0)]
    run = seqgp.run(sampler, data, key=jax.random.key(0), forecast=False)
    weight = np.asarray(run.state.parameters["mean.height"])
    assert abs(weight.mean() - 1.5) < 0.3
    assert np.abs(np.asarray(run.state.latent).mean(axis=0) - data[-1].y).max() < 0.2
