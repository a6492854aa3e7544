"""The forward equation against closed forms, QuantLib, and the absence of arbitrage."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqgp.apps.localvol import (
    GridSize,
    Surface,
    black_price,
    call_prices,
    implied_volatility,
    knot_prices,
    plan_quotes,
    quote_prices,
)

BASIS_POINT = 1e-4
MATURITIES = np.array([1 / 12, 0.25, 0.5, 1.0, 2.0, 3.0])
ONE_MONTH_TO_THREE_YEARS = [MATURITIES, np.arange(1, 37) / 12, MATURITIES[[0, 5]], MATURITIES[:1], MATURITIES[5:]]


def scattered(maturities, volatility, number=41):
    """Strikes within two deviations of each maturity."""
    maturity = np.repeat(maturities, number)
    deviations = np.tile(np.linspace(-2, 2, number), len(maturities))
    return maturity, np.exp(deviations * volatility * np.sqrt(maturity))


def error_bp(price, exact, maturity, strike, forward=1.0, discount=1.0):
    """Largest difference of implied volatilities, taken out of the money."""
    is_call = strike >= forward
    shift = np.where(is_call, 0.0, discount * (forward - strike))
    found, true = (
        implied_volatility(np.asarray(p) - shift, maturity, strike, forward, discount, is_call) for p in (price, exact)
    )
    return float(np.max(np.abs(found - true))) / BASIS_POINT


@pytest.mark.parametrize("maturities", ONE_MONTH_TO_THREE_YEARS, ids=lambda m: f"{len(m)}")
def test_flat_volatility_is_black(maturities):
    maturity, strike = scattered(maturities, 0.2)
    price = quote_prices(plan_quotes(maturity, strike), lambda T, y: 0.2)
    assert error_bp(price, black_price(0.2, maturity, strike), maturity, strike) <= 1


def test_flat_volatility_is_black_on_a_rectangle():
    strikes = np.exp(np.linspace(-2, 2, 81) * 0.2 * np.sqrt(3))
    price = np.asarray(call_prices(lambda T, y: 0.2, MATURITIES, 100 * strikes, 100.0, 0.9))
    maturity, strike = np.meshgrid(MATURITIES, 100 * strikes, indexing="ij")
    near = np.abs(np.log(strike / 100)) <= 0.4 * np.sqrt(maturity)
    exact = black_price(0.2, maturity[near], strike[near], 100.0, 0.9)
    assert error_bp(price[near], exact, maturity[near], strike[near], 100.0, 0.9) <= 1


@pytest.mark.parametrize("b", [0.5, 0.8, 1.2])
def test_displaced_diffusion(b):
    """`dS = s (b S + (1 − b) S_0) dW`: lognormal after a shift, with volatility `s b`."""
    maturity, strike = scattered(MATURITIES, 0.2)
    price = quote_prices(plan_quotes(maturity, strike), lambda T, y: 0.2 * (b + (1 - b) * jnp.exp(-y)))
    exact = black_price(0.2 * b, maturity, b * strike + 1 - b) / b
    assert error_bp(price, exact, maturity, strike) <= 1


@pytest.mark.parametrize("bp", [0.25, 0.5, 2.0, 5.0])
def test_requested_error_is_kept(bp):
    maturity, strike = scattered(MATURITIES, 0.2)
    price = quote_prices(plan_quotes(maturity, strike, grid=f"{bp}bp"), lambda T, y: 0.2)
    assert error_bp(price, black_price(0.2, maturity, strike), maturity, strike) <= bp


def test_skewed_surface_with_rates_is_quantlib():
    """75 options, `r ≠ q`, volatility that depends on time and strike, against an 800 × 1601 finite-difference grid."""
    ql = pytest.importorskip("QuantLib")
    spot, rate, dividend = 100.0, 0.04, 0.015
    maturities = np.array([0.25, 0.5, 1.0, 1.5, 2.0])
    forwards = spot * np.exp((rate - dividend) * maturities)

    def sigma(T, y):
        return (
            0.2 + 0.05 * jnp.exp(-T) - 0.12 * jnp.tanh(y / 0.6) * (0.6 + 0.4 * jnp.exp(-T)) + 0.05 * y**2 / (1 + y**2)
        )

    maturity, k = scattered(maturities, 0.2, 15)
    forward, discount = np.repeat(forwards, 15), np.exp(-rate * maturity)
    price = quote_prices(plan_quotes(maturity, k * forward, forward, discount), sigma)
    exact = quantlib_prices(ql, sigma, spot, rate, dividend, maturity, k * forward)
    assert error_bp(price, exact, maturity, k * forward, forward, discount) <= 1


def quantlib_prices(ql, sigma, spot, rate, dividend, maturities, strikes):
    today, count = ql.Date(1, 1, 2001), ql.Actual360()
    ql.Settings.instance().evaluationDate = today
    curve = [ql.YieldTermStructureHandle(ql.FlatForward(today, r, count)) for r in (rate, dividend)]
    # The time axis of the fixed surface is that of dates 360 to the year; it is linear between them, hence dense.
    days = [1, *range(6, 90, 6), *range(90, 721, 15)]
    levels = spot * np.exp(np.linspace(-1.6, 1.6, 321))
    moneyness = [np.log(levels / spot) - (rate - dividend) * d / 360 for d in days]
    matrix = ql.Matrix(len(levels), len(days))
    for j, d in enumerate(days):
        for i, value in enumerate(np.asarray(sigma(d / 360, moneyness[j]))):
            matrix[i][j] = float(value)
    dates = [today + d for d in days]
    local = ql.FixedLocalVolSurface(today, dates, list(map(float, levels)), matrix, count)
    flat = ql.BlackVolTermStructureHandle(ql.BlackConstantVol(today, ql.NullCalendar(), 0.2, count))
    quote = ql.QuoteHandle(ql.SimpleQuote(spot))
    local = ql.LocalVolTermStructureHandle(local)
    process = ql.GeneralizedBlackScholesProcess(quote, curve[1], curve[0], flat, local)
    engine = ql.FdBlackScholesVanillaEngine(process, 800, 1601, 0, ql.FdmSchemeDesc.CrankNicolson(), True)
    prices = []
    for maturity, strike in zip(maturities, strikes):
        exercise = ql.EuropeanExercise(today + round(maturity * 360))
        option = ql.VanillaOption(ql.PlainVanillaPayoff(ql.Option.Call, float(strike)), exercise)
        option.setPricingEngine(engine)
        prices.append(option.NPV())
    return np.array(prices)


@pytest.mark.parametrize("seed", range(12))
def test_random_surfaces_are_free_of_static_arbitrage(seed):
    """Monotone and convex in strike, increasing in maturity at fixed moneyness, to rounding."""
    rng = np.random.default_rng(seed)
    shape, spread = [(2, 20), (5, 5), (8, 24)][seed % 3], [0.1, 0.2, 0.5, 0.8][seed % 4]
    knots = np.geomspace(0.05, 3, shape[0]), np.linspace(-1, 1, shape[1])
    values = np.exp(rng.normal(np.log(0.25), spread, shape))
    strikes = np.exp(np.linspace(-1.2, 1.2, 241))
    price = np.asarray(call_prices(Surface(*knots, values), MATURITIES, strikes))
    slope = np.diff(price, axis=1) / np.diff(strikes)
    assert np.all(slope <= 1e-12)
    assert np.all(slope >= -1 - 1e-12)
    assert np.all(np.diff(slope, axis=1) >= -1e-12)
    assert np.all(np.diff(price, axis=0) >= -1e-14)
    assert np.all(price >= np.maximum(1 - strikes, 0) - 1e-14)


def test_put_call_parity():
    rng = np.random.default_rng(0)
    surface = Surface([0.1, 0.5, 2.0], np.linspace(-0.5, 0.5, 7), rng.uniform(0.1, 0.5, (3, 7)))
    maturity, k = scattered(MATURITIES, 0.3)
    forward, discount = 100 * np.exp(0.02 * maturity), np.exp(-0.05 * maturity)
    call, put = (
        quote_prices(plan_quotes(maturity, k * forward, forward, discount, is_call), surface)
        for is_call in (True, False)
    )
    np.testing.assert_allclose(call - put, discount * forward * (1 - k), rtol=0, atol=1e-11)


def test_scattered_quotes_and_knots_price_like_the_rectangle():
    surface = Surface([0.1, 1.0], [-0.5, 0.0, 0.5], [[0.3, 0.2, 0.25], [0.25, 0.2, 0.2]])
    size, strikes = GridSize(81, 64), np.linspace(70.0, 140.0, 9)
    forwards, discounts = np.linspace(100, 105, 6), np.linspace(1, 0.9, 6)
    rectangle = call_prices(surface, MATURITIES, strikes, forwards, discounts, grid=size)
    maturity, forward, discount = (np.repeat(v, 9) for v in (MATURITIES, forwards, discounts))
    knots = (surface.maturities, surface.log_moneyness)
    plan = plan_quotes(maturity, np.tile(strikes, 6), forward, discount, grid=size, pad_to=60, knots=knots)
    for price in (quote_prices(plan, surface), knot_prices(plan, surface.values)):
        np.testing.assert_allclose(price[:54], np.ravel(rectangle), rtol=1e-12)
        np.testing.assert_array_equal(price[54:], 0.0)
    shuffled = call_prices(surface, MATURITIES[::-1], strikes, forwards[::-1], discounts[::-1], grid=size)
    np.testing.assert_allclose(shuffled[::-1], rectangle, rtol=1e-12)


def test_another_day_does_not_compile_again():
    traces = 0

    @jax.jit
    def price(plan, values):
        nonlocal traces
        traces += 1
        return knot_prices(plan, values)

    knots = (np.linspace(0.1, 1, 3), np.linspace(-0.4, 0.4, 5))
    for day, (number, last) in enumerate([(30, 1.0), (37, 0.9), (24, 2.0)]):
        rng = np.random.default_rng(day)
        maturity = rng.choice([0.1, 0.3, last], number)
        plan = plan_quotes(maturity, rng.uniform(0.8, 1.2, number), grid=GridSize(65, 40), pad_to=40, knots=knots)
        assert np.all(np.isfinite(price(plan, jnp.full((3, 5), 0.2))))
    assert traces == 1


def test_derivatives_agree_with_differences():
    surface = Surface([0.1, 0.5, 1.0], np.linspace(-0.4, 0.4, 4), np.linspace(0.2, 0.3, 12).reshape(3, 4))
    maturity, strike = scattered([0.2, 0.7], 0.2, 5)
    plan = plan_quotes(maturity, strike, grid=GridSize(65, 40), knots=(surface.maturities, surface.log_moneyness))

    def price(values):
        return knot_prices(plan, values)

    backward, onward = jax.jit(jax.jacrev(price))(surface.values), jax.jit(jax.jacfwd(price))(surface.values)
    np.testing.assert_allclose(backward, onward, rtol=1e-9, atol=1e-14)
    step = 1e-5 * jax.random.normal(jax.random.key(0), surface.values.shape)
    moved = (price(surface.values + step) - price(surface.values - step)) / 2
    np.testing.assert_allclose(jnp.tensordot(onward, step, 2), moved, rtol=1e-4, atol=1e-12)


def test_runs_under_jit_vmap_and_grad():
    strikes = np.linspace(0.8, 1.2, 5)

    def price(level):
        return call_prices(lambda T, y: level - 0.1 * y, [0.5, 1.0], strikes, grid=GridSize(33, 16))

    levels = jnp.array([0.15, 0.2, 0.3])
    batch = jax.jit(jax.vmap(price))(levels)
    np.testing.assert_allclose(batch, jnp.stack([price(v) for v in levels]), rtol=1e-12)
    vega = jax.jit(jax.jacfwd(price))(0.2)
    assert np.all(vega > 0)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda v: price(v).sum()))(0.2), vega.sum(), rtol=1e-10)


def test_strikes_and_forwards_may_be_traced():
    expected = call_prices(lambda T, y: 0.2, [1.0], [90.0, 110.0], 100.0, grid=GridSize(97, 64))
    traced = jax.jit(lambda K, F: call_prices(lambda T, y: 0.2, [1.0], K, F, grid=GridSize(97, 64)))
    np.testing.assert_allclose(traced(jnp.array([90.0, 110.0]), 100.0), expected, rtol=1e-12)
    with pytest.raises(TypeError, match="maturities are traced"):
        jax.jit(lambda T: call_prices(lambda T, y: 0.2, T, [90.0], 100.0))(jnp.array([1.0]))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"grid": "fine"}, "expected an error such as '1bp'"),
        ({"grid": (80, 40)}, "odd number"),
        ({"grid": (81, 3)}, "too few"),
        ({"maturities": [0.5, -1.0]}, "not a positive number"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        call_prices(lambda T, y: 0.2, **({"maturities": [0.5], "strikes": [1.0]} | arguments))
