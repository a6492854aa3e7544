"""The surface between, at and beyond its knots."""

import jax
import numpy as np
import pytest

from seqgp.apps.localvol.surface import Surface, knot_weights


def random_knots(count=7, seed=0):
    return np.sort(np.random.default_rng(seed).uniform(0.05, 2.0, count))


def test_weights_reproduce_a_quadratic_and_add_up_to_one():
    knots = random_knots()
    x = np.linspace(knots[0], knots[-1], 200)
    weights = np.asarray(knot_weights(knots, x))
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-12)
    np.testing.assert_allclose(weights @ (knots**2 - knots), x**2 - x, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_at_a_knot_and_a_rounding_beside_it_the_surface_has_its_value(seed):
    """Rounding must not make a knot part of both of its intervals, or of none."""
    knots = random_knots(seed=seed)
    for x in (knots, np.nextafter(knots, 0), np.nextafter(knots, 9), (knots - 0.7) + 0.7, knots / 3 * 3):
        np.testing.assert_allclose(knot_weights(knots, x), np.eye(len(knots)), atol=1e-9)


def test_surface_is_smooth_inside_and_flat_outside():
    T, y = np.array([0.1, 0.4, 1.0]), np.array([-0.5, -0.1, 0.0, 0.3])
    values = np.random.default_rng(1).uniform(0.1, 0.6, (3, 4))
    surface = Surface(T, y, values)
    np.testing.assert_allclose(surface(T[:, None], y), values, rtol=1e-12)
    np.testing.assert_allclose(surface.on_grid(T, y), values, rtol=1e-12)
    assert surface(0.01, 0.0) == pytest.approx(values[0, 2])
    assert surface(5.0, 9.0) == pytest.approx(values[2, 3])
    slope = jax.grad(surface, argnums=1)
    np.testing.assert_allclose(slope(0.2, -1e-9), slope(0.2, 1e-9), rtol=1e-5)
    dense = surface.on_grid(np.linspace(0, 2, 50), np.linspace(-1, 1, 80))
    assert np.all(np.asarray(dense) > 0)


def test_one_knot_is_a_constant():
    np.testing.assert_allclose(Surface([0.5], [0.0], [[0.2]])([0.1, 3.0], [-1.0, 1.0]), 0.2)


def test_on_a_grid_and_point_by_point_are_the_same():
    rng = np.random.default_rng(1)
    surface = Surface(random_knots(4), np.linspace(-0.4, 0.4, 5), rng.uniform(0.1, 0.4, (4, 5)))
    T, y = rng.uniform(0, 2, 6), rng.uniform(-0.5, 0.5, 7)
    np.testing.assert_allclose(surface.on_grid(T, y), surface(T[:, None], y[None, :]), rtol=1e-12)


def test_surface_of_the_wrong_shape_is_named():
    with pytest.raises(ValueError, match=r"shape \(2, 2\), expected \(2, 3\)"):
        Surface([0.1, 1.0], [-0.1, 0.0, 0.1], np.full((2, 2), 0.2))
