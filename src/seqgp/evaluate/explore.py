"""What the data say before a model is chosen: variogram, delay, noise of stations, season of the variance, gaps.

Everything is a method of moments on stations that report repeatedly, in NumPy: a first look that costs seconds. The
suggested priors are wide around what it finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import fdtrc

from seqgp.base.errors import DataError
from seqgp.evaluate.suggestion import Suggestion, in_words, suggest
from seqgp.evaluate.variogram import Variogram, VariogramFit, empirical_variogram, fit_candidates, matern_slope

BLOCKS = 20  # of consecutive times, left out in turn for standard errors
SIGNIFICANT = 0.01
FEWEST = 8  # snapshots
MOST = 300  # stations that are compared in pairs


class StationTable(NamedTuple):
    """All snapshots as one table; stations that never report are left out."""

    t: Float[np.ndarray, " T"]
    x: Float[np.ndarray, "M D"]
    y: Float[np.ndarray, "T M"]  # NaN where missing
    names: tuple[str, ...]  # of the stations; their coordinates where the snapshots have no names


class Asymmetry(NamedTuple):
    """Whether places lag behind others: the slowness (time per distance) that lag-one covariances show."""

    slowness: Float[np.ndarray, " D"]
    se: Float[np.ndarray, " D"]
    p_value: float  # of no delay
    delay: bool


class NoiseTable(NamedTuple):
    """The standard deviation of each station's noise, if only noise differs from station to station."""

    noise: Float[np.ndarray, " M"]
    se: Float[np.ndarray, " M"]
    differ: bool  # changes of stations differ in size by more than twice what chance explains


class SeasonalVariance(NamedTuple):
    """``exp(a cos + b sin)`` on the standard deviation, over a period."""

    period: float
    coefficients: Float[np.ndarray, " 2"]
    se: Float[np.ndarray, " 2"]
    seasonal: bool


class Missing(NamedTuple):
    """What is missing among all times and stations."""

    share: float
    by_station: Float[np.ndarray, " M"]
    longest_gap: Float[np.ndarray, " M"]  # in units of time, between two reports
    late: Int[np.ndarray, " J"]  # the stations that first report after a tenth of the time
    absent: int  # how many never report; they are in nothing else


class DataExploration(NamedTuple):
    """The result of ``explore``; printed, it says what was found and what model that suggests."""

    stations: StationTable
    variogram: Variogram
    candidates: tuple[VariogramFit, ...]  # the best first
    asymmetry: Asymmetry
    noise: NoiseTable
    season: SeasonalVariance | None
    missing: Missing
    suggested: Suggestion

    def __str__(self) -> str:
        """What was found, a line for each."""
        return "\n".join(in_words(self))


def explore(snapshots: Iterable[object], period: float | None = None, lags: int = 6, bins: int = 8) -> DataExploration:
    """Explore data of stations before choosing a model, by a method of moments that takes seconds.

    The result has an empirical variogram in space and time with separable Matérn kernels fitted to it, a test whether
    stations lag behind others (a delay), the noise of each station, a season of the variance, and missing data.
    ``suggested.model()`` is a model with wide priors around these estimates, in the units of the data. Distances are
    Euclidean, over all columns of ``x``.

    Args:
        snapshots: in order of time; ``y`` has a value for each place, NaN where missing.
        period: the period of a season that the variance may have, in units of time; None for no season.
        lags: the number of lags in time of the variogram.
        bins: the number of classes of distance.
    """
    for name, value, least in (("lags", lags, 1), ("bins", bins, 2)):
        if not isinstance(value, int) or value < least:
            raise DataError(f"explore: {name} = {value!r}, expected a whole number of at least {least}")
    if period is not None and not (np.isfinite(period) and period > 0):
        raise DataError(f"explore: period = {period!r}, expected a positive number in units of time, or None")
    table, absent = as_stations(list(snapshots))
    few = _some_of(table)
    variogram = empirical_variogram(few.t, few.x, few.y, lags, bins)
    candidates = fit_candidates(variogram)
    best = candidates[0]
    noise = noise_of_stations(table, best)
    typical = best.noise if np.all(np.isnan(noise.noise)) else float(np.nanmedian(noise.noise))
    asymmetry = lag_asymmetry(few, best, typical)
    season = None if period is None else seasonal_variance(table, period)
    suggested = suggest(table, best, typical, asymmetry, noise.differ, season)
    return DataExploration(
        table, variogram, candidates, asymmetry, noise, season, missing_data(table, absent), suggested
    )


