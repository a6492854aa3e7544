"""The covariance of a window's level from its draws: principal components, whose variances follow the kernel."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh

from seqgp.fields.protocol import Conditional
from seqgp.linalg.types import Array, ArrayLike

LOW_RANK_ABOVE = 2000  # sites in the window: beyond, its covariance is kept as low rank plus diagonal
RANK = 256
FLOOR = 1e-8  # of the mean variance, added to the diagonal


class Components(NamedTuple):
    """A root of ``W diag(sd²) W' + rest² (I − W W')``, where ``W`` has all orthonormal columns, or the leading ones."""

    basis: Float[Array, "p k"]
    sd: Float[Array, " k"]
    rest: Float[Array, ""]  # of no effect where all columns are there

    def apply(self, v: Float[Array, " p *k"]) -> Float[Array, " p *k"]:
        """``W diag(sd) v``; with only the leading columns ``W diag(sd) W'v + rest (v − W W'v)``."""
        if self._complete:
            return self.basis @ _scaled(self.sd, v)
        return self.rest * v + self.basis @ _scaled(self.sd - self.rest, self.basis.T @ v)

    def pull(self, v: Float[Array, " p *k"]) -> Float[Array, " p *k"]:
        """The transpose of the root times ``v``."""
        return _scaled(self.sd, self.basis.T @ v) if self._complete else self.apply(v)

    def solve(self, v: Float[Array, " p *k"]) -> Float[Array, " p *k"]:
        """The inverse of the root times ``v``."""
        along = self.basis.T @ v
        if self._complete:
            return _scaled(1 / self.sd, along)
        return v / self.rest + self.basis @ _scaled(1 / self.sd - 1 / self.rest, along)

    def seen(self, conditional: Conditional) -> Float[Array, "S p"]:
        """The root as the present sees it: the map from the window to the present's mean, times the root."""
        if self._complete:
            return conditional.mean_columns(self.basis) * self.sd[None, :]
        gain = conditional.mean_transpose(jnp.eye(conditional.sites)).T
        return self.rest * gain + ((gain @ self.basis) * (self.sd - self.rest)[None, :]) @ self.basis.T

    @property
    def _complete(self) -> bool:
        return self.basis.shape[0] == self.basis.shape[1]


def _scaled(scales, v):
    return scales * v if v.ndim == 1 else scales[:, None] * v


class WindowCovariance(NamedTuple):
    """The covariance of the window's level given ``z``: components whose log sds are linear in ``kappa``."""

    basis: Float[ArrayLike, "p k"]
    log_sd: Float[ArrayLike, " k"]
    slope: Float[ArrayLike, "k d"]  # zero for what is not kappa
    low: Float[ArrayLike, " k"]  # what the draws have shown of slope @ z: beyond, it stays at that
    high: Float[ArrayLike, " k"]
    rest: Float[ArrayLike, ""]

    def sd(self, z: Float[Array, " d"]) -> Float[Array, " k"]:
        """The sds of the components at a centred ``z``."""
        return jnp.exp(self.log_sd + jnp.clip(self.slope @ z, self.low, self.high))


