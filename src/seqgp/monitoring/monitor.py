"""The monitor of all stations: what it remembers, and one step of it.

The tests of :mod:`seqgp.monitoring.detectors` raise alarms; :mod:`seqgp.monitoring.effects` says how far a station is
off, tells a shift from one wrong reading and from a drift, and releases a station that reads right again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from seqgp.base.flags import StationFlag
from seqgp.model import Model
from seqgp.monitoring import detectors as tests
from seqgp.monitoring.detectors import Detectors, Readings
from seqgp.monitoring.effects import Effect, StationFit, StationWindow, fit_station

LOOK_BACK = 60  # snapshots of a fit, at most
BEFORE = 10  # snapshots before a fault in its fit
RECENT = 10  # readings that decide whether a station reads right again
DECIDED = np.log(20.0)  # difference of log likelihoods at which a shift is told from one wrong reading
PENDING = 10  # snapshots in which that is tried
ECHO = 3  # snapshots in which a wrong reading still shows in the station's next scores: its tests pause
MANY = 3  # wrong readings among so many snapshots that are a scatter
NEAR = 3  # snapshots around the beginning that a test says, among which the fit looks for the best
CALM = 3.5, 2.0  # largest score, and mean square of the scores, of readings that are right
FORGOTTEN = 30, 1000  # snapshots after which a station seen once, or any, is forgotten
POOLED = 50  # scores from which on the scatter of all is judged
EVENT = 1.5  # times the expected scatter of all stations at one time, which is then no fault of one
FEW = 10  # stations whose scatter at one time says nothing


class Monitor(NamedTuple):
    """What is known of ``M`` stations."""

    false_alarms: float  # in 1000 readings of a station
    names: tuple[str, ...] = ()
    detectors: Detectors = tests.no_detectors()
    recent: Float[np.ndarray, "M R"] = np.zeros((0, RECENT))  # scores, the last one last
    moving: Int[np.ndarray, " M"] = np.zeros(0, int)  # readings in a row that differ from the one before
    seen: Int[np.ndarray, " M"] = np.zeros(0, int)  # the number of the last snapshot with the station
    readings: Int[np.ndarray, " M"] = np.zeros(0, int)  # how many
    number: int = 0  # of snapshots
    scale: float = 1.0  # of the scores of all stations: how much they scatter beyond what the model says
    scored: int = 0  # scores behind it
    flags: tuple[StationFlag, ...] = ()  # faults that last
    wrong: tuple[StationFlag, ...] = ()  # wrong readings of late, which may be the beginning of a shift
    spikes: tuple[StationFlag, ...] = ()  # wrong readings of the last snapshot

    @property
    def flagged(self) -> tuple[StationFlag, ...]:
        """All that is flagged at the last snapshot."""
        return (*self.flags, *self.spikes)


class Scores(NamedTuple):
    """Leave-one-out predictions of the rows of a snapshot, and its data."""

    t: float
    names: Sequence[str]
    y: Float[np.ndarray, " N"]
    z: Float[np.ndarray, " N"]
    mean: Float[np.ndarray, " N"]
    sd: Float[np.ndarray, " N"]


class Evidence:
    """What fits are made of, found when one is asked for.

    Args:
        model: a model of Gaussian data.
        parameters: gives all of them, in natural units.
        window: gives the last snapshots as they were reported.
    """

    def __init__(self, model: Model, parameters: Callable[[], dict[str, Any]], window: Callable[[], StationWindow]):
        self._model, self._find_parameters, self._find_window = model, parameters, window
        self.compile_seconds = 0.0

    @functools.cached_property
    def window(self) -> StationWindow:
        """The last snapshots."""
        return self._find_window()

    @functools.cached_property
    def _parameters(self) -> dict[str, Any]:
        return self._find_parameters()

    def fit(self, station: str, since: float, without: Sequence[str]) -> StationFit | None:
        """A station and its neighbours, from some snapshots before a time on."""
        times = np.array([one.t for one in self.window.snapshots[-LOOK_BACK:]])
        count = int((times >= since).sum()) + BEFORE
        return self._fitted(station, min(count, LOOK_BACK), without)

    def fit_now(self, station: str, without: Sequence[str]) -> StationFit | None:
        """A station and its neighbours in the last snapshots alone."""
        return self._fitted(station, RECENT, without)

    def _fitted(self, station: str, count: int, without: Sequence[str]) -> StationFit | None:
        others = [name for name in without if name != station]
        fit = fit_station(self._model, self._parameters, self.window.last(count), station, others)
        self.compile_seconds += 0.0 if fit is None else fit.compile_seconds
        return fit

    def time_of_last(self, count: int) -> float:
        """The time of the first of the last few snapshots."""
        return float(self.window.snapshots[-count:][0].t)

    def around(self, fit: StationFit, since: float) -> list[float]:
        """Times of the station's readings near one."""
        times = np.unique(fit.t[fit.own])
        middle = int(np.searchsorted(times, since))
        return times[max(middle - NEAR, 0) : middle + NEAR + 1].tolist() or [since]


