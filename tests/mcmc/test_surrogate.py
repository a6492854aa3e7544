"""Surrogate data slice sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geweke import BOUND, largest_score, standard_form
from seqgp.fields.operators import Triangular
from seqgp.mcmc.charts import Quadratic, Tilted, tilt
from seqgp.mcmc.surrogate import move_kernel_with_surrogate
from seqgp.mcmc.target import Place

PRECISION = np.array([2.0, 0.0, 4.0])  # the second site has no surrogate datum


def move(key, target, position):
    return move_kernel_with_surrogate(key, target, position, jnp.asarray(PRECISION))


def test_posterior_is_invariant():
    assert largest_score(standard_form(jax.random.key(0), move)) < BOUND


def test_surrogate_data_are_forgotten():
    """With no surrogate datum at all the move is the whitened one: still invariant."""

    def blind(key, target, position):
        return move_kernel_with_surrogate(key, target, position, jnp.zeros(3))

    assert largest_score(standard_form(jax.random.key(1), blind)) < BOUND


def no_determinant(self, nu, coordinates):
    return -0.5 * jnp.dot(nu, nu) + 0.5 * jnp.dot(coordinates, coordinates)


def no_weight(self, nu, coordinates):
    return jnp.zeros(())


@pytest.mark.parametrize("mutant", [no_determinant, no_weight])
def test_mutants_are_caught(mutant, monkeypatch):
    monkeypatch.setattr(Tilted, "log_weight", mutant)
    assert largest_score(standard_form(jax.random.key(0), move)) > BOUND


@pytest.mark.parametrize(
    "factor", [np.sqrt(PRECISION), np.array([[1.0, 0.5], [0.2, -1.0], [2.0, 0.3]])], ids=["diagonal", "matrix"]
)
def test_tilted_coordinates_are_white_under_prior_times_surrogate(factor):
    """Mean and covariance of ``nu`` under a Gaussian prior with Gaussian data, in closed form."""
    rng = np.random.default_rng(0)
    root = np.tril(rng.normal(size=(3, 3))) + 2 * np.eye(3)
    offset, slope = rng.normal(size=3), rng.normal(size=3)
    chart = tilt(
        Place(None, jnp.asarray(offset)),
        Triangular(jnp.asarray(root)),
        Quadratic(jnp.asarray(factor), jnp.asarray(slope)),
    )
    matrix = np.diag(factor**2) if factor.ndim == 1 else factor @ factor.T
    covariance = np.linalg.inv(np.eye(3) + root.T @ matrix @ root)
    np.testing.assert_allclose(chart.centre(), covariance @ root.T @ (slope - matrix @ offset), rtol=1e-9)
    columns = np.stack([chart.centred_nu(e) for e in jnp.eye(3)], axis=1)
    np.testing.assert_allclose(columns @ columns.T, covariance, rtol=1e-9, atol=1e-12)
    nu = jnp.asarray(rng.normal(size=3))
    coordinates = chart.coordinates(nu)
    np.testing.assert_allclose(chart.centre() + chart.centred_nu(coordinates), nu, rtol=1e-9)
    # With the surrogate as the likelihood nothing is left to correct but its evidence, the same for every nu.
    weights = []
    for v in (nu, nu + 1.0):
        sites = offset + root @ v
        weights.append(chart.log_weight(v, chart.coordinates(v)) - 0.5 * sites @ matrix @ sites + slope @ sites)
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-9)
