"""Proper scores of draws against data: log score, CRPS, probability integral transform, coverage."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp
from scoringrules import crps_ensemble

from seqgp.base.errors import DataError


def log_mean_exp(values: Float[np.ndarray, " draws *n"]) -> Float[np.ndarray, "*n"]:
    """The log of the mean over draws, given logs, for each of what follows the draws."""
    return logsumexp(values, axis=0) - np.log(len(values))


def crps(draws: Float[np.ndarray, "draws n"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """The continuous ranked probability score of each value, ``E|Y − y| − ½ E|Y − Y'|``: means over draws, not values.

    The second mean is over pairs of different draws, so that the number of draws does not bias it.
    """
    return np.asarray(crps_ensemble(y, np.moveaxis(draws, 0, -1), estimator="pwm"))


def pit(
    draws: Float[np.ndarray, "draws n"], y: Float[np.ndarray, " n"], seed: int | None = None
) -> Float[np.ndarray, " n"]:
    """The probability integral transform of each value, randomised at ties (counts): uniform where calibrated."""
    below, equal = (draws < y).sum(axis=0), (draws == y).sum(axis=0)
    jump = np.random.default_rng(0 if seed is None else seed).random(len(y))
    return (below + jump * (equal + 1)) / (len(draws) + 1)


def coverage(draws: Float[np.ndarray, "draws n"], y: Float[np.ndarray, " n"], probability: float = 0.95) -> float:
    """The share of values, averaged over ``n``, inside the central interval of their own draws."""
    if not 0 < probability < 1:
        raise DataError(f"coverage: probability = {probability} is not between 0 and 1")
    low, high = np.quantile(draws, [(1 - probability) / 2, (1 + probability) / 2], axis=0)
    return float(np.mean((low <= y) & (y <= high)))
