"""Where the named locations of a run are: one whose coordinates change is a mistake, unless locations move."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from seqgp.io.errors import TableError
from seqgp.io.frames import row_in_file
from seqgp.io.store import Store
from seqgp.io.tables import Labelled
from seqgp.io.timestamps import moment_text
from seqgp.kernels.coregionalised import Coregionalised

Point = tuple[float, ...]


class _Known(NamedTuple):
    point: Point
    where: str  # in words


class Stations:
    """The coordinates of the locations of a run, by name; a name with several points at one time is left alone.

    Args:
        names: of the inputs, for messages.
        kernel: of the model; the number of an output is no coordinate.
        store: the run that is gone on with, whose steps are read once each.
        moving: whether locations move, so that nothing is refused.
    """

    def __init__(self, names: tuple[str, ...], kernel: object, store: Store | None = None, moving: bool = False):
        parts = jax.tree.leaves(kernel, is_leaf=lambda part: isinstance(part, Coregionalised))
        self._first = int(any(isinstance(part, Coregionalised) for part in parts))
        self._names = names[self._first :]
        self._moving, self._store, self._read = moving, store, 0
        self._known: dict[str, _Known] = {}
        self._several: set[str] = set()

    def check(self, file: str | Path, snapshots: list[Labelled]) -> None:
        """Raise where a location of a table is not where it was: in the table above, or in the run.

        Raises:
            TableError: names file, row and both places.
        """
        if self._moving:
            return
        self._catch_up()
        known, several = dict(self._known), set(self._several)
        first: dict[str, tuple[Labelled, int]] = {}
        for snapshot in snapshots:
            if snapshot.labels is None:
                return
            several |= self._repeated(snapshot.labels, snapshot.x)
            for row, (name, point) in enumerate(zip(snapshot.labels, self._points(snapshot.x))):
                if name not in known:
                    known[name], first[name] = _Known(point, ""), (snapshot, row)
                there = known[name]
                if there.point != point and name not in several:
                    before = f"in row {_row(file, *first[name])}" if name in first else there.where
                    raise TableError(
                        f"{file}: row {_row(file, snapshot, row)}: location {name!r} is at {self._said(point)}, but "
                        f'{before} at {self._said(there.point)}; correct it, or set data.locations = "moving" in the '
                        "configuration where locations move"
                    )

    def _catch_up(self) -> None:
        """Read the steps that were added since the last look."""
        if self._store is None or not self._store.exists:
            return
        data = self._store.manifest.section("data")
        for step in self._store.after(self._read):
            self._read = step.number
            late = step.late
            found = [(step.snapshot, step.labels), *(zip(late.snapshots, late.labels) if late else ())]
            for snapshot, labels in found:
                self._note(labels, snapshot.x, f"in the run, at {moment_text(snapshot.t, data)},")

    def _note(self, labels: list[str] | None, x: np.ndarray, where: str) -> None:
        if labels is None:
            return
        self._several |= self._repeated(labels, x)
        for name, point in zip(labels, self._points(x)):
            if self._known.setdefault(name, _Known(point, where)).point != point:  # of locations that moved already
                self._several.add(name)

    def _points(self, x: np.ndarray) -> list[Point]:
        return [tuple(point) for point in x[:, self._first :].tolist()]

    def _repeated(self, labels: list[str], x: np.ndarray) -> set[str]:
        """Names with several points in one snapshot: of depths at a mooring, say."""
        if len(set(labels)) == len(labels):
            return set()
        found: dict[str, Point] = {}
        return {name for name, point in zip(labels, self._points(x)) if found.setdefault(name, point) != point}

    def _said(self, point: Point) -> str:
        return "(" + ", ".join(f"{name} = {value!r}" for name, value in zip(self._names, point)) + ")"


def _row(file: str | Path, snapshot: Labelled, row: int) -> int:
    """The row of a file that a row of a snapshot stands in."""
    return row_in_file(Path(file), row if snapshot.records is None else int(snapshot.records[row]))
