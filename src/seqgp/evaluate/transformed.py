"""Predictions of transformed data, and their scores, in the units of the data."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from scipy.special import ndtri

from seqgp.base.errors import DataError
from seqgp.base.transforms import Transform
from seqgp.evaluate import scores
from seqgp.evaluate.baselines import Baseline
from seqgp.evaluate.point_scores import PointScores, Predictions
from seqgp.evaluate.predict import Prediction


class TransformedPrediction(Prediction):
    """A prediction in the units of the data, of a model for their transform ``T``.

    ``f`` is ``T⁻¹`` of the latent function, the median of the data given it. The density of a value ``y`` is that of
    ``T(y)`` times ``T'(y)``. Where ``T'`` is not finite (zeros under ``sqrt``), log scores leave a value out.
    """

    _inner: Prediction
    _transform: Transform = eqx.field(static=True)

    def log_densities(self, y_new: npt.ArrayLike) -> Float[np.ndarray, " draws"]:
        """The log predictive density of all of ``y_new`` jointly, for each draw of the posterior."""
        w, log_jacobian = self._transformed(self._check(y_new))
        if np.isnan(w).all():
            raise DataError("scores: every value is at the end of the transform, where it has no density")
        return self._inner.log_densities(w) + np.nansum(log_jacobian)

    def _log_densities(self, y: np.ndarray) -> np.ndarray:
        w, log_jacobian = self._transformed(y)
        return self._inner._log_densities(w) + log_jacobian

    def _transformed(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        outside = self._transform.outside(y)
        if outside.any():
            value = y[outside].flat[0]
            raise DataError(
                f"scores: y = {value:g} is not {self._transform.domain}, so it has no {self._transform.kind}"
            )
        log_jacobian = self._transform.log_jacobian(y)
        seen = ~np.isnan(log_jacobian)
        w = np.full(y.shape, np.nan)
        w[seen] = self._transform.forward(y[seen])
        return w, log_jacobian


def in_units(prediction: Prediction, transform: Transform | None) -> Prediction:
    """A prediction of transformed data, in the units of the data; without a transform, as it is."""
    if transform is None:
        return prediction
    f, y = (jnp.asarray(transform.inverse(draws)) for draws in (prediction.f, prediction.y))
    return TransformedPrediction(
        f, y, prediction.t, prediction.x, prediction._model, prediction._context, prediction._parameters,
        prediction._predictive, prediction, transform,
    )  # fmt: skip


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
