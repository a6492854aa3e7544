"""The loop over snapshots, with progress, callbacks and (with a store) resumption."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import jax
from jaxtyping import Array, Key

from seqgp.base.errors import DataError, SamplerError
from seqgp.base.info import Info, OnlineInfo
from seqgp.base.snapshot import Snapshot
from seqgp.runtime import stopping
from seqgp.runtime.progress import ProgressBar
from seqgp.samplers.base import Refreshing, Revising, Sampler, State
from seqgp.samplers.keys import FORECASTS, REFRESH
from seqgp.samplers.validation import check_key, naming_callbacks

Callback = Callable[[State, Info], None]
NO_PAST = "it keeps no past, so late and corrected data cannot be used; leave them out, or take OnlineSampler"
LateOption = Literal["revise", "refuse", "skip"]  # what is done with late and corrected data
Forecast = Callable[[Key[Array, ""], State, Snapshot], tuple[dict[str, float], tuple[str, ...]]]


class Late(NamedTuple):
    """Late and corrected snapshots, which a step puts into the past all at once."""

    snapshots: tuple[Snapshot, ...]

    @property
    def t(self) -> float:
        """The first of their times."""
        return min(one.t for one in self.snapshots)


class LoopResult(NamedTuple):
    """The result of a loop: the last state, and an info per step (the last ones, where ``keep`` says so)."""

    state: State
    infos: list[Info]


def steps(
    key: Key[Array, ""],
    sampler: Sampler,
    snapshots: Iterable[Snapshot | Late],
    state: State | None = None,
    progress: bool | None = None,
    forecast: Forecast | None = None,
) -> Iterator[tuple[State, Info]]:
    """Yield the state and the info after each snapshot, for a loop of your own; ``run`` also stores and revises.

    The key of a step depends only on ``key`` and the number of the step, so a sequence that resumes from a state gives
    the same draws.

    Args:
        key: a random key.
        sampler: the sampler.
        snapshots: any iterable, in the order of time; ``Late`` ones revise the past, which is a step of its own at the
            time of the last one.
        state: the state to continue from; a new sequence by default.
        progress: whether to show a progress bar; by default if the output is a terminal.
        forecast: called with a key, the state and the next snapshot before each step; the info holds the scores and
            warnings that it returns.
    """
    check_key(key)
    with ProgressBar(progress) as bar:
        for snapshot in snapshots:
            stopping.check()
            number = 0 if state is None else state.step
            key_step = jax.random.fold_in(key, number)
            bar.begin(snapshot.t if isinstance(snapshot, Snapshot) else float("nan") if state is None else state.t)
            with naming_callbacks(sampler.model, getattr(snapshot, "t", float("nan"))):  # what is none is refused below
                if isinstance(snapshot, Late):
                    if not isinstance(sampler, Revising):
                        raise SamplerError(f"{type(sampler).__name__}: {NO_PAST}")
                    state, info = sampler.revise(key_step, state, snapshot.snapshots, progress=bar.advance)
                elif state is None:
                    state, info = sampler.init(key_step, snapshot, progress=bar.advance)
                else:
                    if forecast is not None:
                        state = state.ready(sampler.model)  # forecast and step need the same of a state from disk
                    scores, remarks = _forecast(forecast, key, state, snapshot)
                    state, info = sampler.step(key_step, state, snapshot, progress=bar.advance)
                    values = getattr(forecast, "values", None) if scores else None
                    info = info._replace(scores=scores, warnings=(*info.warnings, *remarks), forecast=values)
            bar.end(info)
            yield state, info


def _forecast(forecast: Forecast | None, key, state: State, snapshot: Snapshot) -> tuple[dict[str, float], tuple]:
    if forecast is None or not isinstance(snapshot, Snapshot) or not snapshot.t > state.t:
        return {}, ()
    return forecast(jax.random.fold_in(key, FORECASTS + state.step), state, snapshot)


def loop(
    sampler: Sampler,
    snapshots: Iterable[Snapshot | Late],
    key: Key[Array, ""],
    state: State | None = None,
    callbacks: Callback | Iterable[Callback] = (),
    progress: bool | None = None,
    keep: int | None = None,
    forecast: Forecast | None = None,
) -> LoopResult:
    """Sample after each snapshot in turn.

    Args:
        sampler: the sampler.
        snapshots: any iterable; a generator that never ends is fine with ``keep``, and a callback to take the results.
        key: a random key.
        state: where to go on from; a new sequence by default.
        callbacks: called with ``(state, info)`` after each step; raise ``StopIteration`` to end the loop.
        progress: whether to show a progress bar; by default where the output is a terminal.
        keep: how many of the last infos to keep; all by default.
        forecast: called with the state before each snapshot, to predict it; what it returns is noted in the info.
    """
    called = [callbacks] if callable(callbacks) else list(callbacks)
    infos: deque[Info] = deque(maxlen=keep)
    for reached, info in steps(key, sampler, snapshots, state, progress, forecast):
        state = reached
        infos.append(info)
        try:
            for callback in called:
                callback(state, info)
        except StopIteration:
            break
    if state is None:
        raise DataError("run: no snapshot was given")
    return _refreshed(sampler, key, LoopResult(state, list(infos)))


def _refreshed(sampler: Sampler, key: Key[Array, ""], done: LoopResult) -> LoopResult:
    """The last state and its info corrected by all data, where the sampler corrects now and then and has not just now.

    Callbacks see nothing of it, so that a run that is resumed goes on from the state as its last step left it.
    """
    last = done.infos[-1] if done.infos else None
    exact = last.exact if isinstance(last, OnlineInfo) else None
    if last is None or exact is None or not exact.paths or not isinstance(sampler, Refreshing):
        return done
    if exact or exact.step == last.step:
        return done
    key_refresh = jax.random.fold_in(jax.random.fold_in(key, done.state.step), REFRESH)
    state, info = sampler.refresh(key_refresh, done.state)
    info = info._replace(
        scores=last.scores, forecast=last.forecast, warnings=tuple(dict.fromkeys((*info.warnings, *last.warnings)))
    )
    return LoopResult(state, [*done.infos[:-1], info])
