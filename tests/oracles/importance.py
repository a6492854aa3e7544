"""Unknown parameters: importance sampling over ``z``, each parameter a quantile of its prior at ``Phi(z)``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import expit, logsumexp

ROUNDS = (600, 1000)  # in which the proposal is found
DF = 5.0
FROM_PRIOR = 0.1


class Weighted(NamedTuple):
    """Values of ``z (count, d)`` with weights, the log evidence, its standard error, and the effective number."""

    z: np.ndarray
    weights: np.ndarray
    log_evidence: float
    error: float
    effective: float


def value(prior, z):
    """The parameter at ``z ~ N(0, 1)``, from ``(name, *arguments)``."""
    name, *given = prior
    if name == "sigmoid":  # low, high, loc, scale
        low, high, loc, scale = given
        return low + (high - low) * expit(loc + scale * np.asarray(z))
    if name == "lognormal":
        return np.exp(given[0] + given[1] * np.asarray(z))
    if name == "normal":
        return given[0] + given[1] * np.asarray(z)
    share = stats.norm.cdf(z)
    if name == "uniform":
        return given[0] + (given[1] - given[0]) * share
    if name == "gamma":  # concentration, rate
        return stats.gamma.ppf(share, given[0], scale=1 / given[1])
    if name == "halfnormal":
        return stats.halfnorm.ppf(share, scale=given[0])
    raise ValueError(name)


def posterior(dimension, log_evidence_at, rng, count=2500):
    """The posterior of ``z ~ N(0, I)`` under ``exp(log_evidence_at(z))``, with an adapted proposal."""
    z, proposal = rng.normal(size=(ROUNDS[0], dimension)), None
    for size in (*ROUNDS[1:], count, None):
        log_prior = stats.norm.logpdf(z).sum(1)
        log_proposal = log_prior
        if proposal is not None:
            guided = np.log1p(-FROM_PRIOR) + proposal.logpdf(z)
            log_proposal = np.logaddexp(np.log(FROM_PRIOR) + log_prior, guided)
        log = np.array([log_evidence_at(one) for one in z]) + log_prior - log_proposal
        log = np.where(np.isnan(log), -np.inf, log)
        weights = np.exp(log - logsumexp(log))
        effective = 1 / (weights**2).sum()
        if size is None:
            break
        tempered = weights if effective > 20 * dimension else np.exp(0.3 * (log - log.max()))
        spread = np.cov(z.T, ddof=0, aweights=tempered) + 1e-6 * np.eye(dimension)
        proposal = stats.multivariate_t(np.average(z, 0, tempered), 1.3 * spread, DF)
        z = proposal.rvs(size, random_state=rng).reshape(size, dimension)
        z = np.where((rng.random(size) < FROM_PRIOR)[:, None], rng.normal(size=z.shape), z)
    error = np.sqrt(max(1 / effective - 1 / len(z), 0.0))
    return Weighted(z, weights, float(logsumexp(log) - np.log(len(z))), float(error), float(effective))
