"""Snapshots that come sooner than delays spread: the windowed filter is the dense kernel's posterior."""

import jax
import numpy as np
import pytest

from dense_delay import Term, delay_functions, posterior, total
from seqgp.base.errors import DataError
from seqgp.statespace import delay_window as window

TERMS = {
    "Matern12": [Term(1, 1.5, 2.0, 1.3, [0.9, -0.5])],
    "Matern32": [Term(2, 1.5, 2.0, 0.7, [0.7, 0.8])],
    "Matern52": [Term(3, 2.0, 1.0, 1.0, [-0.9, 0.6])],
    "sum": [Term(2, 1.5, 2.0, 1.0, [0.7, -0.4]), Term(1, 0.5, 0.6, 0.4, [-0.5, 0.9]), Term(2, 9.0, 3.0, 1.5, [0, 0])],
}


def problem(gap, seed=0, m=4, t=7):
    rng = np.random.default_rng(seed)
    x, times = rng.uniform(0, 2, (m, 2)), np.cumsum(gap * rng.uniform(0.5, 1.5, t))
    y = rng.normal(size=(t, m))
    y[rng.uniform(size=y.shape) < 0.25] = np.nan
    return x, times, y, rng.uniform(0.05, 0.3, (t, m))


def windowed(terms, x, times, y, variance):
    fields = [term.field(x) for term in terms]
    state = window.start_window(fields, np.ones(1), window.window_length(times, fields))
    first = sum(term.order for term in terms) * len(x)

    @jax.jit
    def advance(state, dt, y, variance):
        step = window.window_step(fields, state.age, dt, 1)
        rows = step.rows.at[:, first].set(1.0)  # a constant mean
        state, log_prob = window.window_update(window.window_predict(state, step, dt), rows, y, variance)
        return state, log_prob, step.rows @ state.mean, step.rows @ state.cov @ step.rows.T

    log_prob, last = 0.0, times[0]
    for k, time in enumerate(times):
        window.check_window(state.age, time - last, fields)
        state, more, mean, cov = advance(state, time - last, y[k], variance[k])
        log_prob, last = log_prob + more, time
    return mean, cov, log_prob


@pytest.mark.parametrize("name, gap", [*((name, 0.25) for name in TERMS), ("sum", 1.0)])
def test_window_is_dense_posterior(name, gap):
    terms, (x, times, y, variance) = TERMS[name], problem(gap)
    mean, cov, log_prob = windowed(terms, x, times, y, variance)
    seen = ~np.isnan(y)
    t, operator = np.repeat(times, len(x))[seen.ravel()], np.tile(x, (len(times), 1))[seen.ravel()]
    now = np.full(len(x), times[-1])
    found = posterior(
        total(terms, t, operator, t, operator) + 1.0,
        np.diag(variance[seen]),
        y[seen],
        total(terms, now, x, t, operator),
        total(terms, now, x, now, x),
    )
    np.testing.assert_allclose(log_prob, found[2], atol=1e-10)
    np.testing.assert_allclose(mean, found[0], atol=1e-10)
    np.testing.assert_allclose(cov, found[1], atol=1e-10)


def test_both_forms_agree():
    """Where delays spread over less than ``dt`` both take the snapshots."""
    terms = [Term(2, 1.5, 2.0, 1.0, [0.2, -0.1]), Term(1, 0.5, 0.6, 0.4, [-0.1, 0.2])]
    x, times, y, variance = problem(3.0, seed=1)
    mean, cov, log_prob = windowed(terms, x, times, y, variance)
    start, _, step = delay_functions(tuple(terms))
    operator = [term.arrays(x) for term in terms]
    state, last, expected = start(operator, np.ones(1)), times[0], 0.0
    for k, time in enumerate(times):
        state, (latent, latent_cov, _), more = step(state, operator, time - last, y[k], variance[k])
        expected, last = expected + more, time
    np.testing.assert_allclose(log_prob, expected, atol=1e-10)
    np.testing.assert_allclose(mean, latent, atol=1e-10)
    np.testing.assert_allclose(cov, latent_cov, atol=1e-10)


def test_a_window_too_short_is_refused():
    field = Term(1, 1.0, 1.0, 1.0, [1.0]).field(np.array([[0.0], [2.0]]))
    with pytest.raises(DataError, match=r"the window of 2 snapshots is too short: the oldest is 1.5 old"):
        window.check_window(np.array([0.0, 1.0]), 0.5, [field])
