"""Late and corrected rows of a table, put into the data that a run has of their time.

A row at known inputs takes the place of what is known there (with an empty value it retracts it); one at other inputs
is added. All other rows of that time stay.
"""

from __future__ import annotations

import jax
import numpy as np

from seqgp.base.snapshot import Snapshot
from seqgp.io.late_data import Datum
from seqgp.io.seen import Seen
from seqgp.io.tables import Labelled
from seqgp.samplers.arrivals import rows_of


def fresh_rows(seen: Seen, given: Labelled, again: bool) -> Labelled | None:
    """The rows of a late snapshot that change something; ``None`` where no row does.

    Args:
        seen: the data that the run has used.
        given: data that are not after the last ones.
        again: whether rows that were used and replaced since are known; otherwise they are put back.
    """
    versions, rows = seen.versions(given.t), rows_of(given)
    if not versions:
        return given if seen.compare(given).refused else None
    held = [rows_of(one.snapshot()) for one in (versions if again else versions[-1:])]
    if rows is None or any(one is None for one in held):
        return given if seen.compare(given, 0 if again else -1).refused else None
    known = {_key(row) for one in held for row in one}  # pyright: ignore[reportOptionalIterable]
    places = {_key(place) for place in versions[-1].snapshot().x}
    fresh = [
        i
        for i, row in enumerate(rows)
        if _key(row) not in known and not (np.isnan(given.y[i]) and _key(given.x[i]) not in places)
    ]
    return _chosen(given, fresh) if fresh else None


def put_in(seen: Seen, rows: Labelled) -> Labelled:
    """The data of a time of a run with some of its rows replaced, and others added."""
    versions = seen.versions(rows.t)
    if not versions or rows_of(rows) is None or rows_of(versions[-1].snapshot()) is None:
        return rows
    return _joined(_labelled(versions[-1]), rows)


def disjoint(a: Labelled, b: Labelled) -> Labelled | None:
    """The rows of two tables for one time together; ``None`` where they have different data for one place."""
    if rows_of(a) is None or rows_of(b) is None or (a.labels is None) != (b.labels is None):
        return None
    places = {_key(place): row for row, place in enumerate(a.x)}
    shared = [(places[_key(place)], row) for row, place in enumerate(b.x) if _key(place) in places]
    rows_a, rows_b = np.asarray(rows_of(a)), np.asarray(rows_of(b))
    if any(_key(rows_a[i]) != _key(rows_b[j]) for i, j in shared):
        return None
    return _joined(a, b)


def _key(row: np.ndarray) -> bytes:
    """What tells rows apart; every NaN is the same."""
    return np.where(np.isnan(row), np.nan, row + 0.0).tobytes()


def _labelled(datum: Datum) -> Labelled:
    one = datum.snapshot()
    return Labelled(one.t, one.x, one.y, one.context, datum.labels())


def _chosen(given: Labelled, rows: list[int]) -> Labelled:
    context = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], given.context)
    labels = None if given.labels is None else [given.labels[row] for row in rows]
    records = None if given.records is None else given.records[rows]
    return Labelled(given.t, given.x[rows], given.y[rows], context, labels, records)


def _joined(known: Labelled | Snapshot, rows: Labelled) -> Labelled:
    """Some data with rows replaced and added; the order of the known ones stays."""
    number = {_key(place): i for i, place in enumerate(known.x)}
    added = [row for row, place in enumerate(rows.x) if _key(place) not in number]
    replaced = [(number[_key(place)], row) for row, place in enumerate(rows.x) if _key(place) in number]

    def joined(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        found = np.concatenate([np.asarray(old), np.asarray(new)[added]])
        for at, row in replaced:
            found[at] = np.asarray(new)[row]
        return found

    labels = getattr(known, "labels", None)
    if labels is not None and rows.labels is not None:
        labels = [*labels, *(rows.labels[row] for row in added)]
    elif added:
        labels = None
    context = jax.tree.map(joined, known.context, rows.context)
    return Labelled(known.t, joined(known.x, rows.x), joined(known.y, rows.y), context, labels)
