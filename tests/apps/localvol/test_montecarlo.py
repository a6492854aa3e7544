"""Payoffs along paths: closed forms, and where the uncertainty of a price comes from."""

import jax
import numpy as np
import pytest
from scipy.stats import norm

from seqgp.apps.localvol import (
    ForwardCurve,
    SurfaceDraws,
    asian,
    autocallable,
    barrier,
    black_price,
    digital,
    price_payoff,
    vanilla,
)

CURVE = ForwardCurve(np.array([0.5, 1.0]), 100 * np.exp([0.01, 0.02]), np.exp([-0.015, -0.03]))
KEY = jax.random.key(0)


def flat(volatilities):
    values = np.asarray(volatilities)[:, None, None] * np.ones((1, 2, 2))
    return SurfaceDraws(np.array([0.1, 1.0]), np.array([-1.0, 1.0]), values, 1.0, CURVE)


def test_vanilla_and_digital_against_black():
    """Within four standard errors: a false alarm in 16,000."""
    surface, T, K = flat([0.2] * 20), 0.75, 105.0
    forward, discount = CURVE.forward(T)[0], CURVE.discount(T)[0]
    call = price_payoff(KEY, surface, vanilla(K), T, paths=2000, steps=8)
    assert abs(call.mean - float(black_price(0.2, T, K, forward, discount))) < 4 * call.standard_error
    root = 0.2 * np.sqrt(T)
    exact = discount * norm.cdf(np.log(forward / K) / root - root / 2)
    paid = price_payoff(KEY, surface, digital(K), T, paths=2000, steps=8)
    assert abs(paid.mean - exact) < 4 * paid.standard_error


def test_in_and_out_make_a_vanilla():
    surface = flat([0.25] * 4)
    parts = [
        price_payoff(KEY, surface, payoff, 0.5, paths=500, steps=20).draws
        for payoff in (barrier(100, 120, "up-and-out"), barrier(100, 120, "up-and-in"), vanilla(100))
    ]
    np.testing.assert_allclose(parts[0] + parts[1], parts[2])
    assert np.all(parts[0] < parts[2])


def test_a_known_surface_leaves_only_the_error_of_the_paths():
    price = price_payoff(KEY, flat([0.2] * 400), digital(110.0), 0.5, paths=100, steps=4)
    assert price.parameter_sd < 0.4 * price.path_sd
    assert price.standard_error == pytest.approx(price.path_error, rel=0.15)


def test_the_parameters_share_does_not_depend_on_the_number_of_paths():
    """Half the draws at 15 %, half at 25 %: the sd over surfaces is half the difference of the two prices."""
    surface = flat([0.15, 0.25] * 200)
    forward, discount = CURVE.forward(0.5)[0], CURVE.discount(0.5)[0]
    low, high = (float(black_price(v, 0.5, 100.0, forward, discount)) for v in (0.15, 0.25))
    found = [price_payoff(KEY, surface, vanilla(100.0), 0.5, paths=n, steps=4) for n in (100, 1000)]
    for price in found:
        assert price.parameter_sd == pytest.approx((high - low) / 2, rel=0.1)
    assert found[1].path_sd == pytest.approx(found[0].path_sd / 10**0.5, rel=0.1)
    naive = np.std(found[0].draws)
    assert naive > 1.05 * found[0].parameter_sd  # what is not taken apart is too large


def test_unknown_barriers_are_named():
    with pytest.raises(ValueError, match="kind = 'sideways'"):
        barrier(100, 120, "sideways")


FLAT = ForwardCurve(np.array([0.5, 1.0]), np.full(2, 100.0), np.ones(2))


def on_flat_curve(volatility, count=20):
    values = np.full((count, 2, 2), volatility)
    return SurfaceDraws(np.array([0.1, 1.0]), np.array([-1.0, 1.0]), values, 1.0, FLAT)


def test_a_barrier_that_is_watched_all_the_time_has_the_price_of_the_reflection_principle():
    """Down-and-in call, no rates: `S/H` calls on `H²/S`; ten steps are enough with the bridge, and not without it."""
    K, H, T = 100.0, 90.0, 0.5
    exact = 100.0 / H * float(black_price(0.25, T, K, H**2 / 100.0))
    found = price_payoff(KEY, on_flat_curve(0.25), barrier(K, H, "down-and-in"), T, paths=4000, steps=10)
    assert abs(found.mean - exact) < 4 * found.standard_error
    watched = barrier(K, H, "down-and-in", continuous=False)
    crude = price_payoff(KEY, on_flat_curve(0.25), watched, T, paths=4000, steps=10)
    assert exact - crude.mean > 4 * crude.standard_error


