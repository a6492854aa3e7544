"""How the columns of the table that a run was made from are called, and what its dates are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from seqgp.io.timestamps import date_of


class Naming(NamedTuple):
    """The names of columns; ``None`` where there is no table, or none that says it."""

    time: str | None
    inputs: list[str] | None
    value: str | None
    location: str | None
    origin: str | None  # where times are dates, the date of time zero
    unit: str

    def dates(self, times: Sequence[float]) -> list[str] | None:
        """Times as dates, in ISO; ``None`` where they are numbers, or no calendar has them."""
        if self.origin is None:
            return None
        try:
            return [date_of(t, self.origin, self.unit) for t in times]
        except OverflowError:
            return None


def naming_of(data: Mapping[str, Any], dimension: int) -> Naming:
    """The names in a section ``data``; what a run of one's own remembers there may be anything.

    Args:
        data: the section.
        dimension: how many inputs there are.
    """
    inputs, unit = data.get("inputs"), data.get("unit") or "days"
    named = isinstance(inputs, (list, tuple)) and len(inputs) == dimension and len(set(map(str, inputs))) == dimension
    origin = data.get("origin")
    try:
        date_of(0.0, origin, unit)  # pyright: ignore[reportArgumentType]
    except (ValueError, TypeError, OverflowError):
        origin = None
    return Naming(
        _text(data.get("time")),
        [str(name) for name in inputs] if named and inputs is not None else None,
        _text(data.get("value")),
        _text(data.get("location")),
        origin,
        str(unit),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
