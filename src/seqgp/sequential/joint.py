"""The joint carry: Gaussian moments of the window's level given all parameters, and a window that moves.

Over the draws of the last step, the level ``h = f + mu`` of the window is matched by a Gaussian given ``z``: its mean
is linear in ``z``; its covariance has fixed principal components, whose log variances are linear in the kernel's
parameters ``kappa``. At the next step ``h_window = m_h + G (z − m_z) + W diag(sd(kappa)) nu_1``, and the present
follows from the window as it moves. For known parameters, Gaussian noise, shared inputs and a Markov time kernel this
is the Kalman filter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import eigh
from scipy.stats import kurtosis, skew

from seqgp.latents.protocol import Conditional
from seqgp.models.model import Model
from seqgp.models.types import Array
from seqgp.sequential.carry import Carried, moments_of_z
from seqgp.sequential.state import State

LOW_RANK_ABOVE = 2000  # sites in the window: beyond, its covariance is kept as low rank plus diagonal
RANK = 256
FLOOR = 1e-8  # of the mean variance, added to the diagonal


class Components(NamedTuple):
    """A root of ``W diag(sd²) W' + rest² (I − W W')``, where ``W`` has all orthonormal columns, or the leading ones."""

    basis: Float[Array, "p k"]
    sd: Float[Array, "k"]
    rest: Float[Array, ""]  # of no effect where all columns are there

    def apply(self, v):  # noqa: D102
        if self._complete:
            return self.basis @ _scaled(self.sd, v)
        return self.rest * v + self.basis @ _scaled(self.sd - self.rest, self.basis.T @ v)

    def pull(self, v):  # noqa: D102
        return _scaled(self.sd, self.basis.T @ v) if self._complete else self.apply(v)

    def solve(self, v):  # noqa: D102
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


class Spread(NamedTuple):
    """The covariance of the window's level given ``z``: components whose log sds are linear in ``kappa``."""

    basis: Float[Array, "p k"]
    log_sd: Float[Array, "k"]
    slope: Float[Array, "k d"]  # zero for what is not kappa
    low: Float[Array, "k"]  # what the draws have shown of slope @ z: beyond, it stays at that
    high: Float[Array, "k"]
    rest: Float[Array, ""]

    def sd(self, z: Float[Array, "d"]) -> Float[Array, "k"]:
        """The sds of the components at a centred ``z``."""
        return jnp.exp(self.log_sd + jnp.clip(self.slope @ z, self.low, self.high))


class Shared(NamedTuple):
    """The Gaussian of the window's level given ``z``."""

    centre: Float[Array, "d"]  # m_z
    mean: Float[Array, "p"]  # m_h
    gain: Float[Array, "p d"]  # G
    spread: Spread
    mask: Bool[Array, "p"]


class Revised(NamedTuple):
    """What the kernel's parameters decide: the present given the window, and the sds of the window's components."""

    present: Conditional
    sd: Float[Array, "k"]

    @property
    def events(self):  # noqa: D102
        return self.present.events


