"""Empirical variograms in space and time, and separable Matérn kernels fitted to them."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from seqgp.base.errors import DataError

MATERN = ("Matern12", "Matern32", "Matern52")
STEPS = 24  # of each lengthscale, on a grid of logarithms


class Variogram(NamedTuple):
    """``½ E (y(t + u, x + h) − y(t, x))²`` in classes of distance (the first is 0, the same station) and lags."""

    distance: Float[np.ndarray, " B"]
    lag: Float[np.ndarray, " L"]
    gamma: Float[np.ndarray, "B L"]  # NaN where there are no pairs
    pairs: Float[np.ndarray, "B L"]


class VariogramFit(NamedTuple):
    """``noise² + scale² (1 − k_t(u) k_x(h))``, and the root of its mean squared relative error."""

    time: str
    space: str
    time_lengthscale: float
    space_lengthscale: float
    scale: float
    noise: float
    error: float

    def time_correlation(self, u: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """``k_t``."""
        return matern_correlation(self.time, u / self.time_lengthscale)

    def space_correlation(self, h: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """``k_x``."""
        return matern_correlation(self.space, h / self.space_lengthscale)

    def gamma(self, variogram: Variogram) -> Float[np.ndarray, "B L"]:
        """The candidate in the classes of a variogram; 0 for a datum with itself."""
        product = np.outer(self.space_correlation(variogram.distance), self.time_correlation(variogram.lag))
        away = np.add.outer(variogram.distance, variogram.lag) > 0
        return np.where(away, self.noise**2 + self.scale**2 * (1 - product), 0.0)


def matern_correlation(name: str, r: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """A Matérn kernel at distances over the lengthscale."""
    if name == "Matern12":
        return np.exp(-r)
    if name == "Matern32":
        return (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)
    return (1 + np.sqrt(5) * r + 5 / 3 * r**2) * np.exp(-np.sqrt(5) * r)


def matern_slope(name: str, u: float, lengthscale: float) -> float:
    """Its derivative at ``u``."""
    r = u / lengthscale
    if name == "Matern12":
        slope = -np.exp(-r)
    elif name == "Matern32":
        slope = -3 * r * np.exp(-np.sqrt(3) * r)
    else:
        slope = -5 / 3 * r * (1 + np.sqrt(5) * r) * np.exp(-np.sqrt(5) * r)
    return float(slope / lengthscale)


def empirical_variogram(
    t: Float[np.ndarray, " T"], x: Float[np.ndarray, "M D"], y: Float[np.ndarray, "T M"], lags: int, bins: int
) -> Variogram:
    """Lags are numbers of snapshots, given as their mean time; distances up to half the largest, in equal numbers."""
    lags = min(lags, len(t) - 1)
    distance = np.linalg.norm(x[:, None] - x[None, :], axis=-1)
    apart = distance[distance > 0]
    edges = np.unique(np.quantile(apart[apart <= 0.6 * apart.max()], np.linspace(0, 1, bins + 1)))
    classes = np.where(distance == 0, 0, 1 + np.clip(np.searchsorted(edges, distance) - 1, 0, len(edges) - 2))
    classes = np.where(distance > edges[-1], -1, classes)
    seen, values = (~np.isnan(y)).astype(float), np.nan_to_num(y - np.nanmean(y))
    squares, counts = [], []
    for k in range(lags + 1):
        later, early = slice(k, None), slice(None, len(t) - k)
        counts.append(seen[later].T @ seen[early])
        product = values[later].T @ values[early]
        squares.append((values[later] ** 2).T @ seen[early] + seen[later].T @ values[early] ** 2 - 2 * product)
    lag = np.array([0.0] + [np.mean(t[k:] - t[: len(t) - k]) for k in range(1, lags + 1)])
    found = [
        [(s[classes == b].sum(), n[classes == b].sum()) for s, n in zip(squares, counts)] for b in range(len(edges))
    ]
    total, pairs = np.moveaxis(np.array(found), -1, 0)
    middle = [0.0] + [
        float(distance[classes == b].mean()) if np.any(classes == b) else np.nan for b in range(1, len(edges))
    ]
    return Variogram(np.array(middle), lag, 0.5 * total / np.where(pairs > 0, pairs, np.nan), pairs)


def fit_candidates(variogram: Variogram) -> tuple[VariogramFit, ...]:
    """All pairs of Matérn kernels, the best first: least squares of relative errors, over a grid of lengthscales."""
    away = np.add.outer(variogram.distance, variogram.lag) > 0
    used = away & np.isfinite(variogram.gamma) & (variogram.gamma > 0)
    if used.sum() < 5:
        raise DataError(f"explore: the variogram has {used.sum()} classes with data; 5 are needed, give more snapshots")
    lag, far = variogram.lag[-1], np.nanmax(variogram.distance)
    times = np.geomspace(0.2 * variogram.lag[1], 20 * lag, STEPS)
    spaces = np.geomspace(0.5 * np.nanmin(variogram.distance[1:]), 10 * far, STEPS)
    found = [_fit(variogram, used, time, space, times, spaces) for time, space in itertools.product(MATERN, MATERN)]
    return tuple(sorted(found, key=lambda one: one.error))


def _fit(variogram: Variogram, used, time: str, space: str, times, spaces) -> VariogramFit:
    """Scale² and noise² are linear given the lengthscales, of which a second grid is finer around the first's best."""
    weight = 1.0 / variogram.gamma[used]
    place, lag = (part[used] for part in np.meshgrid(variogram.distance, variogram.lag, indexing="ij"))
    found = (0.0, 0.0, 0.0, 0.0, 0.0)
    for _ in range(2):
        k_t = matern_correlation(time, lag / times[:, None])
        k_x = matern_correlation(space, place / spaces[:, None])
        rise = weight * (1 - k_t[:, None] * k_x[None])  # (times, spaces, classes)
        scale, noise = _nonnegative(rise, weight)
        error = np.mean((scale[..., None] * rise + noise[..., None] * weight - 1) ** 2, axis=-1)
        i, j = np.unravel_index(np.argmin(error), error.shape)
        found = (error[i, j], times[i], spaces[j], scale[i, j], noise[i, j])
        step_t, step_x = times[1] / times[0], spaces[1] / spaces[0]
        times = times[i] * np.geomspace(1 / step_t, step_t, 9)
        spaces = spaces[j] * np.geomspace(1 / step_x, step_x, 9)
    error, length_t, length_x, scale, noise = (float(one) for one in found)
    return VariogramFit(time, space, length_t, length_x, np.sqrt(scale), np.sqrt(noise), np.sqrt(error))


def _nonnegative(a: Float[np.ndarray, "S T K"], b: Float[np.ndarray, " K"]) -> tuple[np.ndarray, np.ndarray]:
    """``p a + q b ≈ 1`` with ``p, q ≥ 0``: inside, or on the better one of the edges."""
    aa, ab, bb, ra, rb = np.sum(a * a, axis=-1), a @ b, b @ b, a.sum(axis=-1), b.sum()
    determinant = aa * bb - ab**2
    safe = np.where(determinant > 1e-12 * aa * bb, determinant, np.inf)
    p, q = (bb * ra - ab * rb) / safe, (aa * rb - ab * ra) / safe
    inside = (p > 0) & (q >= 0)
    alone, only = ra / np.maximum(aa, 1e-300), rb / bb
    first = ra * alone > rb * only  # each edge lowers the sum of squares by so much
    return np.where(inside, p, np.where(first, alone, 0.0)), np.where(inside, q, np.where(first, 0.0, only))
