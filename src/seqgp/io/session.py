"""A run on disk that one process continues again and again: what it knows of the run stays in memory in between."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from jaxtyping import Key

from seqgp.base.info import Info
from seqgp.base.snapshot import Snapshot
from seqgp.base.transforms import transform_of
from seqgp.evaluate.forecaster import ALARM_STEPS, Forecaster
from seqgp.io.late_data import LateData
from seqgp.io.layout import MANIFEST, STEPS, step_path
from seqgp.io.lock import locked
from seqgp.io.manifest import as_begun
from seqgp.io.seen import OnDisk, Seen
from seqgp.io.step import labels_of
from seqgp.io.store import Store
from seqgp.io.timestamps import moment_text
from seqgp.io.writer import Writer
from seqgp.linalg.types import Array
from seqgp.samplers.arrivals import Arrivals
from seqgp.samplers.base import Sampler, State
from seqgp.samplers.loop import Callback, Late, LateOption, loop


class Continuation(NamedTuple):
    """A run after some more steps: the last state, the infos of all steps (or of the last ``keep``), the last data."""

    state: State
    infos: list[Info]
    snapshot: Snapshot


class Session:
    """Adds steps to a run, as often as asked; between two calls other processes may write to it.

    The state with its filters, the infos and the times of the run stay in memory, so that a step costs the same
    however long the run is. They are read from disk at first, and again if somebody else has written since.

    Args:
        sampler: what makes the steps.
        store: the run.
        keep: how many of the last steps to keep: whole on disk, and as infos in memory.
        forecast: whether each snapshot is predicted before it is used.
        late: what is done with late and corrected snapshots, as in ``run``.
    """

    def __init__(
        self,
        sampler: Sampler,
        store: Store,
        keep: int | None = None,
        forecast: bool = True,
        late: LateOption = "revise",
    ):
        self.late: LateOption = late
        self.sampler = as_begun(store.path, store.manifest, sampler) if store.exists and len(store) else sampler
        self.store, self.keep, self.forecast = store, keep, forecast
        self._memory: _Memory | None = None
        self._writer: Writer | None = None
        self._configuration: dict[str, Any] | None = None

    @property
    def seen(self) -> Seen:
        """The data that the run has used."""
        return self._current().seen

    @property
    def state(self) -> State | None:
        """The last state; ``None`` before the first step."""
        return self._current().state

    def extend(
        self,
        snapshots: Iterable[Snapshot] | Callable[[Seen], Iterable[Snapshot]],
        key: Key[Array, ""] | None = None,
        configuration: dict[str, Any] | None = None,
        callbacks: Callback | Iterable[Callback] = (),
        progress: bool | None = None,
        again: bool = True,
    ) -> Continuation:
        """Sample after each of some snapshots; those that the run has used are skipped. Arguments as of ``run``.

        Snapshots may be a function of the data that the run has used, which is called while the run is held. ``again``
        says whether data that were replaced count as used: where all snapshots may be given once more.
        """
        with self._writing(key, configuration) as writer:
            memory = self._current()
            called: list[Any] = [callbacks] if callable(callbacks) else list(callbacks)
            known = OnDisk(memory.seen, again)
            given = snapshots(memory.seen) if callable(snapshots) else snapshots
            arrivals = Arrivals(given, known, self.late, self.sampler, lambda: memory.state)
            arrivals.given = memory.snapshot

            def save(state: State, info: Info) -> None:
                late = None if arrivals.late is None else late_data(arrivals.late, state)
                step = writer.append(state, info, arrivals.snapshot, late)
                memory.add(state, info, arrivals.snapshot, _mark(self.store, state.step))
                memory.seen.add(step)

            done = loop(
                self.sampler, arrivals, self.store.manifest.random_key(), memory.state, [save, *called], progress,
                self.keep, memory.forecaster,
            )  # fmt: skip
            _name_replaced(self.store, known.replaced())
            infos = [*memory.infos[:-1], done.infos[-1]] if done.infos else list(memory.infos)
            return Continuation(done.state, infos, arrivals.snapshot)

    @contextlib.contextmanager
    def _writing(self, key: Any, configuration: dict[str, Any] | None) -> Iterator[Writer]:
        """Hold the run: what was checked when it was held before holds still, if nobody has written since."""
        if self._writer is not None and configuration == self._configuration:
            with locked(self.store.path) as held:
                if self._is_current():
                    self._writer.take_up(held)
                    yield self._writer
                    return
        if not self._is_current():
            self.store.forget()
        with self.store.writing(self.sampler, key, self.keep, configuration) as writer:
            writer.last()  # raises where there are steps, but none to go on from
            self._writer, self._configuration = writer, configuration
            yield writer

    def _is_current(self) -> bool:
        memory = self._memory
        return memory is not None and memory.mark is not None and memory.mark == _mark(self.store, memory.number)

    def _current(self) -> _Memory:
        """What is known of the run, read again where it is not as this process left it."""
        if self._memory is None or not self._is_current():
            self._memory = _read(self.store, self.sampler, self.keep, self.forecast)
        return self._memory


class _Memory:
    """What a process knows of a run."""

    def __init__(self, state: State | None, snapshot: Snapshot | None, infos: list[Info], seen: Seen, mark: object):
        self.state, self.snapshot, self.infos, self.seen, self.mark = state, snapshot, infos, seen, mark
        self.keep: int | None = None
        self.forecaster: Forecaster | None = None

    @property
    def number(self) -> int:
        return 0 if self.state is None else self.state.step

    def add(self, state: State, info: Info, snapshot: Snapshot, mark: object) -> None:
        self.state, self.snapshot, self.mark = state, snapshot, mark
        self.infos.append(info)
        if self.keep is not None:
            del self.infos[: -self.keep]


def _read(store: Store, sampler: Sampler, keep: int | None, forecast: bool) -> _Memory:
    """All that a session needs of a run."""
    steps = list(store)
    mark = _mark(store, steps[-1].number if steps else 0)  # before anything is read: what is written later is noticed
    state = steps[-1].state if steps else None
    infos = [step.info for step in (steps if keep is None else steps[-max(keep, 2 * ALARM_STEPS) :])]
    memory = _Memory(state, steps[-1].snapshot if steps else None, infos, Seen(store), mark)
    transform = transform_of(store.manifest.section("data")) if store.exists else None
    recent = [info.scores for info in infos if info.scores][-ALARM_STEPS:]
    memory.forecaster = Forecaster(sampler.model, recent, transform) if forecast else None
    memory.keep, memory.infos = keep, infos[-keep if keep else None :]
    return memory


def _mark(store: Store, number: int) -> Any:
    """What tells a run after so many steps from one that somebody has written to since; no folder is listed.

    ``None`` where the run has more steps than that.
    """
    places = (store.path / MANIFEST, store.path / STEPS, step_path(store.path, number))
    return None if os.path.lexists(step_path(store.path, number + 1)) else [_status(path) for path in places]


def _status(path: Any) -> tuple[int, ...] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _name_replaced(store: Store, times: list[float]) -> None:
    """Data that were given once more, although others have replaced them since, are not passed over in silence."""
    if times:
        first = moment_text(min(times), store.manifest.section("data"))
        warnings.warn(
            f"{store.path}: the data given for {first}{f' and {len(times) - 1} more times' if times[1:] else ''} were "
            "corrected since, and stay so; `seqgp update` with a table of the earlier values puts them back",
            stacklevel=4,
        )


def late_data(late: Late, state: State) -> LateData:
    """What a step that revised the past keeps of it."""
    found = getattr(state, "beside_late", lambda t: {})(late.snapshots[0].t)
    return LateData(late.snapshots, tuple(labels_of(one) for one in late.snapshots), found)
