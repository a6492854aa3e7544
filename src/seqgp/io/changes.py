"""What late and corrected data changed in a run: the log of its revisions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seqgp.base.snapshot import Snapshot
from seqgp.base.transforms import Transform, transform_of
from seqgp.io.late_data import Datum
from seqgp.io.store import Store


class Change(NamedTuple):
    """One datum; ``None`` where there was none, or is none any more, NaN where it is missing."""

    t: float
    location: str
    before: float | None
    after: float | None


class RevisionRecord(NamedTuple):
    """A step that revised the past: when it was taken, at which time of the run, and what it changed."""

    step: int
    t: float
    when: str
    changes: list[Change]
    extras: dict[str, Any]


def revisions_of(store: Store) -> list[RevisionRecord]:
    """All revisions of a run, the first one first, with what was replaced; data are in the units of the table."""
    transform = transform_of(store.manifest.section("data"))
    held: dict[float, Datum] = {}
    found = []
    for step in store:
        late = step.late
        if late is None:
            held[step.t] = Datum(step, None)
            continue
        changes = []
        for i, (snapshot, labels) in enumerate(zip(late.snapshots, late.labels)):
            before = held.get(snapshot.t)
            old = {} if before is None else _data(before.snapshot(), before.labels(), transform)
            changes += _changed(snapshot.t, old, _data(snapshot, labels, transform))
            held[snapshot.t] = Datum(step, i)
        found.append(RevisionRecord(step.number, step.t, late.when, changes, step.info.extras))
    return found


def _data(snapshot: Snapshot, labels: list[str] | None, transform: Transform | None) -> dict[str, float]:
    """The data by location, in the units of the table; of data of another shape, one number for all of them."""
    if snapshot.y.shape != (len(snapshot.x),):
        return {"all": float(np.nansum(snapshot.y))}
    y = snapshot.y if transform is None else transform.restored(snapshot.y)
    names = labels if labels is not None and len(set(labels)) == len(labels) else None
    places = names or ["(" + ", ".join(f"{one:g}" for one in place) + ")" for place in snapshot.x]
    return dict(zip(places, y.tolist()))


def _changed(t: float, before: dict[str, float], after: dict[str, float]) -> list[Change]:
    found = []
    for place in dict.fromkeys([*before, *after]):
        old, new = before.get(place), after.get(place)
        same = old is not None and new is not None and (old == new or (np.isnan(old) and np.isnan(new)))
        if not same:
            found.append(Change(t, place, old, new))
    return found
