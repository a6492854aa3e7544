"""What a prediction says about each datum by itself, and the scores of that: exact mixtures of normals, or draws."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax
import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp, ndtr
from scoringrules import crps_mixnorm

from seqgp.base.snapshot import Context
from seqgp.evaluate import scores
from seqgp.evaluate.predict import Prediction
from seqgp.likelihoods.gaussian import RATIOS
from seqgp.model import Model
from seqgp.runtime.engine import compiled
from seqgp.samplers.online.predictive import ParticlePredictive

PAIRS = 4_000_000  # of components and data that the CRPS of mixtures takes at a time
HALVINGS = 60  # of the bracket of a median


class PointScores(NamedTuple):
    """Of each datum: mean and median of its prediction, and the scores of this."""

    mean: Float[np.ndarray, " n"]
    median: Float[np.ndarray, " n"]
    crps: Float[np.ndarray, " n"]
    log_score: Float[np.ndarray, " n"]
    pit: Float[np.ndarray, " n"]


class Predictions(Protocol):
    """A predictive distribution for each of ``n`` data."""

    def scores(self, y: Float[np.ndarray, " n"]) -> PointScores:
        """The scores of data, none of them missing."""
        ...

    def at(self, rows: np.ndarray) -> Predictions:
        """Those of some of the data."""
        ...


class GaussianMixture(NamedTuple):
    """``Σ_k weight_k N(mean_k, sd_k²)`` for each datum."""

    mean: Float[np.ndarray, "k n"]
    sd: Float[np.ndarray, "k n"]
    weight: Float[np.ndarray, " k"]

    def at(self, rows: np.ndarray) -> GaussianMixture:
        """The mixtures of some of the data."""
        return GaussianMixture(self.mean[:, rows], self.sd[:, rows], self.weight)

    def cdf(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The probability of a smaller value."""
        return self.weight @ ndtr((y - self.mean) / self.sd)

    def quantile(self, probability: float) -> Float[np.ndarray, " n"]:
        """The quantile of each, by bisection between those of the components."""
        low, high = (self.mean - 12 * self.sd).min(axis=0), (self.mean + 12 * self.sd).max(axis=0)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < probability
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def scores(self, y: Float[np.ndarray, " n"]) -> PointScores:
        """All in closed form."""
        white = (y - self.mean) / self.sd
        log_prob = -0.5 * white**2 - np.log(self.sd) - 0.5 * np.log(2 * np.pi)
        with np.errstate(divide="ignore"):
            log_score = np.asarray(logsumexp(log_prob + np.log(self.weight)[:, None], axis=0))
        return PointScores(self.weight @ self.mean, self.quantile(0.5), self._crps(y), log_score, self.cdf(y))

    def _crps(self, y: np.ndarray) -> np.ndarray:
        together = max(1, PAIRS // len(self.weight) ** 2)
        parts = [np.arange(first, min(first + together, len(y))) for first in range(0, len(y), together)]
        weight = self.weight[None, :]
        return np.concatenate(
            [
                np.asarray(crps_mixnorm(y[rows], self.mean[:, rows].T, self.sd[:, rows].T, weight.repeat(len(rows), 0)))
                for rows in parts
            ]
        )


class DrawnData(NamedTuple):
    """Draws of each datum, and its log density given each draw of the latent function and the parameters."""

    y: Float[np.ndarray, "draws n"]
    log_densities: Float[np.ndarray, "draws n"]

    def at(self, rows: np.ndarray) -> DrawnData:
        """The draws of some of the data."""
        return DrawnData(self.y[:, rows], self.log_densities[:, rows])

    def scores(self, y: Float[np.ndarray, " n"]) -> PointScores:
        """Estimates from the draws."""
        drawn = self.y
        log_score = scores.log_mean_exp(self.log_densities)
        return PointScores(
            drawn.mean(axis=0), np.median(drawn, axis=0), scores.crps(drawn, y), log_score, scores.pit(drawn, y)
        )


def normal(mean: Float[np.ndarray, " n"], sd: Float[np.ndarray, " n"]) -> GaussianMixture:
    """One normal distribution for each datum."""
    return GaussianMixture(mean[None], sd[None], np.ones(1))


def marginals_of(prediction: Prediction, y: Float[np.ndarray, " n"]) -> Predictions:
    """The predictive distribution of each datum: exact for Gaussian data and particles, else from draws.

    Args:
        prediction: at the inputs of the data.
        y: the data, NaN where they are missing: draws have a log density of these alone.
    """
    predictive, model = prediction._predictive, prediction._model
    if model.likelihood.conjugate and isinstance(predictive, ParticlePredictive):
        return _mixture(predictive, model)
    return DrawnData(np.asarray(prediction.y), prediction._log_densities(y))


def _mixture(predictive: ParticlePredictive, model: Model) -> GaussianMixture:
    """One normal distribution for each particle that has draws, weighted by their number."""
    used, first, counts = np.unique(predictive.particle, return_index=True, return_counts=True)
    ratios = None if predictive.ratios is None else predictive.ratios[first]
    few = predictive._replace(particle=used, z=predictive.z[first], ratios=ratios)
    mean, variance = few.moments(model)
    noise = np.asarray(compiled(_noises, model, predictive.context, few.z, ratios)[0]())
    sd = np.sqrt(variance + np.broadcast_to(noise.reshape(len(used), -1) ** 2, variance.shape))
    return GaussianMixture(mean, sd, counts / counts.sum())


def _noises(model: Model, context: Context, z, ratios):
    def one(z, ratios):
        parameters = model.parameters(z)
        return model.likelihood.noise(context, parameters if ratios is None else parameters | {RATIOS: ratios})

    return jax.vmap(one)(z, ratios)
