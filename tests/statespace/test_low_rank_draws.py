"""Draws from the diagonal-plus-low-rank filter have its moments; paths have those of the dense smoother."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments import gap_filters, networks

from seqgp.statespace.low_rank_draws import (
    covariance_times,
    draw_low_rank_path,
    draw_low_rank_state,
    low_rank_to_dense,
    precision_times,
)
from seqgp.statespace.modes import block_cholesky, mode_covariance

SITES, STEPS, DRAWS = 5, 4, 40_000
SCALES = np.array([0.8])


@pytest.fixture(scope="module")
def filtered():
    net = networks.network(SITES, noise=0.5, dt=0.5)
    y = networks.simulate(net, STEPS)
    seen = np.random.default_rng(2).random(y.shape) >= 0.3
    design = np.random.default_rng(3).normal(size=(STEPS, SITES, 1))
    modes, last, states, _, _ = gap_filters.low_rank(net, y, seen, 10, design=design, scales=SCALES)
    return net, y, seen, design, modes, last, states


def test_covariance_and_precision(filtered):
    *_, modes, last, _ = filtered
    last = last._replace(precision=jnp.zeros((0, 0)), information=jnp.zeros(0), response=last.response[:0])
    _, cov = low_rank_to_dense(last, modes, np.zeros(0))
    values = np.random.default_rng(1).normal(size=last.mean.shape)
    at_sites = (values @ modes.vectors.T).reshape(-1)
    for found, expected in [
        (covariance_times(last, values), cov @ at_sites),
        (precision_times(last, values), np.linalg.solve(cov, at_sites)),
    ]:
        np.testing.assert_allclose((found @ modes.vectors.T).reshape(-1), expected, rtol=1e-8)


def test_draws_of_the_state(filtered):
    """40,000 draws: every entry of the covariance within five standard errors."""
    *_, modes, last, _ = filtered
    coefficients = np.array([0.3])
    keys = jax.random.split(jax.random.key(0), DRAWS)
    draws = jax.vmap(lambda key: draw_low_rank_state(key, last, coefficients))(keys).reshape(DRAWS, -1)
    bare = last._replace(precision=jnp.zeros((0, 0)), information=jnp.zeros(0), response=last.response[:0])
    cov = low_rank_to_dense(bare, modes._replace(vectors=jnp.eye(SITES)), np.zeros(0))[1]
    mean = (last.mean - 0.3 * last.response[0]).reshape(-1)
    close(draws, mean, cov)


def test_paths_given_all_data(filtered):
    """Against the joint posterior of all times, by dense algebra, given the coefficient."""
    net, y, seen, design, modes, _, states = filtered
    coefficients = np.array([0.3])
    move, noise = net.transition, mode_covariance(net.noises, modes)
    moves, noises = np.stack([move] * (STEPS - 1)), np.stack([noise] * (STEPS - 1))
    keys = jax.random.split(jax.random.key(1), DRAWS)
    with jax.debug_key_reuse(False):  # it takes the keys of a scan under vmap for used
        paths = jax.vmap(lambda key: draw_low_rank_path(key, states, moves, noises, coefficients))(keys)
    latent = np.einsum("a,ntam,im->nti", net.observe, paths, modes.vectors).reshape(DRAWS, -1)
    times = 0.5 * np.arange(STEPS)
    prior = np.kron(networks.correlation("Matern32", np.abs(times[:, None] - times[None])), net.spaces[0])
    shown = seen.ravel()
    data = (y - design[:, :, 0] * 0.3).ravel()[shown]
    gain = np.linalg.solve(prior[np.ix_(shown, shown)] + net.noise**2 * np.eye(shown.sum()), prior[shown]).T
    close(latent, gain @ data, prior - gain @ prior[shown])


def close(draws, mean, cov):
    """Means and covariances of draws, within five standard errors (false alarms: below 1e-3 for 210 numbers)."""
    sd = np.sqrt(np.diag(cov))
    assert np.max(np.abs(np.mean(draws, axis=0) - mean) / sd) < 5 / np.sqrt(len(draws))
    error = np.cov(np.asarray(draws).T) - cov
    assert np.max(np.abs(error) / np.sqrt(sd[:, None] ** 2 * sd[None] ** 2 + np.asarray(cov) ** 2)) < 5 / np.sqrt(
        len(draws)
    )


def test_block_cholesky_of_a_singular_block():
    root = np.random.default_rng(0).normal(size=(3, 1, 4))
    blocks = jnp.asarray(np.einsum("akm,bkm->abm", root, root))
    found = block_cholesky(blocks)
    np.testing.assert_allclose(jnp.einsum("akm,bkm->abm", found, found), blocks, atol=1e-12)
