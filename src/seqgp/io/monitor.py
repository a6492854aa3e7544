"""The monitor of the stations of a run: what its steps have stored, or all of it anew at another rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from seqgp.base.errors import DataError
from seqgp.base.flags import station_names
from seqgp.base.info import OnlineInfo, StationInfo
from seqgp.base.snapshot import Snapshot
from seqgp.base.transforms import transform_of
from seqgp.evaluate.stations import StationReport, StationStep, station_report
from seqgp.io.run import Run
from seqgp.io.step import labels_of
from seqgp.io.store import Store
from seqgp.io.summary import STATISTICS
from seqgp.io.timestamps import moment_text
from seqgp.model import Model
from seqgp.monitoring.effects import StationWindow, natural_means
from seqgp.monitoring.monitor import LOOK_BACK, Evidence, Monitor, Scores, monitored
from seqgp.samplers.online.watch import checked_rate


class _Entry(NamedTuple):
    """A step of a run, with the data as they were reported."""

    snapshot: Snapshot
    names: tuple[str, ...]
    info: OnlineInfo
    means: dict[str, Any]  # of the parameters, in natural units


def monitor(source: object, model: Model | None = None, false_alarms: float | None = None) -> StationReport:
    """Find faults of the stations of a run: level shifts, drifts, scatter, stuck values, wrong readings.

    Each step of ``seqgp.OnlineSampler`` with Gaussian data predicts every reading from all others and the past
    (``info.loo``), and tests the scores of each station in sequence (``seqgp.monitoring.detectors``) at a stated
    rate of false alarms. ``info.stations`` and ``info.warnings`` hold the results; this function collects them.

        report = seqgp.monitor(run)
        print(report)                 # Station 8 reads 3.9 ± 0.5 above its neighbours since t = 14
        report["8"].flags, report.to_frame()

    Args:
        source: a ``Run``, or a ``seqgp.Store``.
        model: the model, if ``false_alarms`` is given and the store does not know it.
        false_alarms: test all readings anew with this largest rate of false alarms, per 1000 readings of a station. By
            default the results come from the steps.
    """
    if not isinstance(source, (Run, Store)):
        raise DataError(f"monitor: expected a run or a store, got {type(source).__name__}")
    store: Any = source.store if isinstance(source, Run) else source
    data = {} if store is None else store.manifest.section("data")
    run: Any = source
    entries = _of_run(run) if store is None else _of_store(store)
    steps = station_steps(entries, model or source.model, false_alarms)
    return station_report(steps, lambda t: moment_text(t, data).split(" (t = ")[0], transform_of(data))


def station_steps(entries: Iterator[_Entry], model: Model | None, false_alarms: float | None) -> Iterator[StationStep]:
    """What each step says of its stations; those of earlier versions, and at another rate, are judged anew."""
    anew = None if false_alarms is None else Monitor(checked_rate(false_alarms))
    window: list[_Entry] = []
    for entry in entries:
        info = entry.info
        if not isinstance(info, OnlineInfo) or info.loo is None:
            raise DataError(
                f"monitor: the step at t = {info.t:g} has no leave-one-out residuals, which seqgp.OnlineSampler of "
                "version 0.3 notes for Gaussian data; run again from the data"
            )
        stations = info.stations
        if anew is not None or stations is None:
            if model is not None and model.kernel.advected:
                raise DataError("monitor: seqgp.Advected is for inputs that may move, which are no stations to watch")
            if model is None:
                raise DataError("monitor: the model has code of its own, which a run does not store; give model=")
            window = [*window, entry][-LOOK_BACK:]
            anew = _judged(anew or Monitor(checked_rate(0.1)), window, model)
            z, factors = _scores(info), np.ones(len(entry.names))
            robust = "flag"
            if stations is not None:
                factors, robust = stations.factors, stations.robust
            stations = StationInfo(z, factors, anew.flagged, robust)
        yield StationStep(info.t, entry.names, info.loo, stations)


def _judged(before: Monitor, window: list[_Entry], model: Model) -> Monitor:
    entry = window[-1]
    loo = entry.info.loo
    assert loo is not None
    y = np.asarray(entry.snapshot.y, float).reshape(-1)
    scores = Scores(entry.snapshot.t, entry.names, y, _scores(entry.info), np.asarray(loo.mean), np.asarray(loo.sd))
    evidence = Evidence(
        model,
        lambda: natural_means(model, entry.means),
        lambda: StationWindow([one.snapshot for one in window], [one.names for one in window]),
    )
    return monitored(before, scores, evidence)


def _scores(info: OnlineInfo) -> np.ndarray:
    assert info.loo is not None
    return np.asarray(info.loo.z if info.stations is None else info.stations.z)


def _of_store(store: Store) -> Iterator[_Entry]:
    mean = STATISTICS.index("mean")
    for step in store.standing():
        snapshot = step.snapshot
        means = {name: np.asarray(values)[mean] for name, values in step.summary.parameters.items()}
        yield _Entry(snapshot, station_names(snapshot.x, step.labels), step.info, means)  # type: ignore[arg-type]


def _of_run(run: Run) -> Iterator[_Entry]:
    infos = {info.t: info for info in run.infos}
    snapshots = getattr(run.state, "snapshots", (run.snapshot,))
    means = {name: np.mean(np.asarray(values), axis=0) for name, values in run.state.parameters.items()}
    for one in snapshots:
        if one.t in infos:
            yield _Entry(one, station_names(one.x, labels_of(one)), infos[one.t], means)  # type: ignore[arg-type]
