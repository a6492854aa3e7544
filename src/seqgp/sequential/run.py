"""The loop over snapshots, with progress, callbacks and (with a store) resumption."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Key

from seqgp.models.errors import DataError
from seqgp.models.snapshot import Snapshot
from seqgp.sequential.progress import ProgressBar
from seqgp.sequential.sampler import SequentialSampler
from seqgp.sequential.state import Info, State

Callback = Callable[[State, Info], None]


class Run(NamedTuple):
    """The result of a loop: the last state, and an info per step (the last ones, where ``keep`` says so)."""

    state: State
    infos: list[Info]


def steps(
    sampler: SequentialSampler,
    snapshots: Iterable[Snapshot],
    key: Key[Array, ""],
    state: State | None = None,
    progress: bool | None = None,
) -> Iterator[tuple[State, Info]]:
    """State and info after each snapshot, as they come: the loop for one's own use.

    The key of a step depends on ``key`` and the number of the step alone, so a sequence that is interrupted and taken
    up again from a state gives the same draws.
    """
    with ProgressBar(progress) as bar:
        for snapshot in snapshots:
            number = 0 if state is None else state.step
            key_step = jax.random.fold_in(key, number)
            bar.begin(snapshot.t if isinstance(snapshot, Snapshot) else float("nan"))
            if state is None:
                state, info = sampler.init(key_step, snapshot, progress=bar.advance)
            else:
                state, info = sampler.step(key_step, state, snapshot, progress=bar.advance)
            bar.end(info)
            yield state, info


def run(
    sampler: SequentialSampler,
    snapshots: Iterable[Snapshot],
    key: Key[Array, ""],
    state: State | None = None,
    callbacks: Callback | Iterable[Callback] = (),
    progress: bool | None = None,
    keep: int | None = None,
) -> Run:
    """Sample after each snapshot in turn.

    Args:
        sampler: the sampler.
        snapshots: any iterable; a generator that never ends is fine with ``keep``, and a callback to take the results.
        key: a random key.
        state: where to go on from; a new sequence by default.
        callbacks: called with ``(state, info)`` after each step; raise ``StopIteration`` to end the loop.
        progress: whether to show a progress bar; by default where the output is a terminal.
        keep: how many of the last infos to keep; all by default.
    """
    called = [callbacks] if callable(callbacks) else list(callbacks)
    infos: deque[Info] = deque(maxlen=keep)
    start = time.perf_counter()
    for reached, info in steps(sampler, snapshots, key, state, progress):
        state = reached
        infos.append(info)
        try:
            for callback in called:
                callback(state, info)
        except StopIteration:
            break
    if state is None:
        raise DataError(f"run: no snapshot was given (waited {time.perf_counter() - start:.1f} s)")
    return Run(state, list(infos))


__all__: list[Any] = ["Run", "run", "steps"]
