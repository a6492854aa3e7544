"""Many streams, each run to its end: one after the other, or on the workers of a Dask cluster."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from seqgp.base.errors import SamplerError, SeqgpError
from seqgp.base.validation import positive, require_x64
from seqgp.fleets.cluster import Cluster
from seqgp.fleets.outcome import Outcome, announce, files_of
from seqgp.fleets.progress import FleetBar
from seqgp.fleets.stream import Stream, check_streams
from seqgp.fleets.work import Orders, work
from seqgp.io.run import Run
from seqgp.io.store import Store
from seqgp.model import Model
from seqgp.runtime import stopping

PATIENCE = 120.0  # seconds
AGAIN = 1.0  # seconds until a stream is tried again that another process holds
POLL = 0.01  # seconds between two looks at the workers


class Runs(Mapping[str, Run]):
    """The runs of a fleet by the names of their streams, each read when it is asked for."""

    def __init__(self, folder: Path, streams: Iterable[Stream]):
        self._folder = folder
        self._streams = {stream.name: stream for stream in streams}

    def __getitem__(self, name: str) -> Run:
        sampler = self._streams[name].sampler
        store = Store(self._folder / name)
        last = store.latest()
        model = sampler if isinstance(sampler, Model) else sampler.model
        return Run(last.state, [step.info for step in store], last.snapshot, model, store)

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)


class FleetResult(NamedTuple):
    """The outcomes of all streams of a fleet.

    Attributes:
        rows: an outcome per stream, in the given order.
        runs: the runs by name, each read on demand.
    """

    rows: tuple[Outcome, ...]
    runs: Runs

    @property
    def table(self) -> Any:
        """A row per stream: a pandas table, or without pandas (``seqgp[io]``) a list of dictionaries."""
        rows = [outcome.row() for outcome in self.rows]
        try:
            import pandas as pd
        except ModuleNotFoundError:
            return rows
        return pd.DataFrame(rows)

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The streams that did not come to their end."""
        return tuple(outcome for outcome in self.rows if outcome.error is not None)


def fleet(
    streams: Iterable[Stream],
    store: str | Path,
    client: object = None,
    seed: int = 0,
    keep: int | None = None,
    forecast: bool = True,
    threads: int | None = None,
    patience: float = PATIENCE,
    progress: bool | None = None,
    timeout: float | None = None,
) -> FleetResult:
    """Run many streams, and resume those that exist.

    The draws of a stream follow from the seed, its name and its data. They are the same bit for bit in this process, on
    one worker, on many, and after another worker takes over the stream of a killed one. A stream fails alone: the table
    has its error and its step, and the other streams finish.

    Args:
        streams: each a ``seqgp.Stream``.
        store: the folder of the runs, one folder a stream; with a cluster, one that all its workers see.
        client: a ``dask.distributed.Client``; without it the streams run in this process, one after the other.
        seed: the seed of the random numbers.
        keep: the number of last steps of each run to keep complete; all by default.
        forecast: whether to forecast each snapshot before its step, for the scores in the table.
        threads: the number of cores per stream: by default all in this process, and one on a cluster (whose workers
            have one thread per stream). Draws do not depend on it.
        patience: seconds to wait, after all else is done, for a stream that another process holds without progress, or
            for a disk that is full.
        progress: whether to show streams and steps as they come; by default if the output is a terminal.
        timeout: seconds that a stream may take for one step (reading and compilation included) before the fleet gives
            up on it and its row says so; no limit by default. Python cannot end a thread that hangs: the thread ends
            with the process, and holds its run until then.
    """
    require_x64()
    _check_timeout(timeout)
    found, folder = check_streams(streams), Path(store)
    if threads is not None:
        positive("threads", threads)
    if client is not None:
        folder, threads = folder.resolve(), threads or 1
    announce(folder, (stream.name for stream in found))
    orders = Orders(str(folder), int(seed), keep, forecast, threads, timeout)
    with FleetBar(len(found), progress) as bar:
        place = Here(orders, bar.progressed) if client is None else Cluster(client, orders, bar.progressed)
        with place:
            ended = _all(found, place, bar, folder, patience)
    return FleetResult(tuple(ended[stream.name] for stream in found), Runs(folder, found))


def _check_timeout(timeout: Any) -> None:
    number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and not (number and 0 < timeout < math.inf):
        raise SamplerError(f"fleet: timeout = {timeout!r} is not a number of seconds above 0; None is no limit")


def _all(found: list[Stream], place: Here | Cluster, bar: FleetBar, folder: Path, patience: float):
    """Hand out streams and collect outcomes; those that another process holds come last, again and again."""
    todo, later, ended = deque((stream, "") for stream in found), _Later(folder, patience), dict[str, Outcome]()
    while todo or later or place.running:
        stopping.check()
        todo.extend(later.due(idle=not todo))
        while todo and place.room():
            place.submit(*todo.popleft())
        back = place.finished()
        for stream, outcome in back:
            if outcome.passing and later.again(stream, outcome):
                continue
            ended[stream.name] = outcome
            bar.ended(outcome)
        if not back:
            stopping.pause(POLL)
    return ended


class _Later:
    """Streams to be tried again: another process holds them, or the disk is full."""

    def __init__(self, folder: Path, patience: float):
        self._folder, self._patience = folder, patience
        self._waiting: deque[tuple[float, Stream, str]] = deque()
        self._seen: dict[str, tuple[int, float]] = {}  # how many steps there were, since when

    def __len__(self) -> int:
        return len(self._waiting)

    def again(self, stream: Stream, outcome: Outcome) -> bool:
        """Whether to try once more: as long as somebody adds steps to it, and for a while after."""
        now = time.monotonic()
        try:
            steps, _ = files_of(self._folder / stream.name)
        except (SeqgpError, OSError):  # damaged, or out of reach
            steps = 0
        before, since = self._seen.get(stream.name, (-1, now))
        if steps > before:
            self._seen[stream.name] = steps, now
        elif now - since > self._patience:
            return False
        self._waiting.append((now + AGAIN, stream, outcome.worker))
        return True

    def due(self, idle: bool) -> list[tuple[Stream, str]]:
        """Those whose time has come, once nothing else is left to hand out."""
        found = []
        while idle and self._waiting and self._waiting[0][0] <= time.monotonic():
            _, stream, worker = self._waiting.popleft()
            found.append((stream, worker))
        return found


class Here:
    """This process, which runs one stream after the other."""

    running = 0

    def __init__(self, orders: Orders, progressed: Callable[[str, int], None]):
        self._orders, self._progressed = orders, progressed
        self._done: list[tuple[Stream, Outcome]] = []

    def __enter__(self) -> Here:
        """Nothing is to be prepared."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing is left."""

    def room(self) -> bool:
        """One at a time."""
        return not self._done

    def submit(self, stream: Stream, elsewhere: str = "") -> None:
        """Run a stream now; there is no other place."""
        outcome = work(stream, self._orders, lambda added: self._progressed(stream.name, added))
        self._done.append((stream, outcome))

    def finished(self) -> list[tuple[Stream, Outcome]]:
        """The stream that was run last."""
        found, self._done = self._done, []
        return found
