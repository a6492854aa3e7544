"""Asked to stop: a flag that a signal sets, looked at between two pieces of work.

An exception that a signal raises wherever the program happens to be can be caught by code that means another one, and
leaves threads behind that still compute. A flag is looked at where nothing is half done.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_requested = 0  # the signal that came
_local = threading.local()


class Stopped(KeyboardInterrupt):
    """Asked to stop, by a signal; raised between two pieces of work."""

    def __init__(self, number: int):
        super().__init__(f"stopped by signal {number}")
        self.number = number


def check() -> None:
    """Raise if this process was asked to stop, or if nobody waits for what this thread computes."""
    if _requested:
        raise Stopped(_requested)
    abandoned = getattr(_local, "abandoned", None)
    if abandoned is not None and abandoned.is_set():
        raise Stopped(signal.SIGINT)


def pause(seconds: float, look: float = 0.1) -> None:
    """Wait, and look at the flag meanwhile."""
    end = time.monotonic() + seconds
    while True:
        check()
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(look, left))


def abandonable(task: Callable[[], object], abandoned: threading.Event) -> Any:
    """Run a task that ends at its next look once the event is set."""
    _local.abandoned = abandoned
    try:
        return task()
    finally:
        _local.abandoned = None


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """SIGINT and SIGTERM set the flag; a second one ends the process at once, as a kill would: files stay whole."""
    global _requested
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _requested = 0
    before = {number: signal.signal(number, _ask) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        _requested = 0


def _ask(number: int, frame: object) -> None:
    global _requested
    if _requested:
        os._exit(128 + number)
    _requested = number
    # Not print: the signal may have come in the middle of one.
    os.write(2, b"seqgp: stopping after the piece of work in hand; once more to stop at once\n")
