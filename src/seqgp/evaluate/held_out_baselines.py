"""Simple forecasts of held-out data from the data of a run: persistence, AR(1), and kriging of one snapshot."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Float

from seqgp.base.snapshot import Snapshot
from seqgp.evaluate.baselines import FEWEST, Baseline
from seqgp.evaluate.kriging import Day, Variance, fit_variance, krige
from seqgp.kernels.coregionalised import Coregionalised
from seqgp.kernels.spatial import GreatCircle

PERSISTENCE, AUTOREGRESSION, KRIGING = "persistence", "AR(1)", "kriging of the day"
APART = 1e9  # between two outputs, in units of distance: they are no neighbours


class HeldOutBaselines:
    """Forecasts of held-out data that see the data of a run up to a step, and no others.

    At a station of the run *persistence* is its last value. At another place it is the last value of the nearest
    station, and its spread is that of the values of the run's stations about their nearest neighbours'. *AR(1)*
    regresses values on what persistence says, with one slope for all stations. *Kriging of the day* uses the data of
    the same time alone, with the covariates as drift; its covariance is fitted to the snapshots so far, anew each time
    their number doubles.

    Args:
        kernel: of the model, for what the inputs are: places on a sphere, or numbers of outputs, say.
        snapshots: the data of the run, in the order of time; each with one value per input.
    """

    def __init__(self, kernel: object, snapshots: Sequence[Snapshot]):
        self._locations = _Locations(kernel)
        self._snapshots = snapshots
        self._index = {t: i for i, t in enumerate(snapshot.t for snapshot in snapshots)}
        points = list(dict.fromkeys(tuple(row) for snapshot in snapshots for row in snapshot.x.tolist()))
        self._station = {point: m for m, point in enumerate(points)}
        self._at = self._locations(np.array(points))
        self._y = np.full((len(snapshots), len(points)), np.nan)
        for i, snapshot in enumerate(snapshots):
            self._y[i, [self._station[tuple(row)] for row in snapshot.x.tolist()]] = snapshot.y
        self._last = _carried(self._y)
        self._nearest = self._neighbours()
        self._fitted: dict[int, Variance | None] = {}

    def __call__(self, snapshot: Snapshot, origin: int, ahead: int) -> dict[str, Baseline]:
        """The forecasts of held-out data.

        Args:
            snapshot: the held-out data, of which only time, inputs and covariates are used.
            origin: the number, from 0, of the last snapshot of the run that may be used.
            ahead: how many steps that is before the last one up to the time of the data.
        """
        found = {PERSISTENCE: _nothing(len(snapshot.x)), AUTOREGRESSION: _nothing(len(snapshot.x))}
        stations = np.array([self._station.get(tuple(row), -1) for row in snapshot.x.tolist()])
        for known in (True, False):
            rows = (stations >= 0) == known
            if rows.any():
                self._from_one_value(found, snapshot, stations, rows, origin, max(ahead, 1) if known else ahead)
        if ahead == 0:
            found[KRIGING] = self._kriged(snapshot, origin)
        return found

    def _from_one_value(self, found, snapshot: Snapshot, stations, rows, origin: int, lag: int) -> None:
        """Persistence and AR(1) at the stations of the run, or at other places."""
        known = bool(stations[rows][0] >= 0)
        before = self._last[origin, stations[rows]] if known else self._at_nearest(snapshot.x[rows], origin)
        reference = self._last if known else self._last[:, self._nearest]
        new = self._y[lag : origin + 1].ravel()
        old = reference[: max(origin + 1 - lag, 0)].ravel()
        both = ~np.isnan(new) & ~np.isnan(old)
        new, old = new[both], old[both]
        if len(new) < FEWEST:
            return
        spread = float(np.var(old))
        slope = float(np.mean((old - old.mean()) * (new - new.mean()))) / spread if spread > 0 else 0.0
        rest = new - new.mean() - slope * (old - old.mean())
        sizes = np.sqrt(np.mean((new - old) ** 2)), np.sqrt(np.mean(rest**2))
        means = before, new.mean() + slope * (before - old.mean())
        for name, mean, sd in zip((PERSISTENCE, AUTOREGRESSION), means, sizes):
            if sd > 0:
                found[name].mean[rows], found[name].sd[rows] = mean, np.where(np.isnan(mean), np.nan, sd)

    def _at_nearest(self, x: np.ndarray, origin: int) -> np.ndarray:
        seen = np.flatnonzero(~np.isnan(self._last[origin]))
        if not len(seen):
            return np.full(len(x), np.nan)
        apart = np.linalg.norm(self._locations(x)[:, None] - self._at[None, seen], axis=-1)
        return self._last[origin, seen[apart.argmin(axis=1)]]

    def _neighbours(self) -> np.ndarray:
        if len(self._at) < 2:
            return np.zeros(len(self._at), int)
        apart = np.linalg.norm(self._at[:, None] - self._at[None], axis=-1)
        np.fill_diagonal(apart, np.inf)
        return apart.argmin(axis=1)

    def _kriged(self, snapshot: Snapshot, origin: int) -> Baseline:
        here = self._index.get(snapshot.t)
        if here is None or here > origin:
            return _nothing(len(snapshot.x))
        names = _covariates(snapshot) & _covariates(self._snapshots[here])
        day = self._day(here, names)
        if not day.enough:
            names, day = set(), self._day(here, set())
        variance = self._variance(origin, names) if day.enough else None
        if variance is None:
            return _nothing(len(snapshot.x))
        return Baseline(*krige(day, variance, self._locations(snapshot.x), _drift(snapshot, names)))

    def _variance(self, origin: int, names: set[str]) -> Variance | None:
        """Fitted to the first 1, 2, 4, … snapshots, the most of them that ``origin`` allows for."""
        count = 2 ** int(np.log2(origin + 1))
        if count not in self._fitted or self._fitted[count] is None:
            self._fitted[count] = fit_variance([self._day(i, names) for i in range(count)])
        return self._fitted[count]

    def _day(self, number: int, names: set[str]) -> Day:
        snapshot = self._snapshots[number]
        there = names <= _covariates(snapshot)
        seen = ~np.isnan(snapshot.y)
        drift = _drift(snapshot, names if there else set())
        seen &= np.isfinite(drift).all(axis=1)
        return Day(self._locations(snapshot.x)[seen], snapshot.y[seen], drift[seen])


class _Locations:
    """Inputs as points among which distances mean something."""

    def __init__(self, kernel: object):
        def has(kind: type) -> bool:
            parts = jax.tree.leaves(kernel, is_leaf=lambda part: isinstance(part, kind))
            return any(isinstance(part, kind) for part in parts)

        self._outputs, self._sphere = has(Coregionalised), has(GreatCircle)

    def __call__(self, x: Float[np.ndarray, "n D"]) -> np.ndarray:
        if self._outputs:
            x = np.column_stack([APART * x[:, :1], x[:, 1:]])
        if not self._sphere:
            return x
        longitude, latitude = np.deg2rad(x[:, -2]), np.deg2rad(x[:, -1])
        ball = [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)]
        return np.column_stack([x[:, :-2], *ball])


def _covariates(snapshot: Snapshot) -> set[str]:
    """The entries of the context that are a number for each input."""
    context = snapshot.context if isinstance(snapshot.context, dict) else {}
    return {name for name, value in context.items() if np.shape(value) == (len(snapshot.x),)}


def _drift(snapshot: Snapshot, names: set[str]) -> np.ndarray:
    columns = [np.asarray(snapshot.context[name], float) for name in sorted(names)]
    return np.column_stack([np.ones(len(snapshot.x)), *columns])


def _carried(y: Float[np.ndarray, "T M"]) -> Float[np.ndarray, "T M"]:
    """The last value seen at each station, at each time."""
    last = np.maximum.accumulate(np.where(np.isnan(y), -1, np.arange(len(y))[:, None]), axis=0)
    return np.where(last >= 0, np.take_along_axis(y, np.maximum(last, 0), axis=0), np.nan)


def _nothing(n: int) -> Baseline:
    return Baseline(np.full(n, np.nan), np.full(n, np.nan))
