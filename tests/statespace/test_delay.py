"""The filter with delays is the dense kernel's posterior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dense_delay import Term, delay_functions, posterior, total
from seqgp.base.errors import DataError
from seqgp.statespace import delay
from seqgp.statespace.delay_smoother import StationData, draw_delayed, filter_pass, smooth_latent

TERMS = {
    "Matern12": [Term(1, 1.5, 2.0, 1.3, [0.2, -0.1])],
    "Matern32": [Term(2, 1.5, 2.0, 0.7, [0.25, 0.1])],
    "Matern52": [Term(3, 2.0, 1.0, 1.0, [-0.2, 0.15])],
    "sum": [Term(2, 1.5, 2.0, 1.0, [0.2, -0.1]), Term(1, 0.5, 0.6, 0.4, [-0.1, 0.2]), Term(3, 9.0, 3.0, 1.5, [0, 0])],
}


def problem(seed=0, m=5, t=6):
    """Stations, irregular times, gaps; noise of its own for each datum."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 2, (m, 2))
    times = np.cumsum(rng.uniform(1.0, 2.5, t))
    y = rng.normal(size=(t, m))
    y[rng.uniform(size=y.shape) < 0.3] = np.nan
    y[2] = np.nan
    return x, times, y, rng.uniform(0.05, 0.3, (t, m))


def operator_of(terms, x):
    return [term.arrays(x) for term in terms]


def run(terms, x, times, y, variance, joins=None):
    """The filter, a step at a time; the last stations join with snapshot ``joins``.

    Returns the state before the last snapshot, that after it, its latent given all data, and the log density.
    """
    start, extend, step = delay_functions(tuple(terms))
    m = len(x)
    now = m if joins is None else m - 2
    places = operator_of(terms, x[:now])
    state = start(places, np.zeros(0))
    log_prob, last = 0.0, times[0]
    before, latent = state, None
    for k, time in enumerate(times):
        if k == joins:
            now, places = m, operator_of(terms, x)
            state = extend(state, places, m - 2)
        if k > 0:
            delay.check_interval(time - last, state.lag, [float(np.max(delays)) for _, delays in places])
        before = state
        state, latent, more = step(state, places, time - last, y[k, :now], variance[k, :now])
        log_prob, last = log_prob + more, time
    return before, state, latent, log_prob


def stacked(x, times, y, variance, upto=None):
    """The data that are there, as points."""
    seen = ~np.isnan(y)
    if upto is not None:
        seen[upto:] = False
    t = np.repeat(times, len(x))[seen.ravel()]
    places = np.tile(x, (len(times), 1))[seen.ravel()]
    return t, places, y[seen], np.diag(variance[seen])


@pytest.mark.parametrize("name, joins", [*((name, None) for name in TERMS), ("Matern52", 3), ("sum", 3)])
def test_filter_is_dense_posterior(name, joins):
    terms, (x, times, y, variance) = TERMS[name], problem()
    if joins is not None:
        y[:joins, -2:] = np.nan
    _, _, (found_mean, found_cov, _), log_prob = run(terms, x, times, y, variance, joins)
    t, places, values, noise = stacked(x, times, y, variance)
    now = np.full(len(x), times[-1])
    mean, cov, expected = posterior(
        total(terms, t, places, t, places), noise, values, total(terms, now, x, t, places), total(terms, now, x, now, x)
    )
    np.testing.assert_allclose(log_prob, expected, atol=1e-10)
    np.testing.assert_allclose(found_mean, mean, atol=1e-10)
    np.testing.assert_allclose(found_cov, cov, atol=1e-10)


@pytest.mark.parametrize("name", ["Matern32", "sum"])
def test_nowcast_and_forecast_at_new_places(name):
    """From the state before the snapshot; outside of the stations' range of delays too."""
    terms, (x, times, y, variance) = TERMS[name], problem(1)
    before, after, *_ = run(terms, x, times, y, variance)
    new = np.array([[0.3, 1.1], [-0.5, -0.5], [2.4, 2.4]])
    both, m = np.concatenate([x, new]), len(x)
    _, extend, step = delay_functions(tuple(terms))
    there = operator_of(terms, both)
    t, places, values, noise = stacked(x, times, y, variance)

    def check(time, mean, cov):
        at = np.full(3, time)
        expected = posterior(
            total(terms, t, places, t, places),
            noise,
            values,
            total(terms, at, new, t, places),
            total(terms, at, new, at, new),
        )
        np.testing.assert_allclose(mean, expected[0], atol=1e-10)
        np.testing.assert_allclose(cov, expected[1], atol=1e-10)

    def latent_of(state, dt, data):
        return step(extend(state, there, m), there, dt, data, variance[-1])[1]

    mean, cov, _ = latent_of(before, times[-1] - times[-2], y[-1])
    check(times[-1], mean[m:], cov[m:, m:])
    mean, cov, _ = latent_of(after, 2.0, np.full(m, np.nan))
    check(times[-1] + 2.0, mean[m:], cov[m:, m:])


