"""Filter, smoother and EP over a history, against matrices written out and an EP in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student_t

from seqgp.statespace.ep import ep, ep_refine
from seqgp.statespace.site_filter import GaussianSites, site_marginals
from seqgp.statespace.tilted import Normal, remove_site
from statespace.problems import counts, dense, history_of, poisson, poisson_numpy, problem


def zero_sites(operator):
    return GaussianSites(jnp.zeros(operator.offset.shape), jnp.zeros(operator.offset.shape))


def numpy_marginals(mean, cov, tau, nu):
    """Of N(mean, cov) times sites, and the log of their integral."""
    precision = np.linalg.inv(cov)
    post = np.linalg.inv(precision + np.diag(tau))
    m = post @ (precision @ mean + nu)
    log_z = 0.5 * (np.linalg.slogdet(post)[1] - np.linalg.slogdet(cov)[1])
    return m, np.diag(post), log_z + 0.5 * (m @ np.linalg.solve(post, m) - mean @ precision @ mean)


@pytest.mark.parametrize("index", [True, False])
def test_filter_and_smoother_equal_dense_algebra(index):
    prior, operator = problem(6, 3, index=index)
    rng = np.random.default_rng(3)
    tau = np.where(operator.seen, rng.gamma(1.0, 1.0, operator.seen.shape), 0.0)
    tau[2, 1] = 0.0  # a site that moves the mean alone
    nu = np.where(operator.seen, rng.normal(size=tau.shape), 0.0)
    sites = GaussianSites(jnp.asarray(tau), jnp.asarray(nu))
    found = jax.jit(site_marginals)(prior, operator, sites)
    mean, cov = dense(prior, operator)
    cov = cov + 1e-9 * np.eye(len(cov))  # which NumPy needs to invert it
    m, v, log_z = numpy_marginals(mean, cov, tau.ravel(), nu.ravel())
    np.testing.assert_allclose(found.mean.ravel(), m, atol=1e-7)
    np.testing.assert_allclose(found.variance.ravel(), v, atol=1e-7)
    assert float(found.log_normaliser) == pytest.approx(log_z, abs=1e-7)


GRID = np.linspace(-1.0, 1.0, 40001)


def numpy_tilted(log_p, m, v):
    """Log mass, mean and variance of N(m, v) times a likelihood, by a fine trapezoid rule."""
    f = m + 12 * np.sqrt(v) * GRID
    logs = log_p(f) + norm.logpdf(f, m, np.sqrt(v))
    w = np.exp(logs - logs.max()) * (f[1] - f[0])
    total = w.sum()
    mean = (w * f).sum() / total
    return np.log(total) + logs.max(), mean, (w * (f - mean) ** 2).sum() / total


def numpy_ep(mean, cov, seen, log_ps, sweeps=60):
    """Sequential EP, one datum after the other, on the covariance of all data."""
    where = np.flatnonzero(seen)
    mean, cov = mean[where], cov[np.ix_(where, where)]
    tau, nu = np.zeros(len(where)), np.zeros(len(where))
    post, m = cov.copy(), mean.copy()
    for _ in range(sweeps):
        before = tau.copy()
        for i in range(len(where)):
            v_c = 1 / (1 / post[i, i] - tau[i])
            m_c = v_c * (m[i] / post[i, i] - nu[i])
            _, mh, vh = numpy_tilted(log_ps[where[i]], m_c, v_c)
            tau[i] = max(1 / vh - 1 / v_c, 0.0)
            nu[i] = mh * tau[i] + (mh - m_c) / v_c
            b = np.eye(len(where)) + np.sqrt(tau)[:, None] * cov * np.sqrt(tau)[None, :]
            half = np.linalg.solve(np.linalg.cholesky(b), np.sqrt(tau)[:, None] * cov)
            post = cov - half.T @ half
            m = mean + post @ (nu - tau * mean)
        if np.abs(tau - before).max() < 1e-13:
            break
    log_z = -0.5 * np.linalg.slogdet(b)[1] + 0.5 * (nu - tau * mean) @ post @ (nu - tau * mean)
    log_z += np.sum(nu * mean - 0.5 * tau * mean**2)
    evidence = log_z
    for i in range(len(where)):
        v_c = 1 / (1 / post[i, i] - tau[i])
        m_c = v_c * (m[i] / post[i, i] - nu[i])
        mass = numpy_tilted(log_ps[where[i]], m_c, v_c)[0]
        evidence += mass - numpy_tilted(lambda f, i=i: -0.5 * tau[i] * f**2 + nu[i] * f, m_c, v_c)[0]
    return where, m, np.diag(post), tau, nu, log_z, evidence


def test_fixed_point_is_that_of_another_ep():
    prior, operator = problem(6, 3)
    y = counts(prior, operator)
    run = jax.jit(lambda h, s: ep(h, poisson, s, tolerance=1e-12, iterations=200))
    state, info = run(history_of(prior, operator, y), zero_sites(operator))
    assert bool(info.converged)
    log_ps = [lambda f, v=v: poisson_numpy(f, v) for v in y.ravel()]
    mean, cov = dense(prior, operator)
    where, m, v, tau, nu, log_z, evidence = numpy_ep(mean, cov, operator.seen.ravel(), log_ps)
    for found, true in [
        (state.marginal.mean, m),
        (state.marginal.variance, v),
        (state.sites.tau, tau),
        (state.sites.nu, nu),
    ]:
        np.testing.assert_allclose(np.asarray(found).ravel()[where], true, atol=1e-8)
    assert float(state.log_normaliser) == pytest.approx(log_z, abs=1e-8)
    assert float(state.log_evidence) == pytest.approx(evidence, abs=1e-8)


LIKELIHOODS = {
    "student": (
        lambda f, y: -2.0 * jnp.log1p(((y - f) / 0.3) ** 2 / 3.0) - jnp.log(0.3),
        lambda f, y: student_t.logpdf((y - f) / 0.3, 3) - np.log(0.3) - student_t.logpdf(0, 3),
    ),
    "censored": (lambda f, y: jax.scipy.stats.norm.logcdf((y - f) / 0.05), lambda f, y: norm.logcdf((y - f) / 0.05)),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_fixed_point_of_likelihoods_that_are_not_bell_shaped(name):
    log_p, in_numpy = LIKELIHOODS[name]
    prior, operator = problem(5, 2, seed=2)
    y = np.random.default_rng(0).normal(size=operator.offset.shape)
    run = jax.jit(lambda h, s: ep(h, log_p, s, bell_shaped=False, tolerance=1e-9, iterations=300))
    state, info = run(history_of(prior, operator, y), zero_sites(operator))
    assert bool(info.converged)
    mean, cov = dense(prior, operator)
    log_ps = [lambda f, v=v: in_numpy(f, v) for v in y.ravel()]
    where, m, v, *_, evidence = numpy_ep(mean, cov, operator.seen.ravel(), log_ps, sweeps=100)
    np.testing.assert_allclose(np.asarray(state.marginal.mean).ravel()[where], m, atol=1e-4)
    np.testing.assert_allclose(np.asarray(state.marginal.variance).ravel()[where], v, atol=1e-4)
    assert float(state.log_evidence) == pytest.approx(evidence, abs=2e-4)


def test_far_data_and_bad_starts_are_survived():
    """Counts of thousands where none was predicted, from sites of nothing and from senseless ones."""
    prior, operator = problem(4, 2, missing=0.0)
    y = np.full(operator.offset.shape, 5000.0)
    run = jax.jit(lambda h, s: ep(h, poisson, s, iterations=100))
    first, info = run(history_of(prior, operator, y), zero_sites(operator))
    assert bool(info.converged)
    start = GaussianSites(jnp.full(y.shape, 50.0), jnp.full(y.shape, -200.0))
    second, again = run(history_of(prior, operator, y), start)
    assert bool(again.converged)
    np.testing.assert_allclose(first.marginal.mean, second.marginal.mean, atol=1e-4)


def test_refinement_from_shared_sites_over_values_of_the_parameters():
    """vmap over z; two iterations from the sites of a neighbour leave little to do, and what is left is told."""
    y = None
    priors = []
    for lengthscale in (0.9, 1.0, 1.1):
        prior, operator = problem(6, 3, lengthscale=lengthscale)
        y = counts(prior, operator) if y is None else y
        priors.append(prior)
    shared = ep(history_of(priors[1], operator, y), poisson, zero_sites(operator))[0].sites
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *priors)
    refine = jax.jit(jax.vmap(lambda p: ep_refine(history_of(p, operator, y), poisson, shared)))
    _, residual = refine(stacked)
    assert residual.shape == (3,)
    assert np.all(residual < 0.05)
    assert residual[1] < 1e-5


@pytest.mark.parametrize("ratio", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_sites_of_another_likelihood_are_refined(name, ratio):
    """Three iterations from sites for a noise five times larger or smaller come near the fixed point."""
    log_p, _ = LIKELIHOODS[name]
    prior, operator = problem(5, 2, seed=2)
    y = np.random.default_rng(0).normal(size=operator.offset.shape)
    wide = {"student": 0.3, "censored": 0.05}[name]

    def own(f, y, noise):  # with another noise in place of that which it was written for
        return log_p(y + (f - y) * wide / noise, y) - jnp.log(noise / wide)

    def fixed(noise):
        return ep(
            history_of(prior, operator, y), lambda f, y: own(f, y, noise), zero_sites(operator),
            bell_shaped=False, tolerance=1e-6, iterations=300,
        )  # fmt: skip

    noise = 0.4
    wanted, info = jax.jit(fixed)(noise)
    assert bool(info.converged)
    shared = jax.jit(fixed)(noise * ratio)[0].sites
    refine = jax.jit(
        lambda s: ep_refine(
            history_of(prior, operator, y), lambda f, y: own(f, y, noise), s, known=False, iterations=3
        )[0]
    )
    found = jax.jit(site_marginals)(prior, operator, refine(shared))
    sd = np.sqrt(wanted.marginal.variance)
    seen = operator.seen
    assert np.abs((found.mean - wanted.marginal.mean) / sd)[seen].max() < 0.25
    assert np.abs(np.log(np.sqrt(found.variance) / sd))[seen].max() < 0.25


def test_a_cavity_beside_a_very_precise_site_goes_with_the_marginal():
    """Its precision is lost in rounding; times the site it still has the mean of the marginal, to a thousandth."""
    noise, m = 1.5e-5, -4.236
    prior = np.linspace(1.0, 20.0, 200)
    tau, nu = np.full(200, noise**-2), np.full(200, m * noise**-2)
    variance = prior - prior * (prior / (prior + noise**2))  # without digits, as a filter has it
    mean = m * prior / (prior + noise**2)
    cavity = remove_site(Normal(jnp.asarray(mean), jnp.asarray(np.maximum(variance, 1e-300))), tau, nu)
    again = (cavity.mean / cavity.variance + nu) / (1 / cavity.variance + tau)
    assert np.all(1 / cavity.variance > 0)
    np.testing.assert_allclose(again, mean, rtol=0, atol=1e-3 * noise)
