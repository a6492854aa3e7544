"""Prediction: the conditional of each draw, in closed form where parameters are known."""

import jax
import numpy as np
import pytest
from scipy import stats

import seqgp
from sequences import KNOWN, MEAN, NOISE, SCALE, SPACE, TIME, covariance, sampler, snapshots

FIRST = snapshots([4], times=[0.0], dimension=2)[0]
NEW = np.random.default_rng(7).uniform(-1, 1, (5, 2))


@pytest.fixture(scope="module")
def state():
    return sampler(KNOWN, draws=2000, updates="informed").init(jax.random.key(0), FIRST)[0]


def conditional(t, jitter=1e-8):
    """Regression on the window's latent, and the covariance that is left."""
    inner = covariance(0.0, FIRST.x, 0.0, FIRST.x) + jitter * SCALE**2 * np.eye(4)
    cross = covariance(t, NEW, 0.0, FIRST.x)
    regression = np.linalg.solve(inner, cross.T).T
    return regression, covariance(t, NEW, t, NEW) - regression @ cross.T


@pytest.mark.parametrize("t", [0.0, 0.8])
def test_the_latent_has_the_moments_of_its_conditional(state, t):
    """``|z| < 4`` for 5 means and 15 covariances of residuals that are independent over draws."""
    regression, left = conditional(t)
    prediction = seqgp.predict(jax.random.key(1), KNOWN, state, NEW, t=t)
    residual = np.asarray(prediction.f) - MEAN - (np.asarray(state.latent) - MEAN) @ regression.T
    n = len(residual)
    first = residual.mean(0) / np.sqrt(np.diag(left) / n)
    spread = np.sqrt((np.outer(np.diag(left), np.diag(left)) + left**2) / n)
    second = (np.cov(residual, rowvar=False) - left) / spread
    assert np.abs(np.append(first, second)).max() < 4
    noise = np.asarray(prediction.y) - np.asarray(prediction.f)
    assert abs(noise.std() / NOISE - 1) < 4 / np.sqrt(2 * noise.size)


def densities(state, t, y):
    regression, left = conditional(t)
    seen = ~np.isnan(y)
    means = MEAN + (np.asarray(state.latent) - MEAN) @ regression.T
    total = (left + NOISE**2 * np.eye(5))[np.ix_(seen, seen)]
    return np.array([stats.multivariate_normal.logpdf(y[seen], mean[seen], total) for mean in means])


@pytest.mark.parametrize("missing", [[], [1, 3]])
def test_the_log_density_of_new_data_has_the_latent_integrated_out(state, missing):
    y = MEAN + np.linspace(-1, 1, 5)
    y[missing] = np.nan
    prediction = seqgp.predict(jax.random.key(1), KNOWN, state, NEW, t=0.8)
    np.testing.assert_allclose(prediction.log_densities(y), densities(state, 0.8, y), atol=1e-6)
    expected = np.log(np.mean(np.exp(densities(state, 0.8, y))))
    assert abs(prediction.log_score(y) - expected) < 1e-6


@pytest.mark.parametrize("nodes", [2, 4])
def test_with_fewer_sites_than_data_the_log_density_is_the_same(nodes):
    """In the sites or in the data: two ways to the same determinant. Four knots, then sixteen, for five data."""
    knots = seqgp.Knots(nodes=(nodes, nodes), domain=[(-1, 1), (-1, 1)])
    held = sampler(KNOWN, latent=knots).init(jax.random.key(0), FIRST)[0]
    y = MEAN + np.array([-1.0, np.nan, 0.2, 0.5, 1.0])
    prediction = seqgp.predict(jax.random.key(1), KNOWN, held, NEW, t=0.8)
    points, weights = held.representation.points, held.representation.interpolate(NEW).weights
    inner = np.exp(-((points[:, None] - points[None]) ** 2).sum(-1) / (2 * SPACE**2))
    ratio = np.exp(-0.8 / TIME)
    seen = ~np.isnan(y)
    total = SCALE**2 * (1 - ratio**2) * weights @ inner @ weights.T + NOISE**2 * np.eye(5)
    means = MEAN + ratio * np.asarray(held.window.f)[:, -1] @ weights.T
    expected = [stats.multivariate_normal.logpdf(y[seen], m[seen], total[np.ix_(seen, seen)]) for m in means]
    np.testing.assert_allclose(prediction.log_densities(y), expected, atol=1e-5)


