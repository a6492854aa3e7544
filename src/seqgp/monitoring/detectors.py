"""Sequential tests for each station, with a stated rate of false alarms.

Without a fault the leave-one-out score ``z_t`` of a station (its datum given all others and the past, as a normal
quantile) is standard normal whatever came before: the scores of one station are independent over time. Let ``L_t`` be
a likelihood ratio of ``z_t`` under a fault, whose mean without a fault is 1 given the past (or less). The
Shiryaev–Roberts statistic of a fault that begins at an unknown time sums the likelihood ratios over all beginnings,

    R_t = Σ_τ L_τ(first) L_{τ+1}(rest) … L_t(rest)  =  R_{t-1} L_t(rest) + L_t(first)

so that ``R_t − t`` is a martingale (or supermartingale) without a fault. At the first time ``T`` with ``R_T ≥ A``,
``E[T] = E[R_T] ≥ A``: the mean number of readings to a false alarm is at least the threshold. Averages over several
sizes of the fault keep this. With ``k`` kinds of fault and ``A = 1000 k / rate``, there are at most ``rate`` false
alarms in 1000 readings of a station, of all kinds together; over stations they add up, whatever the dependence.

Kinds, with the mean (or standard deviation) of ``z`` under the fault:

- ``spike``: one reading beyond the quantile that a reading exceeds with probability ``1/A``.
- ``level``: ``δ`` at first and ``c δ`` after, for the model takes a shift for local weather, and follows it.
- ``drift``: ``δ`` for good, and small.
- ``spread``: standard deviation ``σ``, with scores clipped.
- ``stuck``: the datum repeats the one before with probability ``REPEATS``. Without a fault it does with the predictive
  probability of the rounding interval around it, or as often as values of all stations have repeated, or as other
  stations report that value now (a zero of rain), whichever is most; the resolution is the smallest gap between values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri

KINDS = ("spike", "level", "drift", "spread", "stuck")
_SHIFTS = np.array([2.5, 4.5, 8.0])
_KEPT = np.array([0.15, 0.5])  # of a shift in the scores that follow its first
LEVELS = np.array([(sign * d, sign * d * c) for sign in (1, -1) for d in _SHIFTS for c in _KEPT])
DRIFTS = np.array([0.4, 0.8, 1.6, -0.4, -0.8, -1.6])
SPREADS = np.array([1.5, 2.0, 3.0])
TESTS = ("level", "drift", "spread", "stuck")
REPEATS = 0.95
PRIOR_PAIRS = 10  # of which one is equal, added to those that were seen
CLIPPED = 4.0  # scores in the test of the spread: one wrong reading is no scatter
LARGEST = 600.0  # of the log of a statistic


class ShiryaevRoberts(NamedTuple):
    """Shiryaev–Roberts statistics of stations for several sizes of a fault, and where the most likely ones begin."""

    log: Float[np.ndarray, "M K"]
    peak: Float[np.ndarray, "M K"]  # the largest log likelihood ratio of one beginning
    since: Float[np.ndarray, "M K"]  # that beginning


class Detectors(NamedTuple):
    """The tests of ``M`` stations, and what all of them have seen."""

    level: ShiryaevRoberts
    drift: ShiryaevRoberts
    spread: ShiryaevRoberts
    stuck: ShiryaevRoberts
    last: Float[np.ndarray, " M"]  # the reading before
    resolution: float  # the smallest gap between values
    pairs: int  # of successive readings
    repeats: int  # pairs of equal ones


class Readings(NamedTuple):
    """What ``M`` stations report at a time; NaN where they do not."""

    t: float
    y: Float[np.ndarray, " M"]
    z: Float[np.ndarray, " M"]
    mean: Float[np.ndarray, " M"]  # of the leave-one-out prediction
    sd: Float[np.ndarray, " M"]


def threshold(false_alarms: float) -> float:
    """``A`` for a number of false alarms in 1000 readings of a station, of all kinds together."""
    return 1000.0 * len(KINDS) / false_alarms


def spike_bound(false_alarms: float) -> float:
    """The score that ``1/A`` of all readings exceed, up or down."""
    return -float(ndtri(0.5 / threshold(false_alarms)))


def no_detectors() -> Detectors:
    """Of no station yet."""
    level, drift, spread, stuck = (_empty(0, size) for size in (len(LEVELS), len(DRIFTS), len(SPREADS), 1))
    return Detectors(level, drift, spread, stuck, np.zeros(0), np.inf, 0, 0)


def joined(detectors: Detectors, count: int) -> Detectors:
    """With so many new stations."""
    found = (
        ShiryaevRoberts(*map(np.concatenate, zip(test, _empty(count, test.log.shape[1])))) for test in detectors[:4]
    )
    last = np.append(detectors.last, np.full(count, np.nan))
    return detectors._replace(**dict(zip(TESTS, found)), last=last)


def of_stations(detectors: Detectors, index: np.ndarray) -> Detectors:
    """Of some stations."""
    found = (ShiryaevRoberts(*(part[index] for part in test)) for test in detectors[:4])
    return detectors._replace(**dict(zip(TESTS, found)), last=detectors.last[index])


def restarted(detectors: Detectors, which: Bool[np.ndarray, " M"]) -> Detectors:
    """With the tests of some stations begun anew."""

    def anew(test: ShiryaevRoberts) -> ShiryaevRoberts:
        none = _empty(len(which), test.log.shape[1])
        return ShiryaevRoberts(*(np.where(which[:, None], new, old) for new, old in zip(none, test)))

    return detectors._replace(**dict(zip(TESTS, map(anew, detectors[:4]))))


def after_readings(detectors: Detectors, now: Readings) -> Detectors:
    """The statistics after one more reading of each station."""
    z = now.z[:, None]
    first, rest = (LEVELS[:, i] * z - 0.5 * LEVELS[:, i] ** 2 for i in (0, 1))
    drift = DRIFTS * z - 0.5 * DRIFTS**2
    spread = 0.5 * np.clip(z, -CLIPPED, CLIPPED) ** 2 * (1 - SPREADS**-2.0) - np.log(SPREADS)
    pair = ~np.isnan(now.y) & ~np.isnan(detectors.last)
    same = pair & (now.y == detectors.last)
    resolution = min(detectors.resolution, _smallest_gap(now.y))
    pairs, repeats = detectors.pairs + int(pair.sum()), detectors.repeats + int(same.sum())
    others = _count_of(detectors.last, now.y) - same
    here = (1 + others) / (PRIOR_PAIRS + np.sum(~np.isnan(now.y)))
    often = np.maximum((1 + repeats) / (PRIOR_PAIRS + pairs), here)
    log_ratio = _log_ratio_stuck(detectors.last, now, same, resolution, often)
    log_ratio = np.where(pair, log_ratio, np.nan)[:, None]
    return Detectors(
        _advanced(detectors.level, first, rest, now.t),
        _advanced(detectors.drift, drift, drift, now.t),
        _advanced(detectors.spread, spread, spread, now.t),
        _advanced(detectors.stuck, log_ratio, log_ratio, now.t),
        np.where(np.isnan(now.y), detectors.last, now.y),
        resolution,
        pairs,
        repeats,
    )


def alarms(test: ShiryaevRoberts, false_alarms: float) -> Bool[np.ndarray, " M"]:
    """Whether the average over the sizes of a fault has reached the threshold."""
    return np.logaddexp.reduce(test.log, axis=1) - np.log(test.log.shape[1]) >= np.log(threshold(false_alarms))


def beginnings(test: ShiryaevRoberts) -> Float[np.ndarray, " M"]:
    """The most likely beginning of each station's fault, if it has one."""
    return test.since[np.arange(len(test.peak)), np.argmax(test.peak, axis=1)]


