"""Distributions of data that NumPyro does not have, or whose log density loses its digits far from the data."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import gammaln, ndtr
from jax.scipy.stats import norm


class LogitLabels(dist.BernoulliLogits):
    """NumPyro's, whose log probability has the right slope at log odds of zero too: there it takes ``max(f, 0)``."""

    logits: Any

    def log_prob(self, value):  # noqa: D102
        value, f = jnp.asarray(value, float), jnp.asarray(self.logits)
        return value * jax.nn.log_sigmoid(f) + (1 - value) * jax.nn.log_sigmoid(-f)


class LogitCounts(dist.BinomialLogits):
    """The same for successes among ``total_count``."""

    logits: Any

    def log_prob(self, value):  # noqa: D102
        value, total, f = jnp.asarray(value, float), jnp.asarray(self.total_count, float), jnp.asarray(self.logits)
        choices = gammaln(total + 1) - gammaln(value + 1) - gammaln(total - value + 1)
        return choices + value * jax.nn.log_sigmoid(f) + (total - value) * jax.nn.log_sigmoid(-f)


class ProbitLabels(dist.BernoulliProbs):
    """NumPyro's, whose log probability keeps its digits where the probability is zero or one to rounding."""

    f: jax.Array

    def __init__(self, f):
        super().__init__(probs=ndtr(f))
        self.f = f

    def log_prob(self, value):  # noqa: D102
        return norm.logcdf(jnp.where(jnp.asarray(value) > 0, self.f, -self.f))


class OrderedCategories(dist.OrderedLogistic):
    """NumPyro's, with the mean and variance of the category's number: what a quadratic approximation is found from.

    The log probability of a category is that of being below its upper and above its lower cut, so that it keeps its
    digits where the probability is zero to rounding.
    """

    def log_prob(self, value):  # noqa: D102
        cutpoints = jnp.asarray(self.cutpoints)
        last = cutpoints.shape[-1]
        shape = jnp.broadcast_shapes(jnp.shape(value), self.batch_shape)
        cuts = jnp.broadcast_to(cutpoints, (*shape, last))
        category = jnp.broadcast_to(jnp.asarray(value).astype(int), shape)[..., None]
        below = jnp.take_along_axis(cuts, jnp.clip(category - 1, 0, last - 1), axis=-1)
        above = jnp.take_along_axis(cuts, jnp.clip(category, 0, last - 1), axis=-1)
        f, first, final = self.predictor[..., None], category == 0, category == last
        lower = jnp.where(first, 0.0, jax.nn.log_sigmoid(f - below))
        upper = jnp.where(final, 0.0, jax.nn.log_sigmoid(above - f))
        gap = jnp.where(first | final, 1.0, above - below)
        return (lower + upper + jnp.where(first | final, 0.0, jnp.log(-jnp.expm1(-gap))))[..., 0]

    @property
    def mean(self):  # noqa: D102
        return self._power(1)

    @property
    def variance(self):  # noqa: D102
        return self._power(2) - self._power(1) ** 2

    def _power(self, power: int):
        probabilities = jnp.asarray(self.probs)
        return probabilities @ jnp.arange(probabilities.shape[-1], dtype=probabilities.dtype) ** power


class CensoredNormal(dist.Normal):
    """A normal variable that is recorded as ``limit`` wherever it is below it."""

    limit: Any  # one number, or one for each datum

    def __init__(self, loc, scale, limit):
        super().__init__(loc, scale)
        self.limit = limit

    def log_prob(self, value):  # noqa: D102
        below = norm.logcdf((self.limit - self.loc) / self.scale)
        return jnp.where(value <= self.limit, below, super().log_prob(value))

    def sample(self, key, sample_shape=()):  # noqa: D102
        return jnp.maximum(super().sample(key, sample_shape), self.limit)