def window_covariance(residual: np.ndarray, mask: np.ndarray, kappa: np.ndarray) -> WindowCovariance:
    """The covariance of centred draws as a function of ``kappa`` (centred too).

    Masked sites are independent, with unit variance.
    """
    valid, padding = residual[:, mask], int((~mask).sum())
    n, p = valid.shape
    intensity = shrinkage_of(valid)
    average = max(float((valid**2).sum()) / max(n - 1, 1) / max(p, 1), 1e-300)
    if p > LOW_RANK_ABOVE:
        vectors, rest = _leading(valid, average)
    else:
        vectors, rest = np.linalg.eigh(valid.T @ valid)[1], average
    floor = (intensity + FLOOR) * average
    squares = (1 - intensity) * (valid @ vectors) ** 2 * (n / max(n - 1, 1)) + floor
    variances = squares.mean(axis=0)
    slope = log_variance_slopes(squares / variances, kappa) / 2
    shown = kappa @ slope.T
    complete = vectors.shape[1] == p
    basis = np.zeros((len(mask), vectors.shape[1] + (padding if complete else 0)))
    basis[mask, : vectors.shape[1]] = vectors
    # Averaged over the draws, the variance of a component is what the draws have.
    log_sd = 0.5 * (np.log(variances) - np.log(np.exp(2 * shown).mean(axis=0)))
    low, high = shown.min(axis=0), shown.max(axis=0)
    if complete:
        basis[~mask, vectors.shape[1] :] = np.eye(padding)
        log_sd, low, high = (np.append(values, np.zeros(padding)) for values in (log_sd, low, high))
        slope = np.concatenate([slope, np.zeros((padding, slope.shape[1]))])
    return WindowCovariance(basis, log_sd, slope, low, high, np.sqrt(rest + floor))


def log_variance_slopes(squares: np.ndarray, kappa: np.ndarray, rounds: int = 15) -> np.ndarray:
    """How the log variance of each component changes with ``kappa``: the slopes ``b`` of ``E[square] ∝ exp(b'kappa)``.

    Gamma regression by Fisher scoring, with a standard normal prior for the slopes along standardised directions of
    ``kappa``, so that few draws do not make much of little.
    """
    n, q = kappa.shape
    spread = np.linalg.svd(kappa, full_matrices=False) if q else None
    if spread is None or not (keep := spread[1] > 1e-9 * max(spread[1].max(), 1e-300)).any():
        return np.zeros((squares.shape[1], q))
    design = spread[0][:, keep] * n**0.5  # standardised, uncorrelated
    slopes = np.zeros((keep.sum(), squares.shape[1]))
    for _ in range(rounds):
        ratio = squares * np.exp(-design @ slopes)
        ratio /= ratio.mean(axis=0)  # the intercept
        step = (design.T @ (ratio - 1) - 2 * slopes) / (n + 2)
        slopes += step / np.maximum(np.abs(step).max(axis=0), 1.0)
        if np.abs(step).max() < 1e-4:
            break
    return (slopes.T * (n**0.5 / spread[1][keep])) @ spread[2][keep]


def shrinkage_of(residual: np.ndarray) -> float:
    """The intensity by which the covariance of centred draws is shrunk towards a multiple of the identity.

    With fewer draws than about three times their dimension: oracle approximating shrinkage (Chen et al. 2010).
    """
    n, p = residual.shape
    if n >= 3 * max(p, 1) or p > LOW_RANK_ABOVE:
        return 0.0
    return oas_intensity(residual.T @ residual / (n - 1), n)


def oas_intensity(sample: np.ndarray, n: int) -> float:
    """The intensity of oracle approximating shrinkage for a sample covariance of ``n`` draws."""
    p = len(sample)
    squares, trace = float(np.sum(sample**2)), float(np.trace(sample))
    numerator = (1 - 2 / p) * squares + trace**2
    denominator = (n + 1 - 2 / p) * (squares - trace**2 / p)
    return 1.0 if denominator <= 0 else float(np.clip(numerator / denominator, 0.0, 1.0))


def _leading(residual: np.ndarray, average: float) -> tuple[np.ndarray, float]:
    """The leading directions of the draws, and the variance of each that is left."""
    n, p = residual.shape
    rank = min(RANK, n - 1)
    found = directions(residual, rank)
    left = max(average * p - ((residual @ found) ** 2).sum() / (n - 1), 0.0) / (p - rank)
    return found, left


def directions(centred: np.ndarray, count: int) -> np.ndarray:
    """The leading principal directions of draws, as columns: from the smaller of the two matrices of products."""
    n, p = centred.shape
    gram = centred.T @ centred if p <= n else centred @ centred.T
    vectors = eigh(gram, subset_by_index=(len(gram) - count, len(gram) - 1))[1]
    return vectors if p <= n else np.linalg.qr(centred.T @ vectors)[0]
