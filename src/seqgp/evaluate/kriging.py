"""Kriging of one snapshot by itself: exponential covariance, nugget, and the covariates as drift."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.spatial.distance import cdist

SPARE = 3  # data more than columns of the drift that a snapshot must have
LARGEST = 300  # stations that the covariance is fitted to
VALUES = 2000  # … and values, of as many of the latest snapshots as hold them


class Day(NamedTuple):
    """The observed data of one snapshot."""

    x: Float[np.ndarray, "n D"]  # places, among which distances are taken
    y: Float[np.ndarray, " n"]
    drift: Float[np.ndarray, "n p"]  # a column of ones, and the covariates

    @property
    def enough(self) -> bool:
        """Whether the drift can be estimated, and something is left."""
        n, p = self.drift.shape
        return n >= p + SPARE and np.linalg.matrix_rank(self.drift) == p


class Variance(NamedTuple):
    """``sill (exp(−h / length) + nugget 1[h = 0])``."""

    length: float
    nugget: float
    sill: float


def fit_variance(days: Sequence[Day]) -> Variance | None:
    """Restricted maximum likelihood, snapshots taken as independent, over a grid of lengths and nuggets."""
    days = [_thinned(day) for day in days if day.enough]
    kept, values = [], 0
    for day in reversed(days):
        kept.append(day)
        values += len(day.y)
        if values >= VALUES:
            break
    if not kept:
        return None
    distances = [cdist(day.x, day.x) for day in kept]
    apart = np.concatenate([one[one > 0] for one in distances])
    if not len(apart):
        return None
    lengths = np.geomspace(0.5 * np.quantile(apart, 0.02), 5 * apart.max(), 10)
    found = [_profile(kept, distances, a, b) for a in lengths for b in (1e-4, 0.01, 0.05, 0.15, 0.4, 1.0, 3.0)]
    best = min(found, key=lambda one: one[0])[1]
    return best if best.sill > 0 else None


def _thinned(day: Day) -> Day:
    if len(day.y) <= LARGEST:
        return day
    rows = np.linspace(0, len(day.y) - 1, LARGEST).round().astype(int)
    return Day(*(part[rows] for part in day))


def _profile(days: list[Day], distances: list[np.ndarray], length: float, nugget: float) -> tuple[float, Variance]:
    """Minus twice the restricted log likelihood at the best sill, up to a constant, and the variance."""
    squares, freedom, logs = 0.0, 0, 0.0
    for day, distance in zip(days, distances):
        root = cholesky(np.exp(-distance / length) + nugget * np.eye(len(day.y)), lower=True)
        white = solve_triangular(root, np.column_stack([day.drift, day.y]), lower=True)
        q, r = np.linalg.qr(white[:, :-1])
        rest = white[:, -1] - q @ (q.T @ white[:, -1])
        squares += float(rest @ rest)
        freedom += len(day.y) - day.drift.shape[1]
        logs += 2 * float(np.log(np.diag(root)).sum() + np.log(np.abs(np.diag(r))).sum())
    sill = squares / freedom
    return freedom * np.log(max(sill, 1e-300)) + logs, Variance(length, nugget, sill)


def krige(
    day: Day, variance: Variance, x: Float[np.ndarray, "m D"], drift: Float[np.ndarray, "m p"]
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Mean and standard deviation of new data of the snapshot, coefficients of the drift unknown."""
    length, nugget, sill = variance
    root = cholesky(np.exp(-cdist(day.x, day.x) / length) + nugget * np.eye(len(day.y)), lower=True)
    cross = np.exp(-cdist(day.x, x) / length)
    weights = cho_solve((root, True), cross)
    precision = day.drift.T @ cho_solve((root, True), day.drift)
    coefficients = np.linalg.solve(precision, day.drift.T @ cho_solve((root, True), day.y))
    left = drift - weights.T @ day.drift
    mean = drift @ coefficients + weights.T @ (day.y - day.drift @ coefficients)
    unknown = np.einsum("mp,mp->m", left, np.linalg.solve(precision, left.T).T)
    spread = 1 + nugget - np.einsum("nm,nm->m", cross, weights) + unknown
    return mean, np.sqrt(sill * np.maximum(spread, 1e-12))
