"""The latent function at new inputs given each posterior draw: its window beside the new sites, as one Gaussian."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key, PyTree

from seqgp.fields.protocol import Latent
from seqgp.fields.sites import Observe, pad_rows, widen_window
from seqgp.likelihoods.base import fill_missing
from seqgp.likelihoods.gaussian import gaussian_log_density
from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.mcmc.plan import check_draws
from seqgp.means.base import covariate_effect
from seqgp.model import Model
from seqgp.runtime.engine import compiled, cores, in_threads

if TYPE_CHECKING:
    from seqgp.samplers.sequential.state import SequentialState


class Conditioning(NamedTuple):
    """What each posterior draw says about the latent at new sites: a Gaussian, given its window and parameters."""

    representation: Latent
    times: np.ndarray
    x: np.ndarray
    mask: np.ndarray
    observe: Observe
    known: bool  # the sites themselves are in the window: nothing is left to draw
    z: Float[np.ndarray, "draws d"]
    window: Float[np.ndarray, "draws tau S"]
    columns: Mapping[str, Float[ArrayLike, "n w"]]  # of the covariates of the mean, by the names of their weights
    context: PyTree  # of new data

    def draws(self, key: Key[Array, ""], model: Model) -> Float[Array, "draws n"]:
        """One draw of ``f`` at the new inputs for each posterior draw."""
        draws = self._in_pieces(_draw_f, model, jax.random.split(key, len(self.z)))
        return jax.device_put(np.concatenate(draws))

    def log_marginals(self, model: Model, y: np.ndarray) -> np.ndarray:
        """``log N(y; mean, K + noise²)`` for each posterior draw, the latent integrated out; NaN in ``y`` drops out."""
        filled, missing = fill_missing(y)
        each = np.zeros((len(self.z), 0))
        return np.concatenate(self._in_pieces(_log_marginals, model, each, filled, missing))

    def _in_pieces(self, function, model: Model, each, *shared) -> list:
        ends = np.linspace(0, len(self.z), min(cores(), len(self.z)) + 1).astype(int).tolist()
        tasks = []
        for piece in itertools.starmap(slice, itertools.pairwise(ends)):
            part = self._replace(z=self.z[piece], window=self.window[piece])
            tasks.append(compiled(function, model, part, each[piece], *shared)[0])
        return in_threads(tasks)


def _moments(model: Model, conditioning: Conditioning):
    """For one draw: parameters, the mean of the new sites, and the root of their covariance."""
    representation, kernel = conditioning.representation, model.kernel
    geometry = representation.geometry(kernel, conditioning.times, conditioning.x, conditioning.mask, 1)

    def at(z, window):
        parameters = model.parameters(z)
        if conditioning.known:
            return parameters, window[-1], None
        conditional = representation.conditional(kernel, geometry, parameters, model.jitter)
        return parameters, conditional.mean(window), conditional.root

    return at


def _draw_f(model: Model, conditioning: Conditioning, keys):
    at = _moments(model, conditioning)

    def one(inputs):
        key, z, window = inputs
        parameters, sites, root = at(z, window)
        if root is not None:
            sites = sites + root.apply(jax.random.normal(key, sites.shape, sites.dtype))
        return conditioning.observe(sites) + parameters["mean"] + covariate_effect(conditioning.columns, parameters)

    return jax.lax.map(one, (keys, conditioning.z, conditioning.window))


def _log_marginals(model: Model, conditioning: Conditioning, each, y, missing):
    at = _moments(model, conditioning)
    weights, seen = conditioning.observe.weights, ~missing
    few_sites = weights is not None and weights.shape[1] < weights.shape[0]
    count = jnp.sum(seen, dtype=float)
    observe = jnp.where(seen[:, None], 0.0 if weights is None else weights, 0.0)
    gram = observe.T @ observe

    def in_sites(white, root, noise):
        """In the sites, where they are fewer than the data: ``I + A A'`` by way of ``I + A'A``."""
        scaled = observe / jnp.broadcast_to(noise, y.shape)[:, None]
        inner = gram / noise**2 if jnp.ndim(noise) == 0 else scaled.T @ scaled
        chol = cholesky(jnp.eye(len(gram)) + root.pull(root.pull(inner).T))
        explained = solve_lower(chol, root.pull(scaled.T @ white))
        return white @ white - explained @ explained, jnp.sum(jnp.log(jnp.diagonal(chol)))

    def in_data(white, root, noise):
        half = jax.vmap(conditioning.observe, in_axes=1, out_axes=1)(root.apply(jnp.eye(len(conditioning.x[-1]))))
        half = half / jnp.broadcast_to(noise, y.shape)[:, None]
        covariance = jnp.eye(len(y)) + half @ half.T
        chol = cholesky(jnp.where(seen[:, None] & seen[None, :], covariance, jnp.eye(len(y))))
        left = solve_lower(chol, white)
        return left @ left, jnp.sum(jnp.log(jnp.diagonal(chol)))

    def one(inputs):
        z, window = inputs
        parameters, sites, root = at(z, window)
        noise = model.likelihood.noise(conditioning.context, parameters)
        mean = parameters["mean"] + covariate_effect(conditioning.columns, parameters)
        white = jnp.where(seen, (y - conditioning.observe(sites) - mean) / noise, 0.0)
        if root is None:
            square, log_det = white @ white, 0.0
        else:
            square, log_det = (in_sites if few_sites else in_data)(white, root, noise)
        scales = jnp.sum(jnp.where(seen, jnp.log(noise), 0.0))
        return gaussian_log_density(square, count, 1.0) - scales - log_det

    return jax.lax.map(one, (conditioning.z, conditioning.window))


def conditioning_of(state: SequentialState, model: Model, x: np.ndarray, t: float, context: PyTree) -> Conditioning:
    """The window beside the sites that the representation wants for a prediction at ``x``."""
    new = state.representation.prediction_sites(x, now=t == state.t)
    n, slots = len(new.x), max(len(new.x), state.window.x.shape[1])
    if not new.known:
        check_draws(new.representation, len(state.window.times) + 1, slots)
    window = widen_window(state.window, slots)
    return Conditioning(
        representation=new.representation,
        times=np.append(window.times, t),
        x=np.concatenate([window.x, pad_rows(new.x, n, slots)[None]]),
        mask=np.concatenate([window.mask, (np.arange(slots) < n)[None]]),
        observe=new.observe,
        known=new.known,
        z=np.asarray(state.z),
        window=np.asarray(window.f),
        columns=model.mean_function.columns(t, x, context),
        context=context,
    )
