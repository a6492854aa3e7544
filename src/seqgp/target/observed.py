"""A snapshot as the compiled code sees it: padded, with missing values filled, and the way from sites to data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from seqgp.latents.protocol import Observe
from seqgp.models.likelihoods import Gaussian, Likelihood, fill_missing
from seqgp.models.model import Model
from seqgp.models.snapshot import Snapshot
from seqgp.models.types import Array


class Summary(NamedTuple):
    """Sufficient statistics of Gaussian data seen through interpolation: sums over the observed data."""

    count: Float[Array, ""]  # pyright: ignore[reportIncompatibleMethodOverride]
    gram: Float[Array, "S S"]  # W'W
    weighted: Float[Array, " S"]  # W'y
    ones: Float[Array, " S"]  # W'1
    y: Float[Array, ""]  # 1'y
    yy: Float[Array, ""]  # y'y

    def log_likelihood(self, sites, mean, noise):
        """``Σ log N(y_i; (W s)_i + mean, noise²)``."""
        return gaussian_log_density(self._squares(sites, mean, self.gram @ sites), self.count, noise)

    def on_span(self, mean, middle, columns) -> Squares:
        """The squared residuals of ``middle + columns @ weights``."""
        curved = self.gram @ middle
        slope = self.weighted - mean * self.ones - curved
        return Squares(self._squares(middle, mean, curved), slope @ columns, columns.T @ (self.gram @ columns))

    def _squares(self, sites, mean, curved):
        squares = self.yy - 2 * self.weighted @ sites + sites @ curved
        return squares + mean * (self.count * mean - 2 * (self.y - self.ones @ sites))


class Squares(NamedTuple):
    """A sum of squares ``|r − A w|²`` as a function of ``w``: a few inner products, whatever the size of the data."""

    constant: Float[Array, ""]  # r'r
    slope: Float[Array, " k"]  # A'r
    gram: Float[Array, "k k"]  # A'A

    def on_plane(self, u: Float[Array, " k"], v: Float[Array, " k"]) -> Callable[[Array, Array], Array]:
        """The sum of squares at ``w = c u + s v``, as a function of ``(c, s)``: six numbers."""
        pair = jnp.stack([u, v])
        (ru, rv), ((uu, uv), (_, vv)) = pair @ self.slope, pair @ self.gram @ pair.T
        return lambda c, s: self.constant - 2 * (c * ru + s * rv) + c**2 * uu + 2 * c * s * uv + s**2 * vv


def gaussian_log_density(squares, count, noise):
    """``log N`` of ``count`` residuals from the sum of their squares."""
    return -0.5 * squares / noise**2 - count * (jnp.log(noise) + 0.5 * jnp.log(2 * jnp.pi))


class Observed(NamedTuple):
    """The data of one snapshot, as arrays."""

    observe: Observe
    y: Float[Array, "*data"]
    missing: Bool[Array, "*data"]
    context: Any
    summary: Summary | None

    def level(self, sites: Float[Array, " S"], parameters: dict[str, Any]) -> Float[Array, " N"]:
        """``f + mean`` at the data."""
        return self.observe(sites) + parameters["mean"]

    def log_likelihood(
        self, likelihood: Likelihood, sites: Float[Array, " S"], parameters: dict[str, Any]
    ) -> Float[Array, ""]:
        """The log density of the data given the latent at the sites."""
        if self.summary is not None:
            return self.summary.log_likelihood(sites, parameters["mean"], parameters["noise"])
        level = self.level(sites, parameters)
        return likelihood.log_prob(level, self.y, self.missing, self.context, parameters)

    def on_span(
        self,
        likelihood: Likelihood,
        middle: Float[Array, " S"],
        columns: Float[Array, "S k"],
        parameters: dict[str, Any],
    ) -> Callable[[Float[Array, " k"], Float[Array, " k"]], Callable[[Array, Array], Array]]:
        """The log likelihood on a plane of a span: ``(u, v)`` to a function of ``(c, s)``.

        The sites are ``middle + columns @ (c u + s v)``. For Gaussian data the log likelihood is quadratic, and costs
        nothing once a few inner products are known.
        """
        if not isinstance(likelihood, Gaussian):

            def on_plane(u, v):
                a, b = columns @ u, columns @ v
                return lambda c, s: self.log_likelihood(likelihood, middle + c * a + s * b, parameters)

            return on_plane
        mean, noise = parameters["mean"], parameters["noise"]
        if self.summary is not None:
            squares, count = self.summary.on_span(mean, middle, columns), self.summary.count
        else:
            residual = jnp.where(self.missing, 0.0, self.y - self.observe(middle) - mean)
            seen = jnp.where(self.missing[:, None], 0.0, self.observe(columns))
            squares = Squares(residual @ residual, residual @ seen, seen.T @ seen)
            count = jnp.sum(~self.missing, dtype=float)

        def quadratic(u, v):
            along = squares.on_plane(u, v)
            return lambda c, s: gaussian_log_density(along(c, s), count, noise)

        return quadratic


def padded_size(model: Model, n: int, previous: int | None) -> int:
    """How many data points to compile for: the last size while it fits and is not wasteful, else a round one.

    A likelihood that is not pointwise sees all of the latent at once, so nothing may be added to it.
    """
    if not model.likelihood.pointwise or previous is None or n == previous:
        return n
    if previous // 2 <= n <= previous:
        return previous
    step = max(8, 2 ** (int(np.log2(n)) - 2))
    return -(-n // step) * step


def observed_from(model: Model, snapshot: Snapshot, observe: Observe, size: int) -> Observed:
    """The arrays of a snapshot, padded with missing data to ``size`` points."""
    n = len(snapshot.x)
    y, context = snapshot.y, snapshot.context
    if size > n:
        y = np.concatenate([y, np.full((size - n, *y.shape[1:]), np.nan)])
        context = jax.tree.map(lambda leaf: pad_rows(leaf, n, size), context)
        if observe.weights is not None:
            observe = observe._replace(weights=pad_rows(observe.weights, n, size))
    filled, missing = fill_missing(y)
    summary = None
    if isinstance(model.likelihood, Gaussian) and observe.weights is not None:
        summary = _summarise(observe.weights, filled, ~missing)
        observe, filled, missing = Observe(), filled[:0], missing[:0]
    return Observed(observe, filled, missing, context, summary)


def pad_rows(leaf: np.ndarray, n: int, size: int) -> np.ndarray:
    """The last row repeated, where there is one for each of ``n`` data points."""
    if leaf.ndim == 0 or leaf.shape[0] != n:
        return leaf
    return np.concatenate([leaf, np.repeat(leaf[-1:], size - n, axis=0)])


def _summarise(weights: np.ndarray, y: np.ndarray, observed: np.ndarray) -> Summary:
    w, values = weights[observed], y[observed]
    return Summary(
        *(
            np.asarray(part, dtype=float)
            for part in (len(values), w.T @ w, w.T @ values, w.sum(0), values.sum(), values @ values)
        )
    )
