"""The steps of a run to export, and where their rows stand along one axis of locations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from seqgp.base.info import Info
from seqgp.base.snapshot import Snapshot
from seqgp.samplers.base import State

SPARSE = 4  # times as many names as rows of a step, at most, are an axis of locations


class Record(NamedTuple):
    """A step in memory."""

    state: State
    info: Info
    snapshot: Snapshot
    labels: list[str] | None


class Locations(NamedTuple):
    """Where the rows of each step stand along the axis of locations."""

    rows: list[np.ndarray]
    size: int

    def put(self, values: Sequence[object], axis: int) -> list[np.ndarray]:
        """The values of each step along the whole axis, NaN at the locations that it does not have."""
        return [self._put(np.asarray(step, dtype=float), rows, axis) for step, rows in zip(values, self.rows)]

    def _put(self, values: np.ndarray, rows: np.ndarray, axis: int) -> np.ndarray:
        first = np.moveaxis(values, axis, 0)
        whole = np.full((self.size, *first.shape[1:]), np.nan)
        whole[rows] = first
        return np.moveaxis(whole, 0, axis)


def locations_of(records: Sequence[Any], names: list[str] | None) -> Locations:
    """The locations of some records or steps, which have a snapshot and labels."""
    if names is None:
        rows = [np.arange(len(record.snapshot.x)) for record in records]
        return Locations(rows, max(map(len, rows)))
    number = {name: i for i, name in enumerate(names)}
    return Locations([np.array([number[name] for name in record.labels or ()]) for record in records], len(names))


def location_names(records: Sequence[Any]) -> list[str] | None:
    """The names of all locations in the order in which they were first seen; ``None`` where names do not tell them.

    That is where a name stands twice in a step, or where most are seen only once and the axis would be nearly empty.
    """
    found: dict[str, None] = {}
    for record in records:
        if record.labels is None or len(set(record.labels)) < len(record.labels):
            return None
        found |= dict.fromkeys(record.labels)
    return list(found) if len(found) <= SPARSE * max(len(record.labels or ()) for record in records) else None
