"""Prediction at new inputs, at the last time or beyond: from the conditional of each posterior draw."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float, Key

from seqgp.evaluate import scores
from seqgp.latents.dense import Dense
from seqgp.latents.linalg import cholesky, solve_lower
from seqgp.latents.protocol import Observe
from seqgp.models.errors import DataError, ModelError, SamplerError
from seqgp.models.likelihoods import Gaussian, fill_missing
from seqgp.models.model import Model
from seqgp.models.types import Array
from seqgp.sequential.engine import compiled, cores, in_threads
from seqgp.sequential.observed import gaussian_log_density
from seqgp.sequential.state import State


class Conditioning(NamedTuple):
    """What each posterior draw says about the latent at new sites: a Gaussian, given its window and parameters."""

    latent: Any
    times: np.ndarray
    x: np.ndarray
    mask: np.ndarray
    observe: Observe
    known: bool  # the sites themselves are in the window: nothing is left to draw
    z: Float[Array, "draws d"]
    window: Float[Array, "draws tau S"]

    def draws(self, key: Key[Array, ""], model: Model) -> Float[Array, "draws n"]:
        """One draw of the level at the new inputs for each posterior draw."""
        return jnp.concatenate(self._in_pieces(_draw_levels, model, jax.random.split(key, len(self.z))))

    def log_marginals(self, model: Model, y: np.ndarray) -> np.ndarray:
        """``log N(y; mean, K + noise²)`` for each posterior draw, the latent integrated out; NaN in ``y`` drops out."""
        filled, missing = fill_missing(y)
        each = np.zeros((len(self.z), 0))
        return np.concatenate(self._in_pieces(_log_marginals, model, each, filled, missing))

    def _in_pieces(self, function, model: Model, each, *shared) -> list:
        pieces = np.array_split(np.arange(len(self.z)), min(cores(), len(self.z)))
        tasks = [
            compiled(function, model, self._replace(z=self.z[piece], window=self.window[piece]), each[piece], *shared)[
                0
            ]
            for piece in pieces
        ]
        return in_threads(tasks)


def _moments(model: Model, conditioning: Conditioning):
    """For one draw: parameters, the mean of the new sites, and the root of their covariance."""
    latent, kernel = conditioning.latent, model.kernel
    geometry = latent.geometry(kernel, conditioning.times, conditioning.x, conditioning.mask, 1)

    def at(z, window):
        parameters = model.parameters(z)
        if conditioning.known:
            return parameters, window[-1], None
        conditional = latent.conditional(kernel, geometry, parameters, model.jitter)
        return parameters, conditional.mean(window), conditional.root

    return at


def _draw_levels(model: Model, conditioning: Conditioning, keys):
    at = _moments(model, conditioning)

    def one(inputs):
        key, z, window = inputs
        parameters, sites, root = at(z, window)
        if root is not None:
            sites = sites + root.apply(jax.random.normal(key, sites.shape, sites.dtype))
        return conditioning.observe(sites) + parameters["mean"]

    return jax.lax.map(one, (keys, conditioning.z, conditioning.window))


def _log_marginals(model: Model, conditioning: Conditioning, each, y, missing):
    at = _moments(model, conditioning)
    weights, seen = conditioning.observe.weights, ~missing
    few_sites = weights is not None and weights.shape[1] < weights.shape[0]
    count = jnp.sum(seen, dtype=float)
    observe = jnp.where(seen[:, None], 0.0 if weights is None else weights, 0.0)
    gram = observe.T @ observe

    def in_sites(residual, root, noise):
        """In the sites, where they are fewer than the data: ``I + A A'`` by way of ``I + A'A``."""
        chol = cholesky(jnp.eye(len(gram)) + root.pull(root.pull(gram).T) / noise**2)
        white = solve_lower(chol, root.pull(observe.T @ residual) / noise)
        return residual @ residual - white @ white, jnp.sum(jnp.log(jnp.diagonal(chol)))

    def in_data(residual, root, noise):
        half = jax.vmap(conditioning.observe, in_axes=1, out_axes=1)(root.apply(jnp.eye(len(conditioning.x[-1]))))
        covariance = jnp.eye(len(y)) + half @ half.T / noise**2
        chol = cholesky(jnp.where(seen[:, None] & seen[None, :], covariance, jnp.eye(len(y))))
        white = solve_lower(chol, residual)
        return white @ white, jnp.sum(jnp.log(jnp.diagonal(chol)))

    def one(inputs):
        z, window = inputs
        parameters, sites, root = at(z, window)
        noise = parameters["noise"]
        residual = jnp.where(seen, y - conditioning.observe(sites) - parameters["mean"], 0.0)
        if root is None:
            square, log_det = residual @ residual, 0.0
        else:
            square, log_det = (in_sites if few_sites else in_data)(residual, root, noise)
        return gaussian_log_density(square, count, noise) - log_det

    return jax.lax.map(one, (conditioning.z, conditioning.window))


class Prediction(eqx.Module):
    """Draws of the latent and of new data at new inputs, and their scores.

    Attributes:
        f: the level ``f + mean``, ``(draws, n)``.
        y: new data, ``(draws, *shape of y)``.
        t: the time predicted.
        x: the inputs, ``(n, D)``.
    """

    f: Float[Array, "draws n"]
    y: Float[Array, "draws *data"]
    t: float
    x: np.ndarray
    _model: Model
    _context: Any
    _parameters: dict[str, Array]
    _conditioning: Conditioning

    def log_score(self, y_new: Any, pointwise: bool = False) -> float | Float[np.ndarray, "n"]:
        """The log of the mean predictive density over draws: of all of ``y_new`` jointly, or of each value.

        Missing values (NaN) drop out. For Gaussian data the latent of each draw is integrated out exactly.
        """
        y = self._check(y_new)
        if pointwise:
            values = scores.log_mean_exp(self._log_densities(y))
            return np.where(np.isnan(y), np.nan, values)
        return float(scores.log_mean_exp(self.log_densities(y)))

    def log_densities(self, y_new: Any) -> Float[np.ndarray, "draws"]:
        """The log predictive density of all of ``y_new`` jointly, for each draw of the posterior."""
        y = self._check(y_new)
        if isinstance(self._model.likelihood, Gaussian):
            return np.asarray(self._conditioning.log_marginals(self._model, y))
        each = np.where(np.isnan(y), 0.0, self._log_densities(y))
        return each.reshape(len(each), -1).sum(axis=1)

    def crps(self, y_new: Any) -> float:
        """The mean continuous ranked probability score; the smaller, the better."""
        draws, y = self._observed(y_new)
        return float(scores.crps(draws, y).mean())

    def pit(self, y_new: Any) -> Float[np.ndarray, "n"]:
        """The probability integral transforms of the observed values: uniform where the prediction is calibrated."""
        draws, y = self._observed(y_new)
        return scores.pit(draws, y)

    def coverage(self, y_new: Any, probability: float = 0.95) -> float:
        """The share of observed values inside their central interval."""
        draws, y = self._observed(y_new)
        return scores.coverage(draws, y, probability)

    def mean(self) -> Float[np.ndarray, "*data"]:
        """The predictive mean of new data."""
        return np.asarray(self.y).mean(axis=0)

    def interval(self, probability: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of new data, its lower and upper end."""
        low, high = np.quantile(np.asarray(self.y), [(1 - probability) / 2, (1 + probability) / 2], axis=0)
        return low, high

    def _check(self, y_new: Any) -> np.ndarray:
        y = np.asarray(y_new, dtype=float)
        if y.shape != self.y.shape[1:]:
            raise DataError(f"scores: y has shape {y.shape}, but the prediction has {self.y.shape[1:]}")
        if np.isnan(y).all():
            raise DataError("scores: all of y is missing")
        return y

    def _observed(self, y_new: Any) -> tuple[np.ndarray, np.ndarray]:
        y = self._check(y_new)
        seen = ~np.isnan(y)
        return np.asarray(self.y)[:, seen], y[seen]

    def _log_densities(self, y: np.ndarray) -> np.ndarray:
        filled, _ = fill_missing(y)
        run, _ = compiled(_log_densities, self._model, self._context, self.f, self._parameters, filled)
        return np.asarray(run())


