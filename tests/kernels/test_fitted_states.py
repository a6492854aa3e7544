"""Stationary kernels of one's own as fitted states: the covariance they have, and the error they tell."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.base.errors import ModelError
from seqgp.kernels import Constant, Matern32, RationalQuadratic, StationaryCovariance

OWN = {  # the function, its parameters, and the error that is enough
    "exponential": (lambda r: 2.0 * jnp.exp(-r / 3), {}, 1e-6),
    "damped cycle": (lambda r: jnp.exp(-r / 5) * jnp.cos(r), {}, 3e-4),
    "bell": (lambda r: jnp.exp(-0.5 * (r / 700) ** 2), {}, 3e-4),
    "scaled": (lambda r, width, sd: sd**2 * jnp.exp(-0.5 * (r / width) ** 2), {"width": 2.0, "sd": 1.7}, 3e-4),
}


def covariance_of(state, parameters, distances):
    h, p = np.asarray(state.observe(parameters)), np.asarray(state.stationary(parameters))
    return np.array([h @ np.asarray(state.transition(parameters, jnp.asarray(d))) @ p @ h for d in distances])


def apart(state, values, exact):
    """The largest difference of the state's correlation, and of its variance."""
    arrays = {name: jnp.asarray(value) for name, value in values.items()}
    distances = np.concatenate([[0.0], np.geomspace(1e-2, 60.0, 80)]) * state.unit
    found, expected = covariance_of(state, arrays, distances), np.asarray(exact(distances, **values))
    assert found[0] == pytest.approx(float(expected[0]), rel=1e-9)
    return np.abs(found - expected).max() / expected[0]


@pytest.mark.parametrize("name", OWN)
def test_a_kernel_of_ones_own_has_the_error_that_is_told(name):
    function, values, enough = OWN[name]
    state = StationaryCovariance(function, **values).state()
    assert apart(state, values, function) <= state.error + 1e-9
    assert state.error < enough


def test_parameters_that_stretch_or_scale_are_exact():
    function, _, _ = OWN["scaled"]
    state = StationaryCovariance(function, width=dist.LogNormal(0.0, 1.0), sd=dist.HalfNormal(1.0)).state()
    assert (state.stretch, state.shapes) == ("width", ())
    for width, sd in [(0.01, 0.3), (1.0, 2.0), (400.0, 50.0)]:
        values = {"width": jnp.asarray(width), "sd": jnp.asarray(sd)}
        distances = width * np.linspace(0.0, 8.0, 50)
        found = covariance_of(state, values, distances)
        assert np.abs(found - function(distances, width, sd)).max() <= sd**2 * (state.error + 1e-9)


def rational_quadratic(r, lengthscale, alpha):
    return (1 + 0.5 * (r / lengthscale) ** 2 / alpha) ** -alpha


@pytest.fixture(scope="module")
def quadratic():
    return RationalQuadratic(dist.LogNormal(0.0, 1.0), alpha=dist.LogNormal(0.0, 0.5)).state()


def test_a_rational_quadratic_with_an_inferred_alpha_has_the_error_that_is_told(quadratic):
    """Between the values of alpha that were fitted, at any lengthscale."""
    low, high = quadratic.ranges["alpha"]
    assert (low, high) == pytest.approx((np.exp(-1.5), np.exp(1.5)))
    for alpha in np.geomspace(1.02 * low, 0.98 * high, 11):
        values = {"lengthscale": 1.0, "alpha": float(alpha)}
        assert apart(quadratic, values, rational_quadratic) <= 1.1 * quadratic.error
    assert apart(quadratic, {"lengthscale": 30.0, "alpha": 0.7}, rational_quadratic) <= 1.1 * quadratic.error
    assert 1e-6 < quadratic.error < 2e-3


def test_interpolated_states_are_processes(quadratic):
    """Transitions are a semigroup, and the noise over any time is a covariance."""
    for alpha in (0.25, 0.5, 1.93, 40.0):  # the last beyond the range
        values = {"lengthscale": jnp.asarray(1.7), "alpha": jnp.asarray(alpha)}
        a, b = (np.asarray(quadratic.transition(values, jnp.asarray(dt))) for dt in (0.3, 0.9))
        assert np.asarray(quadratic.transition(values, jnp.asarray(1.2))) == pytest.approx(b @ a, abs=1e-8)
        stationary = np.asarray(quadratic.stationary(values))
        for dt in (1e-3, 0.3, 5.0):
            move = np.asarray(quadratic.transition(values, jnp.asarray(dt)))
            assert np.linalg.eigvalsh(stationary - move @ stationary @ move.T).min() > -1e-8 * np.trace(stationary)


def test_fitted_kernels_add_and_multiply(quadratic):
    part = RationalQuadratic(dist.LogNormal(0.0, 1.0), alpha=dist.LogNormal(0.0, 0.5))
    both = (Matern32(1.0) + Constant(scale=0.5) * part).state()
    assert both.ranges == {"1.1.alpha": quadratic.ranges["alpha"]}
    assert both.error == quadratic.error


def refused(message, function, **priors):
    with pytest.raises(ModelError, match=message):
        StationaryCovariance(function, **priors).state()


def test_what_is_no_state_is_refused_by_name():
    refused("at distance 0 it is 0.0; it must be a positive variance", lambda r: 0.0 * r)
    refused(r"StationaryCovariance in time does not decay.*SequentialSampler", lambda r: jnp.ones_like(r))
    refused("larger somewhere", lambda r: jnp.exp(-r) * (1 + 4 * r**2))
    refused(r"no state of an order.*the best is off by.*Sequential", lambda r: jnp.where(r < 1, 1.0, 0.0))
    cycle = lambda r, period, decay: jnp.exp(-r / decay) * jnp.cos(2 * jnp.pi * r / period)  # noqa: E731
    wide = dist.LogNormal(0.0, 1.0)
    refused(
        "the best is off by .*narrow the prior of period, write it",
        cycle,
        period=wide,
        decay=2.0,
    )
    three = lambda r, a, b, c: jnp.exp(-r) * (1 + a * r + b * r**2 + c * r**3) / 9  # noqa: E731
    refused(r"has 3 inferred parameters that change its shape \(a, b, c\)", three, a=wide, b=wide, c=wide)
    refused("several inferred values under the name width", lambda r, width: jnp.exp(-r / width[0]), width=[wide, wide])
    with pytest.raises(ModelError, match="order = 12: a state"):
        StationaryCovariance(lambda r: jnp.exp(-r)).state(12)


def test_functions_that_do_not_fit_are_refused_at_once():
    for function, message in [
        (3, "expected a function of a distance, got int"),
        (lambda r: jnp.sum(r), r"returned shape \(\) for distances of shape \(2, 3\)"),
        (lambda r: np.exp(-np.asarray(r)), "write it as function"),
        (lambda r, width: r, "write it as function"),
    ]:
        with pytest.raises(ModelError, match=f"StationaryCovariance: .*{message}"):
            StationaryCovariance(function)
    with pytest.raises(ModelError, match="takes one dimension, but x has 2 columns"):
        seqgp.Separable(Matern32(1.0), StationaryCovariance(lambda r: jnp.exp(-r))).check_inputs(np.zeros((3, 2)))
