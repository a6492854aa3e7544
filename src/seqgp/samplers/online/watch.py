"""What is done with values of stations that are flagged, and what a run remembers of it.

A flagged value is kept (``robust="flag"``), left out (``"exclude"``) or used with ``DOWNWEIGHT`` times the noise
(``"downweight"``): on the day of the flag, by a second update of the same state, and from then on.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from seqgp.base.errors import SamplerError
from seqgp.base.flags import StationFlag, station_names
from seqgp.base.snapshot import Snapshot
from seqgp.likelihoods.gaussian import INFLATION, inflated_context, nominal_context
from seqgp.model import Model
from seqgp.monitoring.effects import StationWindow
from seqgp.monitoring.monitor import LOOK_BACK, Monitor, mended

ROBUST = ("flag", "exclude", "downweight")
DOWNWEIGHT = 10.0  # times the noise of a datum that is downweighted
FALSE_ALARMS = 0.1  # in 1000 readings of a station
MAX_FALSE_ALARMS = 100.0


class Treatment(NamedTuple):
    """How the filters use the data of a snapshot: factors of the noise, infinite for data that they do not use."""

    factors: Float[np.ndarray, " N"]

    def of(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as the filters see it."""
        out, more = np.isinf(self.factors), np.where(np.isinf(self.factors), 1.0, self.factors)
        context = inflated_context(snapshot.context, more) if (more != 1.0).any() else snapshot.context
        if self.trivial:
            return snapshot
        found = Snapshot(snapshot.t, snapshot.x, np.where(out.reshape(snapshot.y.shape), np.nan, snapshot.y), context)
        vars(found).update(vars(snapshot))  # names of its rows
        return found

    @classmethod
    def used(cls, snapshot: Snapshot) -> Treatment:
        """How a snapshot was used, read off it as the filters see it."""
        y, known = np.asarray(snapshot.y).reshape(-1), snapshot.context
        noise = known[INFLATION] if isinstance(known, Mapping) and INFLATION in known else np.ones(len(y))
        return cls(np.where(np.isnan(y), np.inf, noise))

    @property
    def trivial(self) -> bool:
        """Whether all data are used as they are."""
        return bool((self.factors == 1.0).all())


