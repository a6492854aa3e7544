"""The correction by paths for ``seqgp.Delayed``, by dense algebra: snapshots far apart, and closer than delays."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import multivariate_normal

import seqgp
from dense_delay import matern
from oracles.sites import sites_at_centre
from seqgp import kernels
from seqgp.runtime.engine import compiled
from seqgp.samplers.online import exact
from seqgp.samplers.online.filters import Filters, filter_of
from seqgp.samplers.online.history import build_timeline
from seqgp.samplers.online.predictive import predictive_of
from seqgp.statespace.dense import DenseFilter
from seqgp.statespace.filter_history import observed_history
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.site_filter import site_marginals

TIMES = np.array([0.0, 0.11, 0.29, 0.40, 0.85])
CASE = [(2, 0.6, 6.0, 1.0, (0.4, -0.2)), (1, 0.5, 0.6, 0.3, (0.0, 0.0))]  # order, time, space, scale, slowness
MATERNS = {1: kernels.Matern12, 2: kernels.Matern32}
X = np.array([[0.1, 0.4], [1.1, 1.6], [2.5, 0.0]])
NEW = np.array([[0.5, 0.5], [3.0, -1.0]])
SPACINGS = pytest.mark.parametrize("times", [10 * TIMES, TIMES], ids=["delayed", "delayed, windowed"])


def model(likelihood=None):
    parts = []
    for order, time, space, scale, slowness in CASE:
        term = seqgp.Separable(MATERNS[order](time), kernels.Matern12(space), scale)
        parts.append(seqgp.Delayed(term, slowness=list(slowness)) if any(slowness) else term)
    return seqgp.Model(sum(parts), likelihood or seqgp.likelihoods.Poisson())


def covariance(t, x, other_t, other_x):
    total = 0.0
    for order, time, space, scale, slowness in CASE:
        local = (t[:, None] - other_t) - (x[:, None] - other_x) @ np.array(slowness)
        total = total + scale**2 * matern(order, local / time) * matern(
            1, np.linalg.norm(x[:, None] - other_x, axis=-1) / space
        )
    return total


def data(times):
    """Counts; a gap, and the station with the largest delay joins late."""
    rng, snapshots = np.random.default_rng(2), []
    for k, t in enumerate(times):
        x = X if k >= 2 else X[:-1]
        y = rng.poisson(1.5, len(x)).astype(float)
        y[0] = np.nan if k == 1 else y[0]
        snapshots.append(seqgp.Snapshot(t, x, y))
    return snapshots


def laid(times, name):
    snapshots = data(times)
    history = build_timeline(StateSpaceModel(model()), "auto", snapshots, (None,) * len(snapshots))
    assert history.filter.name == name
    shared, _ = exact.shared_history(history, np.zeros(0))
    t = np.concatenate([np.full(len(s.x), s.t) for s in snapshots])
    x, y = np.concatenate([s.x for s in snapshots]), np.concatenate([s.y for s in snapshots])
    return history, shared, t[~np.isnan(y)], x[~np.isnan(y)], y[~np.isnan(y)]


def normaliser(filter, observations, length, sites):
    history, _ = observed_history(filter, filter.matrices(np.zeros(0)), observations, length)
    return site_marginals(history.prior, history.operator, sites).log_normaliser


def predict_f(filter, query, matrices, state):
    return filter.predict_f(matrices, state, query)


@SPACINGS
def test_sites_evidence_and_state_are_those_of_the_kernel(times, request):
    """The Gaussian of the sites to rounding and the floor; the evidence of the counts within four standard errors."""
    history, shared, t, x, y = laid(times, request.node.callspec.id)
    seen = shared.observations.seen
    filters, sites = exact.exact_filters(history, shared, np.zeros((1, 0))), sites_at_centre(shared)
    tau, nu = (part[seen] for part in sites)
    cov = covariance(t, x, t, x)
    precise = cov + np.diag(1 / tau)
    normal = multivariate_normal(np.zeros(len(y)), precise).logpdf(nu / tau)
    truth = normal + 0.5 * np.sum(nu**2 / tau - np.log(tau / (2 * np.pi)))
    assert float(compiled(normaliser, *shared[:3], sites)[0]()) == pytest.approx(truth, abs=1e-6)
    matrices, state = filter_of(filters, 0, history.filter)
    for ahead in (0.0, 0.05):
        new = np.full(len(NEW), times[-1] + ahead)
        query = predictive_of(history, filters, np.zeros(1, int), np.zeros((1, 0)), NEW, float(new[0]), None).query
        latent = compiled(predict_f, history.filter, query, matrices, state)[0]()
        cross = covariance(new, NEW, t, x)
        np.testing.assert_allclose(latent.mean, cross @ np.linalg.solve(precise, nu / tau), rtol=0, atol=1e-8)
        left = covariance(new, NEW, new, NEW) - cross @ np.linalg.solve(precise, cross.T)
        np.testing.assert_allclose(latent.covariance, left, rtol=0, atol=1e-8)
    found = exact.evaluate(history, shared, np.zeros((128, 0)), 16, np.random.default_rng(0))
    estimates = found.log_evidence + found.log_increment
    evidence, error = by_importance(cov, y, tau, nu)
    error = np.hypot(error, estimates.std() / np.sqrt(128))
    assert error < 0.02
    assert abs(logsumexp(estimates) - np.log(128) - evidence) < 4 * error


def by_importance(cov, y, tau, nu, count=200_000):
    """``log p(y)`` of the counts and its error, by draws of the Gaussian of the sites."""
    posterior = np.linalg.inv(np.linalg.inv(cov) + np.diag(tau))
    proposal = multivariate_normal(posterior @ nu, 1.2 * posterior)
    f = proposal.rvs(count, random_state=np.random.default_rng(2))
    logs = multivariate_normal(np.zeros(len(y)), cov).logpdf(f) - proposal.logpdf(f)
    logs = logs + (y * f - np.exp(f) - gammaln(y + 1)).sum(1)
    weights = np.exp(logs - logsumexp(logs))
    return logsumexp(logs) - np.log(count), np.sqrt((weights**2).sum() - 1 / count)


def test_paths_that_know_no_delay_are_found_out(monkeypatch):
    monkeypatch.setattr(exact, "path_filter", lambda h: DenseFilter(h.ssm, h.filter.x, h.filter.mask))
    history, shared, t, x, y = laid(TIMES, "delayed, windowed")
    tau, nu = (np.asarray(part)[shared.observations.seen] for part in shared.sites)
    found = exact.evaluate(history, shared, np.zeros((128, 0)), 16, np.random.default_rng(0))
    estimates = found.log_evidence + found.log_increment
    evidence, error = by_importance(covariance(t, x, t, x), y, tau, nu)
    error = np.hypot(error, estimates.std() / np.sqrt(128))
    assert abs(logsumexp(estimates) - np.log(128) - evidence) > 10 * error


@SPACINGS
def test_a_run_is_corrected_and_its_filters_come_back_bit_for_bit(times, request):
    term = seqgp.Separable(kernels.Matern12(dist.LogNormal(0.4, 0.5)), kernels.Matern12(2.0), 1.0)
    delayed = seqgp.Model(seqgp.Delayed(term, slowness=[0.4, -0.2]), seqgp.likelihoods.Poisson())
    sampler = seqgp.OnlineSampler(delayed, particles=16, draws=8, paths=4)
    snapshots = data(times)
    state, info = sampler.init(jax.random.key(0), snapshots[0])
    for i, snapshot in enumerate(snapshots[1:], start=1):
        state, info = sampler.step(jax.random.key(i), state, snapshot)
    assert info.settings["filter"] == request.node.callspec.id
    assert info.exact.corrected
    assert info.exact.step == len(times)
    packed = state._replace(live=None)
    again = packed.revived(delayed).filters
    assert isinstance(again, Filters)
    for a, b in zip(jax.tree.leaves(state.live.filters.groups), jax.tree.leaves(again.groups)):
        np.testing.assert_array_equal(a, b)
