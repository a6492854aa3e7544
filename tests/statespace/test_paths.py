"""The correction of EP by paths: unbiased, its draws and its noise."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqgp.statespace.paths as paths_module
from seqgp.statespace.ep import ep, ep_refine
from seqgp.statespace.gauss_markov import directions, noise_of
from seqgp.statespace.paths import segments_for, smc_paths, systematic_indices, trace_paths
from seqgp.statespace.site_filter import GaussianSites, site_marginals
from statespace.problems import counts, dense, history_of, poisson, poisson_numpy, problem


def gauss_hermite_evidence(prior, operator, y, log_p, size):
    """``log p(y)`` of a few data by a product rule on the prior of the latent there."""
    mean, cov = dense(prior, operator)
    root = np.linalg.cholesky(cov + 1e-12 * np.eye(len(cov)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(size)
    weights = weights / weights.sum()
    grid = np.stack(np.meshgrid(*[nodes] * len(mean), indexing="ij"), -1).reshape(-1, len(mean))
    mass = np.prod(np.stack(np.meshgrid(*[weights] * len(mean), indexing="ij"), -1).reshape(-1, len(mean)), axis=1)
    f = mean + grid @ root.T
    return np.log(np.sum(mass * np.exp(np.sum(log_p(f, y.ravel()[None, :]), axis=1))))


@jax.jit
def ep_sites(history):
    zeros = GaussianSites(jnp.zeros(history.data.shape), jnp.zeros(history.data.shape))
    return ep(history, poisson, zeros)[0].sites


def estimate(key, history, sites, paths):
    return smc_paths(key, history, poisson, sites, paths=paths).log_evidence


@functools.partial(jax.jit, static_argnums=3)
def all_estimates(keys, history, sites, paths):
    return jax.vmap(lambda key: estimate(key, history, sites, paths))(keys)


def estimates(prior, operator, y, sites, seeds=2000, paths=8, run=all_estimates):
    return np.asarray(run(jax.random.split(jax.random.key(7), seeds), history_of(prior, operator, y), sites, paths))


def z_score(log_estimates, truth):
    """Of the mean of the estimates of ``p(y)`` over the truth."""
    ratio = np.exp(log_estimates - truth)
    return (ratio.mean() - 1) / (ratio.std() / np.sqrt(len(ratio)))


@pytest.fixture(scope="module")
def four():
    """Four counts at one station, and their evidence by quadrature."""
    prior, operator = problem(4, 1, q=0, missing=0.0, lengthscale=0.8)
    y = counts(prior, operator, seed=5)
    truth = gauss_hermite_evidence(prior, operator, y, poisson_numpy, 24)
    sites = ep_sites(history_of(prior, operator, y))
    return prior, operator, y, truth, sites


def test_unbiased_with_sites_of_ep(four):
    """Two-sided, false alarms 1 in 15000."""
    prior, operator, y, truth, sites = four
    found = estimates(prior, operator, y, sites)
    assert abs(z_score(found, truth)) < 4
    assert found.std() < 0.1


@pytest.mark.parametrize("tau, nu", [(0.0, 0.0), (0.5, 1.0)])
def test_unbiased_with_any_sites_and_resampling(four, tau, nu):
    prior, operator, y, truth, _ = four
    sites = GaussianSites(jnp.full(y.shape, tau), jnp.full(y.shape, nu))
    found = estimates(prior, operator, y, sites)
    assert abs(z_score(found, truth)) < 4


def test_mutants_are_caught(four, monkeypatch):
    """The site taken for the likelihood; and weights that resampling does not take into the estimate."""
    prior, operator, y, truth, sites = four
    normaliser = float(site_marginals(prior, operator, sites).log_normaliser)
    assert abs(np.exp(normaliser - truth) - 1) > 0.02  # 2000 estimates of sd below .1 tell a hundredth
    zeros = GaussianSites(jnp.zeros(y.shape), jnp.zeros(y.shape))
    monkeypatch.setattr(paths_module, "systematic_indices", lambda uniform, weights: jnp.arange(weights.shape[0]))
    anew = jax.jit(lambda *arguments: all_estimates.__wrapped__(*arguments), static_argnums=3)
    found = estimates(prior, operator, y, zeros, run=anew)
    assert abs(z_score(found, truth)) > 4


def bootstrap_filter(rng, prior, operator, y, particles):
    """The particle filter of Gordon et al. (1993) in NumPy, for one station."""
    s = rng.multivariate_normal(np.zeros(prior.cov.shape[0]), np.asarray(prior.cov), particles)
    total = 0.0
    for t in range(len(y)):
        f = s @ np.asarray(operator.h[t]) + operator.offset[t, 0]
        log_w = poisson_numpy(f, y[t, 0]) if operator.seen[t, 0] else np.zeros(particles)
        w = np.exp(log_w - log_w.max())
        total += np.log(w.mean()) + log_w.max()
        s = s[rng.choice(particles, particles, p=w / w.sum())]
        q = np.asarray(prior.noise[0][t]) * float(prior.space[0][0, 0])
        noise = rng.multivariate_normal(np.zeros(len(q)), q, particles)
        s = s @ np.asarray(prior.move[t]).T + noise
    return total


def test_equals_a_bootstrap_filter_with_very_many_particles():
    prior, operator = problem(25, 1, q=0, lengthscale=1.5)
    y = counts(prior, operator, seed=3)
    rng = np.random.default_rng(0)
    reference = np.array([bootstrap_filter(rng, prior, operator, y, 20_000) for _ in range(6)])
    sites = ep_sites(history_of(prior, operator, y))
    found = estimates(prior, operator, y, sites, seeds=200, paths=16)
    error = np.hypot(reference.std() / np.sqrt(6), found.std() / np.sqrt(200))
    assert abs(np.log(np.exp(found - found.mean()).mean()) + found.mean() - reference.mean()) < 4 * error
    assert found.std() < 0.25
    assert error < 0.03


def test_segments_and_replays_change_nothing():
    prior, operator = problem(7, 2)
    y = counts(prior, operator)
    history = history_of(prior, operator, y)
    sites = GaussianSites(jnp.full(y.shape, 0.5), jnp.full(y.shape, 0.2))
    run = jax.jit(smc_paths, static_argnames=("log_prob", "segments", "trace"))
    whole = run(jax.random.key(0), history, poisson, sites, trace=True)
    parts = run(jax.random.key(0), history, poisson, sites, segments=3, trace=True)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    paths = trace_paths(whole.states, whole.ancestors)
    np.testing.assert_array_equal(paths[-1], whole.last_states)
    assert int(whole.resampled) > 0
    assert segments_for(10, 10) == 1
    assert segments_for(10_000, 100) == 100


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_noise_has_the_covariance_of_the_model(order):
    """The map from white numbers, applied to each of them; small and large matrices have their own ways."""
    prior, _ = problem(4, 3, order=min(order, 3))
    if order == 6:
        rng = np.random.default_rng(1)
        half = rng.standard_normal((4, 6, 6))
        prior = prior._replace(noise=(jnp.asarray(half @ half.transpose(0, 2, 1)),), move=jnp.zeros((4, 6, 6)))
    prior = prior._replace(floor=jnp.full(4, 1e-3).at[3].set(0.0))
    n = order * 3 + 1
    for t in range(3):
        now = prior._replace(move=prior.move[t], noise=(prior.noise[0][t],), floor=prior.floor[t])
        root = np.asarray(noise_of(now, directions(now), jnp.eye(n)))
        wanted = 1e-3 * np.eye(n)
        wanted[:-1, :-1] += np.kron(prior.noise[0][t], prior.space[0])
        np.testing.assert_allclose(root.T @ root, wanted, atol=1e-12 * np.abs(wanted).max())
    still = prior._replace(move=prior.move[3], noise=(jnp.zeros((order, order)),), floor=prior.floor[3])
    np.testing.assert_array_equal(noise_of(still, directions(still), jnp.eye(n)), 0.0)


@pytest.mark.parametrize("segments", [1, 3])
def test_times_that_are_padding_change_nothing(segments):
    """Of sites, paths, evidence and last states; what stands in the padding may be anything."""
    whole, operator = problem(9, 2)
    y = counts(whole, operator)
    length, sites = 5, GaussianSites(jnp.full(y.shape, 0.5), jnp.full(y.shape, 0.2))

    def first(tree):
        return jax.tree.map(lambda leaf: leaf[:length], tree)

    short = whole._replace(
        move=whole.move[:length], noise=first(whole.noise), floor=whole.floor[:length].at[-1].set(0.0)
    )
    padded = whole._replace(floor=whole.floor.at[length - 1 :].set(0.0))

    def found(prior, operator, y, sites, length):
        history = history_of(prior, operator, y)
        refined, residual = ep_refine(history, poisson, sites, length=length)
        run = smc_paths(jax.random.key(0), history, poisson, refined, segments=segments, length=length)
        return first(refined), residual, run._replace(states=None, ancestors=None)

    one = jax.jit(lambda: found(short, first(operator), y[:length], first(sites), None))()
    other = jax.jit(lambda number: found(padded, operator, y, sites, number))(length)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)


def test_weighted_paths_have_the_moments_of_the_smoother():
    """A Gaussian likelihood, any other sites: moments of the latent at all times within 5 Monte Carlo errors."""

    def gaussian(f, y):
        return -0.5 * (f - y) ** 2 / 0.5

    order = 3
    prior, operator = problem(5, 2, order=order, missing=0.3)
    y = np.random.default_rng(4).normal(size=operator.offset.shape)
    exact = np.where(operator.seen, 2.0, 0.0)
    truth = site_marginals(prior, operator, GaussianSites(jnp.asarray(exact), jnp.asarray(exact * y)))
    sites = GaussianSites(jnp.asarray(0.5 * exact), jnp.asarray(0.6 * exact * y))
    history = history_of(prior, operator, y)

    def moments(key):
        result = smc_paths(key, history, gaussian, sites, paths=64, trace=True)
        paths = trace_paths(result.states, result.ancestors)
        sites_count = prior.space[0].shape[0]
        latent = paths[:, :, :sites_count] + jnp.einsum(
            "tiq,tkq->tki", operator.design, paths[:, :, order * sites_count :]
        )
        weight = jnp.exp(result.log_weights)
        mean = jnp.einsum("k,tki->ti", weight, latent)
        return result.log_evidence, mean, jnp.einsum("k,tki->ti", weight, latent**2)

    logs, mean, square = jax.jit(jax.vmap(moments))(jax.random.split(jax.random.key(1), 300))
    w = np.exp(logs - logs.max())[:, None, None]  # unbiased estimates are weighted by p̂(y)
    for found, true in [(mean, truth.mean), (square, truth.variance + truth.mean**2)]:
        average = (w * found).sum(0) / w.sum()
        error = np.sqrt((w**2 * (found - average) ** 2).sum(0)) / w.sum()
        assert np.all(np.abs(average - true) < 5 * error)
    log_z = float(truth.log_normaliser) - 0.5 * np.sum(exact * y**2)
    assert abs(z_score(np.asarray(logs), log_z)) < 4


def test_noise_is_estimated_from_one_run():
    prior, operator = problem(20, 2, lengthscale=0.7)
    y = counts(prior, operator)
    history = history_of(prior, operator, y)
    sites = ep_sites(history)
    run = jax.jit(jax.vmap(lambda key: smc_paths(key, history, poisson, sites, paths=64)))
    results = run(jax.random.split(jax.random.key(2), 120))
    ratio = np.sqrt(results.variance.mean()) / results.log_evidence.std()
    assert 0.6 < ratio < 1.6


def test_without_data_there_is_no_noise():
    """Rounding must not leave a variance below zero, of which the root is taken."""
    prior, operator = problem(3, 1, q=0)
    history = history_of(prior, operator._replace(seen=np.zeros_like(operator.seen)), np.zeros((3, 1)))
    nothing = GaussianSites(jnp.zeros((3, 1)), jnp.zeros((3, 1)))
    for count in (3, 5, 7, 10, 16):
        found = jax.jit(lambda key, k=count: smc_paths(key, history, poisson, nothing, paths=k))(jax.random.key(0))
        assert 0 <= float(found.variance) < 1e-12
        assert float(found.log_evidence) == pytest.approx(0.0, abs=1e-12)


def test_systematic_resampling_keeps_expected_counts():
    weights = jnp.asarray([0.5, 0.25, 0.2, 0.05])
    drawn = jax.vmap(lambda u: systematic_indices(u, weights))(jnp.linspace(0.0, 1.0, 2001)[:-1])
    np.testing.assert_allclose(np.bincount(np.asarray(drawn).ravel(), minlength=4) / 8000, weights, atol=1e-3)
