"""How far a station is off its neighbours: generalised least squares with the model's own covariance.

For one station and a window of snapshots, at one value of the parameters,

    y = mean + f + noise + b h        f ~ N(0, K)

with the data of the station and of those that correlate most with it. ``h`` is the shape of the fault in the station's
own rows: 1 from its beginning on (``level``), the time since then (``drift``), or one reading (``spike``). With
``C = K + diag(noise²)`` and the residuals ``r`` from the mean

    b = h'C⁻¹r / h'C⁻¹h        standard error 1 / √(h'C⁻¹h)        gain in log likelihood ½ b² h'C⁻¹h

The station's own past is in ``C``, so the model cannot explain a fault as local weather that persists.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import cho_factor, cho_solve

from seqgp.base.priors import Parameters
from seqgp.base.snapshot import Snapshot
from seqgp.model import Model
from seqgp.runtime.engine import compiled

POINTS = 600  # of a window, at most
NEIGHBOURS = 15  # at most, and 3 at least
SIZES = 128, 640  # of matrices, each of which is a compilation; larger ones are multiples of the last


class Effect(NamedTuple):
    """A fault of one shape."""

    size: float
    se: float
    gain: float  # in log likelihood
    since: float


class StationWindow(NamedTuple):
    """Snapshots with the names of their rows, and the data as they were reported."""

    snapshots: Sequence[Snapshot]
    names: Sequence[Sequence[str]]

    def last(self, count: int) -> StationWindow:
        """The last few snapshots."""
        return StationWindow(self.snapshots[-count:], self.names[-count:])


class StationFit(NamedTuple):
    """One station and its neighbours in a window: residuals, and the inverse of their covariance applied to shapes."""

    t: Float[np.ndarray, " n"]
    own: Bool[np.ndarray, " n"]
    residual: Float[np.ndarray, " n"]
    factor: Any  # of C
    compile_seconds: float = 0.0

    def level(self, since: float) -> Effect:
        """A shift from a time on."""
        return self._effect(self.own & (self.t >= since), since)

    def drift(self, since: float) -> Effect:
        """A drift from a time on; the size is per unit of time."""
        return self._effect(np.where(self.own, np.maximum(self.t - since, 0.0), 0.0), since)

    def spike(self, at: float, others: Collection[float] = ()) -> Effect:
        """One wrong reading, whatever the station reported at some other times."""
        return self._effect(self.own & (self.t == at), at, [self.own & (self.t == t) for t in others if t != at])

    def spikes(self, times: Sequence[float]) -> Effect:
        """Wrong readings at some times, each of its own size: the gain of all of them."""
        shapes = np.stack([self.own & (self.t == t) for t in times], axis=1).astype(float)
        weighted = cho_solve(self.factor, shapes)
        sizes = np.linalg.solve(shapes.T @ weighted, weighted.T @ self.residual)
        return Effect(np.nan, np.nan, 0.5 * float(sizes @ (weighted.T @ self.residual)), times[0])

    def best_level(self, times: Collection[float]) -> Effect:
        """The shift of the most likely of some beginnings."""
        return max((self.level(since) for since in times), key=lambda one: one.gain)

    def best_drift(self, times: Collection[float]) -> Effect:
        """The drift of the most likely of some beginnings."""
        return max((self.drift(since) for since in times), key=lambda one: one.gain)

    def _effect(self, shape: np.ndarray, since: float, beside: Sequence[np.ndarray] = ()) -> Effect:
        """Of one shape, beside others of any size."""
        if not np.any(shape):
            return Effect(0.0, np.inf, 0.0, since)
        shapes = np.stack([np.asarray(one, float) for one in (shape, *beside) if np.any(one)], axis=1)
        weighted = cho_solve(self.factor, shapes)
        inverse = np.linalg.inv(shapes.T @ weighted)
        size, variance = float(inverse[0] @ (weighted.T @ self.residual)), float(inverse[0, 0])
        return Effect(size, variance**0.5, 0.5 * size**2 / variance, since)


def fit_station(
    model: Model, parameters: Parameters, window: StationWindow, station: str, without: Collection[str] = ()
) -> StationFit | None:
    """A station among its neighbours; ``None`` where it has no data in the window.

    Args:
        model: a model of Gaussian data.
        parameters: all of them, in natural units.
        window: the snapshots.
        station: its name.
        without: stations that are no measure of others.
    """
    rows = [_rows(model, parameters, *pair) for pair in zip(*window)]
    t, x, residual, noise = (np.concatenate([one[i] for one in rows]) for i in range(4))
    names = np.concatenate([np.asarray(one, dtype=str) for one in window.names])
    own, real = names == station, np.isfinite(residual)
    if not (own & real).any():
        return None
    most = int(np.clip(POINTS // max(len(window.snapshots), 1) - 1, 3, NEIGHBOURS))
    near, seconds = _nearest(model, parameters, names, x, real & ~np.isin(names, list(without)), station, most)
    kept = real & (own | np.isin(names, near))
    covariance, more = _covariance(model, parameters, t[kept], x[kept])
    covariance[np.diag_indices(len(covariance))] += noise[kept] ** 2
    return StationFit(t[kept], own[kept], residual[kept], cho_factor(covariance, lower=True), seconds + more)


def natural_means(model: Model, means: dict[str, Any]) -> dict[str, Any]:
    """All parameters in natural units, the inferred ones at their posterior means."""
    known = model.parameters(model.prior_of_z()[0])
    return {name: np.asarray(means.get(name, value)) for name, value in known.items()}


def _rows(model: Model, parameters: Parameters, snapshot: Snapshot, names: Sequence[str]) -> tuple:
    n = len(snapshot.x)
    design = model.mean_function.design(snapshot.t, snapshot.x, snapshot.context)
    mean = np.asarray(design) @ np.asarray(model.mean_function.coefficients(parameters))
    context = model.likelihood.context_at(snapshot.t, snapshot.context)
    noise = np.broadcast_to(np.asarray(model.likelihood.noise(context, parameters)), (n,))
    y = np.asarray(snapshot.y, float).reshape(-1)
    return np.full(n, snapshot.t), np.asarray(snapshot.x, float), y - mean, noise


def _nearest(
    model: Model,
    parameters: Parameters,
    names: np.ndarray,
    x: np.ndarray,
    usable: np.ndarray,
    station: str,
    most: int,
) -> tuple[list[str], float]:
    """The names of the stations that correlate most with one."""
    others, first = np.unique(names[usable & (names != station)], return_index=True)
    if not len(others):
        return [], 0.0
    places = x[usable & (names != station)][first]
    here = x[names == station][-1:]
    points = np.concatenate([here, places])
    covariance, seconds = _covariance(model, parameters, np.zeros(len(points)), points)
    sd = np.sqrt(np.diagonal(covariance))
    correlation = np.abs(covariance[0, 1:]) / (sd[0] * sd[1:])
    return others[np.argsort(-correlation, kind="stable")[:most]].tolist(), seconds


def _covariance(model: Model, parameters: Parameters, t: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, float]:
    n = len(t)
    more = next((size for size in SIZES if n <= size), -(-n // SIZES[-1]) * SIZES[-1]) - n
    t, x = np.pad(t, (0, more), mode="edge"), np.pad(x, ((0, more), (0, 0)), mode="edge")
    run, seconds = compiled(_dense, model.kernel, parameters, t, x)
    return np.array(run())[:n, :n], seconds


def _dense(kernel, parameters, t, x):
    return kernel.covariance(kernel.prepare(t, x), parameters)
