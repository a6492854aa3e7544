"""The states of a run in the order of time, with their filters, for predictions from each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from seqgp.base.errors import DataError
from seqgp.base.snapshot import Snapshot
from seqgp.base.transforms import Transform, transform_of
from seqgp.model import Model
from seqgp.samplers.base import State
from seqgp.samplers.online.filters import advanced
from seqgp.samplers.online.state import Live, OnlineState


class Replay(NamedTuple):
    """A run to predict from.

    Attributes:
        model: the model.
        times: of the steps that the run knows of.
        steps: a state for each time, or a step on disk that has one; ``None`` where it is not kept.
        snapshots: the data of these steps; ``None`` where they are not kept.
        labels: the names of the locations of these steps, where the data have them.
        transform: that of the data, where the run has one.
    """

    model: Model
    times: list[float]
    steps: list[Any]
    snapshots: list[Snapshot] | None
    labels: list[list[str] | None]
    transform: Transform | None = None

    def states(self, numbers: Sequence[int]) -> Iterator[tuple[int, State]]:
        """The states of some steps, by their numbers from 0 and in this order, ready to predict from."""
        before: State | None = None
        for number in sorted(set(numbers)):
            step = self.steps[number]
            if step is None:
                continue
            before = made_ready(self.model, step if hasattr(step, "predictive") else step.state, before)
            yield number, before

    @property
    def last(self) -> State:
        """The state after all data."""
        step = self.steps[-1]
        return step if hasattr(step, "predictive") else step.state


def replay_of(run: Any, who: str) -> Replay:
    """What can be predicted from: all whole steps of a store, or the last state of a run in memory.

    Args:
        run: a run, or a store.
        who: asks, for messages.
    """
    store = run if hasattr(run, "latest") else getattr(run, "store", None)
    model = getattr(run, "model", None)
    if store is None and not (hasattr(run, "infos") and hasattr(run, "state")):
        raise DataError(f"{who}: expected a run or a seqgp.Store, got {type(run).__name__}")
    if model is None:
        raise DataError(f"{who}: the model of the store has code of its own; give the run that seqgp.run returns")
    if store is not None:
        steps = store.standing()
        if not steps:
            raise DataError(f"{who}: {store.path}: the run has no step yet")
        kept = [step if step.whole else None for step in steps]
        data, labels = [step.snapshot for step in steps], [step.labels for step in steps]
        transform = transform_of(store.manifest.section("data"))
        return Replay(model, [step.t for step in steps], kept, data, labels, transform)
    state, held = run.state, getattr(run.state, "snapshots", None)
    if isinstance(state, OnlineState) and held:
        data = list(held)
        return Replay(model, [one.t for one in data], [*[None] * (len(data) - 1), state], data, [None] * len(data))
    times = [info.t for info in run.infos]
    return Replay(model, times, [*[None] * (len(times) - 1), state], None, [None] * len(times))


def made_ready(model: Model, state: State, before: State | None) -> State:
    """With its filters, advanced from those of an earlier state where both have the same particles."""
    if not (isinstance(state, OnlineState) and isinstance(before, OnlineState) and _has_more_data(before, state)):
        return state.ready(model)
    history, filters = before.live.history, before.live.filters
    known = len(before.snapshots)
    if _has_its_particles(before, state):
        for snapshot, linearised in zip(state.snapshots[known:], state.linearised_snapshots[known:]):
            history = history.with_snapshot(snapshot, linearised)
            filters, _, _ = advanced(history, filters)
        return state._replace(live=Live(history, filters))
    if state.memory is None and state.dropped == 0 and known <= state.evaluated_at:
        return state._replace(live=state.revived(model, history))
    return state.ready(model)


def _has_its_particles(before: OnlineState, after: OnlineState) -> bool:
    """Whether filters run over the data of one state are, with more data, those of the other."""
    return before.evaluated_at == after.evaluated_at and np.array_equal(before.particles.z, after.particles.z)


def _has_more_data(before: OnlineState, after: OnlineState) -> bool:
    """Whether the data of one state begin with those of the other, which has filters."""
    same = (
        before.live is not None
        and before.fingerprint == after.fingerprint
        and before.dropped == after.dropped
        and (before.memory is None) == (after.memory is None)
        and before.settings == after.settings
        and len(before.snapshots) <= len(after.snapshots)
        and all(a is b for a, b in zip(before.linearised_snapshots, after.linearised_snapshots))
    )
    return same and all(
        a is b or (a.t == b.t and np.array_equal(a.x, b.x) and np.array_equal(a.y, b.y, equal_nan=True))
        for a, b in zip(before.snapshots, after.snapshots)
    )