def monitored(monitor: Monitor, scores: Scores, evidence: Evidence) -> Monitor:
    """The monitor after one more snapshot.

    Args:
        monitor: before it.
        scores: of its rows.
        evidence: with the snapshot as the last one.
    """
    monitor = _with_stations(monitor, scores.names)._replace(spikes=(), number=monitor.number + 1)
    now = _on_stations(monitor, scores)
    monitor, now = _scaled(monitor, now)
    echo = evidence.time_of_last(ECHO + 1) if monitor.wrong else 0.0
    monitor = _noted(monitor, now, np.isin(monitor.names, [flag.station for flag in monitor.wrong if flag.at >= echo]))
    monitor = _judged(monitor, now, evidence)
    monitor = _followed(monitor, now, evidence)
    active = np.isin(monitor.names, [flag.station for flag in monitor.flags])
    return _pruned(monitor._replace(detectors=tests.restarted(monitor.detectors, active)))


def mended(monitor: Monitor, stations: Iterable[str]) -> Monitor:
    """Without what is known against stations whose readings were corrected: their tests begin anew."""
    reset = np.isin(monitor.names, list(stations))
    names = {name for name, new in zip(monitor.names, reset) if new}
    return monitor._replace(
        detectors=tests.restarted(monitor.detectors, reset),
        recent=np.where(reset[:, None], np.nan, monitor.recent),
        moving=np.where(reset, 0, monitor.moving),
        flags=tuple(flag for flag in monitor.flags if flag.station not in names),
        wrong=tuple(flag for flag in monitor.wrong if flag.station not in names),
        spikes=tuple(flag for flag in monitor.spikes if flag.station not in names),
    )


def _with_stations(monitor: Monitor, names: Sequence[str]) -> Monitor:
    known = set(monitor.names)
    new = [name for name in names if name not in known]
    if not new:
        return monitor
    k = len(new)
    return monitor._replace(
        names=(*monitor.names, *new),
        detectors=tests.joined(monitor.detectors, k),
        recent=np.concatenate([monitor.recent, np.full((k, RECENT), np.nan)]),
        moving=np.append(monitor.moving, np.zeros(k, int)),
        seen=np.append(monitor.seen, np.zeros(k, int)),
        readings=np.append(monitor.readings, np.zeros(k, int)),
    )


def _on_stations(monitor: Monitor, scores: Scores) -> Readings:
    place = {name: i for i, name in enumerate(monitor.names)}
    index = [place[name] for name in scores.names]
    parts = np.full((4, len(monitor.names)), np.nan)
    parts[:, index] = [scores.y, scores.z, scores.mean, scores.sd]
    return Readings(scores.t, *parts)


def _scaled(monitor: Monitor, now: Readings) -> tuple[Monitor, Readings]:
    """Scores over the scatter that all stations have beyond the model's: of late, or at this time if that is large."""
    z = now.z[~np.isnan(now.z)]
    if not len(z):
        return monitor, now
    here = float(np.median(np.abs(z))) / 0.6745
    pooled = monitor.scale if monitor.scored >= POOLED else 1.0
    event = here if len(z) >= FEW and here > EVENT else 1.0
    share = len(z) / min(monitor.scored + len(z), 20 * len(z))
    scale = monitor.scale + share * (here - monitor.scale)
    return monitor._replace(scale=scale, scored=monitor.scored + len(z)), now._replace(
        z=now.z / max(1.0, pooled, event)
    )


