"""The mode of a smooth density of a few parameters, and its width there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

STEP = 1e-3  # of the differences of slopes, in prior standard deviations


def mode_and_root(
    log_density: Callable[[Any], Any], starts: Iterable[Float[np.ndarray, " d"]], sd: Float[np.ndarray, " d"]
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, "d d"]]:
    """The mode, from several starts, and the root of the inverse curvature there.

    Args:
        log_density: of one value of the parameters, in JAX.
        starts: where the search begins.
        sd: of the prior: no direction is wider than the widest of it.
    """
    run = jax.jit(jax.value_and_grad(lambda z: -log_density(z)))

    def objective(z):
        height, slope = run(jnp.asarray(z))
        good = np.isfinite(height) and np.isfinite(np.asarray(slope)).all()
        return (float(height), np.asarray(slope)) if good else (1e30, np.zeros_like(z))

    found = [minimize(objective, z, jac=True, method="L-BFGS-B") for z in starts]
    mode = min(found, key=lambda one: one.fun).x
    step = STEP * sd  # differences of the slope: compiling second derivatives takes longer than this
    rows = [(objective(mode + e)[1] - objective(mode - e)[1]) / (2 * h) for e, h in zip(np.diag(step), step)]
    values, vectors = np.linalg.eigh(0.5 * (np.array(rows) + np.array(rows).T))
    widths = 1 / np.sqrt(np.maximum(values, 1 / sd.max() ** 2))
    return mode, np.linalg.cholesky((vectors * widths**2) @ vectors.T)
