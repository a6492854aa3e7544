"""Which data a run has used already: nothing is left out unless it is there with the same values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from seqgp.base.snapshot import Snapshot
from seqgp.io.late_data import Datum
from seqgp.io.step import Step, data_digest
from seqgp.io.store import Store
from seqgp.io.timestamps import moment_text
from seqgp.samplers.arrivals import SeenBefore, same_data


class _Used(NamedTuple):
    """One version of the data of a time; the rest of the header of its step is large, and not kept."""

    number: int
    digest: str | None  # of late data there is none
    at: Datum


class _Known(NamedTuple):
    """A step as far as its place among the others is concerned."""

    number: int
    t: float


class Seen:
    """The data of a run, by time: all versions that it has used, the first one first."""

    def __init__(self, store: Store):
        self.folder = store.path
        self._data = store.manifest.section("data")
        self._manifest = store.manifest
        self._steps: list[_Known] = []
        self._by_time: dict[float, list[_Used]] = {}
        self._numbers: set[int] = set()  # of lost steps whose time is known
        self._lost: dict[float, str] = {}  # those times, and the digests of the data
        self._taken: dict[int, set[float]] = {}  # times that were taken for those of lost steps, by the step before
        for step in store:
            self.add(step)

    def add(self, step: Step) -> None:
        """Note a step that follows those which are known."""
        file = Step(step.path, self._manifest)
        before = self._steps[-1].number if self._steps else 0
        if step.number - 1 > before and step.previous is not None:
            self._numbers.add(step.number - 1)
            self._lost[step.previous.t] = step.previous.data
        self._steps.append(_Known(step.number, step.t))
        for i, t in enumerate(step.late_times):
            self._by_time.setdefault(t, []).append(_Used(step.number, None, Datum(file, i)))
        if not step.late_times:
            self._by_time.setdefault(step.t, []).append(_Used(step.number, step.digest, Datum(file, None)))

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def last(self) -> float:
        """The last time; before the first step, none is late."""
        return self._steps[-1].t if self._steps else -np.inf

    def versions(self, t: float) -> list[Datum]:
        """All data that the run has used for a time, those that count last."""
        return [one.at for one in self._by_time.get(t, [])]

    def compare(self, snapshot: Snapshot, since: int = 0) -> SeenBefore:
        """What a snapshot is to the run.

        Args:
            snapshot: the snapshot.
            since: the first version of the data of its time that counts as used; -1 for the last one alone.
        """
        t = snapshot.t
        if t > self.last:
            return SeenBefore(later=True)
        used = self._by_time.get(t)
        if used is not None:
            first = len(used) - 1 if since < 0 else since
            for i, one in enumerate(used[first:], first):
                if one.digest == data_digest(snapshot) or same_data(one.at.snapshot(), snapshot):
                    return SeenBefore(version=i)
            return SeenBefore(why=f"the data at {self._said(t)} are not those that were stored")
        data = self._lost.get(t)
        if data is not None and data != data_digest(snapshot):
            return SeenBefore(
                why=f"the data at {self._said(t)} are not those that were used (the step is lost, and its rows may "
                "stand in another order); leave them out"
            )
        if data is not None or self._is_lost(t):
            return SeenBefore()
        return SeenBefore(
            why=f"{self._said(t)} is before the last stored time, {self._said(self.last)}, but was never seen"
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


class OnDisk:
    """What a snapshot is to a run on disk, of which all arrivals may be given again from the first one on.

    Args:
        seen: the data that the run has used.
        again: whether data that were replaced are known, as where all are given anew; otherwise they are put back.
    """

    def __init__(self, seen: Seen, again: bool = True):
        self.seen, self._again = seen, again
        self._since: dict[float, int] = {}  # the version of each time that was given last

    def __call__(self, snapshot: Snapshot) -> SeenBefore:
        """What a snapshot is to the run."""
        found = self.seen.compare(snapshot, self._since.get(snapshot.t, 0) if self._again else -1)
        if found.refused:
            self._since[snapshot.t] = len(self.seen.versions(snapshot.t))  # which it is to become
            return found._replace(why=f"{self.seen.folder}: {found.why}")
        self._since[snapshot.t] = found.version
        return found

    def replaced(self) -> list[float]:
        """The times of which the data given last have been replaced by others since."""
        return [t for t, version in self._since.items() if version < len(self.seen.versions(t)) - 1]
