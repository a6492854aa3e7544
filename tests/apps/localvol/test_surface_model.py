"""The model: its prices, its noise, and days that share one compilation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
from apps.localvol.market import quotes, small_model
from seqgp.apps.localvol import LocalVolatility, Quotes, quote_prices, simulated_quotes
from seqgp.apps.localvol.clock import years


def distribution(model, snapshot, f, **parameters):
    context = jax.tree.map(jnp.asarray, snapshot.context)
    return model.model.likelihood.distribution(f, context, {"stickiness": 0.5} | parameters)


def test_the_mean_of_the_data_is_the_price_under_the_surface():
    model, day = small_model(), quotes().day(quotes().dates[0])
    f = -1.5 + 0.3 * np.sin(np.arange(18.0))
    snapshot = model.snapshot(day)
    mean = distribution(model, snapshot, jnp.asarray(f), noise=0.001).mean
    expected = quote_prices(model.plan(day), model.surface(f))
    np.testing.assert_allclose(mean[: len(expected)], expected, rtol=1e-10)
    assert np.isnan(snapshot.y[len(expected) :]).all()
    np.testing.assert_allclose(snapshot.y[: len(expected)], day.table["price"])


@pytest.mark.parametrize(
    "noise, unit",
    [
        ("price", lambda t: 1.0 + 0 * t["vega"]),
        ("spread", lambda t: t["half_spread"]),
        ("volatility", lambda t: t["vega"]),
    ],
)
@pytest.mark.parametrize("robust", [False, True])
def test_noise_is_constant_in_its_own_unit(noise, unit, robust):
    model, day = small_model(noise=noise, robust=robust), quotes().day(quotes().dates[0])
    found = distribution(model, model.snapshot(day), jnp.full(18, -1.5), noise=0.3)
    size = len(day.table)
    np.testing.assert_allclose(found.scale[:size], 0.3 * unit(day.table))
    assert type(found).__name__ == ("StudentT" if robust else "Normal")


def test_worthless_quotes_keep_some_noise():
    """Far from the money vega vanishes, and the price is known to no better than the floor."""
    day = quotes().day(quotes().dates[0])
    flat = small_model(least_vega=1.0).units(day)
    np.testing.assert_allclose(flat, day.table["discount"] * day.table["forward"])


def test_days_have_the_same_shapes():
    model = small_model()
    shapes = [
        jax.tree.map(np.shape, (s.x, s.y, s.context)) for s in (model.snapshot(quotes().day(d)) for d in quotes().dates)
    ]
    assert shapes[0] == shapes[1]


def test_the_knots_are_a_product_grid_in_the_unit_square():
    linear, even = small_model(coordinates="linear"), small_model()
    assert linear.x.min() == 0
    assert linear.x.max() == 1
    place = (linear.log_moneyness - linear.log_moneyness[0]) / np.ptp(linear.log_moneyness)
    np.testing.assert_allclose(linear.x[:6, 1], place)
    np.testing.assert_allclose(even.x[:6, 1], np.linspace(0, 1, 6))
    table = quotes().table
    assert linear.maturities[0] == table["maturity"].min()
    assert linear.maturities[-1] == table["maturity"].max()
    assert linear.log_moneyness[0] == pytest.approx(table["log_moneyness"].min())


def test_knots_of_a_sticky_surface_reach_as_far_as_the_spot_has_moved():
    model, table = small_model(surface="sticky"), quotes().table
    reach = max(abs(model.move(quotes().day(date))) for date in quotes().dates)
    assert reach > 0
    assert model.log_moneyness[0] == pytest.approx(table["log_moneyness"].min() - reach)
    assert model.log_moneyness[-1] == pytest.approx(table["log_moneyness"].max() + reach)


def test_lengthscales_are_not_below_the_spacing_of_the_knots():
    for surface, name in (("separable", "space.lengthscale"), ("sticky", "0.space.lengthscale")):
        model = small_model(surface=surface).model
        low = model.parameters(jnp.full(len(model.names), -20.0))[name]
        np.testing.assert_allclose(low, [0.5, 0.2], atol=1e-6)


def test_the_surface_is_separable_unless_another_is_asked_for():
    """One kernel in calendar time that stays in moneyness; the other prior is kept with the knots."""
    plain, sticky = small_model(), small_model(surface="sticky")
    names = {"time.lengthscale", "space.lengthscale[0]", "space.lengthscale[1]", "scale", "mean", "noise"}
    assert set(plain.model.names) == names
    assert plain.move(quotes().day(quotes().dates[1])) == 0
    assert plain.clock == "calendar"
    assert {"stickiness", "0.scale", "1.scale"} < set(sticky.model.names)
    for model in (plain, sticky):
        again = LocalVolatility.at_knots(**model.knots())
        assert again.model.fingerprint() == model.model.fingerprint()
        assert again.clock == model.clock
    with pytest.raises(ValueError, match="surface = 'flat'"):
        small_model(surface="flat")
    with pytest.raises(ValueError, match="scale: of the separable surface"):
        small_model(surface="sticky", scale=0.5)


def test_the_level_has_its_prior_as_a_volatility():
    """`softplus(mu)` is what the ScaledSigmoid is about: -1.5 lies inside (0, 0.5)."""
    model = small_model(level=seqgp.ScaledSigmoid(0, 0.5)).model
    z = jnp.asarray(model.prior_of_z()[0])
    assert float(jax.nn.softplus(model.parameters(z)["mean"])) == pytest.approx(0.25)
    known = small_model(level=0.2).model
    assert float(jax.nn.softplus(known.parameters(z)["mean"])) == pytest.approx(0.2)
    assert "mean" not in known.names


def test_time_is_the_date_in_years():
    assert years("1971-01-01") == pytest.approx(365 / 365.25)


def test_business_time_stands_still_at_weekends():
    """Friday to Monday is as long as Monday to Tuesday, half a day is half of that, and a year is a year."""
    friday, monday, tuesday = (years(date, "business") for date in ("2001-06-08", "2001-06-11", "2001-06-12"))
    assert monday - friday == pytest.approx(tuesday - monday)
    assert years("2001-06-09 15:00", "business") == years("2001-06-10", "business") == monday
    assert years("2001-06-11 12:00", "business") - monday == pytest.approx((tuesday - monday) / 2)
    assert years("2021-01-01", "business") == pytest.approx(years("2021-01-01"), rel=1e-3)
    with pytest.raises(ValueError, match="clock = 'sun'"):
        years("2001-06-08", "sun")


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="noise = 'vol'"):
        LocalVolatility([0.5, 1.0], [-0.1, 0.1], noise="vol")
    with pytest.raises(ValueError, match="maturities: expected at least two numbers, increasing"):
        LocalVolatility([1.0, 0.5], [-0.1, 0.1])
    with pytest.raises(ValueError, match="expected a number or a seqgp"):
        small_model(level="high")
    frame = simulated_quotes(1, 9, (60, 150))
    prices = frame.assign(price=(frame["bid"] + frame["ask"]) / 2).drop(columns=["bid", "ask"])
    day = Quotes.from_frame(prices)
    with pytest.raises(ValueError, match="have no positive bid-ask spread"):
        small_model(noise="spread").snapshot(day)
    with pytest.raises(ValueError, match="no quotes are left"):
        small_model().snapshot(day.select(min_maturity=5.0))
