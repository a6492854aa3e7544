"""The joint carry: Gaussian moments of the window's level and all parameters together, and a window that moves.

Over the draws of the last step, the stacked ``(h_window, z)``, with the level ``h = f + mu``, is matched by a Gaussian.
At
the next step ``h_window | z = m_h + G (z − m_z) + L_h nu_1``, and the present follows from the window as it moves. For
known parameters, Gaussian noise, shared inputs and a Markov time kernel this is the Kalman filter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import kurtosis, skew

from seqgp.latents.operators import Triangular
from seqgp.latents.protocol import Conditional, Root
from seqgp.models.model import Model
from seqgp.models.types import Array
from seqgp.sequential.carry import Carried, moments_of_z
from seqgp.sequential.state import State

LOW_RANK_ABOVE = 2000  # sites in the window: beyond, its covariance is kept as low rank plus diagonal
FLOOR = 1e-8  # of the mean variance, added to the diagonal


class LowRank(NamedTuple):
    """The symmetric root ``√d (I + W diag(gain) W')`` of ``d (I + W diag((1+gain)² − 1) W')``."""

    basis: Float[Array, "p k"]
    gain: Float[Array, "k"]
    unit: Float[Array, ""]

    def apply(self, v):  # noqa: D102
        return self.unit * (v + self._along(self.gain, v))

    def pull(self, v):  # noqa: D102
        return self.apply(v)

    def pull_diagonal(self, d):  # noqa: D102
        return self.apply(jnp.diag(d))

    def gram_diagonal(self, d):  # noqa: D102
        half = self.pull_diagonal(d)
        return half.T @ half

    def solve(self, v):  # noqa: D102
        return (v + self._along(1 / (1 + self.gain) - 1, v)) / self.unit

    def _along(self, gain, v):
        weights = self.basis.T @ v
        return self.basis @ (gain * weights if v.ndim == 1 else gain[:, None] * weights)


class Shared(NamedTuple):
    """The Gaussian of the window's level given ``z``."""

    centre: Float[Array, "d"]  # m_z
    mean: Float[Array, "p"]  # m_h
    gain: Float[Array, "p d"]  # G
    root: Any  # L_h
    mask: Bool[Array, "p"]


class Stacked(NamedTuple):
    """The root of window and present together: ``[[L_h, 0], [A L_h, L_t]]``, with ``A`` from window to mean."""

    window: Root
    conditional: Any

    def apply(self, v):  # noqa: D102
        level = self.window.apply(v[: self._split(v)])
        return jnp.concatenate([level, self._mean(level) + self.conditional.root.apply(v[self._split(v) :])])

    def pull(self, v):  # noqa: D102
        window = self.window.pull(self.conditional.mean_transpose(v))
        return jnp.concatenate([window, self.conditional.root.pull(v)])

    def pull_diagonal(self, d):  # noqa: D102
        return jnp.concatenate([self._pull_window(d), self.conditional.root.pull_diagonal(d)])

    def gram_diagonal(self, d):  # noqa: D102
        window = self._pull_window(d)
        return window.T @ window + self.conditional.root.gram_diagonal(d)

    def _pull_window(self, d):
        return self.window.pull(self.conditional.mean_transpose(jnp.diag(d)))

    def solve(self, v):  # noqa: D102
        level = v[: self._split(v)]
        present = self.conditional.root.solve(v[self._split(v) :] - self._mean(level))
        return jnp.concatenate([self.window.solve(level), present])

    def _mean(self, level):
        return self.conditional.mean_columns(level)

    def _split(self, v) -> int:
        return v.shape[0] - self.conditional.sites


class JointCarry(eqx.Module):
    """Joint Gaussian moments of the window's level and ``z``; the window is revised by every step."""

    @property
    def name(self) -> str:  # noqa: D102
        return "joint"

    def summarise(self, model: Model, state: State) -> Carried:  # noqa: D102
        mean, covariance = moments_of_z(model, state)
        draws = state.draws
        mask = state.window.mask.reshape(-1)
        level = np.where(mask, np.asarray(state.window.f).reshape(draws, -1) + _means(model, state)[:, None], 0.0)
        centre = level.mean(axis=0)
        gain = _regression(level - centre, np.asarray(state.z) - np.asarray(state.z).mean(axis=0), covariance)
        if state.step == 1:  # the first snapshot says nothing about the time kernel
            gain[:, model.layout().time] = 0.0
        residual = level - centre - (np.asarray(state.z) - np.asarray(state.z).mean(axis=0)) @ gain.T
        root, _ = covariance_root(residual, mask)
        return Carried(mean, covariance, Shared(mean, centre, gain, root, mask))

    def report(self, model: Model, state: State) -> tuple[dict[str, Any], list[str]]:
        """How far the covariance was shrunk, and whether the draws look Gaussian enough to be carried as such."""
        mask = state.window.mask.reshape(-1)
        level = np.asarray(state.window.f).reshape(state.draws, -1)[:, mask] + _means(model, state)[:, None]
        _, intensity = covariance_root(level - level.mean(axis=0), np.ones(level.shape[1], bool))
        return {"shrinkage": intensity}, _normality_remarks(model, state, level)

    def per_draw(self, model: Model, state: State):  # noqa: D102
        return jnp.zeros((state.draws, len(state.window.times), 0))

    def size(self, tau: int, sites: int) -> int:  # noqa: D102
        return (tau + 1) * sites

    def offset(self, shared: Shared, window, conditional, z, mean):  # noqa: D102
        level = shared.mean + shared.gain @ (z - shared.centre)
        past = jnp.where(shared.mask, level - mean, 0.0)
        return jnp.concatenate([past, conditional.mean_columns(past)])

    def root(self, shared: Shared, conditional: Conditional) -> Stacked:  # noqa: D102
        return Stacked(shared.root, conditional)

    def slide(self, window, sites, mean):  # noqa: D102
        return sites.reshape(sites.shape[0], window.shape[1] + 1, -1)


