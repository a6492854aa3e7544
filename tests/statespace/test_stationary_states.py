"""Stationary kernels as states: the correlation they have, and the error they tell."""

import jax.numpy as jnp
import numpy as np
import pytest

from seqgp.base.errors import ModelError
from seqgp.statespace.stationary_states import kernel_state

OWN = {
    "exponential": (lambda d: 2.0 * np.exp(-np.abs(d) / 3), 1e-6),
    "damped cycle": (lambda d: np.exp(-np.abs(d) / 5) * np.cos(d), 1e-3),
    "bell": (lambda d: np.exp(-0.5 * (d / 700) ** 2), 3e-3),
    "between": (lambda d: np.exp(-(np.abs(d / 2) ** 1.5)), 5e-3),
}


def covariance_of(state, parameters, distances):
    h, p = np.asarray(state.observe(parameters)), np.asarray(state.stationary(parameters))
    return np.array([h @ np.asarray(state.transition(parameters, jnp.asarray(d))) @ p @ h for d in distances])


@pytest.mark.parametrize("name", OWN)
def test_a_kernel_of_ones_own_has_the_error_that_is_told(name):
    kernel, enough = OWN[name]
    state = kernel_state(kernel)
    distances = np.linspace(0.0, 8 * state.unit, 60)
    error = np.abs(covariance_of(state, {}, distances) - kernel(distances)).max() / kernel(np.zeros(1))[0]
    assert error <= state.error + 1e-9
    assert state.error < enough


def test_what_is_not_a_kernel_is_refused():
    with pytest.raises(ModelError, match="must be a positive variance"):
        kernel_state(lambda d: 0.0 * d)
    with pytest.raises(ModelError, match="does not decay"):
        kernel_state(lambda d: np.ones_like(d))
    with pytest.raises(ModelError, match="larger somewhere"):
        kernel_state(lambda d: np.exp(-np.abs(d)) * (1 + 4 * d**2))
