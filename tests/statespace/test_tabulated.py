"""Black boxes by values: tabulated with a measured error, and their tilted distributions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from seqgp.statespace.ep import ObservedHistory, ep
from seqgp.statespace.paths import smc_paths
from seqgp.statespace.quadrature import Gaussians
from seqgp.statespace.site_filter import GaussianSites
from seqgp.statespace.tabulated import Table, interpolate, tabulate
from seqgp.statespace.value_quadrature import has_derivatives, near_mode_by_values, tabulated_by_values
from statespace.problems import counts, history_of, poisson, poisson_numpy, problem


def called(f, y):
    return jax.pure_callback(
        lambda f, y: poisson_numpy(np.asarray(f), np.asarray(y)),
        jax.ShapeDtypeStruct(f.shape, f.dtype), f, y, vmap_method="broadcast_all",
    )  # fmt: skip


def test_ep_and_paths_are_the_same_by_values():
    """The same counts with the likelihood in JAX, called back, and tabulated."""
    prior, operator = problem(5, 2)
    y = counts(prior, operator)
    rows = [tabulate(lambda f, row=row: poisson_numpy(f, row), np.full(2, -12.0), np.full(2, 12.0)) for row in y]
    table = Table(*(np.stack(leaves) for leaves in zip(*rows)))
    history, boxes = history_of(prior, operator, y), []
    boxes = [(history, poisson), (history, called), (ObservedHistory(prior, operator, table), interpolate)]
    zeros = GaussianSites(jnp.zeros(history.data.shape), jnp.zeros(history.data.shape))
    found = []
    for own, log_prob in boxes:
        state, info = jax.jit(lambda own, log_prob=log_prob: ep(own, log_prob, zeros, tolerance=1e-9))(own)
        assert bool(info.converged)
        paths = smc_paths(jax.random.key(0), own, log_prob, state.sites)
        found.append((state.log_evidence, paths.log_evidence))
    np.testing.assert_allclose(found[1], found[0], atol=1e-9)
    np.testing.assert_allclose(found[2], found[0], atol=1e-4)


Y = np.array([0.0, 3.0])
LOGS = {
    "counts": (lambda f: poisson_numpy(f, Y), 12.0),
    "a wide range": (lambda f: poisson_numpy(f, Y), 150.0),
    "heavy tails": (lambda f: stats.t.logpdf((Y - f) / 0.1, 3), 50.0),
    "far narrower than the range": (lambda f: stats.norm.logpdf(f, 0.37, 1e-3), 50.0),
    "a steep side": (lambda f: stats.norm.logcdf(20 * f), 50.0),
}


@pytest.mark.parametrize("name", LOGS)
def test_error_is_that_told(name):
    """At random places, at the peak and all over: relative to the drop, and of the likelihood itself."""
    log_prob, reach = LOGS[name]
    table = tabulate(log_prob, np.full(2, -reach), np.full(2, reach))
    rng = np.random.default_rng(0)
    best = np.take_along_axis(table.nodes, np.argmax(table.values, axis=1)[:, None], axis=1)[:, 0]
    f = np.concatenate([rng.uniform(-reach, reach, (4000, 2)), best + 0.3 * rng.standard_normal((4000, 2))])
    f = np.clip(f, -reach, reach)
    true = np.stack([log_prob(row) for row in f])
    found = np.asarray(jax.vmap(lambda one: interpolate(one, table))(jnp.asarray(f)))
    peak = np.maximum(true.max(axis=0), table.values.max(axis=1))
    drop = peak - true
    error = np.abs(found - true) / (1 + drop) / (1 + drop / 100)
    assert np.all(error.max(axis=0) <= 2 * table.error + 1e-12)
    assert np.all(table.error < 1e-4)
    assert np.abs(np.exp(found - peak) - np.exp(-drop)).max() < 1e-4


def test_the_support_ends_where_it_does():
    def log_prob(f):
        with np.errstate(invalid="ignore", divide="ignore"):
            return 2 * np.log(f - 0.7123) - f

    table = tabulate(log_prob, np.array([-50.0]), np.array([50.0]))
    f = np.linspace(-1.0, 5.0, 3001)
    density = np.exp(np.asarray(jax.vmap(lambda one: interpolate(one, table))(jnp.asarray(f)[:, None])))[:, 0]
    truth = np.where(f > 0.7123, np.maximum(f - 0.7123, 0) ** 2 * np.exp(-f), 0.0)
    assert np.abs(density - truth).max() < 1e-4 * truth.max()


def test_beyond_the_table_it_is_linear():
    table = tabulate(lambda f: -0.5 * f**2, np.array([-2.0]), np.array([2.0]))
    assert float(interpolate(jnp.asarray([5.0]), table)[0]) == pytest.approx(-2.0 - 2.0 * 3.0, abs=1e-6)
    with pytest.raises(ValueError, match="low < high"):
        tabulate(lambda f: f, np.ones(1), np.ones(1))


def test_derivatives_are_looked_for_and_not_needed():
    """Moments of a cavity times each likelihood from values alone, against a fine sum; also far from the cavity."""
    y = jnp.asarray([2.0, 0.0, 400.0])
    log_prob = lambda f: called(f, y)  # noqa: E731
    assert not has_derivatives(log_prob, y)
    assert has_derivatives(lambda f: poisson(f, y), y)
    cavity = Gaussians(jnp.asarray([0.3, -1.0, 0.0]), jnp.asarray([0.5, 4.0, 0.3]))
    near = jax.jit(lambda: near_mode_by_values(log_prob, cavity))()
    log_mass, moments = jax.jit(lambda: tabulated_by_values(log_prob, cavity).times(cavity))()
    for i in range(3):
        f = np.linspace(-25, 12, 400_001)
        logs = poisson_numpy(f, float(y[i])) + stats.norm.logpdf(
            f, float(cavity.mean[i]), float(cavity.variance[i]) ** 0.5
        )
        mass = np.exp(logs - logs.max())
        mean = mass @ f / mass.sum()
        variance = mass @ (f - mean) ** 2 / mass.sum()
        assert float(near.mean[i]) == pytest.approx(f[np.argmax(logs)], abs=1e-3)
        assert float(log_mass[i]) == pytest.approx(np.log(mass.sum() * (f[1] - f[0])) + logs.max(), abs=1e-5)
        assert float(moments.mean[i]) == pytest.approx(mean, abs=1e-5)
        assert float(moments.variance[i]) == pytest.approx(variance, rel=1e-4)
