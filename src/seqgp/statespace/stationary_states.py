"""Any stationary kernel of time as a state, with an error that is told.

:func:`kernel_state` fits the rational spectral density of a state to a user's own ``k(dt)``.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from seqgp.base.errors import ModelError
from seqgp.kernels.rational import RationalState, rational_state

TOLERANCE = 1e-3  # of a correlation
ORDERS = (1, 2, 3, 4, 5, 6, 7, 8)
FORGOTTEN = 1e-4  # a correlation that is nothing
FARTHEST = 60.0  # distances at which the correlation is 1/2, up to which it is matched


class StationaryState(eqx.Module):
    """A user's own kernel as a state; ``lengthscale`` among the parameters stretches it where there is one."""

    inner: RationalState
    unit: float = eqx.field(static=True)  # the distance at which the correlation is 1/2
    variance: float = eqx.field(static=True)

    @property
    def order(self) -> int:
        """The number of components."""
        return self.inner.order

    @property
    def error(self) -> float:
        """The largest error of the correlation."""
        return self.inner.error

    def observe(self, parameters):
        """A mixture of all components."""
        return self.inner.observe(parameters)

    def stationary(self, parameters):
        """The variance on the diagonal."""
        return self.variance * self.inner.stationary(parameters)

    def transition(self, parameters, dt):
        """Over a time ``dt``."""
        stretch = parameters["lengthscale"] if "lengthscale" in parameters else jnp.ones(())
        return self.inner.transition({"lengthscale": self.unit * stretch}, jnp.asarray(dt))


def kernel_state(kernel: Callable[[np.ndarray], np.ndarray], tolerance: float = TOLERANCE) -> StationaryState:
    """The state of the lowest order whose correlation is within the tolerance of ``k(dt) / k(0)``; else the best.

    Args:
        kernel: the covariance at distances in time; even, decaying.
        tolerance: of the correlation; ``state.error`` says what was reached.
    """
    variance = float(np.asarray(kernel(np.zeros(1)))[0])
    if not (np.isfinite(variance) and variance > 0):
        raise ModelError(f"the kernel at distance 0 is {variance}; it must be a positive variance")

    def correlation(distance):
        return np.asarray(kernel(np.asarray(distance)), float) / variance

    unit = _half_distance(correlation)
    distance = np.linspace(0.0, FARTHEST, 6001)
    values = np.abs(correlation(unit * distance))
    if not np.all(np.isfinite(values)) or values.max() > 1 + 1e-9:
        raise ModelError("the kernel is not a covariance: it is not finite, or larger somewhere than at distance 0")
    beyond = np.flatnonzero(values > FORGOTTEN)
    reach = max(float(distance[min(beyond[-1] + 1, len(distance) - 1)]), 4.0)
    best: RationalState | None = None
    for order in ORDERS:
        try:
            found = rational_state(lambda u: correlation(unit * u), order, reach)
        except (ModelError, np.linalg.LinAlgError, ValueError):
            continue  # this order has no such state; others have
        best = found if best is None or found.error < best.error else best
        if best.error <= tolerance:
            break
    if best is None:
        raise ModelError("the kernel has no state of an order up to 8; is it even, decaying and positive definite?")
    return StationaryState(best, unit, variance)


def _half_distance(correlation: Callable) -> float:
    """Where the correlation is 1/2 for the first time."""
    scales = np.geomspace(1e-8, 1e8, 3201)
    below = np.flatnonzero(correlation(scales) < 0.5)
    if not len(below) or below[0] == 0:
        raise ModelError("the kernel does not decay from 1 to 1/2 at any distance between 1e-8 and 1e8")
    return float(scales[below[0]])
