"""One stream run to its end, here or on a worker: whatever happens, an outcome."""

from __future__ import annotations

import os
import socket
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from seqgp.base.errors import SeqgpError, one_line
from seqgp.base.info import Info
from seqgp.fleets.outcome import Outcome, files_of, of_infos, read_run, write_note
from seqgp.fleets.stream import Stream
from seqgp.fleets.timeout import run_within
from seqgp.io.errors import DamagedError, PassingError, StoreError
from seqgp.io.run import run
from seqgp.runtime.engine import at_most
from seqgp.samplers.keys import named

OnStep = Callable[[int], None]  # called with the number of steps that were added so far


class Orders(NamedTuple):
    """What holds for all streams of a fleet."""

    store: str
    seed: int
    keep: int | None
    forecast: bool
    threads: int | None
    timeout: float | None = None  # seconds that a stream may go without a new step


def work(stream: Stream, orders: Orders, on_step: OnStep) -> Outcome:
    """Run a stream to its end, after the steps that are there; what goes wrong is in the outcome."""
    start, count = time.perf_counter(), _Count(on_step)
    outcome = _timed(stream, orders, count)._replace(
        added=count.added,
        seconds=time.perf_counter() - start,
        sampling=count.sampling,
        compiling=count.compiling,
        worker=f"{socket.gethostname()}:{os.getpid()}",
    )
    if not outcome.passing:
        try:
            write_note(Path(orders.store), outcome)
        except StoreError as error:  # the steps are there; that the note is not is worth a word
            if outcome.error is None:
                return outcome._replace(error=str(error), passing=isinstance(error, PassingError))
    return outcome


def _timed(stream: Stream, orders: Orders, count: _Count) -> Outcome:
    """A stream run to its end, or left behind when it hangs."""
    seconds = orders.timeout
    if seconds is None:
        return _attempt(stream, orders, count)
    found = run_within(seconds, lambda: _attempt(stream, orders, count), lambda: count.added)
    if found is not None:
        return found
    text = f"timeout: no new step for {seconds:g} s; its finished steps are kept, and the same call goes on"
    return stopped(Path(orders.store), stream.name, text)


def _attempt(stream: Stream, orders: Orders, count: _Count) -> Outcome:
    root, name = Path(orders.store), stream.name
    try:
        key = named(orders.seed, "fleet", name)
        with at_most(orders.threads):
            snapshots, configuration = stream.opened()
            done = run(
                stream.sampler,
                snapshots,
                key=key,
                callbacks=count,
                progress=False,
                keep=orders.keep,
                store=root / name,
                configuration=configuration,
                forecast=orders.forecast,
            )
        steps, files = files_of(root / name)
        return of_infos(name, steps, done.infos)._replace(files=files)
    except KeyboardInterrupt:  # of the person who waits for the fleet
        raise
    except BaseException as error:  # a stream that fails fails alone, also by SystemExit
        return _failed(root, name, error)


def _failed(root: Path, name: str, error: BaseException) -> Outcome:
    """What there is of the run, and why it goes no further."""
    ours = isinstance(error, (SeqgpError, MemoryError))
    text = one_line(error, most=1000) if isinstance(error, SeqgpError) else f"{type(error).__name__}: {one_line(error)}"
    trace = "" if ours else "".join(traceback.format_exception(error))
    found = stopped(root, name, text)
    if isinstance(error, DamagedError):
        found = found._replace(files="")  # whoever asks for the status looks at the files again
    return found._replace(passing=isinstance(error, PassingError), trace=trace)


def stopped(root: Path, name: str, why: str) -> Outcome:
    """What there is of a run that goes no further."""
    steps, files = 0, ""
    try:
        steps, files = files_of(root / name)
        found = read_run(root, name)._replace(files=files) if steps else Outcome(name, files=files)
    except (SeqgpError, OSError):  # damaged, or out of reach
        found = Outcome(name, steps)
    return found._replace(error=why, step=found.steps + 1)


class _Count:
    """Counts steps as they come, and passes the number on."""

    def __init__(self, on_step: OnStep):
        self._on_step = on_step
        self.added, self.sampling, self.compiling = 0, 0.0, 0.0

    def __call__(self, state: object, info: Info) -> None:
        self.added += 1
        self.sampling += info.seconds
        self.compiling += info.compile_seconds
        self._on_step(self.added)