def _means(model: Model, state: State) -> np.ndarray:
    if "mean" in state.parameters:
        return np.asarray(state.parameters["mean"])
    return np.full(state.draws, float(model.mean))


def _regression(level: np.ndarray, z: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """``G = C_hz K_z⁻¹``."""
    if z.shape[1] == 0:
        return np.zeros((level.shape[1], 0))
    gram = z.T @ z / (len(z) - 1) + 1e-9 * np.diag(np.diag(covariance))
    return np.linalg.solve(gram, z.T @ level / (len(z) - 1)).T


def covariance_root(residual: np.ndarray, mask: np.ndarray) -> tuple[Any, float]:
    """A root of the covariance of centred draws, and the intensity of its shrinkage.

    With fewer draws than about three times their dimension the sample covariance is shrunk towards a multiple of the
    identity (oracle approximating shrinkage, Chen et al. 2010). Masked sites are independent, with unit variance.
    """
    n, p = len(residual), max(int(mask.sum()), 1)
    variance = (residual[:, mask] ** 2).sum(axis=0) / (n - 1)
    average = max(float(variance.mean()) if mask.any() else 1.0, 1e-300)
    if mask.sum() > LOW_RANK_ABOVE:
        return _low_rank(residual, mask, average), 0.0
    sample = residual.T @ residual / (n - 1)
    intensity = oas_intensity(sample[np.ix_(mask, mask)], n) if n < 3 * p else 0.0
    matrix = (1 - intensity) * sample
    matrix[np.diag_indices_from(matrix)] += np.where(mask, (intensity + FLOOR) * average, 1.0)
    return Triangular(np.linalg.cholesky(matrix)), intensity


def oas_intensity(sample: np.ndarray, n: int) -> float:
    """The intensity of oracle approximating shrinkage for a sample covariance of ``n`` draws."""
    p = len(sample)
    squares, trace = float(np.sum(sample**2)), float(np.trace(sample))
    numerator = (1 - 2 / p) * squares + trace**2
    denominator = (n + 1 - 2 / p) * (squares - trace**2 / p)
    return 1.0 if denominator <= 0 else float(np.clip(numerator / denominator, 0.0, 1.0))


def _low_rank(residual: np.ndarray, mask: np.ndarray, average: float, rank: int = 256) -> LowRank:
    """The leading directions of the draws, and what is left of the variance spread evenly."""
    n = len(residual)
    _, singular, basis = np.linalg.svd(np.where(mask, residual, 0.0), full_matrices=False)
    rank = min(rank, n - 1)
    variances = singular[:rank] ** 2 / (n - 1)
    left = max(average * mask.sum() - variances.sum(), 0.0) / mask.sum() + FLOOR * average
    return LowRank(basis[:rank].T, np.sqrt(1 + variances / left) - 1, np.sqrt(left))


def _normality_remarks(model: Model, state: State, level: np.ndarray) -> list[str]:
    """Plain words where parameters, or the leading components of the level, are far from Gaussian."""
    centred = level - level.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    leading = centred @ directions[:3].T
    columns = {name: np.asarray(state.z)[:, i] for i, name in enumerate(model.names)}
    if state.step == 1:
        columns = {name: column for name, column in columns.items() if not name.startswith("time.")}
    columns |= {f"component {i + 1} of the level": leading[:, i] for i in range(leading.shape[1])}
    found = []
    for name, column in columns.items():
        s, k = float(skew(column)), float(kurtosis(column))
        if abs(s) > 1.0 or k > 3.0:
            found.append(
                f"{name}: far from Gaussian (skewness {s:.1f}, excess kurtosis {k:.1f}), so what is carried is rough: "
                "take more draws, another transform of the prior, or carry='paper'"
            )
    return found
