"""Black's formula and its inversion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqgp.apps.localvol import black_price, black_vega, implied_volatility


@pytest.mark.parametrize("maturity", [0.001, 1 / 12, 1.0, 10.0])
def test_inversion_is_exact_down_to_tiny_time_values(maturity):
    """Error below 1e-8 wherever the time value, and what it lacks to its bound, are at least 1e-10."""
    y = np.concatenate([np.linspace(-3, 3, 121), [1e-12, -1e-9, 1e-6, -1e-4]])
    volatility, y = np.meshgrid(np.concatenate([np.geomspace(1e-3, 0.05, 8), np.geomspace(0.06, 3, 25)]), y)
    strike, is_call = np.exp(y), y >= 0
    price = np.asarray(black_price(volatility, maturity, strike, is_call=is_call))
    found = np.asarray(implied_volatility(price, maturity, strike, is_call=is_call))
    usable = (price >= 1e-10) & (np.minimum(1.0, strike) - price >= 1e-10)
    assert usable.sum() > 200
    assert np.max(np.abs(found - volatility)[usable]) < 1e-8


def test_calls_and_puts_satisfy_parity():
    strike = np.linspace(50, 200, 31)
    call = black_price(0.3, 0.7, strike, 103.0, 0.97)
    put = black_price(0.3, 0.7, strike, 103.0, 0.97, is_call=False)
    np.testing.assert_allclose(call - put, 0.97 * (103.0 - strike), rtol=0, atol=1e-12)


def test_outside_the_bounds_there_is_no_volatility():
    price = np.array([0.0, -0.01, 1.0, 1.2])
    found = np.asarray(implied_volatility(price, 1.0, 1.1))
    assert found[0] == 0
    assert np.all(np.isnan(found[1:]))


def test_zero_volatility_is_the_intrinsic_value():
    np.testing.assert_allclose(black_price(0.0, 1.0, jnp.array([0.8, 1.0, 1.2])), [0.2, 0.0, 0.0], atol=1e-15)


def test_vega_is_the_derivative_of_the_price():
    strike = jnp.linspace(60.0, 160.0, 11)
    slope = jax.vmap(jax.grad(lambda v, k: black_price(v, 0.5, k, 100.0, 0.98)), (None, 0))(0.25, strike)
    np.testing.assert_allclose(black_vega(0.25, 0.5, strike, 100.0, 0.98), slope, rtol=1e-10)


@pytest.mark.parametrize("argument", range(5))
def test_derivatives_are_those_of_the_implicit_function(argument):
    point = [0.08, 0.8, 1.1, 1.02, 0.97]

    def shifted(h):
        return implied_volatility(*(v + h * (i == argument) for i, v in enumerate(point)))

    expected = (shifted(1e-5) - shifted(-1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(shifted)(0.0), expected, rtol=1e-7)


def test_runs_under_jit_vmap_and_twice_differentiated():
    prices = jnp.array([0.05, 0.1, 0.2])
    one = jax.jit(lambda p: implied_volatility(p, 1.0, 1.05, 1.0, 1.0, True))
    np.testing.assert_allclose(jax.vmap(one)(prices), implied_volatility(prices, 1.0, 1.05), rtol=1e-12)
    curvature = (jax.grad(one)(0.1 + 1e-5) - jax.grad(one)(0.1 - 1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(jax.grad(one))(0.1), curvature, rtol=1e-6)
