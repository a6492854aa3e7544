"""Noises of stations: the particles have the posterior that quadrature has, on a network of two."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp

from seqgp.statespace import station_noise as noises

NOISE, CONCENTRATION, T = 0.5, 2.0, 10


def problem():
    """Two stations that see almost the same latent; the second is four times as noisy, and joins at time 3."""
    rng = np.random.default_rng(0)
    t = np.repeat(np.arange(T), 2)
    same = np.where(np.arange(2 * T)[:, None] % 2 == np.arange(2 * T)[None, :] % 2, 1.0, 0.9)
    cov = np.exp(-np.abs(t[:, None] - t[None, :]) / 3.0) * same
    y = (np.linalg.cholesky(cov) @ rng.normal(size=2 * T)).reshape(T, 2) + np.array([0.3, 1.2]) * rng.normal(
        size=(T, 2)
    )
    y[:3, 1], y[5, 0] = np.nan, np.nan
    return jnp.asarray(cov), jnp.asarray(y)


def log_density(cov, y, sd):
    """Of the data that are there."""
    seen, values = ~jnp.isnan(y.ravel()), jnp.nan_to_num(y.ravel())
    whole = jnp.where(seen[:, None] & seen[None, :], cov, 0.0) + jnp.diag(jnp.where(seen, jnp.tile(sd**2, T), 1.0))
    root = jnp.linalg.cholesky(whole)
    white = jax.scipy.linalg.solve_triangular(root, values, lower=True)
    return -0.5 * white @ white - jnp.sum(jnp.log(jnp.diagonal(root))) - 0.5 * seen.sum() * jnp.log(2 * jnp.pi)


def latent_given(cov, y, sd):
    """Mean and covariance of the latent given the data."""
    precision = jnp.where(jnp.isnan(y.ravel()), 0.0, 1 / jnp.tile(sd**2, T))
    gain = jnp.linalg.solve(jnp.eye(2 * T) + cov * precision[None, :], cov)
    return gain @ (precision * jnp.nan_to_num(y.ravel())), 0.5 * (gain + gain.T)


def draw_latent(cov, y):
    def draw(key, sd):
        mean, left = latent_given(cov, y, sd)
        root = jnp.linalg.cholesky(left + 1e-12 * jnp.eye(2 * T))
        return (mean + root @ jax.random.normal(key, (2 * T,))).reshape(T, 2)

    return draw


def quadrature(cov, y, num=90):
    """Log evidence, and mean and standard deviation of each log ratio."""
    log_ratio = jnp.linspace(-5.0, 3.5, num)
    grid = jnp.stack(jnp.meshgrid(log_ratio, log_ratio, indexing="ij"), axis=-1).reshape(-1, 2)

    @jax.jit
    @jax.vmap
    def log_joint(point):
        ratios = jnp.exp(point)
        prior = jnp.sum(noises.ratios_log_prob(ratios, CONCENTRATION) + point)
        return prior + log_density(cov, y, noises.station_noise(NOISE, ratios))

    values = log_joint(grid)
    total = logsumexp(values)
    weights = jnp.exp(values - total)
    mean = weights @ grid
    return total + 2 * jnp.log(log_ratio[1] - log_ratio[0]), mean, jnp.sqrt(weights @ (grid - mean) ** 2)


def test_gibbs_sweeps_have_the_posterior():
    """20 000 sweeps; means within 0.06 posterior sd (over 4 standard errors at this autocorrelation)."""
    cov, y = problem()
    draw = draw_latent(cov, y)

    def sweep(ratios, key):
        ratios = noises.gibbs_ratios(key, draw, y, NOISE, CONCENTRATION, ratios)
        return ratios, jnp.log(ratios)

    keys = jax.random.split(jax.random.key(1), 20_000)
    _, path = jax.jit(lambda keys: jax.lax.scan(sweep, jnp.ones(2), keys))(keys)
    _, mean, sd = quadrature(cov, y)
    np.testing.assert_allclose(path[500:].mean(0), mean, atol=0.06 * float(sd.max()))
    np.testing.assert_allclose(path[500:].std(0), sd, rtol=0.05)


def test_particles_have_posterior_and_evidence():
    """IBIS with 1000 particles, the second station joining; three runs average to within 0.1 of the log evidence."""
    cov, y = problem()
    num = 1000
    step = jax.jit(jax.vmap(lambda y, ratios: log_density(cov, y, noises.station_noise(NOISE, ratios)), (None, 0)))

    @jax.jit
    def move(keys, y, ratios):
        sweep = lambda key, one: noises.gibbs_ratios(key, draw_latent(cov, y), y, NOISE, CONCENTRATION, one)  # noqa: E731
        return jax.vmap(sweep)(keys, ratios)

    logs, means = [], []
    for seed in range(3):
        key = jax.random.key(seed)
        key, key_start, key_join = jax.random.split(key, 3)
        concentration = jnp.full(num, CONCENTRATION)
        ratios = noises.join_stations(key_start, jnp.zeros((num, 0)), concentration, 1)
        log_weight, before, evidence = jnp.zeros(num), jnp.zeros(num), 0.0
        for t in range(T):
            if t == 3:
                ratios = noises.join_stations(key_join, ratios, concentration, 1)
            now = y.at[t + 1 :].set(jnp.nan)
            full = ratios if t >= 3 else jnp.concatenate([ratios, jnp.ones((num, 1))], axis=1)
            after = step(now, full)
            increment = logsumexp(log_weight + after - before) - logsumexp(log_weight)
            evidence, log_weight, before = evidence + increment, log_weight + after - before, after
            if t in (2, 5, 9):
                key, key_resample, key_move = jax.random.split(key, 3)
                chosen = jax.random.choice(key_resample, num, (num,), p=jax.nn.softmax(log_weight))
                moved = move(jax.random.split(key_move, num), now, full[chosen])
                ratios, log_weight = moved[:, : ratios.shape[1]], jnp.zeros(num)
                before = step(now, moved if t >= 3 else moved.at[:, 1].set(1.0))
        logs.append(evidence)
        means.append(jnp.log(ratios).mean(0))
    expected, mean, sd = quadrature(cov, y)
    np.testing.assert_allclose(np.mean(logs), expected, atol=0.1)
    np.testing.assert_allclose(np.mean(means, axis=0), mean, atol=0.12 * float(sd.max()))


def test_population_integrates_the_ratios_out():
    found = noises.Residuals(jnp.array([4.0, 7.0]), jnp.array([0.8, 11.0]))
    log_ratio = jnp.linspace(-12.0, 6.0, 20_001)
    ratios = jnp.exp(log_ratio)
    expected = 0.0
    for count, squares in zip(*found):
        data = 0.5 * count * jnp.log(ratios / (2 * jnp.pi * NOISE**2)) - 0.5 * squares * ratios / NOISE**2
        each = data + noises.ratios_log_prob(ratios, CONCENTRATION) + log_ratio
        expected += logsumexp(each) + jnp.log(log_ratio[1] - log_ratio[0])
    assert noises.population_log_prob(found, NOISE, CONCENTRATION) == pytest.approx(float(expected), abs=1e-9)


def test_em_climbs_to_the_mode():
    """The log posterior of the log ratios rises at each step and has no slope at the end."""
    cov, y = problem()

    @jax.jit
    def log_posterior(log_ratio):
        ratios = jnp.exp(log_ratio)
        prior = jnp.sum(noises.ratios_log_prob(ratios, CONCENTRATION) + log_ratio)
        return prior + log_density(cov, y, noises.station_noise(NOISE, ratios))

    @jax.jit
    def step(ratios):
        mean, left = latent_given(cov, y, noises.station_noise(NOISE, ratios))
        found = noises.residual_statistics(y, mean.reshape(T, 2))
        more = jnp.sum(jnp.where(jnp.isnan(y), 0.0, jnp.diagonal(left).reshape(T, 2)), axis=0)
        return noises.em_ratios(found._replace(squares=found.squares + more), NOISE, CONCENTRATION)

    ratios, values = jnp.ones(2), []
    for _ in range(200):
        values.append(float(log_posterior(jnp.log(ratios))))
        ratios = step(ratios)
    assert np.all(np.diff(values) > -1e-12)
    np.testing.assert_allclose(jax.grad(log_posterior)(jnp.log(ratios)), 0.0, atol=1e-5)


def test_a_season_of_the_noise_is_divided_out():
    rng = np.random.default_rng(0)
    amplitude, f = np.array([0.5, 1.0, 2.0]), rng.normal(size=(3, 2))
    y = f + amplitude[:, None] * np.array([[1.0, 2.0], [np.nan, 2.0], [1.0, -2.0]])
    found = noises.residual_statistics(y, f, amplitude)
    np.testing.assert_allclose(found.num_data, [2, 3])
    np.testing.assert_allclose(found.squares, [2.0, 12.0])
