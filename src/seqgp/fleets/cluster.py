"""Streams on the workers of a Dask cluster: packed by the client, unpacked and run by a worker."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seqgp.base.errors import SamplerError, extra, one_line
from seqgp.fleets.outcome import Outcome, write_note
from seqgp.fleets.stream import Stream
from seqgp.fleets.work import Orders, stopped, work
from seqgp.io.errors import StoreError
from seqgp.runtime import stopping
from seqgp.runtime.cache import CacheError, cache
from seqgp.runtime.precision import enable_x64

STREAMS_AT_A_TIME = 256  # with the scheduler, or four a thread: its memory stays the same
SECONDS_BETWEEN_CHECKS = 10.0  # of how many threads there are
SECONDS_BETWEEN_SIGNS = 0.5  # of progress of a stream
MAX_SAMPLERS = 16  # that a worker remembers


def local_cluster(workers: int) -> Any:
    """A ``LocalCluster`` of so many processes, a thread each, that only this machine reaches.

    Dask's profiler is off: it looks into a worker a hundred times a second, and keeps what it saw for an hour, which
    for the deep stacks of compiled code is a gigabyte and more.
    """
    with extra("fleet"):
        import dask
        import distributed
    settings: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with dask.config.set({"distributed.worker.profile.enabled": False}):
        return distributed.LocalCluster(n_workers=workers, threads_per_worker=1, **settings)


class Cluster:
    """The workers of a Dask cluster.

    Args:
        client: a ``dask.distributed.Client``.
        orders: what holds for all streams.
        progressed: called with the name of a stream and the number of steps that it has added.
    """

    def __init__(self, client: Any, orders: Orders, progressed: Callable[..., object]):
        with extra("fleet"):
            import distributed

        if not isinstance(client, distributed.Client) or client.asynchronous:
            what = type(client).__name__
            raise SamplerError(f"fleet: client is a dask.distributed.Client (not an asynchronous one), got {what}")
        self._client: Any = client
        self._orders, self._progressed = orders, progressed
        self._completed: Any = distributed.as_completed([])
        self._running: dict[str, tuple[Any, Stream]] = {}
        self._topic = f"seqgp-fleet-{id(self)}-{time.time_ns()}"
        self._threads, self._looked = 0, -SECONDS_BETWEEN_CHECKS
        self._packed: dict[int, bytes] = {}
        self._suspects: deque[Stream] = deque()  # each was on a worker when it died, perhaps beside another
        self._tried_alone: set[str] = set()

    def __enter__(self) -> Cluster:
        """Listen to the workers."""
        self._client.subscribe_topic(self._topic, lambda event: self._progressed(*event[1]))
        return self

    def __exit__(self, *exception: object) -> None:
        """Streams that have not begun are withdrawn; those under way stop after the step in hand."""
        with contextlib.suppress(Exception):  # the connection may be what failed
            self._client.cancel([future for future, _ in self._running.values()])
            self._client.unsubscribe_topic(self._topic)

    @property
    def running(self) -> int:
        """How many streams were handed over, and are not back."""
        return len(self._running) + len(self._suspects)

    def room(self) -> bool:
        """Whether another stream can be handed over."""
        if time.monotonic() - self._looked > SECONDS_BETWEEN_CHECKS:
            self._threads, self._looked = sum(self._client.nthreads().values()), time.monotonic()
        return len(self._running) < max(STREAMS_AT_A_TIME, 4 * self._threads)

    def submit(self, stream: Stream, elsewhere: str = "") -> None:
        """Hand a stream over; if it can be, to another worker than ``elsewhere``."""
        import cloudpickle

        if id(stream.sampler) not in self._packed:
            self._packed[id(stream.sampler)] = cloudpickle.dumps(stream.sampler)
        rest = {name: value for name, value in vars(stream).items() if name != "sampler"}
        future = self._client.submit(
            work_packed,
            stream.name,
            self._packed[id(stream.sampler)],
            cloudpickle.dumps((type(stream), rest)),
            self._orders,
            self._topic,
            key=f"{self._topic}-{stream.name}-{time.time_ns()}",
            pure=False,
            **self._others(elsewhere),
        )
        self._running[future.key] = future, stream
        self._completed.add(future)

    def finished(self) -> list[tuple[Stream, Outcome]]:
        """The streams that came back since."""
        if self._client.status not in ("running", "connecting"):
            raise StoreError(
                "fleet: the connection to the scheduler was lost; every finished step is kept, and the same call goes "
                "on"
            )
        found = []
        for future in self._completed.next_batch(block=False):
            _, stream = self._running.pop(future.key)
            if _killed(future) and stream.name not in self._tried_alone:
                self._suspects.append(stream)
            else:
                found.append((stream, _outcome(stream, future, self._orders)))
        if self._suspects and not self._running:  # which of them it was shows when each is alone
            stream = self._suspects.popleft()
            self._tried_alone.add(stream.name)
            self.submit(stream)
        return found

    def _others(self, worker: str) -> dict[str, Any]:
        """All workers but one, where there are others; a wish, which a worker that dies does not frustrate."""
        others = [address for address in self._client.nthreads() if address != worker] if worker else []
        return {"workers": others, "allow_other_workers": True} if others else {}


def _killed(future: Any) -> bool:
    """Whether workers died, as often as Dask allows, while they had the stream."""
    return future.status == "error" and type(future.exception()).__name__ == "KilledWorker"


def _outcome(stream: Stream, future: Any, orders: Orders) -> Outcome:
    """What a future holds: an outcome, or why there is none."""
    if future.status == "finished":
        return future.result()
    if _killed(future):
        text = (
            "every worker that took it up died (out of memory, perhaps); its finished steps are kept, and the same "
            "call goes on"
        )
    elif future.status == "cancelled":
        text = "withdrawn by the scheduler; the same call goes on"
    else:
        error = future.exception()
        text = f"{type(error).__name__}: {one_line(error)}"
    outcome = stopped(Path(orders.store), stream.name, text)
    with contextlib.suppress(StoreError):  # the table has it
        write_note(Path(orders.store), outcome)
    return outcome


def work_packed(name: str, sampler: bytes, rest: bytes, orders: Orders, topic: str) -> Outcome:
    """What a worker does: unpack a stream, and run it."""
    import cloudpickle
    from distributed import get_worker

    enable_x64()  # before anything is unpacked: arrays would lose half of their digits
    with contextlib.suppress(CacheError):  # slower, and nothing worse
        cache()
    try:
        kind, fields = cloudpickle.loads(rest)
        stream = kind(sampler=_SAMPLERS.get(sampler), **fields)
    except (Exception, SystemExit) as error:
        text = f"{type(error).__name__}: {one_line(error)}; a worker needs the packages and modules of the client"
        return Outcome(name, error=text, step=1, trace=traceback.format_exc())
    worker = get_worker()
    try:
        return work(stream, orders, _Sign(worker, topic, name))._replace(worker=worker.address)
    except stopping.Stopped:
        return Outcome(name, error="stopped, because nobody waits for it; every finished step is kept")
    except KeyboardInterrupt as error:  # no signal reaches this thread: the stream itself raised it
        outcome = stopped(Path(orders.store), name, f"KeyboardInterrupt: {one_line(error)}")
        with contextlib.suppress(StoreError):  # the table has it
            write_note(Path(orders.store), outcome)
        return outcome._replace(worker=worker.address)


class _Sign:
    """Tells the client of progress now and then, and stops the stream once nobody waits for it."""

    def __init__(self, worker: Any, topic: str, name: str):
        self._worker, self._topic, self._name = worker, topic, name
        self._task = worker.get_current_task()
        self._last = time.monotonic()

    def __call__(self, added: int) -> None:
        task = self._worker.state.tasks.get(self._task)
        if task is None or task.state == "cancelled":
            raise stopping.Stopped(signal.SIGTERM)
        if time.monotonic() - self._last > SECONDS_BETWEEN_SIGNS:
            self._last = time.monotonic()
            self._worker.log_event(self._topic, [self._name, added])


class _Remembered:
    """Samplers by their packed form: streams that share one on the client share it, and its code, on a worker."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, packed: bytes) -> Any:
        """The sampler of a packed form."""
        import cloudpickle

        with self._lock:
            if packed not in self._kept:
                self._kept[packed] = cloudpickle.loads(packed)
            self._kept.move_to_end(packed)
            while len(self._kept) > MAX_SAMPLERS:
                self._kept.popitem(last=False)
            return self._kept[packed]


_SAMPLERS = _Remembered()
