"""``seqgp.Delayed`` where snapshots come sooner than delays spread: the posterior of its kernel, by dense algebra."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal

import seqgp
from dense_delay import matern
from seqgp import kernels, likelihoods
from seqgp.runtime.engine import compiled
from seqgp.samplers.online.filters import filter_of, run_filters
from seqgp.samplers.online.history import Timeline, _appended, begin, build_timeline
from seqgp.samplers.online.predictive import predictive_of
from seqgp.statespace.model import StateSpaceModel

TIMES = np.array([0.0, 0.11, 0.29, 0.40, 0.85, 0.96])  # delays spread over 0.5 and more
NOISE = 0.3
MATERNS = {1: kernels.Matern12, 2: kernels.Matern32, 3: kernels.Matern52}
SUM = [(2, 1.5, 2.0, 1.0, (0.2, -0.1)), (1, 0.5, 0.6, 0.4, (-0.1, 0.2)), (3, 9.0, 3.0, 1.5, (0.0, 0.0))]


def kernel_of(case):
    parts = []
    for order, time, space, scale, slowness in case:
        term = seqgp.Separable(MATERNS[order](lengthscale=time), kernels.Matern12(lengthscale=space), scale)
        parts.append(seqgp.Delayed(term, slowness=list(slowness)) if any(slowness) else term)
    return sum(parts)


def covariance(case, t, x, other_t, other_x):
    total = 0.0
    for order, time, space, scale, slowness in case:
        local = (t[:, None] - other_t) - (x[:, None] - other_x) @ np.array(slowness)
        distance = np.linalg.norm(x[:, None] - other_x, axis=-1) / space
        total = total + scale**2 * matern(order, local / time) * matern(1, distance)
    return total


def data(times=TIMES, joins=None, m=4):
    """With gaps, one snapshot without any data; the last station joins later, with the largest delay."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0, 2, (m - 1, 2)), [[2.5, 0.0]]])
    snapshots = []
    for k, t in enumerate(times):
        here = x if joins is None or k >= joins else x[:-1]
        y = rng.normal(size=len(here))
        y[rng.uniform(size=len(y)) < 0.3] = np.nan
        snapshots.append(seqgp.Snapshot(t=t, x=here, y=np.full_like(y, np.nan) if k == 2 else y))
    return snapshots


def filtered(model, snapshots, windowed=False):
    """History, filters of one particle, and the log evidence of its snapshots."""
    ssm = StateSpaceModel(model)
    history = begin(ssm, "auto", snapshots[0])
    if windowed:  # as if snapshots had come sooner
        empty = Timeline(ssm, "auto", history.layout._replace(window=3), (), (), (), rebuilt=False)
        history = _appended(empty, snapshots[0], None)
    for snapshot in snapshots[1:]:
        history = history.with_snapshot(snapshot)
    filters, increments, _ = run_filters(history, np.zeros((1, len(ssm.in_particles))), len(snapshots))
    return history, filters, increments[0]


def predict_f(filter, query, matrices, state):
    return filter.predict_f(matrices, state, query)


def f_at(history, filters, x, t):
    query = predictive_of(history, filters, np.zeros(1, int), np.zeros((1, 0)), x, t, None).query
    found = compiled(predict_f, history.filter, query, *filter_of(filters, 0))[0]()
    return np.asarray(found.mean), np.asarray(found.covariance)


def test_evidence_and_posterior_are_those_of_the_kernel():
    """A sum, gaps, irregular times, a station that joins with the largest delay; at the stations and at new places."""
    snapshots = data(joins=3)
    model = seqgp.Model(kernel_of(SUM), likelihoods.Gaussian(noise=NOISE))
    history, filters, increments = filtered(model, snapshots)
    assert history.filter.name == "delayed, windowed"
    assert len(history.segments) == 1
    t = np.concatenate([np.full(len(s.x), s.t) for s in snapshots])
    x, y = np.concatenate([s.x for s in snapshots]), np.concatenate([s.y for s in snapshots])
    t, x, y = t[~np.isnan(y)], x[~np.isnan(y)], y[~np.isnan(y)]
    cov = covariance(SUM, t, x, t, x) + NOISE**2 * np.eye(len(y))
    assert np.isclose(increments.sum(), multivariate_normal(np.zeros(len(y)), cov).logpdf(y), rtol=0, atol=1e-10)
    places = np.random.default_rng(3).uniform(-0.3, 2.3, (4, 2))
    for operator, ahead in ((snapshots[-1].x, 0.0), (snapshots[-1].x, 0.05), (places, 0.0), (places, 1.7)):
        new = np.full(len(operator), TIMES[-1] + ahead)
        cross = covariance(SUM, new, operator, t, x)
        mean, found = f_at(history, filters, operator, new[0])
        np.testing.assert_allclose(mean, cross @ np.linalg.solve(cov, y), rtol=0, atol=1e-10)
        left = covariance(SUM, new, operator, new, operator) - cross @ np.linalg.solve(cov, cross.T)
        np.testing.assert_allclose(found, left, rtol=0, atol=1e-10)


