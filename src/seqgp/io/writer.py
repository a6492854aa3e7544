"""Adding steps to a run on disk, while its lock is held."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from seqgp.base.errors import DataError
from seqgp.base.info import Info
from seqgp.base.snapshot import Snapshot
from seqgp.io.errors import DamagedError, StoreError
from seqgp.io.header import Previous
from seqgp.io.late_data import LateData
from seqgp.io.layout import step_path
from seqgp.io.lock import Held
from seqgp.io.step import Step, write_step
from seqgp.samplers.base import State

if TYPE_CHECKING:
    from seqgp.io.store import Store


class Writer:
    """The right to add steps to a run, while the lock is held."""

    def __init__(self, store: Store, keep: int | None, held: Held):
        self.store = store
        self.keep = keep
        self._held = held
        self._last = store.latest() if len(store) else None
        self._whole: deque[Step] | None = None  # those that are not summaries, the oldest first

    def take_up(self, held: Held) -> None:
        """Go on with the lock held anew; nobody else has written since it was held before."""
        self._held = held

    def last(self) -> Step | None:
        """The step to go on from; ``None`` where the run has none yet."""
        step = self._last
        if step is not None and not step.whole:
            raise DamagedError(
                f"{self.store.path}: the draws of the last step ({step.number}) are not kept, so the run cannot go on; "
                "begin a new one, with a larger keep="
            )
        return step

    def append(self, state: State, info: Info, snapshot: Snapshot, late: LateData | None = None) -> Step:
        """Add a step, and shrink those that are no longer kept whole.

        Args:
            state: after the step.
            info: of the step.
            snapshot: the data at the time of the state.
            late: what the step put into the past, where it took no further snapshot.
        """
        last = self._last
        if last is not None and state.step <= last.number:
            raise StoreError(f"{self.store.path}: step {state.step} is there already; the last is {last.number}")
        if state.t != snapshot.t:
            raise DataError(f"{self.store.path}: a state at t = {state.t} with data at t = {snapshot.t}")
        self._held.check()
        path = step_path(self.store.path, state.step)
        previous = None if last is None else Previous(last.t, last.digest)
        if self.keep is not None and self._whole is None:
            self._whole = self._whole_steps()
        of_last = late is not None and last is not None and late.snapshots[-1].t < snapshot.t
        labels = last.labels if of_last and last is not None else None
        write_step(path, self.store.manifest, state, info, snapshot, previous, late, labels)
        self._last = Step(path, self.store.manifest)
        if self.keep is not None and self._whole is not None:
            self._whole.append(self._last)
            while len(self._whole) > self.keep:  # the oldest first: a process that dies leaves the last ones whole
                self._whole.popleft().shrink()
        return self._last

    def _whole_steps(self) -> deque[Step]:
        """The steps from the last back to the first that is a summary: before it, all are."""
        found: deque[Step] = deque()
        for step in reversed(self.store.last_ones(None)):
            if not step.whole:
                break
            found.appendleft(step)
        return found