def as_stations(snapshots: Sequence[Any]) -> tuple[StationTable, int]:
    """One row for each time, one column for each place; and how many places never report."""
    if len(snapshots) < FEWEST:
        raise DataError(f"explore: {len(snapshots)} snapshots are too few to tell anything; give {FEWEST} or more")
    t = np.array([float(one.t) for one in snapshots])
    if np.any(np.diff(t) <= 0):
        k = int(np.argmax(np.diff(t) <= 0)) + 1
        raise DataError(f"explore: snapshot {k} (t = {t[k]:g}) is not later than the one before; sort them by time")
    for k, one in enumerate(snapshots):
        if np.shape(one.y) != (len(one.x),):
            raise DataError(
                f"explore: snapshot {k}: y has shape {np.shape(one.y)}, and there are {len(one.x)} places; "
                "only data with one value for each place can be explored"
            )
    rows = np.concatenate([np.asarray(one.x, float) for one in snapshots])
    x, first, where = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    if len(x) < 2 or len(rows) < 3 * len(x):
        raise DataError(
            f"explore: {len(x)} different places in {len(rows)} rows: it needs two stations or more that report at "
            "three times or more; round places that move a little"
        )
    y = np.full((len(t), len(x)), np.nan)
    time = np.repeat(np.arange(len(t)), [len(one.x) for one in snapshots])
    y[time, where.ravel()] = np.concatenate([np.asarray(one.y, float) for one in snapshots])
    labels = [name for one in snapshots for name in getattr(one, "labels", None) or [None] * len(one.x)]
    reports = np.any(~np.isnan(y), axis=0)
    if reports.sum() < 2 or np.nanstd(y) <= 1e-12 * np.nanmax(np.abs(y), initial=1e-300):
        raise DataError("explore: fewer than two stations report, or all values are alike: there is nothing to explore")
    names = tuple(
        labels[row] or f"({', '.join(f'{one:.4g}' for one in rows[row])})" for row, kept in zip(first, reports) if kept
    )
    return StationTable(t, x[reports], y[:, reports], names), int(np.sum(~reports))


def _some_of(table: StationTable) -> StationTable:
    """At most :data:`MOST` stations, evenly over the order of the first column, for what compares all pairs."""
    chosen = np.unique(np.linspace(0, len(table.x) - 1, min(len(table.x), MOST)).astype(int))
    return StationTable(table.t, table.x[chosen], table.y[:, chosen], tuple(table.names[k] for k in chosen))


