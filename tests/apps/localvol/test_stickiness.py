"""Where the surface stays when the spot moves, and where quotes say nothing."""

import jax.numpy as jnp
import numpy as np
import pytest

from apps.localvol.market import quotes, small_model
from seqgp.apps.localvol import (
    ForwardCurve,
    LocalVolatility,
    QuotedRegion,
    Surface,
    SurfaceDraws,
    plan_quotes,
    quote_prices,
)
from seqgp.apps.localvol.implied import implied_volatility
from seqgp.apps.localvol.likelihood import as_tree, model_prices
from seqgp.apps.localvol.posterior import price_draws

T, Y = np.array([0.1, 0.5, 1.0]), np.linspace(-0.6, 0.6, 13)
LEVEL = -1.5 - 0.8 * np.tile(Y, 3) + 0.3 * np.repeat(T, 13)
MOVE = 0.04


def prices(strikes, forward, stickiness, move=MOVE):
    plan = plan_quotes(np.full(len(strikes), 0.5), strikes, forward, grid=(101, 60), knots=(T, Y))
    context = {"plan": as_tree(plan), "knots": Y, "move": move}
    return np.asarray(model_prices(jnp.asarray(LEVEL), context, jnp.asarray(stickiness)))


def volatilities(strikes, forward, stickiness, move=MOVE):
    return np.asarray(implied_volatility(prices(strikes, forward, stickiness, move), 0.5, strikes, forward))


def test_sticky_moneyness_keeps_the_smile_in_moneyness():
    k = np.exp(np.linspace(-0.2, 0.2, 7))
    before, after = volatilities(k, 1.0, 0.3, 0.0), volatilities(k * np.exp(MOVE), np.exp(MOVE), 0.0)
    np.testing.assert_allclose(after, before, atol=1e-6)


def test_sticky_local_volatility_keeps_local_volatilities_at_their_strikes():
    """The surface as a function of the strike is the same function, priced from another spot."""
    strikes = np.exp(np.linspace(-0.15, 0.2, 7))
    surface = Surface(T, Y - MOVE, np.logaddexp(LEVEL, 0).reshape(3, 13))
    plan = plan_quotes(np.full(7, 0.5), strikes, np.exp(MOVE), grid=(101, 60))
    np.testing.assert_allclose(prices(strikes, np.exp(MOVE), 1.0), quote_prices(plan, surface), rtol=1e-9)


def test_sticky_strike_lies_half_way():
    """To first order in the move: what is left at one half is a small part of what either end leaves."""
    strikes = np.exp(np.linspace(-0.1, 0.1, 7))
    before = volatilities(strikes, 1.0, 0.0, 0.0)
    off = {s: np.abs(volatilities(strikes, np.exp(MOVE), s) - before).mean() for s in (0.0, 0.5, 1.0)}
    assert off[0.5] < 0.2 * off[0.0]
    assert off[0.5] < 0.2 * off[1.0]


def test_draws_are_priced_and_shown_with_their_own_shift():
    sigma = np.logaddexp(LEVEL, 0).reshape(1, 3, 13).repeat(2, axis=0)
    shifts = np.array([0.0, MOVE])
    plan = plan_quotes([0.5, 0.5], [0.9, 1.1], grid=(101, 60), knots=(T, Y))
    found = price_draws(plan, sigma, Y, shifts)
    for row, shift in zip(found, shifts):
        np.testing.assert_allclose(row, quote_prices(plan, Surface(T, Y - shift, sigma[0])), rtol=1e-9)
    curve = ForwardCurve(np.array([0.5, 1.0]), np.ones(2), np.ones(2))
    draws = SurfaceDraws(T, Y, jnp.asarray(sigma), 1.0, curve, shifts)
    grid = draws.on_grid([0.5], log_moneyness=[0.1]).draws[:, 0, 0]
    np.testing.assert_allclose(grid, [draws.draw(i)(0.5, 0.1) for i in range(2)])
    assert grid[1] != grid[0]


def test_a_stickiness_needs_a_reference():
    with pytest.raises(ValueError, match="stickiness and leverage need reference="):
        LocalVolatility(T, Y, stickiness=0.5)
    day = quotes().day(quotes().dates[1])
    model = small_model(surface="sticky")
    spot = ForwardCurve.from_table(day.forwards).spot
    assert model.move(day) == pytest.approx(np.log(spot / model.reference))
    assert model.move(quotes().day(quotes().dates[0])) == pytest.approx(0.0)


def test_the_prior_dominates_beyond_the_quotes():
    table = quotes().day(quotes().dates[0]).table
    region = QuotedRegion.from_table(table)
    last = table["maturity"].max()
    far, near = np.array([[-3.0, 0.0, 3.0]]), np.array([[0.0, 0.01, -0.01]])
    np.testing.assert_array_equal(region.beyond(np.array([0.4]), far), [[True, False, True]])
    assert region.beyond(np.array([1.5 * last]), near).all()
    assert not region.beyond(np.array([last]), near).any()
    at_quotes = [
        region.beyond(np.array([q.maturity]), np.array([[q.log_moneyness]])).item() for q in table.itertuples()
    ]
    assert not any(at_quotes)
