"""Kernels that add and multiply: the kernel of a sum is the sum of kernels, and names of parameters are readable."""

import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
from seqgp.kernels.base import within

RNG = np.random.default_rng(0)
T = np.sort(RNG.uniform(0, 3, 6))[:, None]
X = RNG.normal(size=(6, 2))


def matrix(kernel, x, parameters=None):
    values = {name: jnp.asarray(slot) for name, slot in kernel.slots().items()} if parameters is None else parameters
    x = jnp.asarray(x)
    return np.asarray(kernel.covariance(kernel.prepare(x, x), values))


A, B, C = seqgp.kernels.Matern32(0.8), seqgp.kernels.Periodic(0.9, 1.5), seqgp.kernels.Matern52(2.5)


def test_a_sum_and_a_product_of_kernels():
    np.testing.assert_allclose(matrix(A + B * C, T), matrix(A, T) + matrix(B, T) * matrix(C, T), rtol=1e-14)
    np.testing.assert_allclose(matrix((A + B) * C, T), (matrix(A, T) + matrix(B, T)) * matrix(C, T), rtol=1e-14)
    scaled = seqgp.kernels.Constant(scale=0.3) * A + seqgp.kernels.WhiteNoise(0.2)
    np.testing.assert_allclose(matrix(scaled, T), 0.09 * matrix(A, T) + 0.04 * np.eye(6), rtol=1e-14)


def test_names_are_readable_and_sums_of_sums_lie_in_one_row():
    assert list((A + B + C).slots()) == ["0.lengthscale", "1.lengthscale", "1.period", "2.lengthscale"]
    assert list((A + B * C).slots()) == ["0.lengthscale", "1.0.lengthscale", "1.0.period", "1.1.lengthscale"]
    kernel = seqgp.Separable(time=A + B, space=seqgp.kernels.Matern12(1.0))
    assert "time.0.lengthscale" in kernel.slots()
    assert "time.1.period" in kernel.slots()
    assert within({"0.time.lengthscale": 1, "10.scale": 2}, "0") == {"time.lengthscale": 1}


def test_the_variance_at_a_point():
    for kernel in (
        A + B * C,
        seqgp.kernels.Constant(scale=0.3) * A + seqgp.kernels.WhiteNoise(0.2),
        seqgp.kernels.Constant(scale=2.0) + B,
    ):
        parameters = {name: jnp.asarray(slot) for name, slot in kernel.slots().items()}
        np.testing.assert_allclose(kernel.variance(parameters), matrix(kernel, T)[0, 0], rtol=1e-14)


def test_a_product_over_axes_factors_along_them():
    kernel = seqgp.kernels.Constant(scale=0.5) * seqgp.kernels.SquaredExponential([0.7, 1.3])
    parameters = {"0.scale": jnp.asarray(0.5), "1.lengthscale": jnp.asarray([0.7, 1.3])}
    total = np.ones((6, 6))
    for axis in range(2):
        factor, choose = kernel.along(axis, 2)
        total = total * matrix(factor, X[:, axis, None], choose(parameters))
    np.testing.assert_allclose(total, matrix(kernel, X, parameters), rtol=1e-13)
    assert (kernel + seqgp.kernels.Constant(scale=1.0)).along(0, 2) is None


def test_what_is_smooth_enough_for_knots():
    assert (seqgp.kernels.SquaredExponential(1.0) + seqgp.kernels.Constant(scale=1.0)).smooth
    assert seqgp.kernels.PerColumn([seqgp.kernels.Matern52(1.0), seqgp.kernels.SquaredExponential(1.0)]).smooth
    assert not (seqgp.kernels.SquaredExponential(1.0) + seqgp.kernels.WhiteNoise(0.1)).smooth
    assert not seqgp.kernels.Matern32(1.0).smooth


def test_sums_of_separable_terms():
    first = seqgp.Separable(time=seqgp.kernels.Matern32(0.8), space=seqgp.kernels.Matern12(1.0), scale=0.7)
    second = seqgp.Separable(time=seqgp.kernels.Constant(scale=1.0), space=seqgp.kernels.WhiteNoise(1.0), scale=0.4)
    both = first + second
    assert [prefix for prefix, _ in both.terms()] == ["0.", "1."]
    assert list(both.slots()) == [
        "0.time.lengthscale", "0.space.lengthscale", "0.scale", "1.time.scale", "1.space.scale", "1.scale",
    ]  # fmt: skip
    assert both.time_names() == {"0.time.lengthscale", "1.time.scale"}
    assert [prefix for prefix, _ in (both + first).terms()] == ["0.", "1.", "2."]

    def covariance(kernel):
        parameters = {name: jnp.asarray(slot) for name, slot in kernel.slots().items()}
        return np.asarray(kernel.covariance(kernel.prepare(jnp.asarray(T[:, 0]), jnp.asarray(X)), parameters))

    np.testing.assert_allclose(covariance(both), covariance(first) + covariance(second), rtol=1e-14)
    parameters = {name: jnp.asarray(slot) for name, slot in both.slots().items()}
    np.testing.assert_allclose(both.variance(parameters), 0.7**2 + 0.4**2)


SEPARABLE = seqgp.Separable(time=seqgp.kernels.Matern12(1.0), space=seqgp.kernels.Matern12(1.0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: A + 1.0,
            r"kernel \+ float: expected another kernel .* a constant is seqgp.kernels.Constant\(scale=…\)",
        ),
        (lambda: 2.0 * A, r"kernel \* float: expected another kernel .* seqgp.kernels.Constant"),
        (lambda: A * "rbf", r"kernel \* str"),
        (lambda: SEPARABLE + A, r"Separable \+ Matern32: expected another seqgp.Separable"),
        (lambda: A + SEPARABLE, r"kernel \+ Separable: expected another kernel of time or of space"),
        (lambda: seqgp.kernels.Constant(scale=0.0), r"Constant: scale \(a standard deviation\) = 0.0 is not positive"),
        (lambda: seqgp.kernels.WhiteNoise(-1.0), "WhiteNoise: scale = -1.0 is not positive"),
        (lambda: seqgp.kernels.Periodic(1.0, 0.0), "Periodic: period = 0.0 is not positive"),
        (lambda: seqgp.kernels.Periodic(-1.0, 1.0), "Periodic: lengthscale = -1.0 is not positive"),
        (lambda: seqgp.Separable(time=A + seqgp.kernels.DotProduct(), space=A), "must be a stationary kernel, got Sum"),
        (
            lambda: seqgp.Separable(time=seqgp.kernels.DotProduct(), space=A),
            "a trend is a feature of the mean, seqgp.means.Linear",
        ),
    ],
)
def test_what_cannot_be_combined_is_named(make, message):
    with pytest.raises(seqgp.ModelError, match=message):
        make()
