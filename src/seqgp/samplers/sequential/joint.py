"""The joint carry: Gaussian moments of the window's level given all parameters, and a window that moves.

Over the draws of the last step, the level ``h = f + mu`` of the window is matched by a Gaussian given ``z``: its mean
is linear in ``z``; its covariance has fixed principal components, whose log variances are linear in the kernel's
parameters ``kappa``. At the next step ``h_window = m_h + G (z − m_z) + W diag(sd(kappa)) nu_1``, and the present
follows from the window as it moves. For known parameters, Gaussian noise, shared inputs and a Markov time kernel this
is the Kalman filter.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from seqgp.base.remarks import Remark
from seqgp.fields.operators import Events
from seqgp.fields.protocol import Conditional
from seqgp.linalg.types import Array, ArrayLike
from seqgp.mcmc.carried import Carried
from seqgp.model import Model
from seqgp.samplers.sequential.carry import means_of, moments_of_z
from seqgp.samplers.sequential.state import SequentialState
from seqgp.samplers.sequential.window_covariance import (
    Components,
    WindowCovariance,
    directions,
    shrinkage_of,
    window_covariance,
)


class WindowMoments(NamedTuple):
    """The Gaussian of the window's level given ``z``."""

    centre: Float[ArrayLike, " d"]  # m_z
    mean: Float[ArrayLike, " p"]  # m_h
    gain: Float[ArrayLike, "p d"]  # G
    covariance: WindowCovariance
    mask: Bool[ArrayLike, " p"]


class WindowAndPresent(NamedTuple):
    """What the kernel's parameters decide: the present given the window, and the sds of the window's components."""

    present: Conditional
    sd: Float[Array, " k"]

    @property
    def events(self) -> Events:
        """What happened when the covariance of the present was factored."""
        return self.present.events