def _noted(monitor: Monitor, now: Readings, paused: Bool[np.ndarray, " M"]) -> Monitor:
    seen = ~np.isnan(now.y)
    differs = seen & (now.y != monitor.detectors.last)
    recent = np.where(
        ~np.isnan(now.z)[:, None], np.concatenate([monitor.recent[:, 1:], now.z[:, None]], axis=1), monitor.recent
    )
    return monitor._replace(
        detectors=tests.after_readings(monitor.detectors, now._replace(z=np.where(paused, np.nan, now.z))),
        recent=recent,
        moving=np.where(seen, np.where(differs, monitor.moving + 1, 0), monitor.moving),
        seen=np.where(seen, monitor.number, monitor.seen),
        readings=monitor.readings + seen,
    )


def _judged(monitor: Monitor, now: Readings, evidence: Evidence) -> Monitor:
    """Alarms of this snapshot become flags."""
    rate, every = monitor.false_alarms, monitor.detectors
    alarm = {kind: tests.alarms(getattr(every, kind), rate) for kind in ("stuck", "level", "drift", "spread")}
    with np.errstate(invalid="ignore"):
        alarm["spike"] = np.abs(now.z) >= tests.spike_bound(rate)
    active = np.isin(monitor.names, [flag.station for flag in monitor.flags])
    flags, spikes, reset = [], [], np.zeros(len(monitor.names), bool)
    without = [flag.station for flag in monitor.flags]
    for i in np.flatnonzero(np.any(list(alarm.values()), axis=0) & ~active & ~np.isnan(now.y)).tolist():
        name, flag = monitor.names[i], None
        if alarm["stuck"][i]:
            flag = StationFlag(name, "stuck", float(tests.beginnings(every.stuck)[i]), now.t, float(now.y[i]), np.nan)
        elif alarm["level"][i] or alarm["drift"][i]:
            kind = "level" if alarm["level"][i] else "drift"
            flag = _shift(evidence, name, float(tests.beginnings(getattr(every, kind))[i]), now.t, without)
            reset[i] = True
        elif alarm["spread"][i] and not alarm["spike"][i]:
            size = float(np.sqrt(np.nanmean(monitor.recent[i] ** 2)))
            flag = StationFlag(name, "spread", float(tests.beginnings(every.spread)[i]), now.t, size, np.nan)
        if flag is not None:
            flags.append(flag)
        elif alarm["spike"][i] and (found := _wrong_reading(monitor, now, i, evidence, without)) is not None:
            spikes.append(found)
    return monitor._replace(
        detectors=tests.restarted(every, reset),
        flags=(*monitor.flags, *flags),
        wrong=(*monitor.wrong, *spikes),
        spikes=tuple(spikes),
    )


def _wrong_reading(
    monitor: Monitor, now: Readings, i: int, evidence: Evidence, without: Sequence[str]
) -> StationFlag | None:
    """One reading that stands out; ``None`` where it stands out from a wrong one before, which the model followed."""
    name, size, se = monitor.names[i], float(now.y[i] - now.mean[i]), float(now.sd[i])
    before = [flag.at for flag in monitor.wrong if flag.station == name]
    if before:
        fit = evidence.fit(name, min(before), without)
        effect = None if fit is None else fit.spike(now.t, before)
        if effect is not None:
            if abs(effect.size) < tests.spike_bound(monitor.false_alarms) * effect.se:
                return None
            size, se = effect.size, effect.se
    return StationFlag(name, "spike", now.t, now.t, size, se)


def _shift(evidence: Evidence, name: str, since: float, t: float, without: Sequence[str]) -> StationFlag | None:
    """A shift or a drift, whichever is likelier; none where one wrong reading is likelier than both."""
    fit = evidence.fit(name, since, without)
    if fit is None:
        return None
    times = evidence.around(fit, since)
    level, drift = fit.best_level(times), fit.best_drift(times)
    spike = max((fit.spike(at) for at in times), key=lambda one: one.gain)
    if spike.gain > max(level.gain, drift.gain) - DECIDED:
        return None
    kind, best = ("level", level) if level.gain >= drift.gain else ("drift", drift)
    return StationFlag(name, kind, best.since, t, best.size, best.se)


