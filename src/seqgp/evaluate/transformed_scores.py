"""Scores, in the units of the data, of predictions that a model makes of their transform."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from seqgp.base.transforms import Transform
from seqgp.evaluate import scores
from seqgp.evaluate.baselines import Baseline
from seqgp.evaluate.point_scores import PointScores, Predictions

QUANTILES = 999  # of a normal distribution, in place of draws


class TransformedData(NamedTuple):
    """Predictions of data ``y`` from those of ``w = T(y)``.

    ``T`` is increasing, so PIT and median are those of ``w``; the log score is that of ``w`` plus ``log T'(y)`` (NaN
    where that is not finite); mean and CRPS are estimated from draws of ``w``.
    """

    inner: Predictions
    transform: Transform
    drawn: Float[np.ndarray, "draws n"]

    def at(self, rows: np.ndarray) -> TransformedData:
        """The predictions of some of the data."""
        return TransformedData(self.inner.at(rows), self.transform, self.drawn[:, rows])

    def scores(self, w: Float[np.ndarray, " n"]) -> PointScores:
        """The scores of data that are given transformed."""
        of_w, draws, y = self.inner.scores(w), self.transform.inverse(self.drawn), self.transform.restored(w)
        log_score = of_w.log_score + self.transform.log_jacobian(y)
        median = self.transform.inverse(of_w.median)
        return PointScores(draws.mean(axis=0), median, scores.crps(draws, y), log_score, of_w.pit)


def normal_quantiles(forecast: Baseline) -> Float[np.ndarray, "draws n"]:
    """Evenly spaced quantiles of normal distributions, which stand for draws."""
    white = ndtri((np.arange(QUANTILES) + 0.5) / QUANTILES)
    return forecast.mean + forecast.sd * white[:, None]
