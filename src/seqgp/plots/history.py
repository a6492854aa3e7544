"""What figures and reports need of a run: per step the data, the summary and the info, with names and dates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seqgp.base.info import Info
from seqgp.base.transforms import Transform, transform_of
from seqgp.evaluate.stations import MOST_ABSENT
from seqgp.io.errors import StoreError
from seqgp.io.naming import naming_of
from seqgp.io.step import labels_of
from seqgp.io.store import Store
from seqgp.io.summary import Summary, flat_parameters, summarise
from seqgp.io.timestamps import date_of
from seqgp.io.title import title_of
from seqgp.model import Model


class HistoryStep(NamedTuple):
    """A step without its draws."""

    t: float
    x: np.ndarray
    y: np.ndarray | None  # one value per row of x, where there is one, in the units of the table
    labels: list[str] | None
    summary: Summary
    info: Info


class History(NamedTuple):
    """The steps of a run, and how its columns are called; ``beside`` says whether latent and data have one unit."""

    steps: list[HistoryStep]
    title: str
    inputs: list[str]
    value: str
    time: str
    origin: str | None
    unit: str
    beside: bool = True

    def latent_name(self) -> str:
        """What the latent is called: as the data where it is in their units."""
        return self.value if self.beside else f"latent of {self.value}"

    def data(self, moment: HistoryStep) -> np.ndarray | None:
        """The data of a step that can be drawn beside the latent: counts beside a log rate would hide it."""
        return moment.y if self.beside else None

    def when(self, t: float) -> Any:
        """A time as it stands in the data: a number, or a date."""
        if self.origin is None:
            return float(t)
        return date_of(t, self.origin, self.unit)

    def times(self) -> list[Any]:
        """All times, as numbers or dates."""
        return [self.when(moment.t) for moment in self.steps]

    def parameters(self) -> dict[str, np.ndarray]:
        """For every scalar parameter its statistics over time, ``(times, statistics)``."""
        flat = [flat_parameters(moment.summary.parameters) for moment in self.steps]
        return {name: np.stack([values[name] for values in flat]) for name in flat[-1]}


def history_of(source: Any, model: Model | None = None) -> History:
    """The history of a ``Run`` or a :class:`Store`; a store knows a model that is made of ready-made parts."""
    if isinstance(source, History):
        return source
    model = model or source.model
    beside = model is not None and model.likelihood.in_units_of_data
    store: Store | None = source if isinstance(source, Store) else source.store
    if store is None and not isinstance(source, Store):
        moment = _history_step(source.snapshot, labels_of(source.snapshot), summarise(source.state), source.infos[-1])
        return _named([moment], "A run in memory", {}, beside)
    assert store is not None
    transform = transform_of(store.manifest.section("data"))
    moments = []
    for step in store.standing():
        snapshot, summary, info = step.parts("snapshot", "summary", "info")
        moments.append(_history_step(snapshot, step.labels, summary, info, transform))
    if not moments:
        raise StoreError(f"{store.path}: the run has no step yet")
    return _named(moments, title_of(store) or store.path.name, store.manifest.section("data"), beside)


def stations_of(moment: HistoryStep) -> list[Any]:
    """What tells the locations of a step from each other: their labels, or their inputs."""
    return moment.labels or [tuple(row) for row in moment.x.tolist()]


def missing_of(history: History) -> tuple[int, int]:
    """How many data are missing, of how many there would be if each station reported each time; absent rows count."""
    names = {name for moment in history.steps for name in stations_of(moment)}
    rows = [len(moment.x) for moment in history.steps]
    missing = sum(moment.info.missing for moment in history.steps)
    if len(names) > MOST_ABSENT * max(rows):  # no network: the places are new each time
        return missing, sum(rows)
    expected = len(names) * len(rows)
    return expected - sum(rows) + missing, expected


def _history_step(
    snapshot: Any, labels: list[str] | None, summary: Summary, info: Info, transform: Transform | None = None
) -> HistoryStep:
    y = snapshot.y if snapshot.y.shape == (len(snapshot.x),) else None
    y = y if y is None or transform is None else transform.restored(y)
    return HistoryStep(snapshot.t, snapshot.x, y, labels, summary, info)


def _named(moments: list[HistoryStep], title: str, data: dict[str, Any], beside: bool) -> History:
    dimension = moments[-1].x.shape[1]
    default = ["x"] if dimension == 1 else [f"x{d + 1}" for d in range(dimension)]
    found = naming_of(data, dimension)
    return History(
        moments,
        title,
        found.inputs or default,
        found.value or "y",
        found.time or "t",
        found.origin,
        found.unit,
        beside,
    )