@pytest.mark.parametrize("name", ["Matern52", "sum"])
def test_smoother_is_dense_posterior(name):
    terms, (x, times, y, variance) = TERMS[name], problem(2)
    design = np.stack([np.ones_like(y), np.tile(x[:, 0], (len(times), 1))], axis=-1)
    scales = np.array([2.0, 0.5])
    dts = np.diff(times, prepend=times[0])
    data = StationData(dts, y, variance, np.eye(len(x)), design)
    passed, log_prob = jax.jit(lambda y: filter_pass([term.field(x) for term in terms], data._replace(y=y), scales))(y)
    smoothed = jax.jit(smooth_latent)(passed)
    t, places, values, noise = stacked(x, times, y, variance)
    columns = design[~np.isnan(y)] * scales
    everywhere = np.repeat(times, len(x)), np.tile(x, (len(times), 1))
    mean, cov, expected = posterior(
        total(terms, t, places, t, places) + columns @ columns.T,
        noise,
        values,
        total(terms, *everywhere, t, places),
        total(terms, *everywhere, *everywhere),
    )
    np.testing.assert_allclose(np.sum(log_prob), expected, atol=1e-10)
    np.testing.assert_allclose(smoothed.mean.ravel(), mean, atol=1e-10)
    blocks = cov.reshape(len(times), len(x), len(times), len(x))
    for k in range(len(times)):
        np.testing.assert_allclose(smoothed.cov[k], blocks[k, :, k], atol=1e-10)


def test_draws_have_the_smoother_s_moments():
    """1500 draws of 30 values; means within 4.5 standard errors (false alarm 2e-4), variances within 17%, also 4.5."""
    terms, (x, times, y, variance) = TERMS["sum"], problem(3)
    fields, dts = [term.field(x) for term in terms], np.diff(times, prepend=times[0])
    data = StationData(dts, y, variance, np.eye(len(x)), np.zeros((*y.shape, 0)))
    smoothed = jax.jit(lambda: smooth_latent(filter_pass(fields, data, np.zeros(0))[0]))()
    keys = jax.random.split(jax.random.key(0), 1500)
    with jax.debug_key_reuse(False):  # it takes the keys of a scan under vmap for used
        draws = np.asarray(jax.jit(jax.vmap(lambda key: draw_delayed(key, fields, data, np.zeros(0))))(keys))
    sd = np.sqrt(np.asarray(jax.vmap(jnp.diagonal)(smoothed.cov)))
    assert np.max(np.abs(draws.mean(0) - smoothed.mean) / sd) < 4.5 / np.sqrt(1500)
    np.testing.assert_allclose(draws.var(0) / sd**2, 1.0, atol=0.17)


def test_no_slowness_is_separable():
    """The usual Kalman filter of a separable kernel, in matrices."""
    x, times, y, variance = problem(4)
    term = Term(2, 1.5, 2.0, 1.0, [0.0, 0.0])
    field, m = term.field(x), len(x)
    h, mean, cov = np.kron(np.eye(2)[:1], np.eye(m)), np.zeros(2 * m), np.kron(field.stationary, field.space)
    p, last, expected = cov, times[0], 0.0
    for k, time in enumerate(times):
        a = np.kron(field.transition(time - last), np.eye(m))
        mean, cov = a @ mean, a @ cov @ a.T + p - a @ p @ a.T
        seen = ~np.isnan(y[k])
        rows, v = h[seen], y[k, seen] - h[seen] @ mean
        s = rows @ cov @ rows.T + np.diag(variance[k, seen])
        gain = cov @ rows.T @ np.linalg.inv(s)
        expected += -0.5 * (v @ np.linalg.solve(s, v) + np.linalg.slogdet(2 * np.pi * s)[1])
        mean, cov, last = mean + gain @ v, cov - gain @ rows @ cov, time
    _, state, _, log_prob = run([term], x, times, y, variance)
    np.testing.assert_allclose(log_prob, expected, atol=1e-12)
    np.testing.assert_allclose(state.mean, mean, atol=1e-12)
    np.testing.assert_allclose(state.cov, cov, atol=1e-12)


def test_downstream_lags_behind():
    """With slowness 1 along x, what is high at x = 0 now is high at x = 1 one unit of time later, not earlier."""
    term = Term(2, 0.5, 50.0, 1.0, [1.0])
    x, times = np.array([[0.0], [1.0]]), np.array([0.0, 1.0])
    y = np.array([[3.0, np.nan], [np.nan, np.nan]])
    mean = np.asarray(run([term], x, times, y, np.full((2, 2), 0.01))[2][0])
    assert mean[1] > 2.5 > 1.0 > abs(mean[0])


def test_origin_of_space_is_irrelevant():
    x, times, y, variance = problem(5)
    here = run(TERMS["sum"], x, times, y, variance)
    there = run(TERMS["sum"], x + np.array([30.0, -20.0]), times, y, variance)
    np.testing.assert_allclose(here[3], there[3], atol=1e-10)
    np.testing.assert_allclose(here[1].mean, there[1].mean, atol=1e-10)


def test_padding_changes_nothing():
    """Stations that are padding widen no spread of delays, wherever they lie."""
    x = np.array([[1.0], [2.0], [1e6]])
    np.testing.assert_allclose(delay.station_delays(np.array([0.5]), x, np.array([True, True, False])), [0.5, 1.0, 0.5])


def test_too_soon_is_refused():
    with pytest.raises(DataError, match=r"dt = 0.1 is shorter than the spread of delays, 0.5"):
        delay.check_interval(0.1, np.array([0.0, 0.0]), np.array([0.2, 0.5]))
