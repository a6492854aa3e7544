"""Knots: interpolation from a fixed grid, near machine precision for smooth kernels."""

import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
from seqgp.fields.knots import chebyshev_nodes, interpolation_matrix

SQUARE = [(0.0, 1.0), (0.0, 1.0)]


def separable(space):
    return seqgp.Separable(seqgp.kernels.SquaredExponential(1.0), space)


def prior_covariance_error(space, lengthscale, nodes, interpolation="chebyshev"):
    x = np.random.default_rng(0).uniform(size=(200, 2))
    grid = seqgp.Knots((nodes, nodes), SQUARE, interpolation).resolve(separable(space), x)
    weights = np.asarray(grid.interpolate(x).weights)
    parameters = {"lengthscale": jnp.asarray(lengthscale)}
    points, inputs = jnp.asarray(grid.points), jnp.asarray(x)
    inner = np.asarray(space.covariance(space.prepare(points, points), parameters))
    exact = np.asarray(space.covariance(space.prepare(inputs, inputs), parameters))
    return np.abs(weights @ inner @ weights.T - exact).max()


@pytest.mark.parametrize(
    ("lengthscale", "nodes", "error"),
    [(0.2, 12, 8e-4), (0.3, 12, 1e-5), (0.5, 12, 5e-8), (1.0, 12, 1e-11), (0.2, 16, 8e-6)],
)
def test_squared_exponential_is_represented(lengthscale, nodes, error):
    assert prior_covariance_error(seqgp.kernels.SquaredExponential(1.0), lengthscale, nodes) < error


def test_matern_is_represented():
    assert prior_covariance_error(seqgp.kernels.Matern52(1.0), 0.3, 16) < 6e-4


def test_cubic_interpolation_suits_rough_kernels():
    """Polynomials through many nodes ring on a kink; local cubics do not, and more nodes help."""
    rough = seqgp.kernels.Matern12(1.0)
    coarse, fine = (prior_covariance_error(rough, 0.5, nodes, "cubic") for nodes in (10, 40))
    assert fine < coarse / 2


@pytest.mark.parametrize("interpolation", ["chebyshev", "cubic"])
def test_interpolation_reproduces_cubics(interpolation):
    place = chebyshev_nodes if interpolation == "chebyshev" else np.linspace
    lines = (place(-1.0, 2.0, 7), place(0.0, 1.0, 5))
    x = np.random.default_rng(1).uniform([-1, 0], [2, 1], size=(50, 2))

    def cubic(a, b):
        return 1 + a**3 - 2 * a * b**2 + b**3

    values = cubic(*np.meshgrid(*lines, indexing="ij")).ravel()
    weights = interpolation_matrix(lines, x, interpolation)
    np.testing.assert_allclose(weights @ values, cubic(*x.T), atol=1e-12)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)


def test_a_node_is_its_own_value():
    line = chebyshev_nodes(0.0, 1.0, 6)
    np.testing.assert_array_equal(interpolation_matrix((line,), line[:, None], "chebyshev"), np.eye(6))


def test_domain_defaults_to_a_box_with_a_margin_and_is_enforced():
    x = np.array([[0.0, 10.0], [2.0, 20.0]])
    grid = seqgp.Knots(6).resolve(separable(seqgp.kernels.SquaredExponential(1.0)), x)
    np.testing.assert_allclose(grid.domain, [(-0.2, 2.2), (9.0, 21.0)])
    with pytest.raises(seqgp.DataError, match=r"x\[1, 1\] = 22 is outside the domain \[9, 21\]"):
        grid.sites(np.array([[0.0, 12.0], [1.0, 22.0]]), 2)


def test_accuracy_is_reported_with_a_remedy():
    x = np.random.default_rng(0).uniform(size=(40, 2))
    kernel = separable(seqgp.kernels.SquaredExponential(0.2))
    model, no_z = seqgp.Model(kernel=kernel, likelihood=seqgp.likelihoods.Gaussian(0.1)), jnp.zeros(0)
    grid = seqgp.Knots((4, 4), SQUARE).resolve(kernel, x)
    numbers, remarks = grid.report(model, no_z, x)
    assert numbers["represented"] < 0.999
    assert "would do" in remarks[0]
    enough = grid.enough_nodes(kernel, {"space.lengthscale": jnp.asarray(0.2), "scale": 1.0}, x)
    assert f"nodes={enough}" in remarks[0]
    finer = seqgp.Knots(enough, SQUARE).resolve(kernel, x)
    assert finer.report(model, no_z, x)[1] == []


def test_kronecker_factors_where_the_kernel_is_a_product():
    x = np.random.default_rng(0).uniform(size=(5, 2))
    assert seqgp.Knots(4).resolve(separable(seqgp.kernels.SquaredExponential(1.0)), x).axes is not None
    assert seqgp.Knots(4).resolve(separable(seqgp.kernels.Matern52(1.0)), x).axes is None
    product = seqgp.kernels.PerColumn([seqgp.kernels.Matern52(1.0), seqgp.kernels.Matern32(1.0)])
    assert seqgp.Knots(4).resolve(separable(product), x).axes is not None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nodes": 1}, "at least 2"),
        ({"nodes": (3, 8), "interpolation": "cubic"}, "at least 4"),
        ({"interpolation": "linear"}, "expected 'chebyshev' or 'cubic'"),
        ({"domain": [(1.0, 0.0)]}, "not below the upper"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(seqgp.SamplerError, match=message):
        seqgp.Knots(**settings)


def test_shapes_are_checked_against_the_data():
    kernel = separable(seqgp.kernels.SquaredExponential(1.0))
    with pytest.raises(seqgp.SamplerError, match="nodes has 3 entries, but x has 2 columns"):
        seqgp.Knots((4, 4, 4)).resolve(kernel, np.zeros((3, 2)))
    with pytest.raises(seqgp.SamplerError, match="at most 4"):
        seqgp.Knots(4).resolve(kernel, np.zeros((3, 5)))