def lag_asymmetry(stations: StationTable, best: VariogramFit, noise: float) -> Asymmetry:
    """The slowness from how changes at one station follow those at another, and not the other way round.

    With ``e(t) = y(t) − k_t(dt) y(t − dt)`` and a delay, ``E[e_i(t + dt) e_j(t)]`` has an antisymmetric part that is
    linear in ``s·(x_i − x_j)`` to first order. The fit weights it by the kernel's covariance of ``e``;
    standard errors by a jackknife over blocks of times.
    """
    gaps = np.diff(stations.t)
    dt, decay = float(np.median(gaps)), best.time_correlation(gaps)
    y = stations.y - np.nanmean(stations.y, axis=0)
    change = y[1:] - decay[:, None] * y[:-1]
    seen, values = ~np.isnan(change), np.nan_to_num(change)
    directions, weights = _following(stations.x, best, noise, dt)
    num = max(2 * len(directions) + 2, min(BLOCKS, (len(values) - 1) // 4))
    blocks = np.array_split(np.arange(len(values) - 1), num)
    products = np.array([values[b + 1].T @ values[b] for b in blocks])
    counts = np.array([seen[b + 1].T.astype(float) @ seen[b] for b in blocks])

    def slowness(kept):
        product, count = products[kept].sum(0), counts[kept].sum(0)
        score = np.einsum("dij,ij->d", weights, product)
        return np.linalg.lstsq(np.einsum("dij,ij,eij->de", weights, count, directions), score, rcond=None)[0]

    whole = slowness(np.arange(num))
    left = np.array([slowness(np.delete(np.arange(num), k)) for k in range(num)])
    cov = (num - 1) / num * (left - left.mean(0)).T @ (left - left.mean(0))
    d = len(whole)
    wald = float(whole @ np.linalg.lstsq(cov, whole, rcond=None)[0])
    p_value = float(fdtrc(d, num - d, wald * (num - d) / (d * (num - 1))))
    return Asymmetry(whole, np.sqrt(np.diag(cov)), p_value, p_value < SIGNIFICANT)


def _following(
    x: Float[np.ndarray, "M D"], best: VariogramFit, noise: float, dt: float
) -> tuple[Float[np.ndarray, "D M M"], Float[np.ndarray, "D M M"]]:
    """``E[e_i(t + dt) e_j(t)]`` for a slowness of one along each axis, and its weights ``R⁻¹ D R⁻¹``, ``R = Cov e``."""
    h = np.moveaxis(x[:, None] - x[None, :], -1, 0)
    space = best.scale**2 * best.space_correlation(np.linalg.norm(h, axis=0))
    decay = float(best.time_correlation(np.array(dt)))
    once, twice = (matern_slope(best.time, u, best.time_lengthscale) for u in (dt, 2 * dt))
    directions = h * space * (decay * twice - (1 + decay**2) * once)
    own = max(noise, 0.2 * best.scale) ** 2
    inverse = np.linalg.inv((1 - decay**2) * space + (1 + decay**2) * own * np.eye(len(x)))
    return directions, inverse @ directions @ inverse


def noise_of_stations(stations: StationTable, best: VariogramFit) -> NoiseTable:
    """Half the mean square of a station's changes, less what the fitted kernel changes in the same times.

    NaN for a station that never reports at two times in turn.
    """
    change, gaps = np.diff(stations.y, axis=0), np.diff(stations.t)
    seen = ~np.isnan(change)
    count = np.where(seen.any(axis=0), seen.sum(axis=0), np.nan)
    half = 0.5 * np.nansum(change**2, axis=0) / count
    half = np.maximum(half, 1e-8 * np.nanvar(stations.y))  # of a sensor that is stuck
    own = best.scale**2 * (1 - best.time_correlation(gaps)) @ seen / count
    noise = np.sqrt(np.maximum(half - own, 1e-4 * half))
    error = np.sqrt(3.0 / count)  # relative, of half a mean square of changes that are mostly noise
    differ = bool(np.nanstd(np.log(half)) > 2 * np.nanmedian(error)) if seen.any() else False
    return NoiseTable(noise, half * error / (2 * noise), differ)


def seasonal_variance(stations: StationTable, period: float) -> SeasonalVariance:
    """Regression of the log mean square of each time on one harmonic; the season of the mean is taken out before."""
    phase = 2 * np.pi * stations.t / period
    columns = np.stack([np.ones_like(phase), np.cos(phase), np.sin(phase)], axis=1)
    anomaly = stations.y - np.nanmean(stations.y, axis=0)
    there = ~np.all(np.isnan(anomaly), axis=1)
    anomaly, columns = anomaly[there], columns[there]
    level = np.nanmean(anomaly, axis=1)
    mean = columns @ np.linalg.lstsq(columns, level, rcond=None)[0]
    logs = np.log(np.nanmean((anomaly - mean[:, None]) ** 2, axis=1) + 1e-300)
    found = np.linalg.lstsq(columns, logs, rcond=None)[0]
    left = logs - columns @ found
    follow = float(np.clip(np.corrcoef(left[1:], left[:-1])[0, 1], 0.0, 0.95))
    variance = np.var(left, ddof=3) * (1 + follow) / (1 - follow)
    se = np.sqrt(np.diag(np.linalg.inv(columns.T @ columns)) * variance)[1:] / 2
    coefficients = found[1:] / 2
    seasonal = bool(np.sum((coefficients / se) ** 2) > -2 * np.log(SIGNIFICANT))
    return SeasonalVariance(period, coefficients, se, seasonal)


def missing_data(stations: StationTable, absent: int = 0) -> Missing:
    """Shares, longest gaps between reports, who joined late, and how many never report."""
    gone = np.isnan(stations.y)
    reports = [stations.t[~column] for column in gone.T]
    longest = np.array([np.max(np.diff(times)) if len(times) > 1 else np.inf for times in reports])
    begin = np.array([times[0] if len(times) else np.inf for times in reports])
    late = np.flatnonzero(begin > stations.t[0] + 0.1 * (stations.t[-1] - stations.t[0]))
    return Missing(float(gone.mean()), gone.mean(axis=0), longest, late, absent)
