"""A task with a limit on how long it may go without progress: it runs in a thread that can be left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from seqgp.runtime import stopping

LOOK = 0.1  # seconds between two looks
Result = TypeVar("Result")


def run_within(seconds: float, task: Callable[[], Result], progress: Callable[[], object]) -> Result | None:
    """The result of a task; ``None`` once ``progress()`` has been the same for so many seconds.

    A thread cannot be ended from outside: one that is left behind stops at its next look at the flag, after the piece
    of work in hand, or with the process.
    """
    abandoned, ended = threading.Event(), threading.Event()
    results: list[Result] = []
    failures: list[BaseException] = []

    def body() -> None:
        try:
            results.append(stopping.abandonable(task, abandoned))
        except BaseException as error:  # raised again by whoever waits
            failures.append(error)
        finally:
            ended.set()

    threading.Thread(target=body, name="seqgp (stream)", daemon=True).start()
    last, since = progress(), time.monotonic()
    try:
        while not ended.wait(min(LOOK, seconds)):
            stopping.check()
            now = progress()
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > seconds:
                abandoned.set()
                return None
    except BaseException:  # asked to stop: the step in hand may end
        abandoned.set()
        ended.wait(seconds)
        raise
    if failures:
        raise failures[0]
    return results[0]
