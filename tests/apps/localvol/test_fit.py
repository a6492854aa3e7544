"""A sequence of days: predicted, learnt from, and looked at."""

import dataclasses
import json
import shutil

import jax
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import seqgp
from apps.localvol.market import fitted, quotes, small_model
from seqgp.apps.localvol import ForwardCurve, LocalVolatility, LocalVolFit, figures, quote_prices
from seqgp.apps.localvol.density import log_densities
from seqgp.apps.localvol.simulate import example_volatility


def test_quotes_are_fitted_to_within_their_spread():
    table = fitted().table()
    assert table.loc["all", "rmse_bp"] < 12  # the quotes are off by 4 bp, the market is 20 bp wide
    assert table.loc["all", "inside_bid_ask"] > 0.8
    assert table.loc["all", "coverage"] > 0.85
    assert table["quotes"].iloc[:-1].sum() == table.loc["all", "quotes"]


def test_the_surface_is_the_true_one_near_the_money():
    """As far as three knots in maturity can tell."""
    grid = fitted().surface().on_grid([0.3, 0.6], log_moneyness=[-0.05, 0.0, 0.05])
    truth = example_volatility(1)(grid.maturities[:, None], grid.log_moneyness)
    np.testing.assert_allclose(grid.mean(), truth, rtol=0.05)
    low, high = grid.band()
    assert ((low < grid.mean()) & (grid.mean() < high)).all()


def test_a_day_is_predicted_before_its_update():
    first, second = fitted().days
    assert first.forecast is None
    assert first.flagged == []
    assert second.forecast is not None
    assert second.forecast.loc["all", "rmse_bp"] > fitted().table().loc["all", "rmse_bp"]


def test_a_slice_that_does_not_fit_is_flagged():
    day = quotes().day(quotes().dates[1])
    middle = sorted(day.table["expiration"].unique())[1]
    off = day.table["expiration"] == middle
    price = day.table["price"] + np.where(off, 0.05, 0.0) * day.table["vega"]
    fit = LocalVolFit(small_model(), draws=80)
    fit.days = fitted().days[:1]
    moved = dataclasses.replace(day, table=day.table.assign(price=price))
    found = fit.forecast(moved).by_expiration()
    assert found.loc[middle, "rms_z"] > 2 * found.drop(index=[middle, "all"])["rms_z"].max()


def test_a_sampler_of_ones_own_is_of_the_same_model_and_has_its_own_settings():
    model = small_model()
    online = seqgp.OnlineSampler(model.model, particles=32, draws=80)
    with pytest.raises(ValueError, match="particles: settings of the sampler that is given"):
        LocalVolFit(model, sampler=online, particles=64)
    with pytest.raises(ValueError, match="the sampler is of another model"):
        LocalVolFit(small_model(), sampler=online)


def test_surfaces_at_strikes_and_at_log_moneyness_agree():
    surface = fitted().surface()
    curve = surface.curve
    strikes = curve.forward(0.4)[0] * np.exp([-0.1, 0.1])
    one = surface.on_grid([0.4], strikes=strikes)
    other = surface.on_grid([0.4], log_moneyness=[-0.1, 0.1])
    np.testing.assert_allclose(one.draws, other.draws, rtol=1e-12)
    np.testing.assert_allclose(one.strikes, other.strikes)
    frame = one.to_frame()
    np.testing.assert_allclose(frame["mean"], one.draws.mean(axis=0).ravel())
    assert (frame["low"] <= frame["mean"]).all()
    with pytest.raises(ValueError, match="not both"):
        surface.on_grid([0.4], strikes=strikes, log_moneyness=[0.0])


def test_the_prior_dominates_where_nothing_is_quoted():
    """Knots at the longest maturity and far from the money at the shortest say least; near the money, most."""
    surface = fitted().surface()
    assert not surface.on_grid([0.4], log_moneyness=[0.0]).prior_dominated().any()
    wide = surface.on_grid()
    assert wide.prior_dominated(share=0.0).all()


def test_smiles_pass_through_the_model_prices():
    fit = fitted()
    smiles = fit.smiles(points=5)
    assert (smiles["low"] <= smiles["high"]).all()
    table = fit.last.quotes.table
    at_money = smiles[
        np.abs(smiles["log_moneyness"])
        == smiles.groupby("maturity")["log_moneyness"].transform(lambda y: np.abs(y).min())
    ]
    nearest = [table.iloc[(table["strike"] - k).abs().argmin()]["implied_volatility"] for k in at_money["strike"]]
    np.testing.assert_allclose(at_money["mean"], nearest, atol=0.03)
    given = fit.smiles(points=3, maturities=[0.25])
    assert (given["maturity"] == 0.25).all()


def test_the_map_draw_has_the_highest_density():
    fit = fitted()
    values = log_densities(fit.model.model, fit.last.snapshot, fit.state)
    assert values[fit.map_draw()] == values.max()
    prices = quote_prices(fit.model.plan(fit.last.quotes), fit.map_surface())
    table = fit.last.quotes.table
    assert np.sqrt(np.mean(((prices - table["price"]) / table["vega"]) ** 2)) < 0.002


