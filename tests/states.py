"""The covariance of a process in time, by its state and by its kernel."""

import jax
import jax.numpy as jnp
import numpy as np

DISTANCES = np.concatenate([[0.0], np.geomspace(1e-4, 10.0, 60)])


def by_state(state, values) -> np.ndarray:
    """``h' A(dt) P h`` at all distances."""
    h, stationary = state.observe(values), state.stationary(values)
    return np.array(jax.vmap(lambda dt: h @ state.transition(values, dt) @ stationary @ h)(jnp.asarray(DISTANCES)))


def by_kernel(kernel, values) -> np.ndarray:
    """``k(0, dt)`` at all distances."""
    return np.array(kernel.covariance(kernel.prepare(jnp.zeros((1, 1)), jnp.asarray(DISTANCES)[:, None]), values))[0]
