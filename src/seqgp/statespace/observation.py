"""The data of one snapshot as a filter sees them."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from seqgp.base.snapshot import Context
from seqgp.linalg.factor import covariance_root, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.linearise import Linearisation
from seqgp.statespace.tabulated import Table

Values = TypeVar("Values", jax.Array, np.ndarray)
CLIPPED = 1e-2  # of correlations' eigenvalues, by which rounding may make them negative: sds then err by half of it


class SiteOperator(NamedTuple):
    """Where data lie among the sites of a filter: at chosen sites, or between them by interpolation."""

    index: Int[ArrayLike, " N"] | None = None  # pyright: ignore[reportIncompatibleMethodOverride]
    weights: Float[ArrayLike, "N M"] | None = None

    def of(self, values: Values) -> Values:
        """Values at the places ``(k, N)`` from values at the sites ``(k, M)``, of NumPy or of JAX as those are."""
        return values @ self.weights.T if self.weights is not None else values[..., self.index]

    def of_rows(self, values: Array) -> Array:
        """The same from values ``(M, k)``, to ``(N, k)``."""
        return values[self.index] if self.weights is None else jnp.asarray(self.weights) @ values

    def through(self, basis: Float[ArrayLike, "K M"] | None) -> SiteOperator:
        """The same places where the sites are coefficients of a basis of the points that are interpolated from."""
        return self if basis is None or self.weights is None else SiteOperator(weights=self.weights @ basis)


class Observation(NamedTuple):
    """The data of a snapshot, padded."""

    dt: Float[ArrayLike, ""]  # since the snapshot before; 0 for the first
    operator: SiteOperator
    y: Float[ArrayLike, " N"]
    seen: Bool[ArrayLike, " N"]
    design: Float[ArrayLike, "N q"]  # columns of the mean whose coefficients are part of the state
    columns: Float[ArrayLike, "N Q"]  # of the whole mean
    squares: Float[ArrayLike, ""]  # left over where data were reduced to as many as there are sites
    left_over: Float[ArrayLike, ""]  # the number of data behind these squares
    context: Context
    line: Linearisation | None = None  # where the likelihood sees all of ``f``: the data are of ``A u + b``
    table: Table | None = None  # of the log likelihoods, where a black box was tabulated
    gaps: Bool[ArrayLike, " k"] | None = None  # in the order of the sites: room for ``k`` values that are not seen
    t: ArrayLike = np.full((), np.nan)  # what a scale with a season depends on, and nothing else


def reduced(observation: Observation) -> Observation:
    """Many data with one noise level, reduced to as many as there are sites: sufficient for latent, mean and noise.

    With ``[W, X] = Q R`` (weights and columns of the mean) the data ``Q'y`` see ``R``; of the rest, its sum of squares
    and its number are all that counts. Data that are not seen take no part.
    """
    seen, q = np.asarray(observation.seen), observation.design.shape[1]
    parts = (observation.operator.weights, observation.design, observation.columns)
    weights, design, columns = (np.asarray(part)[seen] for part in parts)
    y, sites = np.asarray(observation.y)[seen], weights.shape[1]
    basis, r = np.linalg.qr(np.concatenate([weights, design, columns], axis=1))
    if len(basis) <= basis.shape[1]:
        return observation
    rotated = basis.T @ y
    return observation._replace(
        operator=SiteOperator(weights=r[:, :sites]),
        y=rotated,
        seen=np.ones(len(rotated), bool),
        design=r[:, sites : sites + q],
        columns=r[:, sites + q :],
        squares=np.asarray(max(float(y @ y - rotated @ rotated), 0.0)),
        left_over=np.asarray(float(len(y) - len(rotated))),
    )


def padded(observation: Observation, size: int) -> Observation:
    """The observation with places that are not seen, up to a number."""
    n = len(observation.y)
    if n == size:
        return observation
    more = size - n
    index, weights = observation.operator
    operator = SiteOperator(
        None if index is None else np.pad(index, (0, more)),
        None if weights is None else np.pad(weights, ((0, more), (0, 0))),
    )

    def longer(leaf):
        leaf = np.asarray(leaf)
        return np.concatenate([leaf, np.repeat(leaf[-1:], more, axis=0)]) if leaf.ndim and len(leaf) == n else leaf

    return observation._replace(
        operator=operator,
        y=np.append(observation.y, np.full(more, observation.y[-1])),
        seen=np.append(observation.seen, np.zeros(more, bool)),
        design=np.pad(observation.design, ((0, more), (0, 0))),
        columns=longer(observation.columns),
        context=jax.tree.map(longer, observation.context),
        table=jax.tree.map(longer, observation.table),
    )


def stacked(observations: list[Observation]) -> Observation:
    """Observations of one size as one tree with a leading axis, to be scanned over."""
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *observations)


class Query(NamedTuple):
    """Inputs that a filter is asked about: places among its sites, or points anywhere."""

    x: Float[np.ndarray, "n D"]
    operator: SiteOperator | None  # None where the inputs are new
    columns: Float[ArrayLike, "n Q"]  # of the mean
    dt: Float[np.ndarray, ""]  # after the last snapshot
    t: ArrayLike = np.full((), np.nan)  # what a scale with a season depends on, and nothing else

    @property
    def at_sites(self) -> bool:
        """Whether every input is a site."""
        return self.operator is not None and self.operator.index is not None

    @property
    def on_a_map(self) -> bool:
        """Whether the inputs are new."""
        return self.operator is None


class LatentGaussian(NamedTuple):
    """A Gaussian of the coefficients of the mean and of ``f`` at some places, in this order."""

    mean: Float[Array, " k"]
    covariance: Float[Array, "k k"]

    def symmetric(self) -> LatentGaussian:
        """The same with rounding evened out."""
        return self._replace(covariance=0.5 * (self.covariance + jnp.swapaxes(self.covariance, -1, -2)))

    def root(self) -> Float[Array, "k k"]:
        """A root of the covariance, which may be singular up to rounding; NaN where it has no digits left."""
        return covariance_root(self.covariance, CLIPPED)

    def draws(self, real: Bool[ArrayLike, " k"], white: Float[Array, "m k"]) -> Float[Array, "m k"]:
        """From standard normal numbers; what is not ``real`` is independent of what is."""
        alone = jnp.diag(jnp.diagonal(self.covariance))
        covariance = jnp.where(real[:, None] & real[None, :], self.covariance, alone)
        return self.mean[None, :] + white @ covariance_root(covariance, CLIPPED).T

    def draws_given(self, first: Float[Array, "m q"], white: Float[Array, "m k-q"]) -> Float[Array, "m k-q"]:
        """Of the others, given the first of its entries."""
        q, root = first.shape[1], self.root()
        inner = solve_lower(root[:q, :q], (first - self.mean[None, :q]).T).T if q else first
        return self.mean[None, q:] + inner @ root[q:, :q].T + white @ root[q:, q:].T
