"""Black boxes by values: called back, or tabulated with a bounded error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqgp.statespace.ep import ObservedHistory, ep
from seqgp.statespace.paths import smc_paths
from seqgp.statespace.site_filter import GaussianSites
from seqgp.statespace.tabulated import callback_log_prob, covered, interpolate, tabulate
from statespace.problems import counts, history_of, poisson, poisson_numpy, problem


@pytest.fixture(scope="module")
def three():
    """The same counts with the likelihood in JAX, called back, and tabulated."""
    prior, operator = problem(5, 2)
    y = counts(prior, operator)
    table = tabulate(lambda f: poisson_numpy(f, y), np.full(y.shape, -12.0), np.full(y.shape, 12.0))
    history = history_of(prior, operator, y)
    return history, [
        (history, poisson),
        (history, callback_log_prob(poisson_numpy)),
        (ObservedHistory(prior, operator, table), interpolate),
    ]


def test_ep_and_paths_are_the_same_by_values(three):
    history, boxes = three
    zeros = GaussianSites(jnp.zeros(history.data.shape), jnp.zeros(history.data.shape))
    found = []
    for own, log_prob in boxes:
        state, info = jax.jit(lambda own, log_prob=log_prob: ep(own, log_prob, zeros, tolerance=1e-9))(own)
        assert bool(info.converged)
        paths = smc_paths(jax.random.key(0), own, log_prob, state.sites)
        found.append((state.log_evidence, paths.log_evidence))
    np.testing.assert_allclose(found[1], found[0], atol=1e-9)
    np.testing.assert_allclose(found[2], found[0], atol=1e-4)


def test_error_is_bounded_between_nodes():
    y = np.array([0.0, 3.0])
    table = tabulate(lambda f: poisson_numpy(f, y), np.full(2, -6.0), np.full(2, 6.0), tolerance=1e-7)
    f = np.random.default_rng(0).uniform(-6, 6, (5000, 2))
    true = poisson_numpy(f, y)
    error = np.abs(jax.vmap(lambda one: interpolate(one, table))(jnp.asarray(f)) - true)
    drop = table_peak(y) - true
    assert np.all(error <= 1e-7 * (1 + drop))
    assert np.all(table.error <= 1e-7)


def table_peak(y):
    grid = np.linspace(-6, 6, 2001)[:, None]
    return poisson_numpy(grid, y[None, :]).max(axis=0)


def test_beyond_the_table_it_is_linear_and_told():
    table = tabulate(lambda f: -0.5 * f**2, np.array([-2.0]), np.array([2.0]))
    assert float(interpolate(jnp.asarray([5.0]), table)[0]) == pytest.approx(-2.0 - 2.0 * 3.0, abs=1e-6)
    np.testing.assert_array_equal(covered(jnp.asarray([1.9]), table), [True])
    np.testing.assert_array_equal(covered(jnp.asarray([2.1]), table), [False])


def test_what_cannot_be_tabulated_is_named():
    with pytest.raises(ValueError, match=r"datum \(1,\) is -inf at f = -1"):
        tabulate(lambda f: np.array([0.0, -np.inf if f[1] < 0 else 0.0]), -np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match=r"datum \(0,\) is known to"):
        tabulate(lambda f: np.abs(f - 0.1234), -np.ones(1), np.ones(1), tolerance=1e-8)
    with pytest.raises(ValueError, match="low < high"):
        tabulate(lambda f: f, np.ones(1), np.ones(1))
