"""What a run does with each snapshot that it is given: a step, a revision of the past, or nothing, and it says so."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, get_args

import jax
import numpy as np

from seqgp.base.errors import DataError, SamplerError
from seqgp.base.snapshot import Snapshot
from seqgp.samplers.base import Revising, State
from seqgp.samplers.loop import NO_PAST, Late, LateOption

LATE = get_args(LateOption)


class SeenBefore(NamedTuple):
    """What a snapshot is to a run: later than all of it, used with the same values, or neither (and why)."""

    later: bool = False
    why: str | None = None
    version: int = 0  # of data that were used: which of the versions of that time, from 0

    @property
    def refused(self) -> bool:
        """Whether the data are neither new nor known: they must not be passed over in silence."""
        return self.why is not None


def check_late(late: object) -> None:
    """Raise unless it says what to do with late data."""
    if late not in LATE:
        raise SamplerError(f"late = {late!r} is not one of {', '.join(map(repr, LATE))}")


def remedy(sampler: object, state: object, t: float, late: str) -> str:
    """Why late data at a time cannot be put into the past, and what to do about it; empty where they can."""
    fixed, history = getattr(state, "fixed_until", -math.inf), getattr(sampler, "history", None)
    if not isinstance(sampler, Revising):
        return f"{type(sampler).__name__}: {NO_PAST}"
    if t <= fixed:
        return (
            f"it is beyond the bounded history (history={history}): the data up to t = {fixed:g} are kept only as a "
            "quadratic of the parameters; leave it out, or begin a run with a larger history="
        )
    return 'late="refuse" is set: leave it out, or late="revise"' if late == "refuse" else ""


class Arrivals:
    """Snapshots in the order in which they are given, as steps and revisions of the past.

    Late snapshots that follow each other in a list are one revision; of any other iterable, which may wait for the
    next one, each is.

    Args:
        snapshots: any iterable.
        compare: what a snapshot is to the run so far.
        late: what to do with late and corrected ones: ``"revise"``, ``"refuse"`` or ``"skip"``.
        sampler: of the run, which says whether the past can be revised.
        state: the state so far.
    """

    def __init__(
        self,
        snapshots: Iterable[Snapshot],
        compare: Callable[[Snapshot], SeenBefore],
        late: LateOption,
        sampler: object,
        state: Callable[[], State | None],
    ):
        self._snapshots, self._compare, self._late = snapshots, compare, late
        self._sampler, self._state = sampler, state
        self._together = isinstance(snapshots, Sequence)
        self.given: Snapshot | None = None  # the last one that was not left out, at the time of the state
        self.late: Late | None = None  # that are being put into the past

    @property
    def snapshot(self) -> Snapshot:
        """The data at the time of the state."""
        if self.given is None:
            raise DataError("run: no snapshot was given")
        return self.given

    def __iter__(self) -> Iterator[Snapshot | Late]:
        group: dict[float, Snapshot] = {}
        for snapshot in self._snapshots:
            if group and (not isinstance(snapshot, Snapshot) or snapshot.t in group or self._is_later(snapshot)):
                yield self._revision(group)
                group = {}
            if not isinstance(snapshot, Snapshot):
                yield self._step(snapshot)  # the sampler says what it is instead
                continue
            found = self._compare(snapshot)
            if found.later:
                yield self._step(snapshot)
            elif found.refused and self._is_taken(snapshot, str(found.why)):
                group[snapshot.t] = snapshot
                if not self._together:
                    yield self._revision(group)
                    group = {}
        if group:
            yield self._revision(group)

    def _is_later(self, snapshot: Snapshot) -> bool:
        state = self._state()
        return state is None or snapshot.t > state.t

    def _is_taken(self, snapshot: Snapshot, why: str) -> bool:
        """Whether a late snapshot is put into the past; one that is left out is named."""
        if self._late == "skip":
            warnings.warn(f"left out: {why}", stacklevel=4)
            return False
        said = remedy(self._sampler, self._state(), snapshot.t, self._late)
        if said:
            raise DataError(f"{why}; {said}")
        return True

    def _step(self, snapshot: Any) -> Snapshot:
        self.given, self.late = snapshot, None
        return snapshot

    def _revision(self, group: dict[float, Snapshot]) -> Late:
        state = self._state()
        self.late = Late(tuple(group[t] for t in sorted(group)))
        last = self.late.snapshots[-1]
        if state is not None and last.t == state.t:
            self.given = last
        return self.late


def in_memory(state: Callable[[], State | None]) -> Callable[[Snapshot], SeenBefore]:
    """What a snapshot is to a run that is not stored."""

    def compare(snapshot: Snapshot) -> SeenBefore:
        now = state()
        if now is None or snapshot.t > now.t:
            return SeenBefore(later=True)
        held = [one for one in getattr(now, "snapshots", ()) if one.t == snapshot.t]
        if not held:
            return SeenBefore(why=f"t = {snapshot.t:.12g} is not after the last one, {now.t:.12g}")
        if same_data(held[0], snapshot):
            return SeenBefore()
        return SeenBefore(why=f"the data at t = {snapshot.t:.12g} are not those that were given before")

    return compare


def same_data(a: Snapshot, b: Snapshot) -> bool:
    """Whether two snapshots hold the same rows, in whatever order."""
    rows_a, rows_b = rows_of(a), rows_of(b)
    if rows_a is None or rows_b is None or rows_a.shape != rows_b.shape:
        return _equal(a, b) if rows_a is None or rows_b is None else False
    return np.array_equal(_sorted(rows_a), _sorted(rows_b), equal_nan=True)


def _equal(a: Snapshot, b: Snapshot) -> bool:
    one, other = (jax.tree.leaves((snapshot.x, snapshot.y, snapshot.context)) for snapshot in (a, b))
    pairs = [(np.asarray(x), np.asarray(y)) for x, y in zip(one, other)]
    return (
        len(one) == len(other)
        and all(x.dtype == y.dtype and x.shape == y.shape for x, y in pairs)
        and all(x.tobytes() == y.tobytes() for x, y in pairs)
    )


def rows_of(snapshot: Snapshot) -> np.ndarray | None:
    """One row a location: inputs, data, context; ``None`` where the data are not of that form."""
    n = len(snapshot.x)
    leaves: list[Any] = [np.asarray(leaf) for leaf in jax.tree.leaves((snapshot.y, snapshot.context))]
    if any(leaf.shape != (n,) or leaf.dtype.kind not in "fiub" for leaf in leaves):
        return None
    return np.column_stack([snapshot.x, *leaves])


def _sorted(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort(rows.T[::-1])]
