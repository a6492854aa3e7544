"""Standard errors of mean scores, and of mean differences of scores, of data that depend on each other."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class ScoreMean(NamedTuple):
    """A mean and its standard error; NaN where too little is known for one."""

    value: float
    se: float

    def __str__(self) -> str:
        """The mean, and the error where there is one."""
        return f"{self.value:.4g}" if np.isnan(self.se) else f"{self.value:.4g} ± {self.se:.2g}"


def clustered_mean(
    values: Float[np.ndarray, " n"],
    times: Sequence[float] | np.ndarray,
    stations: Sequence[Hashable] | None = None,
    ahead: int = 0,
) -> ScoreMean:
    """The mean of values, and a standard error that allows for their dependence.

    Values of one time go together, those of neighbouring times do so less (Bartlett's weights over ``T^(1/3) + ahead``
    lags, Newey and West 1987), and values of one station go together at all times (clusters in two directions, Cameron,
    Gelbach and Miller 2011). Given differences of two forecasters' scores on the same data, it is the error of
    Diebold and Mariano.

    Args:
        values: a number for each datum.
        times: its time.
        stations: its station; left out, times alone are clusters.
        ahead: how many steps ahead the forecasts are, whose errors overlap.
    """
    values = np.asarray(values, float)
    if not len(values):
        return ScoreMean(np.nan, np.nan)
    error = values - values.mean()
    moments, time = np.unique(np.asarray(times, float), return_inverse=True)
    number: dict[Hashable, int] = {}
    station = np.array([number.setdefault(one, len(number)) for one in stations or ()], int)
    in_time = _serial(np.bincount(time, weights=error), ahead)
    in_space = _clusters(np.bincount(station, weights=error)) if len(number) else np.nan
    if len(number) < 2:
        variance = in_time
    elif len(moments) == 1:
        variance = in_space
    else:
        variance = max(in_time, in_time + in_space - float(error @ error))
    return ScoreMean(float(values.mean()), float(np.sqrt(np.maximum(variance, 0.0)) / len(values)))


def _clusters(sums: np.ndarray) -> float:
    return float(sums @ sums) * len(sums) / (len(sums) - 1) if len(sums) > 1 else np.nan


def _serial(sums: np.ndarray, ahead: int) -> float:
    """The variance of the sum of a series, from its autocovariances."""
    count = len(sums)
    if count < 2:
        return np.nan
    lags = min(int(np.floor(count ** (1 / 3))) + ahead, count - 1)
    total = float(sums @ sums)
    for lag in range(1, lags + 1):
        total += 2 * (1 - lag / (lags + 1)) * float(sums[lag:] @ sums[:-lag])
    return total * count / (count - 1)
