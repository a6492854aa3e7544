"""A guided particle filter: any likelihood, for short streams of a few stations, whatever the kernel of time.

A particle is the whole path of ``f`` at the data so far. Snapshot by snapshot it is extended from a mixture of the
prior and of a Student's t around the Laplace approximation of the data so far, weighted, and resampled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from .dense import prior
from .likelihoods import log_density

DF = 5.0  # of the proposal's tails
FROM_PRIOR = 0.15  # of the proposals
RUNS = 6  # independent ones, for the error


class Filtered(NamedTuple):
    """Moments of ``f`` at the (observed) data, the log evidence, and standard errors of the means and of that."""

    mean: np.ndarray
    covariance: np.ndarray
    log_evidence: float
    mean_error: np.ndarray
    evidence_error: float


def derivatives(model, data, f):
    """First and second derivative of each datum's log density, by differences."""
    h = 1e-4 * np.maximum(1.0, np.abs(f)) * 0.1
    up, at, down = (log_density(model["likelihood"], f + s, data.y, data.named) for s in (h, 0 * h, -h))
    return (up - down) / (2 * h), (up - 2 * at + down) / h**2


def mode(model, data, mean, factor, start=None):
    """The mode of ``v`` in ``f = mean + factor v``, ``v ~ N(0, I)``, and the precision there, by damped Newton."""
    n = len(mean)
    v = np.zeros(n) if start is None else start

    def value(v):
        log = log_density(model["likelihood"], mean + factor @ v, data.y, data.named)
        return np.where(np.isfinite(log), log, -1e300).sum() - v @ v / 2

    best = value(v)
    for _ in range(300):
        slope, curve = derivatives(model, data, mean + factor @ v)
        bend = np.maximum(-curve, 0.0)
        precision = np.eye(n) + factor.T @ (bend[:, None] * factor)
        step = np.linalg.solve(precision, factor.T @ slope - v)
        size = 1.0
        while size > 1e-12 and not value(v + size * step) > best:
            size /= 2
        if size <= 1e-12:
            break
        v = v + size * step
        gained, best = value(v) - best, value(v)
        if gained < 1e-10:
            break
    _, curve = derivatives(model, data, mean + factor @ v)
    return v, np.eye(n) + factor.T @ (np.maximum(-curve, 0.0)[:, None] * factor)


def one_run(model, data, count, rng):
    """Weighted paths ``(count, n)`` and the log evidence."""
    mean, covariance = (part.astype(float) for part in prior(model, data))
    factor = np.linalg.cholesky(covariance + 1e-12 * np.diag(np.diag(covariance)))
    v, log_weight, log_evidence, start = np.zeros((count, 0)), np.zeros(count), 0.0, None
    for t in np.unique(data.t):
        until, new = np.flatnonzero(data.t <= t), np.flatnonzero(data.t == t)
        seen, k, before = data.kept(until), len(new), len(until) - len(new)
        start = None if start is None else np.concatenate([start, np.zeros(k)])
        start, precision = mode(model, seen, mean[until], factor[np.ix_(until, until)], start)
        inner, cross = precision[before:, before:], precision[before:, :before]
        middle = start[before:] - np.linalg.solve(inner, cross @ (v - start[:before]).T).T
        root = np.linalg.inv(np.linalg.cholesky(inner)).T
        guided = stats.multivariate_t(np.zeros(k), root @ root.T, DF)
        drawn = middle + guided.rvs(count, random_state=rng).reshape(count, k)
        fresh = np.where((rng.random(count) < FROM_PRIOR)[:, None], rng.normal(size=(count, k)), drawn)
        log_prior = stats.norm.logpdf(fresh).sum(1)
        log_guided = np.atleast_1d(guided.logpdf(fresh - middle))
        log_proposal = np.logaddexp(np.log(FROM_PRIOR) + log_prior, np.log1p(-FROM_PRIOR) + log_guided)
        v = np.concatenate([v, fresh], 1)
        f = mean[new] + v @ factor[np.ix_(new, until)].T
        now = data.kept(new)
        log_weight = log_weight + log_prior - log_proposal
        log_weight = log_weight + log_density(model["likelihood"], f, now.y, now.named).sum(1)
        log_weight = np.where(np.isnan(log_weight), -np.inf, log_weight)
        log_evidence += logsumexp(log_weight) - np.log(count)
        weights = np.exp(log_weight - logsumexp(log_weight))
        if 1 / (weights**2).sum() < count / 2 and t < data.t.max():
            places = (np.arange(count) + rng.random()) / count
            v, weights = v[np.searchsorted(np.cumsum(weights), places).clip(0, count - 1)], np.full(count, 1 / count)
        log_weight = np.log(np.maximum(weights, 1e-300) * count)
    return mean + v @ factor.T, weights, log_evidence


def run(model, data, rng, count=4000):
    """Several runs, averaged by their evidences, and how far they differ. The data are in the order of time."""
    done = [one_run(model, data, count, rng) for _ in range(RUNS)]
    logs = np.array([log for _, _, log in done])
    share = np.exp(logs - logsumexp(logs))
    means = np.array([weights @ f for f, weights, _ in done])
    mean = share @ means
    spreads = [(f - mean).T @ (weights[:, None] * (f - mean)) for f, weights, _ in done]
    covariance = np.einsum("r,rij->ij", share, np.array(spreads))
    error, evidence_error = means.std(0, ddof=1) / np.sqrt(RUNS), float(logs.std(ddof=1) / np.sqrt(RUNS))
    return Filtered(mean, covariance, float(logsumexp(logs) - np.log(RUNS)), error, evidence_error)
