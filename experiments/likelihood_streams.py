"""Streams of data that are not Gaussian, from a latent function with a lengthscale in time and a scale of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import seqgp

STEPS, APART = 200, 0.1
EXTENT = 3.0  # of the line on which several stations are
OUTLIER = 3.0
TRIALS, CUTPOINTS = 5, (-1.0, 1.0)


class Stream(NamedTuple):
    """A likelihood, and how its data are distributed given the level and its own parameter (NaN where it has none)."""

    likelihood: seqgp.likelihoods.Likelihood
    given: Callable[[Any, Any], dist.Distribution]
    own: float = np.nan  # the true value
    level: float = 0.0
    outliers: float = 0.0  # the share of data that are moved by OUTLIER, up or down


def between(low: float, high: float) -> Any:
    return seqgp.ScaledSigmoid(low, high)


def black_box(f, context):
    """Counts whose rate NumPy computes: no derivatives."""
    rate = jax.pure_callback(lambda f: np.exp(f), jax.ShapeDtypeStruct(f.shape, f.dtype), f, vmap_method="expand_dims")
    return dist.Poisson(rate)


def counts(mean: float) -> Stream:
    """Where the variance of the latent is one."""
    return Stream(seqgp.likelihoods.Poisson(), lambda f, own: dist.Poisson(jnp.exp(f)), level=float(np.log(mean) - 0.5))


STREAMS = {
    "Black box": Stream(
        seqgp.likelihoods.Likelihood(black_box, pointwise=True), lambda f, own: dist.Poisson(jnp.exp(f)), level=0.0
    ),
    **{f"Poisson, mean {mean:g}": counts(mean) for mean in (0.1, 0.3, 1.0)},
    "Poisson, one in four": counts(float(np.exp(-1.0))),
    "Bernoulli": Stream(seqgp.likelihoods.Bernoulli(), lambda f, own: dist.Bernoulli(logits=f)),
    "Binomial": Stream(seqgp.likelihoods.Binomial(trials=TRIALS), lambda f, own: dist.Binomial(TRIALS, logits=f)),
    "NegativeBinomial": Stream(
        seqgp.likelihoods.NegativeBinomial(between(0.2, 5)),
        lambda f, own: dist.NegativeBinomial2(jnp.exp(f), own),
        own=1.0,
        level=0.5,
    ),
    "Gamma": Stream(
        seqgp.likelihoods.Gamma(between(0.2, 5)), lambda f, own: dist.Gamma(own, own / jnp.exp(f)), own=1.5
    ),
    "Beta": Stream(
        seqgp.likelihoods.Beta(between(1, 50)),
        lambda f, own: dist.Beta(own * jax.nn.sigmoid(f), own * jax.nn.sigmoid(-f)),
        own=10.0,
    ),
    "Ordinal": Stream(
        seqgp.likelihoods.Ordinal(list(CUTPOINTS)),
        lambda f, own: dist.OrderedLogistic(f, jnp.asarray(CUTPOINTS)),
    ),
    "StudentT, df = 4": Stream(
        seqgp.likelihoods.StudentT(between(0.02, 1), df=4.0), lambda f, own: dist.StudentT(4.0, f, own), own=0.3
    ),
    "StudentT, 5% outliers": Stream(
        seqgp.likelihoods.StudentT(between(0.02, 1), df=4.0),
        lambda f, own: dist.StudentT(4.0, f, own),
        own=0.3,
        outliers=0.05,
    ),
    "Censored, half of them": Stream(
        seqgp.likelihoods.Censored(between(0.02, 1), limit=0.0), lambda f, own: dist.Normal(f, own), own=0.3
    ),
}


def model(stream: Stream) -> seqgp.Model:
    kernel = seqgp.Separable(seqgp.kernels.Matern32(between(0.05, 5)), seqgp.kernels.Matern12(1.0), between(0.05, 3))
    return seqgp.Model(kernel, stream.likelihood, mean=between(-3, 3))


def places(stations: int) -> np.ndarray:
    return np.linspace(0.0, EXTENT, stations)[:, None] if stations > 1 else np.zeros((1, 1))


def space_root(stations: int) -> np.ndarray:
    x = places(stations)
    return np.linalg.cholesky(np.exp(-np.abs(x - x.T)))


def time_correlation(steps: int, lengthscale: float = 1.0) -> np.ndarray:
    """Of a Matérn 3/2."""
    r = 3**0.5 * APART * np.abs(np.subtract.outer(np.arange(steps), np.arange(steps))) / lengthscale
    return (1 + r) * np.exp(-r)


def drawn(stream: Stream, seed: int, steps: int = STEPS, stations: int = 1) -> np.ndarray:
    """Data ``(steps, stations)`` with a lengthscale and a scale of one."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(time_correlation(steps) + 1e-10 * np.eye(steps))
    f = jnp.asarray(stream.level + root @ rng.standard_normal((steps, stations)) @ space_root(stations).T)
    y = np.asarray(stream.given(f, stream.own).sample(jax.random.key(seed)), dtype=float)
    if stream.outliers:
        y = y + np.where(rng.random(y.shape) < stream.outliers, rng.choice([-OUTLIER, OUTLIER], y.shape), 0.0)
    return np.maximum(y, 0.0) if isinstance(stream.likelihood, seqgp.likelihoods.Censored) else y


def log_density(stream: Stream, y, f, own):
    """Of one datum at many levels."""
    given = stream.given(f, own)
    if isinstance(stream.likelihood, seqgp.likelihoods.Censored):
        return jnp.where(y <= 0, jax.scipy.stats.norm.logcdf(0.0, f, own), given.log_prob(y))
    return given.log_prob(jnp.asarray(y, int) if isinstance(stream.likelihood, seqgp.likelihoods.Ordinal) else y)
