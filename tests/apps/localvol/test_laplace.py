"""The mode and its bands: Gaussian-process regression on linearised prices."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from apps.localvol.market import quotes, small_model
from seqgp.apps.localvol import Laplace, LocalVolatility, LocalVolFit, Quotes, quote_prices, simulated_quotes
from seqgp.apps.localvol.linearised import Days, compressed, log_posterior, posterior_at

RNG = np.random.default_rng(0)


@functools.cache
def fitted_fast():
    model = small_model(surface="sticky")
    fit = LocalVolFit(model, sampler=Laplace(model.model, 80))
    for date in quotes().dates:
        fit.update(quotes().day(date))
    return fit


def toy_days(model, rank=64):
    """Two days of twelve prices, linear in the level, with noise in units of their own."""
    knots = len(model.x)
    parts, raw = [], []
    for t in (0.0, 0.1):
        slope, tilt = RNG.normal(size=(12, knots)), RNG.normal(size=12)
        y, unit = RNG.normal(size=12), RNG.uniform(0.5, 2.0, 12)
        design = model.model.mean_function.design(t, model.x, {"spot": np.full(knots, t)})
        parts.append(compressed(t, y, slope, tilt, unit, design, rank)._replace(noise=np.array([0.3])))
        raw.append((t, y, slope, tilt, unit, design))
    return Days(*(np.concatenate(field) for field in zip(*parts))), raw


def dense_joint(model, raw, z):
    """Mean and covariance of the data and of the level on the last day, without any compression."""
    parameters = model.model.parameters(z)
    x = np.concatenate([model.x] * 2)
    t = np.repeat([0.0, 0.1], len(model.x))
    kernel = model.model.kernel
    prior = np.asarray(kernel.covariance(kernel.prepare(jnp.asarray(t), jnp.asarray(x)), parameters))
    extra = [float(parameters[f"{p}scale"]) ** 2 for p, _ in kernel.terms()]
    jitter = model.model.jitter[-1] * np.kron(
        sum(
            s * np.exp(-np.abs(np.subtract.outer([0.0, 0.1], [0.0, 0.1])) / l)
            for s, l in zip(extra, lengths(parameters))
        ),
        np.eye(len(model.x)),
    )
    prior = prior + jitter
    slope = np.zeros((24, len(x)))
    slope[:12, : len(model.x)], slope[12:, len(model.x) :] = raw[0][2], raw[1][2]
    noise = np.concatenate([0.3 * raw[0][4], float(parameters["noise"]) * raw[1][4]])
    mean_level = np.concatenate([np.asarray(model.model.mean_function.value(parameters, r[5])) for r in raw])
    tilt = np.concatenate([r[3] for r in raw]) * float(parameters["stickiness"])
    y = np.concatenate([r[1] for r in raw])
    return (
        y - slope @ mean_level - tilt,
        slope @ prior @ slope.T + np.diag(noise**2),
        prior @ slope.T,
        mean_level,
        prior,
    )


def lengths(parameters):
    return [float(parameters["0.time.lengthscale"]), float(parameters["1.time.lengthscale"])]


def test_the_evidence_and_the_level_are_those_of_dense_regression():
    model = small_model(surface="sticky")
    days, raw = toy_days(model)
    size = len(model.model.names)
    z, other = jnp.asarray(RNG.normal(size=size) * 0.3), jnp.zeros(size)
    centre, prior_cov = model.model.prior_of_z()

    def expected(z):
        apart, cov, *_ = dense_joint(model, raw, z)
        prior = -0.5 * np.sum((np.asarray(z) - centre) ** 2 / np.diag(prior_cov))
        return prior - 0.5 * apart @ np.linalg.solve(cov, apart) - 0.5 * np.linalg.slogdet(cov)[1]

    x = jnp.asarray(model.x)
    found = [float(log_posterior(model.model, x, days, one)) for one in (z, other)]
    assert found[0] - found[1] == pytest.approx(expected(z) - expected(other), rel=1e-6)
    mean, cov = posterior_at(model.model, x, days, z, jnp.asarray(0.1), jnp.asarray(raw[1][5]))
    apart, data_cov, cross, mean_level, prior = dense_joint(model, raw, z)
    gain = np.linalg.solve(data_cov, cross.T).T
    now = slice(len(model.x), None)
    np.testing.assert_allclose(mean, (mean_level + gain @ apart)[now], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(cov, (prior - gain @ cross.T)[now, now], atol=1e-7)


def test_the_mode_of_a_separable_surface_fits_quotes():
    """And gives as many draws as were asked for, also where they are not a multiple of the values of parameters."""
    model = small_model()
    fit = LocalVolFit(model, sampler=Laplace(model.model, 50))
    fit.update(quotes().day(quotes().dates[0]))
    assert fit.state.latent.shape == (50, len(model.x))
    assert fit.state.z.shape == (50, len(model.model.names))
    assert fit.table().loc["all", "rmse_bp"] < 12


def test_the_mode_fits_quotes_and_its_bands_cover_them():
    table = fitted_fast().table()
    assert table.loc["all", "rmse_bp"] < 12
    assert table.loc["all", "coverage"] > 0.8
    assert fitted_fast().last.forecast is not None
    assert fitted_fast().last.info.rounds <= 16


def test_the_surface_of_the_mode_prices_the_quotes():
    fit = fitted_fast()
    table = fit.last.quotes.table
    prices = quote_prices(fit.model.plan(fit.last.quotes), fit.map_surface())
    assert np.sqrt(np.mean(((prices - table["price"]) / table["vega"]) ** 2)) < 0.0015


def test_a_recalibration_compiles_nothing():
    """On another date, with another number of quotes: forecast, update, and the table of each expiration."""
    compiled = []

    def listen(event, duration, **_):
        if event.endswith("backend_compile_duration"):
            compiled.append(duration)

    fit, model = fitted_fast(), fitted_fast().model
    again = LocalVolFit(model, sampler=fit.sampler)
    again.update(fit.days[0].quotes)
    again.table()
    np.testing.assert_array_equal(again.state.latent, fit.days[0].state.latent)
    days = Quotes.from_frame(simulated_quotes(3, 9, (60, 150, 330)))
    second, third = fit.last.quotes, days.day(days.dates[-1])
    third = third.where(np.arange(len(third.table)) % 9 > 0)
    assert model.size(second) == model.size(third)
    assert len(second.table) > len(third.table)
    again.update(second)
    again.table()
    jax.monitoring.register_event_duration_secs_listener(listen)
    again.update(third)
    again.table()
    again.quote_draws(third.where(third.table["strike"] > 100)).by_expiration()
    assert not compiled


def test_the_mode_is_found_from_far_away():
    """A steep smile, whose first linearisation is far off: steps that agree must not be shortened."""

    def steep(day):
        return lambda T, y: 0.2 * jnp.exp(-0.6 * jnp.tanh(3 * y) + jnp.tanh(2 * y) ** 2)

    day = Quotes.from_frame(simulated_quotes(1, 15, (40, 200), volatility=steep))
    model = LocalVolatility.for_quotes(day, (2, 8), grid=(41, 24))
    fit = LocalVolFit(model, sampler=Laplace(model.model, 32))
    fit.update(day)
    assert fit.last.info.warnings == ()
    assert fit.table().loc["all", "rmse_bp"] < 6


def test_what_it_cannot_do_is_said(tmp_path):
    model = small_model()
    with pytest.raises(ValueError, match="is not stored: leave out store="):
        LocalVolFit(model, sampler=Laplace(model.model), store=tmp_path / "run")
    with pytest.raises(ValueError, match="has no chains"):
        fitted_fast().to_datatree()
