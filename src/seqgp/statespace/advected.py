"""The Kalman filter of fields that move with a velocity, spread and fade, on Fourier modes (:class:`FourierBox`).

A field that solves ``∂f/∂t + v·∇f = κ ∇²f + …`` is a sum of waves, ``f(x) = Σ_k c_k cos(k·x) + s_k sin(k·x)`` with
``Var c_k = Var s_k = w_k``, and each wave moves on its own: the covariance is

    k_t(u) Σ_k w_k exp(−κ|k|²|u|) cos(k·(h − v u)).

Each component of a time kernel's state is a field of modes ``(c, s)``. In a time ``dt`` the components move as at a
site, and each mode turns by ``k·v dt`` and fades by ``exp(−κ|k|² dt)``: exact for every ``dt``, with noise

    P ⊗ W − A P A' ⊗ F² W,      W = diag(w_k),      F = diag(exp(−κ|k|² dt)).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag
from jaxtyping import Float

from seqgp.kernels.base import Parameters, within
from seqgp.kernels.spectral import spectral_density
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.dense import DenseState
from seqgp.statespace.fourier_box import FourierBox, mode_cells
from seqgp.statespace.modal import ModeFilter
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.transition import moved


class AdvectedMatrices(NamedTuple):
    """What one value of the parameters decides."""

    parameters: Parameters
    space: tuple[Float[Array, "n n"], ...]  # of each term W, diagonal
    rate: Float[Array, "J m"]  # κ|k|² of each term, per time
    frequency: Float[Array, "J m"]  # k·v, radians per time
    basis: None = None


class AdvectedFilter(ModeFilter):
    """The filter on the modes of a box: any data at any inputs, which may move."""

    wave: Float[ArrayLike, "m D"]
    box: Float[ArrayLike, " D"]

    def __init__(self, ssm: StateSpaceModel, modes: FourierBox):
        size = 2 * len(modes.wave)
        self.ssm, self.wave, self.box = ssm, modes.wave, modes.box
        self.x, self.mask = np.zeros((size, modes.wave.shape[1])), np.ones(size, bool)

    @property
    def name(self) -> str:
        """In a word, for people."""
        return "Fourier modes"

    def matrices_at(self, parameters: Parameters) -> AdvectedMatrices:  # pyright: ignore[reportIncompatibleMethodOverride]
        """From the parameters themselves."""
        kernel, wave = self.ssm.model.kernel, jnp.asarray(self.wave)
        square, cells, none = jnp.sum(wave**2, axis=1), mode_cells(wave, self.box), jnp.zeros(len(wave))
        spaces, rates, frequencies = [], [], []
        for (_, term), drift, own in zip(kernel.terms(), kernel.drifts(), self.ssm.own(parameters)):
            density = spectral_density(term.space, wave, within(own, "space"))
            spaces.append(jnp.diag(jnp.tile(own["scale"] ** 2 * cells * density, 2)))
            rates.append(none if drift is None else parameters[drift.diffusion] * square)
            frequencies.append(none if drift is None else wave @ jnp.asarray(parameters[drift.velocity]))
        return AdvectedMatrices(parameters, tuple(spaces), jnp.stack(rates), jnp.stack(frequencies))

    def predict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, matrices: AdvectedMatrices, state: DenseState, dt: Float[ArrayLike, ""]
    ) -> DenseState:
        """The state a time ``dt`` later."""
        mean = self.moved_rows(matrices, state.mean[:, None], dt)[:, 0]
        half = self.moved_rows(matrices, state.covariance, dt)
        covariance = self.moved_rows(matrices, half.T, dt)
        noise = self._noise(matrices, dt)
        return DenseState(mean, covariance.at[: self.fields, : self.fields].add(noise))

    def moved_rows(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, matrices: AdvectedMatrices, rows: Float[Array, "n k"], dt: Float[ArrayLike, ""]
    ) -> Float[Array, "n k"]:
        """Each column, a state, as it moves in a time ``dt`` without noise."""
        rows = moved(self.ssm.transition(matrices.parameters, dt).move, rows, self.sites)
        fade = jnp.exp(-matrices.rate * dt)
        cos, sin = (self._by_component(fade * turn(matrices.frequency * dt)) for turn in (jnp.cos, jnp.sin))
        modes = rows[: self.fields].reshape(self.ssm.order, 2, -1, rows.shape[1])
        c, s = modes[:, 0], modes[:, 1]
        turned = jnp.stack([cos * c - sin * s, sin * c + cos * s], axis=1)
        return jnp.concatenate([turned.reshape(self.fields, -1), rows[self.fields :]])

    def _by_component(self, values: Float[Array, "J m"]) -> Float[Array, "p m 1"]:
        """Of each term, for each component of its state."""
        orders = np.array([state.order for state in self.ssm.states])
        return jnp.repeat(values, orders, axis=0, total_repeat_length=int(orders.sum()))[:, :, None]

    def _noise(self, matrices: AdvectedMatrices, dt: Float[ArrayLike, ""]) -> Float[Array, "k k"]:
        """``Q ⊗ W + A P A' ⊗ (1 − F²) W`` of each term, with ``Q = P − A P A'``."""
        added = self.ssm.transition(matrices.parameters, dt).noise
        blocks = []
        for noise, stationary, space, rate in zip(
            added, self.ssm.stationary(matrices.parameters), matrices.space, matrices.rate
        ):
            variance = jnp.diagonal(space)
            faded = jnp.tile(-jnp.expm1(-2 * rate * dt), 2) * variance
            blocks.append(jnp.kron(noise, space) + jnp.kron(stationary - noise, jnp.diag(faded)))
        return block_diag(*blocks)
