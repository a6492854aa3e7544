"""One to three data of any likelihood: moments and evidence on a grid that is refined around the mass."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from .dense import Posterior, prior
from .likelihoods import log_density
from .particles import mode

NODES = {1: 4001, 2: 401, 3: 81}  # along each dimension; odd, so that the centre is a node
FAR = 34.0  # below the largest log density nothing counts
START = 40.0  # prior standard deviations that the first grid reaches


class Unsure(Exception):
    """The oracle cannot vouch for its own answer here."""


def posterior(model, data):
    """Mean and covariance of ``f`` at the (observed) data, and the log evidence."""
    mean, covariance = (part.astype(float) for part in prior(model, data))
    n = len(mean)
    factor = np.linalg.cholesky(covariance + 1e-13 * np.diag(np.diag(covariance)))

    def joint(v):
        f = mean + v @ factor.T
        return log_density(model["likelihood"], f, data.y, data.named).sum(-1) - (v**2).sum(-1) / 2

    centre, precision = mode(model, data, mean, factor)
    axes = np.linalg.inv(np.linalg.cholesky(precision)).T  # v = centre + axes w: near the mode w is standard normal
    reach = (START + np.abs(centre).max()) * np.abs(np.linalg.inv(axes)).sum(1)
    low, high = -reach, reach
    for _ in range(60):
        grids = [np.linspace(a, b, NODES[n]) for a, b in zip(low, high)]
        w = np.stack(np.meshgrid(*grids, indexing="ij"), -1)
        log = joint(centre + w @ axes.T)
        log = np.where(np.isnan(log), -np.inf, log)
        inside = np.argwhere(log > log.max() - FAR)
        first, last = inside.min(0) - 1, inside.max(0) + 1
        new = [np.interp([i, j], np.arange(len(g)), g) for i, j, g in zip(first, last, grids)]
        shrunk = max((b - a) / (d - c) for (a, b), c, d in zip(new, low, high))
        low, high = np.array([a for a, _ in new]), np.array([b for _, b in new])
        if shrunk > 0.9:
            break
    else:
        raise Unsure("the grid did not settle")
    cell = sum(np.log(g[1] - g[0]) for g in grids) + np.linalg.slogdet(axes)[1]
    fine = logsumexp(log) + cell
    coarse = logsumexp(log[(slice(None, None, 2),) * n]) + cell + n * np.log(2)
    if abs(fine - coarse) > 0.02:  # halving the cells squares the error
        raise Unsure(f"two grids differ by {abs(fine - coarse):.1e}")
    weights = np.exp(log - logsumexp(log)).ravel()
    f = mean + (centre + w @ axes.T).reshape(-1, n) @ factor.T
    middle = weights @ f
    spread = (f - middle).T @ (weights[:, None] * (f - middle))
    return Posterior(middle, spread, float(fine - n / 2 * np.log(2 * np.pi)))
