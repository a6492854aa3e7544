"""Times in words, with their dates; by the standard library alone, for whoever has no tables."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any


def date_of(t: float, origin: str, unit: str) -> str:
    """The date, in ISO, of a time that is counted from an origin.

    Raises:
        OverflowError: where no calendar has it.
    """
    date = datetime.datetime.fromisoformat(origin) + datetime.timedelta(**{unit: t})
    if unit != "seconds":  # a third of a day is no float: what the counting has rounded is rounded back
        date += datetime.timedelta(milliseconds=round(date.microsecond / 1000), microseconds=-date.microsecond)
    return date.isoformat()


def moment_text(t: float, data: Mapping[str, Any]) -> str:
    """A time in words: with its date where ``data``, a section of a configuration, says what it is counted from.

    What a run of one's own remembers as its configuration may be anything, and then says nothing of dates.
    """
    number = f"t = {t:.12g}"
    if not isinstance(data.get("origin"), str):
        return number
    try:
        date = date_of(t, data["origin"], data.get("unit") or "days")
    except (OverflowError, ValueError, TypeError):  # no calendar has it; no date; no unit of time
        return number
    return f"{date.replace('T00:00:00', '')} ({number})"
