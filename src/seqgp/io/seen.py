"""Which data a run has used already: nothing is left out unless it is there with the same values."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from seqgp.base.snapshot import Snapshot
from seqgp.io.step import Step, data_digest
from seqgp.io.store import Store
from seqgp.io.timestamps import moment_text


class SeenBefore(NamedTuple):
    """What a snapshot is to a run: later than all of it, used with the same values, or neither (and why)."""

    later: bool = False
    why: str | None = None

    @property
    def refused(self) -> bool:
        """Whether the data are neither new nor known: they must not be passed over in silence."""
        return self.why is not None


class _Used(NamedTuple):
    """A step as far as its data are concerned; the rest of its header is large, and not kept."""

    number: int
    t: float
    digest: str
    file: Step


class Seen:
    """The data of a run, by time."""

    def __init__(self, store: Store):
        self.folder = store.path
        self._data = store.manifest.section("data")
        self._manifest = store.manifest
        self._steps: list[_Used] = []
        self._by_time: dict[float, _Used] = {}
        self._numbers: set[int] = set()  # of lost steps whose time is known
        self._lost: dict[float, str] = {}  # those times, and the digests of the data
        self._taken: dict[int, set[float]] = {}  # times that were taken for those of lost steps, by the step before
        for step in store:
            self.add(step)

    def add(self, step: Step) -> None:
        """Note a step that follows those which are known."""
        used = _Used(step.number, step.t, step.digest, Step(step.path, self._manifest))
        before = self._steps[-1].number if self._steps else 0
        if used.number - 1 > before and step.previous is not None:
            self._numbers.add(used.number - 1)
            self._lost[step.previous.t] = step.previous.data
        self._steps.append(used)
        self._by_time[used.t] = used

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def last(self) -> float:
        """The last time; before the first step, none is late."""
        return self._steps[-1].t if self._steps else -np.inf

    def compare(self, snapshot: Snapshot) -> SeenBefore:
        """What a snapshot is to the run."""
        t = snapshot.t
        if t > self.last:
            return SeenBefore(later=True)
        step = self._by_time.get(t)
        if step is not None:
            if step.digest == data_digest(snapshot) or same_data(step.file.snapshot, snapshot):
                return SeenBefore()
            return SeenBefore(
                why=f"the data at {self._said(t)} are not those that were stored; a step that was sampled cannot "
                "change: leave it out, or begin another run"
            )
        data = self._lost.get(t)
        if data is not None and data != data_digest(snapshot):
            return SeenBefore(
                why=f"the data at {self._said(t)} are not those that were used (the step is lost, and its rows may "
                "stand in another order); leave them out"
            )
        if data is not None or self._is_lost(t):
            return SeenBefore()
        return SeenBefore(
            why=f"{self._said(t)} is before the last stored time, {self._said(self.last)}, but was never seen; only "
            "later times can be added"
        )

    def _said(self, t: float) -> str:
        return moment_text(t, self._data)

    def _is_lost(self, t: float) -> bool:
        """Whether a time falls where a step is missing: its data were used, but its file was set aside."""
        before = max((step.number for step in self._steps if step.t < t), default=0)
        after = min((step.number for step in self._steps if step.t > t), default=before)
        # The step after a gap says when the last one in it was: another time is that of a further lost step, or late.
        known = sum(before < number < after for number in self._numbers)
        taken = self._taken.setdefault(before, set())
        if t not in taken and len(taken) >= after - before - 1 - known:
            return False
        taken.add(t)
        return True


def same_data(a: Snapshot, b: Snapshot) -> bool:
    """Whether two snapshots hold the same rows, in whatever order."""
    rows_a, rows_b = _rows(a), _rows(b)
    if rows_a is None or rows_b is None or rows_a.shape != rows_b.shape:
        return False
    return np.array_equal(_sorted(rows_a), _sorted(rows_b), equal_nan=True)


def _rows(snapshot: Snapshot) -> np.ndarray | None:
    """One row a location: inputs, data, context; ``None`` where the data are not of that form."""
    n = len(snapshot.x)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves((snapshot.y, snapshot.context))]
    if any(leaf.shape != (n,) or leaf.dtype.kind not in "fiub" for leaf in leaves):
        return None
    return np.column_stack([snapshot.x, *leaves])


def _sorted(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort(rows.T[::-1])]
