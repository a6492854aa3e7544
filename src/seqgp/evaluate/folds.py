"""Snapshots split into folds, by station or by block of time: what is left out in turn, and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import jax
import numpy as np
from jaxtyping import PyTree

from seqgp.base.errors import DataError
from seqgp.base.snapshot import Snapshot

LeaveOut = Literal["station", "time"]


class Fold(NamedTuple):
    """One split of the data.

    Attributes:
        name: what it is called.
        kept: the snapshots without what is left out; one that nothing is left of is not among them.
        held_out: what is left out.
    """

    name: str
    kept: list[Snapshot]
    held_out: list[Snapshot]


def folds_of(
    snapshots: Sequence[Snapshot],
    leave_out: LeaveOut,
    count: int,
    block: int | None = None,
    seed: int = 0,
) -> list[Fold]:
    """The folds of some snapshots; each datum is left out once.

    Args:
        snapshots: the data; a station is known by its label, or by its inputs.
        leave_out: ``"station"`` for groups of stations, drawn at random and as equal in size as can be; ``"time"`` for
            blocks of consecutive times.
        count: the number of folds.
        block: for ``"time"``, the number of times in a block; fold ``k`` has every ``count``-th block from the ``k``-th
            on. By default each fold is one block.
        seed: of the groups of stations.
    """
    if leave_out not in get_args(LeaveOut):
        raise DataError(f"crossvalidate: leave_out = {leave_out!r} is neither 'station' nor 'time'")
    if leave_out == "station":
        if block is not None:
            raise DataError("crossvalidate: block is a number of times, which leave_out='time' alone has")
        return _by_station(snapshots, count, seed)
    return _by_time(snapshots, count, block)


def _by_station(snapshots: Sequence[Snapshot], count: int, seed: int) -> list[Fold]:
    names = list(dict.fromkeys(name for one in snapshots for name in row_names(one)))
    _check_count(count, len(names), "stations")
    order = np.random.default_rng(seed).permutation(len(names))
    groups = [{names[i] for i in part} for part in np.array_split(order, count)]
    return [_fold(number, snapshots, _among(group)) for number, group in enumerate(groups)]


def _among(group: set[Any]) -> Callable[[int, Snapshot], np.ndarray]:
    return lambda _, one: np.array([name in group for name in row_names(one)])


def _by_time(snapshots: Sequence[Snapshot], count: int, block: int | None) -> list[Fold]:
    total = len(snapshots)
    _check_count(count, total, "times")
    if block is None:
        fold = np.repeat(np.arange(count), [len(part) for part in np.array_split(np.arange(total), count)])
    else:
        if block < 1 or block * count > total:
            raise DataError(
                f"crossvalidate: {count} folds with blocks of {block} times do not fit into {total} times; give a "
                f"block between 1 and {total // count}"
            )
        fold = np.arange(total) // block % count
    return [
        _fold(number, snapshots, lambda i, one, k=number: np.full(len(one.x), fold[i] == k)) for number in range(count)
    ]


def _check_count(count: int, most: int, what: str) -> None:
    if not 2 <= count <= most:
        raise DataError(f"crossvalidate: {count} folds of {most} {what}; give at least 2, and at most {most}")


def _fold(number: int, snapshots: Sequence[Snapshot], out: Callable[[int, Snapshot], np.ndarray]) -> Fold:
    """A fold by its number, from a function that says which rows of each snapshot are left out."""
    kept, held_out = [], []
    for i, one in enumerate(snapshots):
        rows = out(i, one)
        if rows.any():
            held_out.append(_taken(one, np.flatnonzero(rows)))
        if not rows.all():
            kept.append(_taken(one, np.flatnonzero(~rows)))
    return Fold(f"fold{number + 1}", kept, held_out)


def row_names(one: Snapshot) -> list[Any]:
    """What tells the rows of a snapshot apart at all times."""
    return getattr(one, "labels", None) or [tuple(row) for row in one.x.tolist()]


def _taken(one: Snapshot, rows: np.ndarray) -> Snapshot:
    """Some rows of a snapshot."""
    if one.y.shape != (len(one.x),):
        raise DataError(f"crossvalidate: y has shape {one.y.shape} at t = {one.t:g}, expected one value per input")
    if len(rows) == len(one.x):
        return one

    def some(leaf: PyTree) -> Any:
        values = np.asarray(leaf)
        return values[rows] if values.shape[:1] == (len(one.x),) else leaf

    labels = getattr(one, "labels", None)
    names = None if labels is None else [labels[row] for row in rows]
    return Snapshot(one.t, one.x[rows], one.y[rows], jax.tree.map(some, one.context), names)