def test_both_forms_agree():
    """Where delays spread over less than the time between snapshots, with and without a window."""
    snapshots = data(times=10 * TIMES)
    model = seqgp.Model(kernel_of(SUM), likelihoods.Gaussian(noise=NOISE), mean=dist.Normal(0.5, 2.0))
    plain, windowed = (filtered(model, snapshots, windowed=one) for one in (False, True))
    assert plain[0].filter.name == "delayed"
    assert windowed[0].filter.name == "delayed, windowed"
    np.testing.assert_allclose(windowed[2], plain[2], rtol=0, atol=1e-10)
    for x, t in ((snapshots[-1].x, 9.6), (np.array([[0.3, 0.4], [1.0, 1.5]]), 9.9)):
        for one, other in zip(f_at(*windowed[:2], x, t), f_at(*plain[:2], x, t)):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("likelihood", [likelihoods.Gaussian(noise=NOISE), likelihoods.Poisson()])
def test_no_slowness_is_the_separable_kernel(likelihood):
    """Counts go through EP as in the dense filter."""
    snapshots = data(times=10 * TIMES)
    if isinstance(likelihood, likelihoods.Poisson):
        snapshots = [seqgp.Snapshot(t=s.t, x=s.x, y=np.round(np.abs(2 * s.y))) for s in snapshots]
    plain = kernel_of([(2, 1.5, 2.0, 1.0, (0.0, 0.0))])
    dense = filtered(seqgp.Model(plain, likelihood), snapshots)
    found = filtered(seqgp.Model(seqgp.Delayed(plain, [0.0, 0.0]), likelihood), snapshots, windowed=True)
    tolerance = 1e-12 if likelihood.conjugate else 1e-9
    np.testing.assert_allclose(found[2], dense[2], rtol=0, atol=tolerance)
    for one, other in zip(*(f_at(*one[:2], np.array([[0.3, 0.4]]), 10.0) for one in (found, dense))):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def test_the_window_is_chosen_when_it_is_needed():
    """From the first snapshot that comes too soon, and longer when more of them do; again the same from the data."""
    model = seqgp.Model(kernel_of(SUM[:1]), likelihoods.Gaussian(noise=NOISE))
    times = np.array([0.0, 2.0, 4.0, 4.2, 6.0, 6.1, 6.2, 6.3])
    snapshots, history = data(times=times), None
    told = []
    for snapshot in snapshots:
        if history is None:
            history = begin(StateSpaceModel(model), "auto", snapshot)
        else:
            history = history.with_snapshot(snapshot)
        told.append((history.layout.window, history.rebuilt))
    assert told == [(0, False)] * 3 + [(3, True), (3, False), (3, False), (3, False), (5, True)]
    again = build_timeline(history.ssm, "auto", snapshots, [None] * len(snapshots))
    assert again.layout.window == 5
    assert again.filter.window == history.filter.window


def test_a_run_goes_on_from_its_store_and_finds_the_slowness(tmp_path):
    """Hourly weather that takes two hours to cross: the interval of 99% holds the slowness and not 0."""
    time, space = kernels.Matern32(lengthscale=4.0), kernels.Matern12(lengthscale=3.0)

    def model(slowness):
        kernel = seqgp.Delayed(seqgp.Separable(time, space, 1.0), slowness=[slowness])
        return seqgp.Model(kernel, likelihoods.Gaussian(noise=0.1))

    x = np.array([[0.0], [0.7], [2.0]])
    design = [seqgp.Snapshot(t=float(k), x=x, y=np.zeros(3)) for k in range(24)]
    rows = np.tile(x, (24, 1))
    t = np.repeat(np.arange(24.0), 3)
    root = np.linalg.cholesky(covariance([(2, 4.0, 3.0, 1.0, (1.0,))], t, rows, t, rows))
    rng = np.random.default_rng(1)
    y = (root @ rng.normal(size=72) + 0.1 * rng.normal(size=72)).reshape(24, 3)
    snapshots = [seqgp.Snapshot(one.t, x, values) for one, values in zip(design, y)]
    sampler = seqgp.OnlineSampler(model(seqgp.ScaledSigmoid(-1.5, 1.5)), particles=16, draws=100)
    whole = seqgp.run(sampler, snapshots, key=jax.random.key(1), progress=False)
    low, high = np.quantile(np.asarray(whole.state.parameters["slowness"]), [0.005, 0.995])
    assert 0 < low < 1.0 < high
    store = tmp_path / "store"
    seqgp.run(sampler, snapshots[:17], key=jax.random.key(1), store=store, progress=False)
    again = seqgp.run(sampler, snapshots, key=jax.random.key(1), store=store, progress=False)
    np.testing.assert_array_equal(np.asarray(again.state.latent), np.asarray(whole.state.latent))
    loo = again.infos[-1].loo
    assert np.isfinite(loo.mean).all()