class Stacked(NamedTuple):
    """The root of window and present together: ``[[L_h, 0], [A L_h, L_t]]``, with ``A`` from window to mean."""

    window: Components
    conditional: Conditional

    def apply(self, v):  # noqa: D102
        level = self.window.apply(v[: self._split(v)])
        return jnp.concatenate([level, self._mean(level) + self.conditional.root.apply(v[self._split(v) :])])

    def pull(self, v):  # noqa: D102
        if v.ndim == 1:
            window = self.window.pull(self.conditional.mean_transpose(v))
        else:
            window = self.window.seen(self.conditional).T @ v
        return jnp.concatenate([window, self.conditional.root.pull(v)])

    def pull_diagonal(self, d):  # noqa: D102
        return jnp.concatenate([self._scaled_window(d).T, self.conditional.root.pull_diagonal(d)])

    def gram_diagonal(self, d):  # noqa: D102
        window = self._scaled_window(d)
        return window @ window.T + self.conditional.root.gram_diagonal(d)

    def _scaled_window(self, d):
        return d[:, None] * self.window.seen(self.conditional)

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
        away = np.asarray(state.z) - np.asarray(state.z).mean(axis=0)
        gain = _regression(level - centre, away, covariance)
        layout = model.layout()
        kappa = np.isin(np.arange(len(mean)), layout.kernel)
        if state.step == 1:  # the first snapshot says nothing about the time kernel
            gain[:, layout.time] = 0.0
            kappa[layout.time] = False
        spread, _ = spread_of(level - centre - away @ gain.T, mask, np.where(kappa, away, 0.0))
        return Carried(mean, covariance, Shared(mean, centre, gain, spread, mask))

    def report(self, model: Model, state: State) -> tuple[dict[str, Any], list[str]]:
        """How far the covariance was shrunk, and whether the draws look Gaussian enough to be carried as such."""
        mask = state.window.mask.reshape(-1)
        level = np.asarray(state.window.f).reshape(state.draws, -1)[:, mask] + _means(model, state)[:, None]
        intensity = shrinkage_of(level - level.mean(axis=0))
        return {"shrinkage": intensity}, _normality_remarks(model, state, level)

    def per_draw(self, model: Model, state: State):  # noqa: D102
        return jnp.zeros((state.draws, len(state.window.times), 0))

    def size(self, tau: int, sites: int) -> int:  # noqa: D102
        return (tau + 1) * sites

    def given(self, shared: Shared, conditional: Conditional, z) -> Revised:  # noqa: D102
        return Revised(conditional, shared.spread.sd(z - shared.centre))

    def offset(self, shared: Shared, window, given: Revised, z, mean):  # noqa: D102
        level = shared.mean + shared.gain @ (z - shared.centre)
        past = jnp.where(shared.mask, level - mean, 0.0)
        return jnp.concatenate([past, given.present.mean_columns(past)])

    def root(self, shared: Shared, given: Revised) -> Stacked:  # noqa: D102
        return Stacked(Components(shared.spread.basis, given.sd, shared.spread.rest), given.present)

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


def spread_of(residual: np.ndarray, mask: np.ndarray, kappa: np.ndarray) -> tuple[Spread, float]:
    """The covariance of centred draws as a function of ``kappa`` (centred too), and the intensity of its shrinkage.

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
    return Spread(basis, log_sd, slope, low, high, np.sqrt(rest + floor)), intensity


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
    directions = _directions(residual, rank)
    left = max(average * p - ((residual @ directions) ** 2).sum() / (n - 1), 0.0) / (p - rank)
    return directions, left


def _directions(centred: np.ndarray, count: int) -> np.ndarray:
    """The leading principal directions of draws, as columns: from the smaller of the two matrices of products."""
    n, p = centred.shape
    gram = centred.T @ centred if p <= n else centred @ centred.T
    vectors = eigh(gram, subset_by_index=(len(gram) - count, len(gram) - 1))[1]
    return vectors if p <= n else np.linalg.qr(centred.T @ vectors)[0]


def _normality_remarks(model: Model, state: State, level: np.ndarray) -> list[str]:
    """Plain words where parameters, or the leading components of the level, are far from Gaussian."""
    centred = level - level.mean(axis=0)
    leading = centred @ _directions(centred, min(3, *centred.shape))
    columns = {name: np.asarray(state.z)[:, i] for i, name in enumerate(model.names)}
    if state.step == 1:
        columns = {name: column for name, column in columns.items() if not name.startswith("time.")}
    columns |= {f"component {i + 1} of the level": leading[:, i] for i in range(leading.shape[1])}
    values = np.stack(list(columns.values()), axis=1)
    found = []
    for name, s, k in zip(columns, skew(values), kurtosis(values)):
        if abs(s) > 1.0 or k > 3.0:
            found.append(
                f"{name}: far from Gaussian (skewness {s:.1f}, excess kurtosis {k:.1f}), so what is carried is rough: "
                "take more draws, another transform of the prior, or carry='paper'"
            )
    return found
