"""Advected fields on Fourier modes: the filter is dense algebra, and the modes are the kernel up to what is told."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dense_delay import matern, posterior
from seqgp.base.errors import ModelError
from seqgp.statespace.advection import (
    advected_modes,
    fourier_covariance,
    join_modes,
    matern_density,
    mode_basis,
    truncation_error,
    wave_vectors,
)
from seqgp.statespace.mode_filter import data_information, filter_modes, smooth_modes


def test_one_of_each_pair_of_waves():
    wave = wave_vectors(np.array([4.0, 6.0]), 2.0)
    both = {tuple(np.round(k, 9)) for k in np.concatenate([wave, -wave[1:]]) + 0.0}
    index = [(i, j) for i in range(-9, 10) for j in range(-9, 10) if np.hypot(i / 4, j / 6) <= 0.5 + 1e-12]
    assert len(both) == 2 * len(wave) - 1 == len(index)
    np.testing.assert_array_equal(wave[0], 0.0)
    with pytest.raises(ModelError, match="shortest = 9 is longer than the box"):
        wave_vectors(np.array([4.0, 6.0]), 9.0)


@pytest.mark.parametrize("dimension, order", [(1, 1), (1, 2), (2, 2), (2, 3)])
def test_modes_are_the_kernel_up_to_truncation(dimension, order):
    """Without diffusion and damping a frozen field: ``k_x(h − v u)``; more modes lower the error that is told."""
    box, velocity = np.full(dimension, 14.0), np.arange(1.0, 1.0 + dimension)
    rng = np.random.default_rng(0)
    h, u = rng.uniform(-2, 2, (50, dimension)), rng.uniform(0, 1, 50)
    exact = matern(order, np.linalg.norm(h - u[:, None] * velocity, axis=1) / 1.2)
    errors = []
    for shortest in (2.0, 0.5):
        wave = wave_vectors(box, shortest)
        modes = advected_modes(wave, box, matern_density(wave, order - 0.5, 1.2), velocity, 0.0, 0.0)
        errors.append(truncation_error(modes, exact, h, u))
    assert errors[1] < {1: 0.05, 2: 0.01, 3: 0.01}[order]
    assert errors[1] < errors[0]


def test_filter_and_smoother_are_dense_posterior():
    """Two fields with velocities of their own, irregular times, points that change, gaps, a time without data."""
    rng = np.random.default_rng(1)
    box = np.array([5.0, 4.0])
    wave = wave_vectors(box, 2.0)
    modes = join_modes(
        advected_modes(wave, box, 2.0 * matern_density(wave, 1.5, 1.0), np.array([0.6, -0.3]), 0.1, 0.2),
        advected_modes(wave, box, matern_density(wave, np.inf, np.array([1.0, 2.0])), np.array([-1.0, 0.0]), 0.0, 0.5),
    )
    times, noise = np.cumsum(rng.uniform(0.3, 1.5, 5)), 0.4
    x, y = rng.uniform(0, 4, (5, 7, 2)), rng.normal(size=(5, 7))
    y[rng.uniform(size=y.shape) < 0.2], y[3] = np.nan, np.nan
    basis = jax.vmap(lambda at: mode_basis(modes.wave, at))(jnp.asarray(x))
    data = jax.vmap(data_information)(basis, jnp.asarray(y))
    dts = np.diff(times, prepend=times[0])
    filtered, log_prob = jax.jit(lambda data: filter_modes(modes, dts, data, noise))(data)
    smoothed = jax.jit(lambda data, filtered: smooth_modes(modes, dts, data, noise, filtered))(data, filtered)
    t, places, seen = np.repeat(times, 7), x.reshape(-1, 2), ~np.isnan(y.ravel())
    h, u = places[:, None] - places[None, :], t[:, None] - t[None, :]
    cov = np.asarray(fourier_covariance(modes, h.reshape(-1, 2), u.ravel())).reshape(35, 35)
    mean, left, expected = posterior(
        cov[seen][:, seen], noise**2 * np.eye(seen.sum()), y.ravel()[seen], cov[:, seen], cov
    )
    np.testing.assert_allclose(np.sum(log_prob), expected, atol=1e-7)
    np.testing.assert_allclose(np.einsum("tni,ti->tn", basis, smoothed.mean).ravel(), mean, atol=1e-7)
    found = np.einsum("tni,tij,tnj->tn", basis, smoothed.cov, basis).ravel()
    np.testing.assert_allclose(found, np.diag(left), atol=1e-7)


def test_a_peak_moves_with_the_velocity():
    wave = wave_vectors(np.array([10.0]), 1.0)
    modes = advected_modes(wave, np.array([10.0]), matern_density(wave, 1.5, 0.7), np.array([2.0]), 0.0, 0.0)
    here = data_information(mode_basis(wave, np.array([[3.0]])), np.array([4.0]))
    nothing = jax.tree.map(jnp.zeros_like, here)
    data = jax.tree.map(lambda *leaves: jnp.stack(leaves), here, nothing)
    filtered, _ = filter_modes(modes, np.array([0.0, 1.0]), data, 0.1)
    grid = np.linspace(0, 10, 101)[:-1, None]
    field = np.asarray(mode_basis(wave, grid) @ filtered.mean[1])
    assert grid[np.argmax(field), 0] == pytest.approx(5.0, abs=0.11)
