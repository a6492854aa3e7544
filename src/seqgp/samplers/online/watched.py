"""A step of the online sampler under the eyes of the monitor of stations.

After each snapshot of Gaussian data the monitor (:mod:`seqgp.monitoring.monitor`) scores every station. A datum that is
far off misleads the predictions of its neighbours, so scores are those without the data that stand out: the worst is
left out for all others, then the next, until none stands out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from seqgp.base.flags import flag_warnings, station_names
from seqgp.base.info import LeaveOneOut, OnlineInfo, StationInfo
from seqgp.base.snapshot import Snapshot
from seqgp.likelihoods.gaussian import RATIOS, STATION
from seqgp.model import Model
from seqgp.monitoring.effects import StationWindow, natural_means
from seqgp.monitoring.monitor import Evidence, Scores, monitored
from seqgp.samplers.online.loo import loo_of_treated
from seqgp.samplers.online.state import OnlineState
from seqgp.samplers.online.stations import StationNoise
from seqgp.samplers.online.watch import Treatment, Watch

STANDS_OUT = 3.5  # a score beyond which a datum is left out for the scores of others
MAX_OUT = 0.25  # of the data of a snapshot; more of them are no faults of stations


class CleanScores(NamedTuple):
    """Leave-one-out predictions without data that stand out."""

    z: Float[np.ndarray, " N"]
    mean: Float[np.ndarray, " N"]
    sd: Float[np.ndarray, " N"]


Advance = Callable[[Snapshot], tuple[OnlineState, OnlineInfo]]


def watched_step(
    model: Model, robust: str, watch: Watch, snapshot: Snapshot, advance: Advance
) -> tuple[OnlineState, OnlineInfo]:
    """The step with a snapshot, and once more without values that it flags, where these are not to be used.

    Args:
        model: a model of Gaussian data.
        robust: what is done with flagged values.
        watch: before the snapshot.
        snapshot: the data as they were reported.
        advance: from a snapshot to the state after it, and the info.
    """
    start = time.perf_counter()
    names = station_names(snapshot.x, getattr(snapshot, "labels", None))
    treatment = watch.treatment(names, robust)
    state, info = advance(treatment.of(snapshot))
    loo, compiling = _predictions(state, info, snapshot, treatment)
    scores, seconds = clean_scores(state, loo, snapshot, treatment)
    y = np.asarray(snapshot.y, float).reshape(-1)
    evidence = _evidence(model, watch, state, snapshot, names)
    monitor = monitored(watch.monitor, Scores(snapshot.t, names, y, *scores), evidence)
    compiling += info.compile_seconds + seconds + evidence.compile_seconds
    again = Watch(monitor).with_wrong(treatment, names, robust)
    if not np.array_equal(again.factors, treatment.factors):
        treatment = again
        state, info = advance(treatment.of(snapshot))
        loo, seconds = _predictions(state, info, snapshot, treatment)
        compiling += info.compile_seconds + seconds
    return state._replace(watch=watch.after(monitor, names, snapshot, treatment)), info._replace(
        seconds=time.perf_counter() - start - compiling,
        compile_seconds=compiling,
        missing=int(np.isnan(y).sum()),
        loo=loo,
        stations=StationInfo(scores.z, treatment.factors, monitor.flagged, robust),
        warnings=(*info.warnings, *flag_warnings(monitor.flagged, robust)),
    )


def revised_info(info: OnlineInfo, watch: Watch, state: OnlineState, robust: str) -> OnlineInfo:
    """The info of a step that revised the past: what is flagged stays so, and the monitor has no new scores."""
    if info.loo is None:
        return info
    flags, used = watch.monitor.flags, Treatment.used(state.snapshots[-1])
    stations = StationInfo(np.asarray(info.loo.z), used.factors, flags, robust)
    return info._replace(stations=stations, warnings=(*info.warnings, *flag_warnings(flags, robust)))


def _predictions(
    state: OnlineState, info: OnlineInfo, snapshot: Snapshot, treatment: Treatment
) -> tuple[LeaveOneOut, float]:
    """Of all data as they were reported."""
    if treatment.trivial and info.loo is not None:
        return info.loo, 0.0
    return _without(state, snapshot, treatment, np.zeros(len(treatment.factors), bool))


def clean_scores(
    state: OnlineState, loo: LeaveOneOut, snapshot: Snapshot, treatment: Treatment
) -> tuple[CleanScores, float]:
    """Scores of all data without those that stand out, and the seconds that compilation took."""
    removed, spent = np.zeros(len(treatment.factors), bool), 0.0
    first = loo
    while (worst := _worst(loo, removed)) is not None:
        removed[worst] = True
        loo, seconds = _without(state, snapshot, treatment, removed)
        spent += seconds
    if removed.sum() > max(1, MAX_OUT * len(removed)):
        loo = first
    return CleanScores(np.asarray(loo.z), np.asarray(loo.mean), np.asarray(loo.sd)), spent


def _worst(loo: LeaveOneOut, removed: np.ndarray) -> int | None:
    """The row that stands out most, of those that are not left out yet; ``None`` where none does."""
    z = np.where(removed | np.isnan(loo.z), 0.0, np.abs(loo.z))
    worst = int(np.argmax(z))
    return worst if z[worst] > STANDS_OUT and removed.sum() <= max(1, MAX_OUT * len(z)) else None


def _without(
    state: OnlineState, snapshot: Snapshot, treatment: Treatment, removed: np.ndarray
) -> tuple[LeaveOneOut, float]:
    y = np.asarray(snapshot.y, float).reshape(-1)
    return loo_of_treated(
        state.live.history, state.live.filters, state.particles.weights(), y, treatment.factors, removed
    )


def _evidence(model: Model, watch: Watch, state: OnlineState, snapshot: Snapshot, names: tuple[str, ...]) -> Evidence:
    noise = state.station_noise

    def window() -> StationWindow:
        found = watch.window((*state.snapshots[:-1], snapshot), names)
        if noise is None:
            return found
        return found._replace(snapshots=[_with_stations(one, noise) for one in found.snapshots])

    def parameters() -> dict[str, np.ndarray]:
        means = natural_means(model, {name: np.mean(values, axis=0) for name, values in state.parameters.items()})
        return means if noise is None else means | {RATIOS: (means["noise"] / np.mean(noise.noise, axis=0)) ** 2}

    return Evidence(model, parameters, window)


def _with_stations(snapshot: Snapshot, noise: StationNoise) -> Snapshot:
    """The snapshot with the number of each row's station among those that have a noise of their own."""
    number = {row.tobytes(): i for i, row in enumerate(np.ascontiguousarray(noise.x))}
    station = np.array([number[row.tobytes()] for row in np.ascontiguousarray(snapshot.x)])
    return Snapshot(snapshot.t, snapshot.x, snapshot.y, {**(snapshot.context or {}), STATION: station})
