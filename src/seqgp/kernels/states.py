"""Time kernels as states: a linear stochastic differential equation whose first output has the kernel's covariance.

A state of order ``p`` has the stationary covariance ``P``, moves by ``s(t + dt) = A(dt) s(t) + noise`` with noise of
covariance ``P − A P A'``, and shows ``f = h's``. Matérn kernels are such states exactly; smoother ones are, up to a
known error, sums of a few decaying oscillations; sums, products and cycles are in
``seqgp.kernels.compound_states``, and any other stationary kernel is fitted (``seqgp.kernels.fitted_states``).
"""

from __future__ import annotations

import functools
import math
from typing import Protocol

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import solve_continuous_lyapunov

from seqgp.base.priors import Parameters
from seqgp.linalg.types import ArrayLike

ORDER = 6  # of states that approximate a kernel


class TimeState(Protocol):
    """A time kernel as a state."""

    @property
    def order(self) -> int:
        """The number ``p`` of the state's components."""
        ...

    @property
    def error(self) -> float:
        """The largest error of the correlation; 0 where the state is exact."""
        ...

    def observe(self, parameters: Parameters) -> Float[Array, " p"]:
        """``h``: the latent is ``h's``."""
        ...

    def stationary(self, parameters: Parameters) -> Float[Array, "p p"]:
        """``P``: the covariance at any one time."""
        ...

    def transition(self, parameters: Parameters, dt: Float[ArrayLike, ""]) -> Float[Array, "p p"]:
        """``A(dt)``: the identity at 0."""
        ...


class MaternState(eqx.Module):
    """The latent and its derivatives, ``s_k = lengthscale^k f^(k)``: exact.

    All eigenvalues of the drift ``F`` are ``−rate``, so ``exp(F u)`` is ``exp(−rate u)`` times a polynomial in ``u``.
    """

    order: int = eqx.field(static=True)

    error = 0.0

    @property
    def rate(self) -> float:
        """``sqrt(2 nu)`` for smoothness ``nu = order − 1/2``."""
        return math.sqrt(2 * self.order - 1)

    def observe(self, parameters):
        """The first component."""
        return jnp.eye(self.order)[0]

    def stationary(self, parameters):
        """The covariance of the latent and its scaled derivatives."""
        return jnp.asarray(_matern_stationary(self.order))

    def transition(self, parameters, dt):
        """``exp(−rate u) Σ_k (F + rate I)^k u^k / k!`` with ``u = dt / lengthscale``."""
        u = dt / parameters["lengthscale"]
        nilpotent = _companion(self.order, self.rate) + self.rate * np.eye(self.order)
        terms = [np.linalg.matrix_power(nilpotent, k) / math.factorial(k) * u**k for k in range(self.order)]
        return jnp.exp(-self.rate * u) * functools.reduce(jnp.add, terms)


def _companion(order: int, rate: float) -> np.ndarray:
    """The drift of ``(d/du + rate)^order f = white noise``."""
    drift = np.diag(np.ones(order - 1), 1)
    drift[-1] = [-math.comb(order, k) * rate ** (order - k) for k in range(order)]
    return drift


@functools.cache
def _matern_stationary(order: int) -> np.ndarray:
    drift, noise = _companion(order, math.sqrt(2 * order - 1)), np.zeros((order, order))
    noise[-1, -1] = 1.0
    covariance = solve_continuous_lyapunov(drift, -noise)
    return covariance / covariance[0, 0]
