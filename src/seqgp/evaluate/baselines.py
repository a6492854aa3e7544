"""Forecasts that cost nothing, to be better than: the last value seen, and an AR(1) common to all stations."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri

FEWEST = 6  # pairs of data that the spread of a forecast is estimated from


class Baseline(NamedTuple):
    """A Gaussian forecast of each datum of one snapshot; NaN where a station was not seen before, or too little was."""

    mean: Float[np.ndarray, " n"]
    sd: Float[np.ndarray, " n"]

    def crps(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The continuous ranked probability score of each datum."""
        from scoringrules import crps_normal

        return np.asarray(crps_normal(y, self.mean, self.sd))

    def inside(self, y: Float[np.ndarray, " n"], probability: float = 0.95) -> Bool[np.ndarray, " n"]:
        """Whether each datum lies in its central interval."""
        return np.abs(y - self.mean) <= float(ndtri((1 + probability) / 2)) * self.sd


def baselines(
    stations: Sequence[Sequence[Hashable]], values: Sequence[Float[np.ndarray, " n"]]
) -> list[dict[str, Baseline]]:
    """For each snapshot what ``persistence`` and ``AR(1)`` forecast from the data of those before.

    Persistence is the station's last value seen; its spread is that of all such differences so far. The AR(1) has one
    mean, one coefficient and one spread for all stations, fitted by least squares to all pairs so far.

    Args:
        stations: of each snapshot, which station each value belongs to.
        values: of each snapshot, the data; NaN where they are missing.
    """
    last: dict[Hashable, float] = {}
    pairs: list[tuple[float, float]] = []
    found = []
    for names, data in zip(stations, values):
        before = np.array([last.get(name, np.nan) for name in names])
        found.append({"persistence": _persistence(before, pairs), "AR(1)": _autoregression(before, pairs)})
        known = ~np.isnan(before) & ~np.isnan(data)
        pairs += zip(before[known].tolist(), data[known].tolist())
        last |= {name: float(value) for name, value in zip(names, data) if not np.isnan(value)}
    return found


def _persistence(before: np.ndarray, pairs: list[tuple[float, float]]) -> Baseline:
    if len(pairs) < FEWEST:
        return _nothing(len(before))
    old, new = np.array(pairs).T
    return Baseline(before, np.full(len(before), np.sqrt(np.mean((new - old) ** 2))))


def _autoregression(before: np.ndarray, pairs: list[tuple[float, float]]) -> Baseline:
    if len(pairs) < FEWEST:
        return _nothing(len(before))
    old, new = np.array(pairs).T
    spread = float(np.var(old))
    slope = float(np.mean((old - old.mean()) * (new - new.mean()))) / spread if spread > 0 else 0.0
    error = new - new.mean() - slope * (old - old.mean())
    return Baseline(new.mean() + slope * (before - old.mean()), np.full(len(before), np.sqrt(np.mean(error**2))))


def _nothing(n: int) -> Baseline:
    return Baseline(np.full(n, np.nan), np.full(n, np.nan))