def _empty(count: int, size: int) -> ShiryaevRoberts:
    return ShiryaevRoberts(*(np.full((count, size), value) for value in (-np.inf, -np.inf, np.nan)))


def _advanced(test: ShiryaevRoberts, first: np.ndarray, rest: np.ndarray, t: float) -> ShiryaevRoberts:
    seen = ~np.isnan(first)
    first, rest = np.where(seen, first, 0.0), np.where(seen, rest, 0.0)
    log = np.minimum(np.logaddexp(test.log + rest, first), LARGEST)
    begins = first > test.peak + rest
    peak = np.where(begins, first, np.minimum(test.peak + rest, LARGEST))
    found = ShiryaevRoberts(log, peak, np.where(begins, t, test.since))
    return ShiryaevRoberts(*(np.where(seen, new, old) for new, old in zip(found, test)))


def _log_ratio_stuck(
    last: np.ndarray, now: Readings, same: np.ndarray, resolution: float, often: np.ndarray
) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        density = np.exp(-0.5 * ((last - now.mean) / now.sd) ** 2) / (np.sqrt(2 * np.pi) * now.sd)
    rounded = density * (resolution if np.isfinite(resolution) else 0.0)
    chance = np.clip(np.maximum(np.nan_to_num(rounded), often), 0.0, REPEATS)
    return np.where(same, np.log(REPEATS / chance), np.log((1 - REPEATS) / (1 - chance)))


def _count_of(values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """How many entries of an array equal each of some values."""
    known, counts = np.unique(among[~np.isnan(among)], return_counts=True)
    if not len(known):
        return np.zeros(len(values), int)
    place = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[place] == values, counts[place], 0)


def _smallest_gap(y: np.ndarray) -> float:
    values = np.unique(y[~np.isnan(y)])
    gaps = np.diff(values)
    real = gaps[gaps > 1e-9 * np.max(np.abs(values), initial=0.0)]
    return float(real.min()) if len(real) else np.inf
