"""Predictions point by point: against the joint one, and dense algebra."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp import kernels, likelihoods
from seqgp.evaluate.marginals import marginal_moments
from seqgp.io.lattice import surface_of

RNG = np.random.default_rng(0)
NOISE, TIMES = 0.3, [0.0, 0.7, 1.9]


def network(sites, gaps, mean=0.5):
    """A model of known parameters, and data at stations, some of them missing."""
    x = RNG.uniform(0, 3, (sites, 2))
    model = seqgp.Model(
        seqgp.Separable(kernels.Matern32(1.3), kernels.Matern12(1.0), scale=1.2), likelihoods.Gaussian(NOISE), mean=mean
    )
    y = RNG.normal(size=(len(TIMES), sites))
    y[RNG.random(y.shape) < gaps] = np.nan
    return model, x, [seqgp.Snapshot(t, x, row) for t, row in zip(TIMES, y)], y


def ran(model, snapshots):
    return seqgp.run(seqgp.OnlineSampler(model, particles=16, draws=40), snapshots, jax.random.key(0))


def covariance(t, x, other_t, other_x):
    r = np.sqrt(3) * np.abs(t[:, None] - other_t) / 1.3
    space = np.exp(-np.linalg.norm(x[:, None] - other_x, axis=-1))
    return 1.44 * (1 + r) * np.exp(-r) * space


def dense(x, y, points, later, prior):
    """Mean and variance at points, by conditioning one joint normal distribution; ``prior`` is that of the mean."""
    t, at, data = np.repeat(TIMES, len(x)), np.tile(x, (len(TIMES), 1)), y.reshape(-1)
    seen = ~np.isnan(data)
    t, at, data = t[seen], at[seen], data[seen]
    whole = covariance(t, at, t, at) + NOISE**2 * np.eye(len(t)) + prior[1] ** 2
    cross = covariance(np.full(len(points), later), points, t, at) + prior[1] ** 2
    gain = np.linalg.solve(whole, cross.T)
    return prior[0] + gain.T @ (data - prior[0]), 1.44 + prior[1] ** 2 - (gain.T * cross).sum(axis=1)


@pytest.mark.parametrize(("sites", "gaps", "filter"), [(70, 0.1, "low rank"), (20, 0.0, "rotated"), (10, 0.2, "dense")])
@pytest.mark.parametrize("inferred", [False, True])
def test_moments_are_those_of_dense_algebra(sites, gaps, filter, inferred):
    """In batches with a remainder, ahead in time, with the mean known or integrated out."""
    model, x, snapshots, y = network(sites, gaps, dist.Normal(0.5, 0.8) if inferred else 0.5)
    run = ran(model, snapshots)
    assert run.infos[-1].settings["filter"] == filter
    points = RNG.uniform(-0.5, 3.5, (11, 2))
    mean, variance = marginal_moments(model, run.state, points, 2.4, batch=4)
    exact = dense(x, y, points, 2.4, (0.5, 0.8 if inferred else 0.0))
    np.testing.assert_allclose(mean[0], exact[0], atol=1e-4)
    np.testing.assert_allclose(variance[0], exact[1], rtol=1e-4)


def test_predict_draws_each_point_from_its_marginal():
    """Means and sds of 4000 draws within five standard errors of the joint ones; no correlation given parameters."""
    model, _, snapshots, _ = network(12, 0.0)
    run = seqgp.run(seqgp.OnlineSampler(model, particles=16, draws=4000), snapshots, jax.random.key(0))
    points = np.array([[1.0, 1.0], [1.01, 1.0], [5.0, 5.0]])
    alone = seqgp.predict(jax.random.key(1), model, run.state, points, t=2.4, joint=False)
    joint = seqgp.predict(jax.random.key(2), model, run.state, points, t=2.4)
    for ours, theirs in [(alone.f, joint.f), (alone.y, joint.y)]:
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        sd = theirs.std(axis=0)
        assert np.all(np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 5 * sd * np.sqrt(2 / 4000))
        assert np.all(np.abs(np.log(ours.std(axis=0) / sd)) < 5 / np.sqrt(4000))
    assert abs(np.corrcoef(np.asarray(alone.f)[:, :2].T)[0, 1]) < 5 / np.sqrt(4000)
    assert np.corrcoef(np.asarray(joint.f)[:, :2].T)[0, 1] > 0.9
    assert np.isfinite(alone.log_score(np.zeros(3), pointwise=True)).all()
    with pytest.raises(seqgp.DataError, match=r"joint=False, which has no joint density; use log_score"):
        alone.log_score(np.zeros(3))


def test_what_has_no_marginals_is_named():
    model, _, snapshots, _ = network(5, 0.0)
    state, _ = seqgp.SequentialSampler(model, draws=20).init(jax.random.key(0), snapshots[0])
    with pytest.raises(seqgp.SamplerError, match="joint=False needs the state of an OnlineSampler, got Sequential"):
        seqgp.predict(jax.random.key(0), model, state, np.zeros((3, 2)), joint=False)


def test_a_map_has_the_exact_sd():
    model, x, snapshots, y = network(20, 0.0)
    surface = surface_of(model, ran(model, snapshots).state, [(0.0, 3.0), (0.0, 3.0)], 7)
    points = np.stack(np.meshgrid(*surface.axes, indexing="xy"), axis=-1).reshape(-1, 2)
    mean, variance = dense(x, y, points, TIMES[-1], (0.5, 0.0))
    np.testing.assert_allclose(surface.mean.reshape(-1), mean, atol=1e-6)
    np.testing.assert_allclose(surface.sd.reshape(-1), np.sqrt(variance), rtol=1e-6)