def _log_densities(model: Model, context: Any, level, parameters, y):
    def one(level, parameters):
        return model.likelihood.distribution(level, context, parameters).log_prob(y)

    return jax.vmap(one)(level, parameters)


def predict(
    key: Key[Array, ""], model: Model, state: State, x_new: Any, t: float | None = None, context: Any = None
) -> Prediction:
    """Draws of the latent and of new data at ``x_new``.

    Args:
        key: a random key.
        model: the model that the state was sampled with.
        state: the draws.
        x_new: the inputs, ``(n, D)``.
        t: the time; the last one by default, later for a forecast.
        context: what the likelihood needs besides, for the new data.
    """
    if not isinstance(state, State):
        raise SamplerError(f"predict: expected a state, got {type(state).__name__}")
    x = np.asarray(x_new, dtype=float)
    time = state.t if t is None else float(t)
    _check_inputs(x, time, state)
    model.kernel.space.check_dimension(x.shape[1])
    context = jax.tree.map(np.asarray, context)
    key_latent, key_data = jax.random.split(key)
    conditioning = _conditioning(state, x, time)
    level = conditioning.draws(key_latent, model)
    parameters = jax.vmap(model.parameters)(jnp.asarray(state.z))
    y = _data(key_data, model, level, context, parameters)
    return Prediction(level, y, time, x, model, context, parameters, conditioning)


