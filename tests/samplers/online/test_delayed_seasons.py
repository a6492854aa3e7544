"""A delay whose scale has a season is the kernel ``a(t) a(t') k_t(|u − s·h|) k_x(h)``, by dense algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import seqgp
from dense_delay import matern
from seqgp import kernels, likelihoods, means
from seqgp.samplers.online.filters import filter_of, run_filters
from seqgp.samplers.online.history import begin
from seqgp.samplers.online.predictive import predictive_of
from seqgp.statespace.model import StateSpaceModel

NOISE, PERIOD, WEIGHTS, SLOWNESS = 0.3, 7.0, (0.6, -0.4), np.array([0.3, -0.15])


def model():
    season = means.Modulated(1.0, means.harmonics(PERIOD), weights=list(WEIGHTS))
    moving = seqgp.Separable(kernels.Matern32(1.5), kernels.Matern12(2.0), season)
    still = seqgp.Separable(kernels.Matern12(5.0), kernels.Matern12(1.0), 0.7)
    kernel = seqgp.Delayed(moving, slowness=SLOWNESS.tolist()) + still
    return seqgp.Model(kernel, likelihoods.Gaussian(noise=NOISE))


def amplitude(t):
    angle = 2 * np.pi * t / PERIOD
    return np.exp(WEIGHTS[0] * np.cos(angle) + WEIGHTS[1] * np.sin(angle))


def covariance(t, x, other_t, other_x):
    gap, apart = t[:, None] - other_t, np.linalg.norm(x[:, None] - other_x, axis=-1)
    local = gap - (x[:, None] - other_x) @ SLOWNESS
    moving = matern(2, local / 1.5) * matern(1, apart / 2.0) * amplitude(t)[:, None] * amplitude(other_t)
    return moving + 0.49 * matern(1, gap / 5.0) * matern(1, apart)


def data(step):
    rng = np.random.default_rng(4)
    x, snapshots = rng.uniform(0, 2, (5, 2)), []
    for t in np.cumsum(rng.uniform(1.0, 2.0, 6)) * step:
        y = rng.normal(size=5)
        y[rng.uniform(size=5) < 0.25] = np.nan
        snapshots.append(seqgp.Snapshot(float(t), x, y))
    return snapshots


@pytest.mark.parametrize("step, name", [(1.0, "delayed"), (0.2, "delayed, windowed")])
def test_evidence_and_predictions_are_those_of_the_kernel(step, name):
    snapshots = data(step)
    ssm = StateSpaceModel(model())
    history = begin(ssm, "auto", snapshots[0])
    for snapshot in snapshots[1:]:
        history = history.with_snapshot(snapshot)
    assert history.filter.name == name
    filters, increments, _ = run_filters(history, np.zeros((1, 0)), len(snapshots))
    matrices, state = (jax.tree.map(jnp.asarray, part) for part in filter_of(filters, 0))
    t = np.concatenate([np.full(len(s.x), s.t) for s in snapshots])
    x, y = np.concatenate([s.x for s in snapshots]), np.concatenate([s.y for s in snapshots])
    t, x, y = t[~np.isnan(y)], x[~np.isnan(y)], y[~np.isnan(y)]
    whole = covariance(t, x, t, x) + NOISE**2 * np.eye(len(y))
    assert np.isclose(increments.sum(), multivariate_normal(np.zeros(len(y)), whole).logpdf(y), rtol=0, atol=1e-9)
    for where in (snapshots[-1].x, np.array([[0.4, 1.1], [1.9, 0.2]])):
        for ahead in (0.0, 0.1, 2.0):
            now = np.full(len(where), snapshots[-1].t + ahead)
            query = predictive_of(history, filters, np.zeros(1, int), np.zeros((1, 0)), where, now[0], None).query
            found = history.filter.predict_f(matrices, state, query)
            cross = covariance(now, where, t, x)
            np.testing.assert_allclose(found.mean, cross @ np.linalg.solve(whole, y), rtol=0, atol=1e-9)
            left = covariance(now, where, now, where) - cross @ np.linalg.solve(whole, cross.T)
            np.testing.assert_allclose(found.covariance, left, rtol=0, atol=1e-9)
