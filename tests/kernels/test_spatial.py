"""Kernels of space against their formulas: linear, rotated, on the globe."""

import jax.numpy as jnp
import numpy as np
import pytest

import seqgp

RNG = np.random.default_rng(1)
X = RNG.normal(size=(7, 2))


def matrix(kernel, x=X):
    values = {name: jnp.asarray(slot) for name, slot in kernel.slots().items()}
    x = jnp.asarray(x)
    return np.asarray(kernel.covariance(kernel.prepare(x, x), values))


def test_linear_is_the_covariance_of_a_plane():
    kernel = seqgp.kernels.DotProduct([0.5, 2.0], centre=[1.0, -1.0])
    shifted = (X - [1.0, -1.0]) * [0.5, 2.0]
    np.testing.assert_allclose(matrix(kernel), shifted @ shifted.T, rtol=1e-12)
    np.testing.assert_allclose(matrix(seqgp.kernels.DotProduct(0.5)), 0.25 * X @ X.T, rtol=1e-12)


def test_rotation_turns_the_axes():
    angle = 0.4
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    straight = seqgp.kernels.Matern32([0.3, 1.5])
    np.testing.assert_allclose(matrix(seqgp.kernels.Rotated(straight, angle)), matrix(straight, X @ turn.T), rtol=1e-10)
    np.testing.assert_allclose(matrix(seqgp.kernels.Rotated(straight, 0.0)), matrix(straight), rtol=1e-12)


def haversine(x):
    longitude, latitude = np.deg2rad(x).T
    a = np.sin((latitude[:, None] - latitude) / 2) ** 2
    a = a + np.cos(latitude[:, None]) * np.cos(latitude) * np.sin((longitude[:, None] - longitude) / 2) ** 2
    return 2 * 6371.0 * np.arcsin(np.sqrt(a))


def test_great_circle():
    """London and New York are 5570 km apart; antipodes half the circumference, and the date line is no wall."""
    cities = np.array([[-0.1276, 51.5072], [-74.0060, 40.7128]])
    np.testing.assert_allclose(
        -np.log(matrix(seqgp.kernels.GreatCircle(seqgp.kernels.Matern12(1.0e3)), cities)[0, 1]) * 1e3, 5570, atol=5
    )
    x = np.stack([RNG.uniform(-180, 180, 30), RNG.uniform(-90, 90, 30)], axis=1)
    expected = np.exp(-haversine(x) / 900.0)
    np.testing.assert_allclose(matrix(seqgp.kernels.GreatCircle(seqgp.kernels.Matern12(900.0)), x), expected, rtol=1e-6)
    near = np.array([[179.9, 0.0], [-179.9, 0.0]])
    assert matrix(seqgp.kernels.GreatCircle(seqgp.kernels.Matern32(500.0)), near)[0, 1] > 0.99


def test_kernels_on_the_globe_are_positive_definite():
    """The smooth ones take the straight line; in the arc, a long lengthscale has negative eigenvalues."""
    x = np.stack([RNG.uniform(-180, 180, 60), np.rad2deg(np.arcsin(RNG.uniform(-1, 1, 60)))], axis=1)
    for kernel in (
        seqgp.kernels.Matern12,
        seqgp.kernels.Matern32,
        seqgp.kernels.Matern52,
        seqgp.kernels.SquaredExponential,
    ):
        assert np.linalg.eigvalsh(matrix(seqgp.kernels.GreatCircle(kernel(8000.0)), x)).min() > -1e-10
    arc = np.exp(-0.5 * (haversine(x) / 8000.0) ** 2)
    assert np.linalg.eigvalsh(arc).min() < -1e-3
    chord = matrix(seqgp.kernels.GreatCircle(seqgp.kernels.SquaredExponential(1000.0)), [[0.0, 0.0], [8.993, 0.0]])[
        0, 1
    ]
    np.testing.assert_allclose(np.sqrt(-2 * np.log(chord)) * 1000.0, 1000.0, rtol=1.1e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: seqgp.kernels.Rotated(seqgp.kernels.Matern32(1.0), 0.1), "needs two lengthscales"),
        (
            lambda: seqgp.kernels.Rotated(seqgp.kernels.Constant(scale=1.0), 0.1),
            "expected a stationary kernel such as Matern32, got Constant",
        ),
        (lambda: seqgp.kernels.GreatCircle(seqgp.kernels.Matern32([1.0, 2.0])), "one lengthscale"),
        (lambda: seqgp.kernels.GreatCircle(seqgp.kernels.Matern32(1.0), radius=0.0), "radius = 0.0 is not positive"),
        (
            lambda: seqgp.kernels.GreatCircle(seqgp.kernels.Matern32(1.0)).check_dimension(3),
            "longitude and latitude, but x has 3",
        ),
        (
            lambda: seqgp.kernels.Rotated(seqgp.kernels.Matern32([1.0, 2.0]), 0.1).check_dimension(3),
            "turns two columns, but x has 3",
        ),
        (lambda: seqgp.kernels.DotProduct([1.0, 2.0]).check_dimension(3), "2 scales, but x has 3 columns"),
        (lambda: seqgp.kernels.DotProduct(0.0), "scale = 0.0 is not positive"),
        (lambda: seqgp.kernels.DotProduct(1.0, seqgp.ScaledSigmoid(0, 1)), "centre takes numbers"),
        (lambda: seqgp.kernels.Periodic(1.0, 1.0).check_dimension(2), "one dimension, but x has 2 columns"),
    ],
)
def test_bad_kernels_of_space_are_named(make, message):
    with pytest.raises(seqgp.ModelError, match=message):
        make()