class Watch(NamedTuple):
    """The monitor, and what the last snapshots were before anything was done with them."""

    monitor: Monitor
    times: Float[np.ndarray, " W"] = np.zeros(0)  # of the last snapshots
    rows: Int[np.ndarray, "W N"] = np.zeros((0, 0), np.int32)  # the station of each of their rows; -1 for none
    held: Float[np.ndarray, "W N"] = np.zeros((0, 0))  # values that were not used as they were; NaN for others
    factors: Float[np.ndarray, " N"] | None = None  # of the last snapshot, where some were not

    def treatment(self, names: Sequence[str], robust: str) -> Treatment:
        """What is done with the rows of a snapshot: stations that are flagged, and wrong readings."""
        factor = {"flag": 1.0, "exclude": np.inf, "downweight": DOWNWEIGHT}[robust]
        flagged = {flag.station for flag in self.monitor.flags}
        return Treatment(np.array([factor if name in flagged else 1.0 for name in names]))

    def with_wrong(self, treatment: Treatment, names: Sequence[str], robust: str) -> Treatment:
        """The same with what was flagged at the last snapshot."""
        wrong = {flag.station for flag in self.monitor.flagged}
        factor = {"flag": 1.0, "exclude": np.inf, "downweight": DOWNWEIGHT}[robust]
        found = [factor if name in wrong else one for name, one in zip(names, treatment.factors)]
        return Treatment(np.array(found))

    def window(self, snapshots: Sequence[Snapshot], names: Sequence[str]) -> StationWindow:
        """The last snapshots as they were reported, the very last one given as it was."""
        place = {float(t): i for i, t in enumerate(self.times)}
        shown, said = [], []
        for one in snapshots[-LOOK_BACK:-1]:
            i = place.get(float(one.t))
            if i is None:
                continue
            n = len(one.x)
            kept = self.held[i, :n]
            y = np.where(np.isnan(kept), one.y.reshape(-1), kept)
            shown.append(Snapshot(one.t, one.x, y, nominal_context(one.context)))
            said.append([self.monitor.names[j] if j >= 0 else "" for j in self.rows[i, :n]])
        return StationWindow([*shown, snapshots[-1]], [*said, list(names)])

    def after(self, monitor: Monitor, names: Sequence[str], snapshot: Snapshot, treatment: Treatment) -> Watch:
        """With one more snapshot."""
        moved = _moved_rows(self, monitor)
        place = {name: i for i, name in enumerate(monitor.names)}
        row = np.array([place.get(name, -1) for name in names], np.int32)
        y = np.where(treatment.factors == 1.0, np.nan, np.asarray(snapshot.y, float).reshape(-1))
        times = np.append(self.times, snapshot.t)[-LOOK_BACK:]
        rows = _stacked(moved, row, -1)[-LOOK_BACK:]
        held = _stacked(self.held, y, np.nan)[-LOOK_BACK:]
        return Watch(monitor, times, rows, held, None if treatment.trivial else treatment.factors)

    def revised(self, late: Sequence[Snapshot], before: Sequence[Snapshot]) -> Watch:
        """With late or corrected snapshots, which are used as they are.

        A station of which all readings since its fault began are corrected or retracted is no longer flagged.

        Args:
            late: these snapshots.
            before: all snapshots before them, as the filters saw them.
        """
        last = before[-1].t
        monitor = mended(
            self.monitor, [flag.station for flag in self.monitor.flagged if self._mends(flag, late, before)]
        )
        place = {name: i for i, name in enumerate(self.monitor.names)}
        found = {float(t): (row, y) for t, row, y in zip(self.times, self.rows, self.held)}
        for one in late:
            names = station_names(one.x, getattr(one, "labels", None))
            row = np.array([place.get(name, -1) for name in names], np.int32)
            found[float(one.t)] = row, np.full(len(names), np.nan)
        rows, held = np.zeros((0, 0), np.int32), np.zeros((0, 0))
        for t in sorted(found):
            rows, held = _stacked(rows, found[t][0], -1), _stacked(held, found[t][1], np.nan)
        replaced = any(one.t == last for one in late)
        times = np.array(sorted(found))[-LOOK_BACK:]
        factors = None if replaced else self.factors
        return Watch(monitor, times, rows[-LOOK_BACK:], held[-LOOK_BACK:], factors)

    def _mends(self, flag: StationFlag, late: Sequence[Snapshot], before: Sequence[Snapshot]) -> bool:
        """Whether late snapshots replace all readings of a station from the beginning of its fault on."""
        number = self.monitor.names.index(flag.station)
        known, given, replaced = {one.t: one for one in before}, {one.t: one for one in late}, 0
        for t, row, held in zip(self.times, self.rows, self.held):
            for i in np.flatnonzero(row == number) if t >= flag.since else ():
                old = np.asarray(known[float(t)].y).reshape(-1)[i] if np.isnan(held[i]) else held[i]
                if np.isnan(old):
                    continue
                if float(t) not in given or flag.station in _reading(given[float(t)], float(old)):
                    return False
                replaced += 1
        return replaced > 0


def _reading(snapshot: Snapshot, value: float) -> set[str]:
    """The stations that read this value."""
    names = station_names(snapshot.x, getattr(snapshot, "labels", None))
    return {name for name, y in zip(names, np.asarray(snapshot.y, float).reshape(-1)) if y == value}


def checked_robust(model: Model, robust: str) -> str:
    """Raise unless the sampler can do that with flagged values."""
    if robust not in ROBUST:
        raise SamplerError(f"OnlineSampler: robust = {robust!r}: expected one of {', '.join(map(repr, ROBUST))}")
    if robust != "flag" and not model.likelihood.conjugate:
        raise SamplerError(
            f"OnlineSampler: robust = {robust!r} needs leave-one-out residuals, which Gaussian data alone have; leave "
            "it out"
        )
    if robust != "flag" and model.kernel.advected:
        raise SamplerError(
            f"OnlineSampler: robust = {robust!r} watches stations, and the inputs of seqgp.Advected are none; leave it "
            "out"
        )
    return robust


def checked_rate(false_alarms: float) -> float:
    """Raise unless it is a rate."""
    if not (isinstance(false_alarms, numbers.Real) and 0 < false_alarms <= MAX_FALSE_ALARMS):
        raise SamplerError(
            f"OnlineSampler: false_alarms = {false_alarms!r} in 1000 readings: expected a number above 0 and at most "
            f"{MAX_FALSE_ALARMS:g}"
        )
    return float(false_alarms)


def _moved_rows(watch: Watch, monitor: Monitor) -> np.ndarray:
    """The rows with the numbers that stations have in another monitor."""
    before = watch.monitor.names
    if monitor.names[: len(before)] == before:
        return watch.rows
    place = {name: i for i, name in enumerate(monitor.names)}
    number = np.array([place.get(name, -1) for name in before] + [-1], np.int32)
    return number[watch.rows]


def _stacked(rows: np.ndarray, row: np.ndarray, fill: float) -> np.ndarray:
    """Rows of different lengths as one array."""
    width = max(rows.shape[1], len(row))
    wide = np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=fill)
    return np.concatenate([wide, np.pad(row, (0, width - len(row)), constant_values=fill)[None]])
