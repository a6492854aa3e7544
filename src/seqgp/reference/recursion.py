"""The algorithm's own target in closed form: known parameters, Gaussian noise.

This says whether the algorithm is implemented as specified. How good its approximation is, the Kalman filter or the
exact posterior says: it never revisits ``f`` of the window.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from scipy.linalg import cho_factor, cho_solve

from seqgp.base.errors import DataError, SamplerError
from seqgp.base.snapshot import Snapshot
from seqgp.model import Model
from seqgp.reference.kalman import known_parameters, mean_at, noise_at
from seqgp.reference.marginal import Moments


def sequential_target(model: Model, snapshots: Sequence[Snapshot], tau: int = 1) -> list[Moments]:
    """The distribution of ``f`` at each time that the sequential sampler samples from.

    Args:
        model: all parameters known, and a Gaussian likelihood; any kernel.
        snapshots: the data in the order of time; inputs may change, NaN where missing.
        tau: how many past times the latent of the present is conditioned on.
    """
    if tau < 1:
        raise SamplerError(f"tau = {tau} is not a whole number >= 1")
    if not snapshots:
        raise DataError("snapshots: the list is empty, expected at least one seqgp.Snapshot")
    parameters = known_parameters(model, "sequential_target")
    sizes = [len(snapshot.x) for snapshot in snapshots]
    found: list[Moments] = []
    mean, cov = np.zeros(0), np.zeros((0, 0))  # of the window, draw by draw a Gaussian vector
    for t, snapshot in enumerate(snapshots):
        first = max(0, t - tau)
        prior = _prior(model, snapshots[first : t + 1], parameters)
        mu, noise = mean_at(model, snapshot, parameters), noise_at(model, snapshot, parameters)
        mean, cov = _freezing(mean, cov, prior, snapshot.y - mu, noise)
        n = sizes[t]
        found.append(Moments(jnp.asarray(mean[-n:] + mu), jnp.asarray(cov[-n:, -n:])))
        drop = 0 if t + 1 <= tau else sizes[t - tau]
        mean, cov = mean[drop:], cov[drop:, drop:]
    return found


def _prior(model: Model, snapshots: Sequence[Snapshot], parameters) -> np.ndarray:
    """The covariance of window and present, with the model's jitter."""
    times = np.concatenate([np.full(len(s.x), s.t) for s in snapshots])
    between = model.kernel.prepare(jnp.asarray(times), jnp.asarray(np.concatenate([s.x for s in snapshots])))
    matrix = np.asarray(model.kernel.covariance(between, parameters))
    return matrix + model.jitter[0] * float(model.kernel.variance(parameters)) * np.eye(len(matrix))


def _freezing(mean: np.ndarray, cov: np.ndarray, prior: np.ndarray, y: np.ndarray, noise: np.ndarray):
    """Window and present after a step: the present given window and data, the window as it was."""
    forward, q = _forward(prior, len(mean))
    seen, gain, residual = _updated(q, y, noise)
    stay = np.eye(len(q))
    stay[:, seen] -= gain
    a = stay @ forward
    present = a @ mean + gain @ residual
    cross = cov @ a.T
    own = a @ cross + stay @ q
    joint = np.block([[cov, cross], [cross.T, 0.5 * (own + own.T)]])
    return np.concatenate([mean, present]), joint


def _forward(prior: np.ndarray, w: int) -> tuple[np.ndarray, np.ndarray]:
    """The present given a window of ``w`` sites: ``f_t = forward f_w + N(0, q)``."""
    forward = np.linalg.solve(prior[:w, :w], prior[:w, w:]).T
    return forward, prior[w:, w:] - forward @ prior[:w, w:]


def _updated(cov: np.ndarray, y: np.ndarray, noise: np.ndarray):
    """Which sites of the present have data, how they move all of them, and the data ``y`` (without the mean) there."""
    seen = np.flatnonzero(~np.isnan(y))
    residual = y[seen]
    if not len(seen):
        return seen, np.zeros((len(cov), 0)), residual
    factor = cho_factor(cov[np.ix_(seen, seen)] + np.diag(noise[seen] ** 2))
    return seen, cho_solve(factor, cov[seen]).T, residual