class Stacked(NamedTuple):
    """The root of window and present together: ``[[L_h, 0], [A L_h, L_t]]``, with ``A`` from window to mean."""

    window: Components
    conditional: Conditional

    def apply(self, v: Float[Array, " n *k"]) -> Float[Array, " n *k"]:
        """``[L_h v_1, A L_h v_1 + L_t v_2]``."""
        level = self.window.apply(v[: self._split(v)])
        return jnp.concatenate([level, self._mean(level) + self.conditional.root.apply(v[self._split(v) :])])

    def pull(self, v: Float[Array, " S *k"]) -> Float[Array, " n *k"]:
        """``[(A L_h)' v, L_t' v]`` for ``v`` at the sites of the present."""
        if v.ndim == 1:
            window = self.window.pull(self.conditional.mean_transpose(v))
        else:
            window = self.window.seen(self.conditional).T @ v
        return jnp.concatenate([window, self.conditional.root.pull(v)])

    def pull_diagonal(self, d: Float[Array, " S"]) -> Float[Array, "n S"]:
        """``[(A L_h)' diag(d), L_t' diag(d)]``."""
        return jnp.concatenate([self._scaled_window(d).T, self.conditional.root.pull_diagonal(d)])

    def gram_diagonal(self, d: Float[Array, " S"]) -> Float[Array, "S S"]:
        """``diag(d) (A L_h L_h' A' + L_t L_t') diag(d)``."""
        window = self._scaled_window(d)
        return window @ window.T + self.conditional.root.gram_diagonal(d)

    def _scaled_window(self, d):
        return d[:, None] * self.window.seen(self.conditional)

    def solve(self, v: Float[Array, " n *k"]) -> Float[Array, " n *k"]:
        """``[L_h⁻¹ v_1, L_t⁻¹ (v_2 − A v_1)]``."""
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
    def name(self) -> str:
        """``"joint"``."""
        return "joint"

    def summarise(self, model: Model, state: SequentialState) -> Carried:
        """``z ~ N(m_z, K_z)`` and ``h | z ~ N(m_h + G (z − m_z), W diag(sd(kappa)²) W')``, matched to the draws."""
        mean, covariance = moments_of_z(model, state)
        draws = state.draws
        mask = state.window.mask.reshape(-1)
        level = np.where(mask, np.asarray(state.window.f).reshape(draws, -1) + means_of(model, state)[:, None], 0.0)
        centre = level.mean(axis=0)
        away = np.asarray(state.z) - np.asarray(state.z).mean(axis=0)
        gain = _regression(level - centre, away, covariance)
        layout = model.layout()
        of_kernel = np.isin(np.arange(len(mean)), layout.kernel)
        if state.step == 1:  # the first snapshot says nothing about the time kernel
            gain[:, layout.time] = 0.0
            of_kernel[layout.time] = False
        window = window_covariance(level - centre - away @ gain.T, mask, np.where(of_kernel, away, 0.0))
        return Carried(mean, covariance, WindowMoments(mean, centre, gain, window, mask))

    def report(self, model: Model, state: SequentialState) -> tuple[dict[str, float], list[str]]:
        """How far the covariance was shrunk, and whether the draws look Gaussian enough to be carried as such."""
        mask = state.window.mask.reshape(-1)
        level = np.asarray(state.window.f).reshape(state.draws, -1)[:, mask] + means_of(model, state)[:, None]
        intensity = shrinkage_of(level - level.mean(axis=0))
        return {"shrinkage": intensity}, _normality_remarks(model, state, level)

    def window_draws(self, model: Model, state: SequentialState) -> Float[np.ndarray, "draws tau 0"]:
        """Nothing: the window moves with each draw, so none of it is held."""
        return np.zeros((state.draws, len(state.window.times), 0))

    def size(self, tau: int, sites: int) -> int:
        """The sites of the window and of the present."""
        return (tau + 1) * sites

    def prior_at(
        self, window_moments: WindowMoments, conditional: Conditional, z: Float[Array, " d"]
    ) -> WindowAndPresent:
        """The present given the window, and ``sd(kappa)`` of the window's components."""
        return WindowAndPresent(conditional, window_moments.covariance.sd(z - window_moments.centre))

    def offset(
        self, window_moments: WindowMoments, window: Array, prior: WindowAndPresent, z: Array, mean: Array
    ) -> Float[Array, " n"]:
        """``[h − mu, A (h − mu)]`` with ``h = m_h + G (z − m_z)``."""
        level = window_moments.mean + window_moments.gain @ (z - window_moments.centre)
        past = jnp.where(window_moments.mask, level - mean, 0.0)
        return jnp.concatenate([past, prior.present.mean_columns(past)])

    def root(self, window_moments: WindowMoments, prior: WindowAndPresent) -> Stacked:
        """``[[L_h, 0], [A L_h, L_t]]``."""
        covariance = window_moments.covariance
        return Stacked(Components(jnp.asarray(covariance.basis), prior.sd, jnp.asarray(covariance.rest)), prior.present)

    def slide(self, window: Array, sites: Array, mean: Array) -> Array:
        """The sites are those of window and present already, one block after the other."""
        return sites.reshape(sites.shape[0], window.shape[1] + 1, -1)


def _regression(level: np.ndarray, z: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """``G = C_hz K_z⁻¹``."""
    if z.shape[1] == 0:
        return np.zeros((level.shape[1], 0))
    gram = z.T @ z / (len(z) - 1) + 1e-9 * np.diag(np.diag(covariance))
    return np.linalg.solve(gram, z.T @ level / (len(z) - 1)).T


def _normality_remarks(model: Model, state: SequentialState, level: np.ndarray) -> list[str]:
    """Plain words where parameters, or the leading components of the level, are far from Gaussian."""
    centred = level - level.mean(axis=0)
    leading = centred @ directions(centred, min(3, *centred.shape))
    columns = {name: np.asarray(state.z)[:, i] for i, name in enumerate(model.names)}
    if state.step == 1:
        of_time = {model.names[i] for i in model.layout().time}
        columns = {name: column for name, column in columns.items() if name not in of_time}
    columns |= {f"component {i + 1} of the level": leading[:, i] for i in range(leading.shape[1])}
    values = np.stack(list(columns.values()), axis=1)
    found: dict[str, str] = {}
    white = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), np.finfo(float).tiny)
    for name, s, k in zip(columns, (white**3).mean(axis=0), (white**4).mean(axis=0) - 3):
        if abs(s) > 1.0 + 4 * np.sqrt(6 / len(values)) or k > 3.0 + 5 * np.sqrt(24 / len(values)):  # beyond chance
            found[name] = f"skewness {s:.1f}, excess kurtosis {k:.1f}"
    if not found:
        return []
    name, figures = next(iter(found.items()))
    text = f"{name} has {figures}, so what is carried is rough; another transform of its prior may help"
    return [str(Remark("far from Gaussian", tuple(found), text))]
