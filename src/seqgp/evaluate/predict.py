"""Prediction at new inputs, at the last time or beyond: from the conditional of each posterior draw."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import numpyro.distributions as dist
from jaxtyping import Float, Key

from seqgp.base.errors import DataError, ModelError, SamplerError
from seqgp.base.snapshot import Context, as_context, as_floats, as_inputs
from seqgp.base.validation import require_x64
from seqgp.evaluate import scores
from seqgp.evaluate.marginals import Marginals, marginal_moments
from seqgp.kernels.spatial import check_globe
from seqgp.likelihoods.base import fill_missing
from seqgp.likelihoods.gaussian import RATIOS
from seqgp.linalg.types import Array
from seqgp.model import Model
from seqgp.runtime.engine import compiled
from seqgp.samplers.base import Predictive, State
from seqgp.samplers.validation import check_key, check_state


class Prediction(eqx.Module):
    """Draws of the latent function and of new data at new inputs, and their scores.

    Attributes:
        f: the latent function with its mean, ``(draws, n)``.
        y: new data, ``(draws, *shape of y)``.
        t: the time predicted.
        x: the inputs, ``(n, D)``.
    """

    f: Float[Array, "draws n"]
    y: Float[Array, " draws *data"]
    t: float
    x: np.ndarray
    _model: Model
    _context: Any
    _parameters: dict[str, Array]
    _predictive: Predictive

    def __repr__(self) -> str:
        draws, n = self.f.shape
        return f"Prediction(t={self.t:g}: {draws} draws of f and y at {n} inputs)"

    def log_score(self, y_new: npt.ArrayLike, pointwise: bool = False) -> float | Float[np.ndarray, " n"]:
        """The log of the mean predictive density over draws: of all of ``y_new`` jointly, or of each value.

        Missing values (NaN) drop out. For Gaussian data the latent of each draw is integrated out exactly.
        """
        y = self._check(y_new)
        if pointwise:
            values = scores.log_mean_exp(self._log_densities(y))
            return np.where(np.isnan(y), np.nan, values)
        return float(scores.log_mean_exp(self.log_densities(y)))

    def log_densities(self, y_new: npt.ArrayLike) -> Float[np.ndarray, " draws"]:
        """The log predictive density of all of ``y_new`` jointly, for each draw of the posterior."""
        y = self._check(y_new)
        if self._model.likelihood.conjugate:
            return np.asarray(self._predictive.log_marginals(self._model, y))
        each = np.where(np.isnan(y), 0.0, self._log_densities(y))
        return each.reshape(len(each), -1).sum(axis=1)

    def crps(self, y_new: npt.ArrayLike) -> float:
        """The continuous ranked probability score, averaged over the observed values; the smaller, the better.

        Each value's score is that of its own marginal, from all draws; missing values (NaN) are left out of the mean.
        """
        draws, y = self._observed(y_new)
        return float(scores.crps(draws, y).mean())

    def pit(self, y_new: npt.ArrayLike) -> Float[np.ndarray, " n"]:
        """The probability integral transform of each observed value among its own draws; nothing is averaged.

        Uniform where the prediction is calibrated, but not independent: values of one snapshot share the latent.
        """
        draws, y = self._observed(y_new)
        return scores.pit(draws, y)

    def coverage(self, y_new: npt.ArrayLike, probability: float = 0.95) -> float:
        """The share of the observed values inside their own central interval, whose ends are quantiles over draws.

        It is an average over the values of one snapshot, which are correlated: of a single snapshot it may be far from
        ``probability`` though the prediction is calibrated.
        """
        draws, y = self._observed(y_new)
        return scores.coverage(draws, y, probability)

    def mean(self) -> Float[np.ndarray, "*data"]:
        """The predictive mean of new data, over draws."""
        return np.asarray(self.y).mean(axis=0)

    def interval(self, probability: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of new data, its lower and upper end."""
        low, high = np.quantile(np.asarray(self.y), [(1 - probability) / 2, (1 + probability) / 2], axis=0)
        return low, high

    def _check(self, y_new: npt.ArrayLike) -> np.ndarray:
        y = as_floats(y_new, "scores: y")
        if y.shape != self.y.shape[1:]:
            raise DataError(f"scores: y has shape {y.shape}, but the prediction has {self.y.shape[1:]}")
        if np.isnan(y).all():
            raise DataError("scores: all of y is missing")
        return y

    def _observed(self, y_new: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        y = self._check(y_new)
        seen = ~np.isnan(y)
        return np.asarray(self.y)[:, seen], y[seen]

    def _log_densities(self, y: np.ndarray) -> np.ndarray:
        filled, _ = fill_missing(y)
        run, _ = compiled(_log_densities, self._model, self._context, self.f, self._parameters, filled)
        return np.asarray(run())


def _log_densities(model: Model, context: Context, f, parameters, y):
    def one(f, parameters):
        return model.likelihood.distribution(f, context, parameters).log_prob(y)

    return jax.vmap(one)(f, parameters)


def predict(
    key: Key[Array, ""],
    model: Model,
    state: State,
    x_new: npt.ArrayLike,
    t: float | None = None,
    context: Context = None,
    joint: bool = True,
) -> Prediction:
    """Draw the latent function and new data at ``x_new``.

    Args:
        key: a random key.
        model: the model of the state.
        state: the draws.
        x_new: the inputs, ``(n, D)``.
        t: the time; the last one by default, later for a forecast.
        context: covariates, exposures and the like at the new inputs, as in a snapshot.
        joint: whether to draw values at several inputs jointly. With ``False`` each comes from its own marginal given
            the parameters of a draw, in batches: for maps with too many points for a covariance between them.
    """
    require_x64()
    if not hasattr(state, "predictive"):
        raise SamplerError(f"predict: expected a state, got {type(state).__name__}")
    check_state(model, state, "predict")
    check_key(key)
    x, time = as_inputs(x_new, "predict: x"), as_floats(state.t if t is None else t, "predict: t")
    if time.ndim:
        raise DataError(f"predict: t = {t} is not one number; predict at one time after the other")
    time = float(time)
    _check_inputs(x, time, state)
    model.kernel.check_inputs(x)
    check_globe(model.kernel, x)
    context = as_context(context)
    if model.likelihood.pointwise:
        model.likelihood.check_context(np.ones(len(x), bool), context)
    context = model.likelihood.context_at(time, context)
    key_latent, key_data = jax.random.split(key)
    if joint:
        predictive = state.predictive(model, x, time, context)
        f = predictive.draws(key_latent, model)
    else:
        if model.likelihood.by_station:
            raise ModelError("predict: joint=False does not take by='station'; leave joint out, in batches of inputs")
        if not model.likelihood.pointwise:
            raise ModelError("predict: joint=False needs a pointwise likelihood, and this one sees all of f at once")
        predictive = Marginals(*marginal_moments(model, state, x, time, context))
        f = predictive.draws(key_latent, model)
    parameters = compiled(_parameters, model, np.asarray(state.z))[0]()
    if model.likelihood.by_station:  # a sampler that does not know them has refused the model
        context, parameters = predictive.context, parameters | {RATIOS: jnp.asarray(predictive.ratios)}  # type: ignore[attr-defined]
    y = draw_data(key_data, model, f, context, parameters)
    return Prediction(f, y, time, x, model, context, parameters, predictive)


def _parameters(model: Model, z):
    return jax.vmap(model.parameters)(z)


def _check_inputs(x: np.ndarray, t: float, state: State) -> None:
    if x.ndim != 2 or 0 in x.shape:
        raise DataError(f"predict: x has shape {x.shape}, expected (n, D)")
    if not np.isfinite(x).all():
        raise DataError("predict: x has values that are not finite")
    if x.shape[1] != state.dimension:
        raise DataError(f"predict: x has {x.shape[1]} columns, but the data have {state.dimension}")
    if not np.isfinite(t):
        raise DataError(f"predict: t = {t} is not one finite number")
    if not t >= state.t:
        raise DataError(
            f"predict: t = {t} is before the last t = {state.t}; of an OnlineSampler, seqgp.smooth draws the past"
        )


def draw_data(key, model: Model, f, context, parameters) -> Array:
    """New data for each draw of the latent function."""
    keys = jax.random.split(key, len(f))
    try:
        run, _ = compiled(_sample_data, model, context, keys, f, parameters)
    except (TypeError, KeyError) as error:
        raise DataError(
            f"predict: the likelihood failed at the new inputs ({type(error).__name__}: {error}); "
            "pass the context that it needs there, predict(…, context=…)"
        ) from error
    return run()


def _sample_data(model: Model, context: Context, keys, f, parameters):
    def one(inputs):
        key, f, parameters = inputs
        distribution = model.likelihood.distribution(f, context, parameters)
        if not isinstance(distribution, dist.Distribution):
            raise ModelError(f"likelihood returned {type(distribution).__name__}, expected a NumPyro distribution")
        return jnp.asarray(distribution.sample(key), float)

    # One by one where the likelihood may be a solver; all at once where it is pointwise, and cheap.
    batch = f.shape[0] if model.likelihood.pointwise else None
    return jax.lax.map(one, (keys, f, parameters), batch_size=batch)
