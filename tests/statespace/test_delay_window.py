"""Snapshots that come sooner than delays spread: the windowed filter is the dense kernel's posterior."""

import jax
import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.stats import multivariate_normal

from dense_delay import Term, posterior, total
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
    """The Kalman filter of the transitions, in matrices, with a constant mean."""
    fields, m = [term.field(x) for term in terms], len(x)
    first = sum(term.order for term in terms) * m
    spread = max(float(np.ptp(field.delay)) for field in fields)
    length = 1 + max(int(np.sum((times < t) & (times > t - spread))) for t in times)
    step_of = jax.jit(lambda age, dt: window.window_step(fields, age, dt, 1))
    n = first + 1 + len(fields) * length * m
    mean, cov, age = np.zeros(n), np.zeros((n, n)), np.full(length, np.inf)
    blocks = [*(np.kron(field.stationary, field.space) for field in fields), np.eye(1)]
    cov[: first + 1, : first + 1] = block_diag(*blocks)
    log_prob, last = 0.0, times[0]
    for k, time in enumerate(times):
        step = jax.tree.map(np.asarray, step_of(age, time - last))
        mean, cov = step.move @ mean, step.move @ cov @ step.move.T + step.noise
        age, last, seen = np.append(0.0, age[:-1] + time - last), time, ~np.isnan(y[k])
        rows = step.rows.copy()
        rows[:, first] = 1.0
        h, innovation = rows[seen], y[k, seen] - rows[seen] @ mean
        s = h @ cov @ h.T + np.diag(variance[k, seen])
        gain = np.linalg.solve(s, h @ cov).T
        log_prob += multivariate_normal(np.zeros(len(s)), s).logpdf(innovation) if seen.any() else 0.0
        mean, cov = mean + gain @ innovation, cov - gain @ h @ cov
    return step.rows @ mean, step.rows @ cov @ step.rows.T, log_prob


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


def test_padding_changes_nothing():
    """Stations that are padding widen no spread of delays, wherever they lie."""
    x = np.array([[1.0], [2.0], [1e6]])
    mask = np.array([True, True, False])
    np.testing.assert_allclose(window.station_delays(np.array([0.5]), x, mask), [0.5, 1.0, 0.5])