def _check_inputs(x: np.ndarray, t: float, state: State) -> None:
    if x.ndim != 2 or 0 in x.shape:
        raise DataError(f"predict: x has shape {x.shape}, expected (n, D)")
    if not np.isfinite(x).all():
        raise DataError("predict: x has values that are not finite")
    if x.shape[1] != state.window.x.shape[2]:
        raise DataError(f"predict: x has {x.shape[1]} columns, but the data have {state.window.x.shape[2]}")
    if not t >= state.t:
        raise DataError(f"predict: t = {t} is before the last t = {state.t}; only the present and the future are kept")


def _conditioning(state: State, x: np.ndarray, t: float) -> Conditioning:
    """The window beside the new sites: the inputs themselves, or fixed sites that are interpolated from."""
    representation = state.representation
    interpolates = hasattr(representation, "interpolate")
    sites = representation.points if interpolates else x
    slots = max(len(sites), state.window.x.shape[1])
    pad, widen = slots - len(sites), slots - state.window.x.shape[1]
    padded = np.concatenate([sites, np.repeat(sites[-1:], pad, axis=0)])
    window_x = np.pad(state.window.x, ((0, 0), (0, widen), (0, 0)))
    window_mask = np.pad(state.window.mask, ((0, 0), (0, widen)))
    return Conditioning(
        latent=representation if interpolates else Dense(),
        times=np.append(state.window.times, t),
        x=np.concatenate([window_x, padded[None]]),
        mask=np.concatenate([window_mask, (np.arange(slots) < len(sites))[None]]),
        observe=representation.interpolate(x) if interpolates else Observe(index=np.arange(len(x))),
        known=interpolates and t == state.t,
        z=jnp.asarray(state.z),
        window=jnp.pad(jnp.asarray(state.window.f), ((0, 0), (0, 0), (0, widen))),
    )


def _data(key, model: Model, level, context, parameters) -> Array:
    """New data for each draw of the level."""
    keys = jax.random.split(key, len(level))
    try:
        run, _ = compiled(_sample_data, model, context, keys, level, parameters)
    except (TypeError, KeyError) as error:
        raise DataError(
            f"predict: the likelihood failed at the new inputs ({type(error).__name__}: {error}); "
            "pass the context that it needs there, predict(…, context=…)"
        ) from error
    return run()


def _sample_data(model: Model, context: Any, keys, level, parameters):
    def one(inputs):
        key, level, parameters = inputs
        distribution = model.likelihood.distribution(level, context, parameters)
        if not isinstance(distribution, dist.Distribution):
            raise ModelError(f"likelihood returned {type(distribution).__name__}, expected a NumPyro distribution")
        return jnp.asarray(distribution.sample(key), float)

    # One by one where the likelihood may be a solver; all at once where it is pointwise, and cheap.
    batch = level.shape[0] if model.likelihood.pointwise else None
    return jax.lax.map(one, (keys, level, parameters), batch_size=batch)
