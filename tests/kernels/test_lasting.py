"""Kernels of time that decay to a level: the state has the level exactly, and a level that moves is none."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.kernels import StationaryCovariance
from seqgp.kernels.lasting import lasting_share


def covariance_of(state, parameters, distances):
    h, p = np.asarray(state.observe(parameters)), np.asarray(state.stationary(parameters))
    return np.array([h @ np.asarray(state.transition(parameters, jnp.asarray(d))) @ p @ h for d in distances])


def test_a_correlation_that_decays_to_a_level_keeps_it():
    """The level is exact at any distance; the rest is fitted, with an inferred lengthscale as a stretch."""
    lasting = lambda r, width: 1.4 + 0.6 * jnp.exp(-0.5 * (r / width) ** 2)  # noqa: E731
    state = StationaryCovariance(lasting, width=dist.LogNormal(0.0, 1.0)).state()
    for width in (0.4, 3.0):
        distances = np.concatenate([[0.0], np.geomspace(1e-2, 60.0, 40), [1e4]])
        found = covariance_of(state, {"width": jnp.asarray(width)}, distances)
        np.testing.assert_allclose(found, lasting(distances, width), atol=2.0 * state.error + 1e-9)
        assert found[-1] == pytest.approx(1.4, abs=1e-9)
    assert 0 < state.error < 0.3 * 3e-4 + 1e-9


def test_a_level_that_follows_a_parameter_is_no_level():
    rest = StationaryCovariance(lambda r, low: low + (1 - low) * jnp.exp(-r), low=seqgp.ScaledSigmoid(0.0, 0.4))
    assert lasting_share(rest) == 0.0
    assert lasting_share(StationaryCovariance(lambda r: jnp.exp(-r))) == 0.0
    assert lasting_share(StationaryCovariance(jnp.cos)) == 0.0
