"""Gaussian data: the latent integrated out exactly, and drawn exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree
from scipy.special import logsumexp

from seqgp.base.errors import ModelError
from seqgp.base.priors import Parameters
from seqgp.base.snapshot import Context, Snapshot
from seqgp.base.validation import require_x64
from seqgp.fields.operators import root_with_jitter
from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.model import Model
from seqgp.runtime.engine import compiled, cores, in_threads


class Stack(NamedTuple):
    """All sites of all snapshots in one row, and which of them have been observed."""

    t: Float[Array, " n"]
    x: Float[Array, "n D"]
    y: Float[Array, " m"]  # the observed values
    observed: Int[Array, " m"]  # their sites
    design: Float[Array, "n q"]  # of the mean
    contexts: tuple[Context, ...]  # of the snapshots, as the likelihood sees them
    blanks: tuple[Float[Array, " N"], ...]  # zeros, as many as each snapshot has inputs

    def mean(self, model: Model, parameters: Parameters) -> Float[Array, " n"]:
        """The mean at all sites."""
        return model.mean_function.value(parameters, self.design)

    def variance(self, model: Model, parameters: Parameters) -> Float[Array, " m"]:
        """Of the noise of the observed values."""
        pairs = zip(self.contexts, self.blanks)
        noise = [blank + model.likelihood.noise(context, parameters) for context, blank in pairs]
        return jnp.concatenate(noise)[self.observed] ** 2


def require_gaussian(model: Model, who: str) -> None:
    """Raise unless the latent can be integrated out, in double precision."""
    require_x64()
    if not model.likelihood.conjugate:
        raise ModelError(
            f"{who} integrates the latent out, which needs seqgp.likelihoods.Gaussian(noise) as the likelihood, got "
            f"{type(model.likelihood).__name__}; use seqgp.FullSampler"
        )


def stack(model: Model, snapshots: Sequence[Snapshot]) -> Stack:
    """The snapshots in one row."""
    y = np.concatenate([snapshot.y for snapshot in snapshots])
    observed = np.flatnonzero(~np.isnan(y))
    return Stack(
        t=jnp.asarray(np.concatenate([np.full(len(snapshot.x), snapshot.t) for snapshot in snapshots])),
        x=jnp.asarray(np.concatenate([snapshot.x for snapshot in snapshots])),
        y=jnp.asarray(y[observed]),
        observed=jnp.asarray(observed),
        design=jnp.asarray(np.concatenate([model.mean_function.design(s.t, s.x, s.context) for s in snapshots])),
        contexts=tuple(model.likelihood.context_at(s.t, s.context) for s in snapshots),
        blanks=tuple(jnp.zeros(len(s.x)) for s in snapshots),
    )


def observed_distances(model: Model, data: Stack) -> Any:
    """Between the observed sites."""
    return model.kernel.prepare(data.t[data.observed], data.x[data.observed])


def data_root(model: Model, data: Stack, prior: Float[Array, "m m"], parameters: Parameters) -> Float[Array, "m m"]:
    """The Cholesky factor of the covariance of the data: latent, jitter and noise."""
    diagonal = model.jitter[0] * model.kernel.variance(parameters) + data.variance(model, parameters)
    return cholesky(prior + jnp.diag(diagonal))


def log_marginal(model: Model, data: Stack, between: PyTree, parameters: Parameters) -> Float[Array, ""]:
    """``log p(y | parameters)``; ``between`` are the distances of the observed sites."""
    root = data_root(model, data, model.kernel.covariance(between, parameters), parameters)
    white = solve_lower(root, data.y - data.mean(model, parameters)[data.observed])
    constant = 0.5 * data.y.shape[0] * jnp.log(2 * jnp.pi)
    return -0.5 * white @ white - jnp.sum(jnp.log(jnp.diagonal(root))) - constant


class Moments(NamedTuple):
    """A Gaussian distribution of ``f`` at all sites."""

    mean: Float[Array, " n"]
    covariance: Float[Array, "n n"]


def exact_moments(model: Model, data: Stack, parameters: Parameters) -> Moments:
    """Mean and covariance of ``f`` at all sites given the data, at known parameters."""
    prior = model.kernel.covariance(model.kernel.prepare(data.t, data.x), parameters)
    prior = prior + model.jitter[0] * model.kernel.variance(parameters) * jnp.eye(prior.shape[0])
    cross = prior[:, data.observed]
    seen = cross[data.observed] + jnp.diag(data.variance(model, parameters))
    root = cholesky(seen)
    half = solve_lower(root, cross.T)
    white = solve_lower(root, data.y - data.mean(model, parameters)[data.observed])
    return Moments(data.mean(model, parameters) + half.T @ white, prior - half.T @ half)


def draw_latent(
    key: Key[Array, ""], model: Model, data: Stack, between: PyTree, parameters: Parameters
) -> Float[Array, " n"]:
    """An exact draw of the zero-mean latent at all sites given the data, by Matheron's rule.

    ``between`` are the distances of all sites.
    """
    key_prior, key_noise = jax.random.split(key)
    prior = model.kernel.covariance(between, parameters)
    variance = model.kernel.variance(parameters)
    root = root_with_jitter(prior, variance, model.jitter)[0].root
    f = root @ jax.random.normal(key_prior, (prior.shape[0],), prior.dtype)
    prior = prior + model.jitter[0] * variance * jnp.eye(prior.shape[0])
    cross = prior[:, data.observed]
    noise = jnp.sqrt(data.variance(model, parameters)) * jax.random.normal(key_noise, data.y.shape, prior.dtype)
    seen = cholesky(cross[data.observed] + jnp.diag(data.variance(model, parameters)))
    residual = data.y - data.mean(model, parameters)[data.observed] - f[data.observed] - noise
    return f + cross @ solve_lower(seen, solve_lower(seen, residual), transpose=True)


def gaussian_posterior(model: Model, snapshots: Sequence[Snapshot], parameters: Parameters) -> list[Moments]:
    """The exact posterior of ``f`` at each time given all snapshots, at known parameters, any kernel.

    Args:
        model: a model with a Gaussian likelihood.
        snapshots: the data, in the order of time.
        parameters: every parameter by name, in natural units (``model.parameters(z)``).
    """
    require_gaussian(model, "gaussian_posterior")
    run, _ = compiled(exact_moments, model, stack(model, snapshots), parameters)
    moments: Moments = run()
    found, start = [], 0
    for snapshot in snapshots:
        block = slice(start, start + len(snapshot.x))
        found.append(Moments(moments.mean[block], moments.covariance[block, block]))
        start = block.stop
    return found


def predictive_log_score(
    model: Model, snapshots: Sequence[Snapshot], following: Snapshot, z: Float[Array, "draws d"]
) -> float:
    """``log p(y_{t+1} | y_{1:t})``, the mean over draws of the parameters given ``snapshots``, latent integrated out.

    Args:
        model: a model with a Gaussian likelihood.
        snapshots: the data so far.
        following: the next snapshot, to be predicted jointly.
        z: draws of the parameters given ``snapshots``.
    """
    require_gaussian(model, "predictive_log_score")
    past, both = stack(model, snapshots), stack(model, [*snapshots, following])
    pieces = np.array_split(np.arange(len(z)), min(cores(), len(z)))
    tasks = [compiled(_log_ratios, model, past, both, z[piece])[0] for piece in pieces]
    ratios = np.concatenate([np.asarray(part) for part in in_threads(tasks)])
    return float(logsumexp(ratios) - np.log(len(ratios)))


def _log_ratios(model: Model, past: Stack, both: Stack, z: Float[Array, "draws d"]) -> Float[Array, " draws"]:
    before, after = observed_distances(model, past), observed_distances(model, both)

    def one(z):
        parameters = model.parameters(z)
        return log_marginal(model, both, after, parameters) - log_marginal(model, past, before, parameters)

    return jax.lax.map(one, z)