def test_prices_have_intervals():
    frame = fitted().quote_draws().to_frame()
    assert (frame["quote_low"] <= frame["model_low"]).mean() > 0.8
    assert ((frame["model_low"] <= frame["model_price"]) & (frame["model_price"] <= frame["model_high"])).all()


def test_forwards_between_expirations():
    curve = ForwardCurve(np.array([0.5, 1.0]), 100 * np.exp([0.01, 0.02]), np.exp([-0.015, -0.03]))
    np.testing.assert_allclose(curve.forward([0.0, 0.25, 2.0]), 100 * np.exp([0.0, 0.005, 0.04]))
    np.testing.assert_allclose(curve.discount([0.0, 0.25, 2.0]), np.exp([0.0, -0.0075, -0.06]))
    assert curve.spot == pytest.approx(100)


def test_nothing_fitted_yet():
    with pytest.raises(ValueError, match="nothing has been fitted yet"):
        LocalVolFit(small_model(), draws=80).surface()


def test_figures_have_a_panel_for_each_slice_and_parameter():
    mpl.use("agg")
    fit = fitted()
    shown = [axis for axis in figures.smiles(fit, held_out=fit.last.quotes).axes if axis.get_visible()]
    assert len(shown) == 3
    assert sum(axis.get_visible() for axis in figures.parameters(fit).axes) == 6
    assert len(figures.surface(fit, points=(5, 7)).axes) == 4  # two maps, each with its scale
    assert len(figures.density(fit).axes) == 3
    assert len(figures.residuals(fit).axes) == 2
    assert len(figures.total_variance(fit).axes[0].lines) == 6  # a line and its quotes for each expiration


def test_the_tree_for_arviz_holds_draws_and_replicated_quotes():
    fit = fitted()
    tree = fit.to_datatree()
    latent = tree["posterior"]["latent"].to_numpy().reshape(80, -1)
    np.testing.assert_array_equal(latent, fit.state.latent)
    assert tree["posterior_predictive"]["y"].shape[-1] == fit.last.snapshot.y.size


def same(one, other):
    """Whether two days are the same, bit for bit."""
    return all(np.array_equal(getattr(one.state, name), getattr(other.state, name)) for name in ("latent", "z"))


def small_fit(store=None, **settings):
    return LocalVolFit(small_model(), **({"draws": 80, "particles": 32, "store": store} | settings))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The first day of the fit, on disk, as if the second had been interrupted."""
    folder = tmp_path_factory.mktemp("stored") / "run"
    small_fit(folder).update(quotes().day(quotes().dates[0]))
    return folder


@pytest.fixture
def folder(stored, tmp_path):
    shutil.copytree(stored, tmp_path / "run")
    return tmp_path / "run"


def test_a_fit_goes_on_where_it_was_interrupted(folder, monkeypatch):
    again = small_fit(folder)
    with monkeypatch.context() as patch:
        patch.setattr(type(again.sampler), "init", None)  # the first day is read, not sampled
        again.update(quotes().day(quotes().dates[0]))
    again.update(quotes().day(quotes().dates[1]))
    assert all(same(one, other) for one, other in zip(again.days, fitted().days, strict=True))
    assert again.last.forecast is not None
    pd.testing.assert_frame_equal(again.last.forecast, fitted().last.forecast)
    assert len(seqgp.Store(folder)) == 2
    assert seqgp.Store(folder)[again.last.snapshot.t].snapshot.context["plan"].keys()


def test_a_later_day_alone_goes_on_from_the_store(folder):
    later = small_fit(folder)
    later.update(quotes().day(quotes().dates[1]))
    assert same(later.last, fitted().last)
    pd.testing.assert_frame_equal(later.last.forecast, fitted().last.forecast)


def test_the_loop_with_the_fits_sampler_is_the_same_algorithm(folder):
    fit = small_fit()
    snapshots = [fit.model.snapshot(quotes().day(date)) for date in quotes().dates]
    run = seqgp.run(fit.sampler, snapshots, store=folder, forecast=False)
    np.testing.assert_array_equal(run.state.z, fitted().state.z)


def test_another_sampler_seed_or_market_is_refused(folder):
    fit = small_fit()
    snapshot = fit.model.snapshot(quotes().day(quotes().dates[1]))
    larger = seqgp.OnlineSampler(fit.model.model, particles=64, draws=80)
    with pytest.raises(seqgp.StoreError, match="another sampler: particles was 32, now 64"):
        seqgp.run(larger, [snapshot], store=folder)
    with pytest.raises(seqgp.StoreError, match="another key"):
        small_fit(folder, seed=1).update(quotes().day(quotes().dates[1]))
    first = quotes().day(quotes().dates[0])
    moved = dataclasses.replace(first, table=first.table.assign(price=first.table["price"] + 0.01))
    with pytest.raises(seqgp.DataError, match="are not those that were stored"):
        small_fit(folder).update(moved)


def test_knots_as_words_make_the_same_model():
    model = small_model()
    again = LocalVolatility.at_knots(**json.loads(json.dumps(model.knots())))
    assert again.model.fingerprint() == model.model.fingerprint()
    day = quotes().day(quotes().dates[0])
    one, other = model.snapshot(day), again.snapshot(day)
    jax.tree.map(np.testing.assert_array_equal, tuple(one), tuple(other))
