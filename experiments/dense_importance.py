"""The evidence of a whole stream at one value of the parameters, by dense algebra and importance sampling in NumPy.

All latent values are one vector ``g ~ N(0, K)`` with ``K`` the product of time and space. EP on the whole vector gives
a Gaussian ``q(g) ∝ N(g; 0, K) Π exp(−½ tau g² + nu g)``; independent draws of it, weighted by likelihood over site, are
an unbiased estimate of the evidence, whatever the sites. No filter, no resampling, no code of seqgp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import logsumexp

NODES, WEIGHTS = (part.copy() for part in np.polynomial.hermite_e.hermegauss(48))
LEAST_PRECISION = 1e-8  # of a site: draws divide by it
CHUNK = 256  # draws at once

LogDensity = Callable[[np.ndarray], np.ndarray]  # of all data ``(T, N)`` at many latents ``(k, T, N)``


class Sites(NamedTuple):
    """Precision and pull of each datum, ``(T N,)``."""

    tau: np.ndarray
    nu: np.ndarray


class Posterior(NamedTuple):
    """The Gaussian of prior and sites."""

    root: np.ndarray  # of B = I + √tau K √tau
    half: np.ndarray  # root⁻¹ √tau K
    mean: np.ndarray
    variance: np.ndarray
    log_normaliser: float


def posterior(prior: np.ndarray, sites: Sites) -> Posterior:
    """By one Cholesky factor of all data."""
    scale = np.sqrt(sites.tau)
    inner = scale[:, None] * prior * scale[None, :]
    inner[np.diag_indices_from(inner)] += 1.0
    root = cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
    half = solve_triangular(root, scale[:, None] * prior, lower=True, check_finite=False)
    mean = prior @ sites.nu - half.T @ (half @ sites.nu)
    variance = np.diagonal(prior) - np.einsum("ij,ij->j", half, half)
    return Posterior(root, half, mean, variance, 0.5 * sites.nu @ mean - np.log(np.diagonal(root)).sum())


def expectation_propagation(
    prior: np.ndarray, log_density: LogDensity, shape: tuple[int, int], sites: Sites, iterations: int
) -> Sites:
    """All sites at once, damped."""
    for _ in range(iterations):
        now = posterior(prior, sites)
        precision = np.maximum(1 / now.variance - sites.tau, 1e-6)
        cavity = (now.mean / now.variance - sites.nu) / precision
        f = cavity + NODES[:, None] / np.sqrt(precision)
        logs = log_density(f.reshape(-1, *shape)).reshape(f.shape) + np.log(WEIGHTS)[:, None]
        mass = np.exp(logs - logsumexp(logs, axis=0))
        mean = (mass * f).sum(0)
        variance = (mass * (f - mean) ** 2).sum(0)
        tau = np.maximum(1 / variance - precision, LEAST_PRECISION)
        nu = mean * tau + (mean - cavity) * precision
        sites = Sites(0.2 * sites.tau + 0.8 * tau, 0.2 * sites.nu + 0.8 * nu)
    return sites


class Estimate(NamedTuple):
    """Of the log evidence."""

    log_evidence: float
    variance: float  # of it


def estimate(
    rng: np.random.Generator,
    time: np.ndarray,
    space: np.ndarray,
    log_density: LogDensity,
    sites: Sites,
    draws: int,
) -> Estimate:
    """``log p(y)`` from independent draws.

    Args:
        rng: random numbers.
        time: the correlation ``(T, T)``.
        space: the covariance ``(N, N)``.
        log_density: of the data.
        sites: of all data, any; those of EP give little variance.
        draws: how many.
    """
    shape, logs = (len(time), len(space)), []
    now = posterior(np.kron(time, space), sites)
    time_root, space_root = (np.linalg.cholesky(k + 1e-10 * np.eye(len(k))) for k in (time, space))
    scale = np.sqrt(sites.tau)[:, None]
    for start in range(0, draws, CHUNK):
        count = min(CHUNK, draws - start)
        free = np.einsum("ab,kbn,mn->kam", time_root, rng.standard_normal((count, *shape)), space_root)
        free = free.reshape(count, -1).T
        gap = sites.nu[:, None] / scale - scale * free - rng.standard_normal(free.shape)
        g = (free + now.half.T @ solve_triangular(now.root, gap, lower=True, check_finite=False)).T
        left = 0.5 * sites.tau * g**2 - sites.nu * g
        logs.append((log_density(g.reshape(-1, *shape)) + left.reshape(-1, *shape)).sum((1, 2)))
    each = np.concatenate(logs)
    weights = np.exp(each - logsumexp(each))
    return Estimate(
        now.log_normaliser + np.logaddexp.reduce(each) - np.log(draws), float((weights**2).sum() - 1 / draws)
    )