def test_the_control_variate_makes_the_forward_exact():
    found = price_payoff(KEY, on_flat_curve(0.3), vanilla(1e-9), 0.5, paths=200, steps=4, control=True)
    assert found.mean == pytest.approx(100.0, abs=1e-6)
    assert found.path_sd < 1e-6


def test_an_asian_of_one_date_is_a_vanilla_and_of_more_is_cheaper():
    surface = on_flat_curve(0.2)
    one, many, plain = (
        price_payoff(KEY, surface, payoff, 0.5, paths=500, steps=n).mean
        for payoff, n in ((asian(100.0), 1), (asian(100.0), 20), (vanilla(100.0), 1))
    )
    assert one == pytest.approx(plain)
    assert many < 0.75 * plain


def test_an_autocallable_with_one_date_is_a_digital_a_put_and_a_bond():
    """Called above 100 with 5 %; below 80 the notional in proportion: closed forms with four standard errors."""
    surface, T = on_flat_curve(0.2), 0.5
    note = price_payoff(KEY, surface, autocallable(100.0, 0.05, 1, 80.0), T, paths=4000, steps=4)
    root = 0.2 * np.sqrt(T)

    def above(level):
        return norm.cdf(np.log(100.0 / level) / root - root / 2)

    lost = (1 - above(80.0)) - norm.cdf(np.log(80.0 / 100.0) / root - root / 2)
    expected = 1 + 0.05 * above(100.0) - lost
    assert abs(note.mean - expected) < 4 * note.standard_error


def test_a_dividend_lowers_the_forward_on_its_day_and_keeps_those_of_the_quotes():
    curve, D = CURVE.with_dividends([(0.3, 4.0), (0.8, 1.0)]), CURVE.discount
    np.testing.assert_allclose(curve.forward(CURVE.maturities), CURVE.forwards, rtol=1e-13)
    before, after = curve.forward([0.3 - 1e-9, 0.3])
    assert before - after == pytest.approx(4.0, abs=1e-5)
    # With its dividend reinvested, the underlying grows at a steady rate up to the first expiration.
    grown = np.log(curve.forward([0.1, 0.2, 0.4, 0.5]) + 4.0 * D(0.3) / D([0.1, 0.2, 0.4, 0.5]) * [0, 0, 1, 1])
    np.testing.assert_allclose(np.diff(grown), (grown[3] - grown[0]) / 4 * np.array([1, 2, 1]))


def test_payoffs_that_end_after_a_dividend_know_its_day():
    """A vanilla at an expiration does not change; a mean over the path knows when it falls."""
    surface = flat([0.2] * 10)
    settings = {"maturity": 0.5, "paths": 400, "steps": 10}
    plain = price_payoff(KEY, surface, vanilla(100), **settings)
    again = price_payoff(KEY, surface, vanilla(100), **settings, dividends=[(0.3, 4.0)])
    assert again.mean == pytest.approx(plain.mean, rel=1e-9)
    early, late = (price_payoff(KEY, surface, asian(100), **settings, dividends=[(t, 4.0)]).mean for t in (0.05, 0.45))
    assert early < late  # both end at the same forward, so the path before a late dividend is higher
    flat_paths = flat([1e-6] * 2)
    mean = price_payoff(KEY, flat_paths, asian(0.0), **settings, dividends=[(0.3, 4.0)]).mean
    expected = CURVE.with_dividends([(0.3, 4.0)]).forward(np.linspace(0.05, 0.5, 10)).mean() * CURVE.discount(0.5)[0]
    assert mean == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("dividend", [(0.0, 1.0), (0.5, -1.0), (0.5, np.nan), (0.75, 1000.0)])
def test_dividends_that_make_no_sense_are_named(dividend):
    with pytest.raises(ValueError, match="dividends"):
        price_payoff(KEY, flat([0.2]), vanilla(100), 0.75, dividends=[dividend])
