"""Streams without end: a bounded past.

The data of the last few hundred snapshots are kept. What those before them said about the parameters is remembered as a
quadratic of ``z``, fitted to the log evidences of the cloud at one time, the anchor: the posterior contracts, and on a
small region every smooth function is a quadratic. A new particle's filter begins at its stationary state ``history``
snapshots before the anchor, long enough for that to be forgotten.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

RIDGE = 1e-6


class Memory(NamedTuple):
    """What the data up to the anchor said about the parameters."""

    anchor: int  # the step
    centre: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    coefficients: Float[np.ndarray, " k"]  # of 1, u, and the products of u, where u = (z − centre) / scale
    residual: float  # sd of what the quadratic leaves over, in log evidence

    def log_evidence(self, z: Float[np.ndarray, "S d"]) -> Float[np.ndarray, " S"]:
        """Of all data up to the anchor."""
        return _features((z - self.centre) / self.scale) @ self.coefficients


def remembered(
    anchor: int, z: Float[np.ndarray, "S d"], log_evidence: Float[np.ndarray, " S"], weights: Float[np.ndarray, " S"]
) -> Memory:
    """The quadratic that is nearest to the log evidences of a cloud, where its weights are."""
    alive = np.isfinite(log_evidence)
    z, log_evidence = z[alive], log_evidence[alive]
    weights = weights[alive] / weights[alive].sum()
    centre = weights @ z
    scale = np.sqrt(weights @ (z - centre) ** 2) + 1e-12
    features = _features((z - centre) / scale)
    # Tails count too: new particles are proposed from a distribution that is wider than the cloud.
    root = np.sqrt(weights + 0.1 / len(weights))[:, None]
    top = log_evidence.max()
    penalty = RIDGE * np.eye(features.shape[1])
    gram = (features * root**2).T @ features + penalty
    coefficients = np.linalg.solve(gram, (features * root**2).T @ (log_evidence - top))
    left = log_evidence - top - features @ coefficients
    coefficients[0] += top
    return Memory(anchor, centre, scale, coefficients, float(np.sqrt(weights @ left**2)))


def _features(u: np.ndarray) -> np.ndarray:
    i, j = np.triu_indices(u.shape[1])
    return np.concatenate([np.ones((len(u), 1)), u, u[:, i] * u[:, j]], axis=1)
