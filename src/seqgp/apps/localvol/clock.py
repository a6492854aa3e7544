"""Dates as times of the model."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

Clock = Literal["calendar", "business"]
_EPOCH = np.datetime64("1970-01-01", "ns")
_YEAR = np.timedelta64(8766, "h").astype("timedelta64[ns]")
_BUSINESS_DAYS = 365.25 * 5 / 7  # a year


def years(date: Any, clock: Clock = "calendar") -> float:
    """A date as a time of the model: years since 1970.

    Args:
        date: anything that pandas takes for a date, with or without a time of day.
        clock: `"calendar"` counts years of 365.25 days; `"business"` stands still on Saturdays and Sundays.
    """
    moment: Any = pd.Timestamp(date)
    if clock == "calendar":
        return float((moment.to_datetime64().astype("datetime64[ns]") - _EPOCH) / _YEAR)
    if clock != "business":
        raise ValueError(f"clock = {clock!r}: expected 'calendar' or 'business'")
    day = moment.to_datetime64().astype("datetime64[D]")
    gone = float((moment - moment.normalize()) / pd.Timedelta(days=1)) if np.is_busday(day) else 0.0
    return float((np.busday_count("1970-01-01", day) + gone) / _BUSINESS_DAYS)
