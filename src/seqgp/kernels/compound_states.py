"""States of sums and products of time kernels, of cycles, constants and white noise: see ``seqgp.kernels.states``.

Independent processes are stacked; a product of kernels is a Kronecker product of states; a cycle is a sum of rotations,
one for each harmonic (Solin & Särkkä 2014).
"""

from __future__ import annotations

import functools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Float

from seqgp.base.priors import Prior, within
from seqgp.kernels.states import TimeState

NEGLIGIBLE_VARIANCE = 1e-7  # of the variance, beyond which a known cycle needs no further harmonics
EXTRA_TERMS = 24  # terms after the last harmonic at which the ratios of Bessel functions are taken to be zero


class CombinedState(eqx.Module):
    """Several states as one; the parameters of part ``i`` are called ``i.…``."""

    parts: tuple[TimeState, ...]

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The values of parameters that fitted parts cover."""
        each = [(i, getattr(part, "ranges", {})) for i, part in enumerate(self.parts)]
        return {f"{i}.{name}": ends for i, ranges in each for name, ends in ranges.items()}

    def _each(self, parameters, what: str, *more) -> list[Array]:
        return [getattr(part, what)(within(parameters, str(i)), *more) for i, part in enumerate(self.parts)]


class SumState(CombinedState):
    """Independent states beside each other; the latent is the sum of theirs."""

    @property
    def order(self) -> int:
        """The sum of the orders."""
        return sum(part.order for part in self.parts)

    @property
    def error(self) -> float:
        """At most the largest, for correlations are averaged."""
        return max(part.error for part in self.parts)

    def observe(self, parameters):
        """``(h_1, h_2, …)``."""
        return jnp.concatenate(self._each(parameters, "observe"))

    def stationary(self, parameters):
        """Block by block."""
        return block_diag(*self._each(parameters, "stationary"))

    def transition(self, parameters, dt):
        """Block by block."""
        return block_diag(*self._each(parameters, "transition", dt))


class TimesState(CombinedState):
    """The Kronecker product of states: its covariance is the product of theirs."""

    @property
    def order(self) -> int:
        """The product of the orders."""
        return int(np.prod([part.order for part in self.parts]))

    @property
    def error(self) -> float:
        """At most the sum, for correlations are at most one."""
        return sum(part.error for part in self.parts)

    def observe(self, parameters):
        """``h_1 ⊗ h_2 ⊗ …``."""
        return functools.reduce(jnp.kron, self._each(parameters, "observe"))

    def stationary(self, parameters):
        """``P_1 ⊗ P_2 ⊗ …``."""
        return functools.reduce(jnp.kron, self._each(parameters, "stationary"))

    def transition(self, parameters, dt):
        """``A_1 ⊗ A_2 ⊗ …``."""
        return functools.reduce(jnp.kron, self._each(parameters, "transition", dt))


class ConstantState(eqx.Module):
    """A value that never changes."""

    order = 1
    error = 0.0

    def observe(self, parameters):
        """The scale."""
        return parameters["scale"][None]

    def stationary(self, parameters):
        """One."""
        return jnp.ones((1, 1))

    def transition(self, parameters, dt):
        """One."""
        return jnp.ones((1, 1))


class WhiteState(ConstantState):
    """A value that is new at every time."""

    def transition(self, parameters, dt):
        """Nothing is left after any time."""
        return jnp.where(dt == 0, 1.0, 0.0).reshape(1, 1)


class PeriodicState(eqx.Module):
    """``Σ_j q_j cos(2 π j r / period)``: a constant, and two numbers that turn for each harmonic."""

    harmonics: int = eqx.field(static=True)
    error: float = eqx.field(static=True)

    @property
    def order(self) -> int:
        """One for the constant, two for each harmonic."""
        return 2 * self.harmonics + 1

    def observe(self, parameters):
        """The constant, and the first of each pair."""
        return jnp.asarray(np.array([1.0] + [1.0, 0.0] * self.harmonics))

    def stationary(self, parameters):
        """The variances ``q_j`` of the harmonics, those left out shared among the rest."""
        kept = bessel_coefficients(parameters["lengthscale"], self.harmonics)
        kept = kept / jnp.sum(kept)
        return jnp.diag(jnp.concatenate([kept[:1], jnp.repeat(kept[1:], 2)]))

    def transition(self, parameters, dt):
        """Each pair turns by its multiple of the angle that the time is of a cycle."""
        angle = 2 * jnp.pi * dt / parameters["period"]
        blocks = [jnp.ones((1, 1))]
        for j in range(1, self.harmonics + 1):
            cos, sin = jnp.cos(j * angle), jnp.sin(j * angle)
            blocks.append(jnp.stack([jnp.stack([cos, -sin]), jnp.stack([sin, cos])]))
        return block_diag(*blocks)


def bessel_coefficients(lengthscale: Float[Array, ""], harmonics: int) -> Float[Array, " J"]:
    """``q_j`` with ``exp(−2 sin²(φ/2) / lengthscale²) = Σ_j q_j cos(j φ)``, for ``j`` up to ``harmonics``.

    ``q_0 = I_0(a) / exp(a)`` and ``q_j = 2 I_j(a) / exp(a)`` with ``a = lengthscale⁻²``: from the ratios
    ``I_j / I_{j−1} = 1 / (2 j / a + I_{j+1} / I_j)``, taken backwards, and the sum of all, which is one.
    """
    argument = jnp.asarray(lengthscale) ** -2.0
    ratio, ratios = jnp.zeros(()), []
    for j in range(harmonics + EXTRA_TERMS, 0, -1):
        ratio = 1.0 / (2.0 * j / argument + ratio)
        ratios.append(ratio)
    relative = jnp.concatenate([jnp.ones(1), 2.0 * jnp.cumprod(jnp.stack(ratios[::-1]))])
    return (relative / jnp.sum(relative))[: harmonics + 1]


def periodic_state(lengthscale: float | Prior, harmonics: int) -> PeriodicState:
    """At most so many harmonics, fewer where the lengthscale is known to need fewer.

    The error is twice the variance of the harmonics left out, which is shared among the rest; for a lengthscale with a
    prior, the largest within its central nine tenths.
    """
    ends = [lengthscale]
    if isinstance(lengthscale, Prior):
        ends = [float(lengthscale.value(jnp.asarray(lengthscale.loc + s * lengthscale.scale))) for s in (-1.645, 1.645)]
    # Counted from the tail: one minus the rest would end at the rounding of one.
    spectra = [np.asarray(bessel_coefficients(jnp.asarray(end), harmonics + EXTRA_TERMS)) for end in ends]
    left = np.max([[float(spectrum[j + 1 :].sum()) for j in range(harmonics + 1)] for spectrum in spectra], axis=0)
    enough = np.flatnonzero(left <= NEGLIGIBLE_VARIANCE)
    count = int(enough[0]) if len(enough) else harmonics
    return PeriodicState(max(count, 1), 2 * float(left[max(count, 1)]))
