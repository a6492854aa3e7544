"""The rank of the diagonal-plus-low-rank filter, its error, and whether it pays.

Two measures, neither of them a bound: the trace that compression folded, and the log evidences of a few particles at
rank ``R`` against rank ``2R``. An error that all particles share changes no weight, so the spread of the difference
between particles is what is held to a tolerance; the part in common is an error of the log evidence, and is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

TOLERANCE = 0.03  # of the spread of log evidence between particles
FIRST = 24  # the smallest rank that is tried
DENSE_BELOW = 60  # sites
DENSE_GAPS = 1 / 4  # of the sites, above which the dense filter is used
MANY = 400  # sites from which the dense filter costs so much more that it is used above twice that share
TWO_LEVELS = 800  # sites from which two levels of modes are used


class RankError(NamedTuple):
    """How log evidences at a rank differ from those at twice the rank, and what was folded."""

    rank: int
    shift: float  # the mean of the difference
    spread: float  # its standard deviation between particles
    folded: float  # the largest folded trace of a particle, summed over the steps


class RankRun(NamedTuple):
    """What a few particles gave at one rank."""

    log_evidence: Float[np.ndarray, " S"]
    folded: Float[np.ndarray, " S"]


def rank_error(rank: int, run: RankRun, doubled: RankRun) -> RankError:
    """The error of a rank, from the same particles at this rank and at twice the rank."""
    difference = np.asarray(run.log_evidence) - np.asarray(doubled.log_evidence)
    spread = float(np.std(difference, ddof=1)) if len(difference) > 1 else float(np.abs(difference[0]))
    return RankError(rank, float(np.mean(difference)), spread, float(np.max(run.folded)))


def choose_rank(
    run: Callable[[int], RankRun], most: int, tolerance: float = TOLERANCE, first: int = FIRST
) -> tuple[RankError, ...]:
    """Ranks ``first, 2 first, …`` below ``most``, up to one that is good enough; the last of them is the choice.

    A rank is good enough where spread and shift against twice the rank are within the tolerance. Where the last one is
    not, no rank below ``most`` is, and the dense filter is the remedy.

    Args:
        run: filters of a few particles over the data, at a rank.
        most: a rank from which the filter does not pay.
        tolerance: for the spread; the shift may be three times as large.
        first: the smallest rank.
    """
    tried: list[RankError] = []
    rank, found = first, run(first)
    while True:
        doubled = run(2 * rank)
        tried.append(rank_error(rank, found, doubled))
        if is_accurate(tried[-1], tolerance) or 2 * rank >= most:
            return tuple(tried)
        rank, found = 2 * rank, doubled


def is_accurate(error: RankError, tolerance: float = TOLERANCE) -> bool:
    """Whether a rank is good enough; NaN is not."""
    return bool(error.spread <= tolerance and abs(error.shift) <= 3 * tolerance)


def largest_rank(num_sites: int, order: int, gaps: int) -> int:
    """The rank from which the dense filter costs less: ``p M (R + k)²`` products against about ``10 M³``, halved."""
    return max(int(num_sites * np.sqrt(5 / order)) - gaps, 0)


def most_gaps(num_sites: int) -> float:
    """The share of the sites that may be missing before the dense filter is used."""
    return DENSE_GAPS if num_sites < MANY else 2 * DENSE_GAPS