def _followed(monitor: Monitor, now: Readings, evidence: Evidence) -> Monitor:
    """What is flagged, with sizes as they are now; without what is over; wrong readings that began a shift."""
    place = {name: i for i, name in enumerate(monitor.names)}
    seen = {name for name, y in zip(monitor.names, now.y) if not np.isnan(y)}
    without = [flag.station for flag in monitor.flags]
    flags: list[StationFlag] = []
    for flag in monitor.flags:
        followed = _current(monitor, flag, place[flag.station], evidence, without) if flag.station in seen else flag
        if followed is not None:
            flags.append(followed)
    oldest = evidence.time_of_last(PENDING) if monitor.wrong else 0.0
    wrong = [flag for flag in monitor.wrong if flag.at >= oldest and flag.station not in without]
    for name in dict.fromkeys(flag.station for flag in wrong if flag.station in seen):
        begun = _begun([flag for flag in wrong if flag.station == name], now.t, evidence, without)
        if begun is not None:
            flags.append(begun)
            without.append(name)
    wrong = tuple(flag for flag in wrong if flag.station not in without)
    spikes = tuple(flag for flag in monitor.spikes if flag.station not in without)
    return monitor._replace(flags=tuple(flags), wrong=wrong, spikes=spikes)


def _begun(wrong: Sequence[StationFlag], t: float, evidence: Evidence, without: Sequence[str]) -> StationFlag | None:
    """The shift that wrong readings of a station began, or the scatter that they are; ``None`` while they are alone."""
    name, times = wrong[0].station, [flag.at for flag in wrong]
    fit = evidence.fit(name, times[0], without) if times[0] < t else None
    if fit is None:
        return None
    levels = [fit.level(since) for since in times if since < t]
    best = max(levels, key=lambda one: one.gain)
    alone = fit.spikes(times).gain - DECIDED * (len(times) - 1)  # each size of its own costs
    if best.gain - alone >= DECIDED:
        return StationFlag(name, "level", best.since, t, best.size, best.se)
    if len(wrong) >= MANY:
        size = float(np.sqrt(np.mean([(flag.size / flag.se) ** 2 for flag in wrong])))
        return StationFlag(name, "spread", times[0], t, size, np.nan)
    return None


def _current(
    monitor: Monitor, flag: StationFlag, i: int, evidence: Evidence, without: Sequence[str]
) -> StationFlag | None:
    """A fault as it is now; ``None`` where it is over."""
    if flag.kind == "stuck":
        return flag if monitor.moving[i] < NEAR else None
    if flag.kind == "spread":
        z = monitor.recent[i]
        calm = np.max(np.abs(z)) <= CALM[0] and np.mean(z**2) <= CALM[1]
        return None if calm else flag._replace(size=float(np.sqrt(np.nanmean(z**2))))
    fit = evidence.fit(flag.station, flag.since, without)
    if fit is None:
        return flag
    whole = fit.level(flag.since) if flag.kind == "level" else fit.drift(flag.since)
    if not np.isnan(monitor.recent[i]).any() and _since(evidence, flag) >= RECENT:
        now = _level_now(evidence, flag, without)
        size = abs(whole.size) if flag.kind == "level" else abs(whole.size) * float(fit.t.max() - flag.since)
        if now is not None and abs(now.size) < 2 * now.se < size:
            return None
    return flag._replace(size=whole.size, se=whole.se)


def _since(evidence: Evidence, flag: StationFlag) -> int:
    return sum(one.t > flag.at for one in evidence.window.snapshots[-LOOK_BACK:])


def _level_now(evidence: Evidence, flag: StationFlag, without: Sequence[str]) -> Effect | None:
    fit = evidence.fit_now(flag.station, without)
    return None if fit is None else fit.level(-np.inf)


def _pruned(monitor: Monitor) -> Monitor:
    """Without stations that were seen once a while ago, as inputs that move are, and those long gone."""
    age = monitor.number - monitor.seen
    gone = ((monitor.readings <= 1) & (age > FORGOTTEN[0])) | (age > FORGOTTEN[1])
    if not gone.any():
        return monitor
    kept = np.flatnonzero(~gone)
    names = tuple(monitor.names[i] for i in kept)
    return _kept(monitor, kept)._replace(
        names=names,
        flags=tuple(flag for flag in monitor.flags if flag.station in names),
        wrong=tuple(flag for flag in monitor.wrong if flag.station in names),
    )


def _kept(monitor: Monitor, index: Bool[np.ndarray, " M"] | Int[np.ndarray, " k"]) -> Monitor:
    return monitor._replace(
        detectors=tests.of_stations(monitor.detectors, index),
        recent=monitor.recent[index],
        moving=monitor.moving[index],
        seen=monitor.seen[index],
        readings=monitor.readings[index],
    )