def test_scores_are_those_of_the_draws(state):
    prediction = seqgp.predict(jax.random.key(1), KNOWN, state, NEW, t=0.8)
    y = np.array([0.1, np.nan, 0.5, -0.2, 9.0])
    draws, seen = np.asarray(prediction.y)[:, ~np.isnan(y)], y[~np.isnan(y)]
    n = len(draws)
    pairs = [np.abs(column[:, None] - column[None]).sum() / (n * (n - 1)) for column in draws.T]
    assert abs(prediction.crps(y) - np.mean(np.abs(draws - seen).mean(0) - 0.5 * np.array(pairs))) < 1e-9
    assert prediction.coverage(y) == 0.75
    assert prediction.pit(y)[-1] > 0.99
    low, high = prediction.interval(0.5)
    inside = (np.asarray(prediction.y) > low) & (np.asarray(prediction.y) < high)
    np.testing.assert_allclose(inside.mean(0), 0.5, atol=0.01)


def test_bad_input(state):
    with pytest.raises(seqgp.DataError, match="expected \\(n, D\\)"):
        seqgp.predict(jax.random.key(0), KNOWN, state, NEW[0])
    with pytest.raises(seqgp.DataError, match="3 columns, but the data have 2"):
        seqgp.predict(jax.random.key(0), KNOWN, state, np.zeros((4, 3)))
    with pytest.raises(seqgp.DataError, match="is before the last t"):
        seqgp.predict(jax.random.key(0), KNOWN, state, NEW, t=-1.0)
    with pytest.raises(seqgp.DataError, match="shape"):
        seqgp.predict(jax.random.key(0), KNOWN, state, NEW).log_score(np.zeros(3))
    with pytest.raises(seqgp.DataError, match=r"^scores: y is not an array of numbers"):
        seqgp.predict(jax.random.key(0), KNOWN, state, NEW).log_score(["a"] * len(NEW))
    with pytest.raises(seqgp.DataError, match=r"^predict: x is not an array of numbers"):
        seqgp.predict(jax.random.key(0), KNOWN, state, [["a", "b"]])
    with pytest.raises(seqgp.DataError, match=r"^predict: t is not an array of numbers"):
        seqgp.predict(jax.random.key(0), KNOWN, state, NEW, t="tomorrow")
    with pytest.raises(seqgp.DataError, match=r"^predict: t = .* is not one number; predict at one time after the oth"):
        seqgp.predict(jax.random.key(0), KNOWN, state, NEW, t=[1.0, 2.0])
    with pytest.raises(seqgp.SamplerError, match=r"^key: expected one random key"):
        seqgp.predict(0, KNOWN, state, NEW)
    with pytest.raises(seqgp.SamplerError, match="expected a state"):
        seqgp.predict(jax.random.key(0), KNOWN, None, NEW)


def test_another_model_is_refused(state):
    longer = seqgp.Model(KNOWN.kernel, KNOWN.likelihood, seqgp.ScaledSigmoid(-1, 1))
    with pytest.raises(seqgp.SamplerError, match=r"another model.*it has 0 parameters, and this one infers 1: mean"):
        seqgp.predict(jax.random.key(0), longer, state, NEW)
    noisier = seqgp.Model(KNOWN.kernel, seqgp.likelihoods.Gaussian(2 * NOISE), KNOWN.mean, KNOWN.jitter)
    with pytest.raises(seqgp.SamplerError, match="predict: the state is of another model; use the model that it was"):
        seqgp.predict(jax.random.key(0), noisier, state, NEW)
