"""Late and corrected data on disk: the step that took them in holds them, and earlier steps hold what they replace.

Steps are only ever added: a run that is killed has a revision whole or not at all, and nothing that was used is
lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from seqgp.base.snapshot import Snapshot
from seqgp.io.serialise import Arrays, decode, encode

PART = "late"  # of the header of a step that revised the past
_KEYS = {"t", "labels", "beside_t", "when", "data", "beside"}


class LateData(NamedTuple):
    """What a step put into the past.

    Attributes:
        snapshots: the late and corrected snapshots, in the order of time.
        labels: the names of the locations of each, where it has them.
        beside: what later steps need beside the data, of each time from the first of these on.
        when: the date and time at which they were taken.
    """

    snapshots: tuple[Snapshot, ...]
    labels: tuple[list[str] | None, ...]
    beside: dict[float, Any]
    when: str = ""


class Datum(NamedTuple):
    """Where the data of one time stand: the step, and which of its late snapshots, or its own."""

    step: Any
    which: int | None

    def snapshot(self) -> Snapshot:
        """The data."""
        return self.step.snapshot if self.which is None else self.step.late.snapshots[self.which]

    def labels(self) -> list[str] | None:
        """The names of its locations."""
        return self.step.labels if self.which is None else self.step.late.labels[self.which]


def encode_late(late: LateData, arrays: Arrays) -> dict[str, Any]:
    """For the header of a step; the arrays are added to ``arrays``."""
    return {
        "t": [float(one.t) for one in late.snapshots],
        "labels": list(late.labels),
        "beside_t": [float(t) for t in late.beside],
        "when": late.when or datetime.now(UTC).isoformat(timespec="seconds"),
        "data": encode([tuple(one) for one in late.snapshots], f"{PART}/data", arrays),
        "beside": encode(list(late.beside.values()), f"{PART}/beside", arrays),
    }


def decode_late(part: dict[str, Any], arrays: object) -> LateData:
    """What a step put into the past, from its header."""
    snapshots = tuple(Snapshot(*one) for one in decode(part["data"], arrays))
    beside = dict(zip(part["beside_t"], decode(part["beside"], arrays)))
    return LateData(snapshots, tuple(part["labels"]), beside, part["when"])


def is_late_part(part: object) -> bool:
    """Whether this part of a header is one that seqgp writes."""
    if part is None:
        return True
    if not (isinstance(part, dict) and part.keys() >= _KEYS and isinstance(part["when"], str)):
        return False
    times = [part["t"], part["beside_t"]]
    numbers = all(
        isinstance(one, list) and all(isinstance(t, float) and math.isfinite(t) for t in one) for one in times
    )
    return numbers and isinstance(part["labels"], list) and 0 < len(part["t"]) == len(part["labels"])


class Kept(NamedTuple):
    """The data of the last times of a run."""

    data: dict[float, Datum]
    beside: dict[float, Datum]
    numbers: list[int]  # of the steps that they stand in, the last first


def kept_data(steps: Iterable[Any], count: float) -> Kept:
    """The data of the last ``count`` times as they are after all revisions.

    Args:
        steps: the steps from the last one back; a number in place of one that is missing or cannot be read.
        count: how many times; infinity for all.
    """
    found = Kept({}, {}, [])
    lost = 0
    for step in steps:
        if isinstance(step, int):
            found.numbers.append(step)
            lost += 1
            continue
        found.numbers.append(step.number)
        for i, t in enumerate(step.late_times):
            found.data.setdefault(t, Datum(step, i))
        for i, t in enumerate(step.beside_times):
            found.beside.setdefault(t, Datum(step, i))
        found.data.setdefault(step.t, Datum(step, None))
        found.beside.setdefault(step.t, Datum(step, None))
        # All times of earlier steps are before this one's: once enough are after it, none of those is wanted.
        if len(found.data) + lost >= count and sum(t >= step.t for t in found.data) + lost >= count:
            break
    return found


def beside(datum: Datum | None) -> Any:
    """What stands beside the data of one time; ``None`` where nothing does."""
    if datum is None:
        return None
    if datum.which is None:
        return datum.step.beside_data
    return list(datum.step.late.beside.values())[datum.which]
