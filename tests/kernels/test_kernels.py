"""Kernels against their formulas, and kernels of others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tinygp

import seqgp
from seqgp.kernels.spatial import as_space_kernel

RNG = np.random.default_rng(0)
X, OTHER = RNG.normal(size=(5, 2)), RNG.normal(size=(3, 2))
LENGTHSCALE = np.array([0.7, 1.6])


def distances(lengthscale=LENGTHSCALE):
    return np.sqrt((((X[:, None] - OTHER[None]) / lengthscale) ** 2).sum(-1))


def matrix(kernel, parameters, x=X, other=OTHER):
    prepared = kernel.prepare(jnp.asarray(x), jnp.asarray(other))
    return np.asarray(kernel.covariance(prepared, {name: jnp.asarray(v) for name, v in parameters.items()}))


FORMULAS = [
    (seqgp.kernels.SquaredExponential, lambda r: np.exp(-(r**2) / 2)),
    (seqgp.kernels.Matern12, lambda r: np.exp(-r)),
    (seqgp.kernels.Matern32, lambda r: (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r)),
    (seqgp.kernels.Matern52, lambda r: (1 + 5**0.5 * r + 5 / 3 * r**2) * np.exp(-(5**0.5) * r)),
    (seqgp.kernels.RationalQuadratic, lambda r: (1 + r**2 / (2 * 1.3)) ** -1.3),
]


@pytest.mark.parametrize(("kernel", "formula"), FORMULAS)
def test_formula(kernel, formula):
    extra = {"alpha": 1.3} if kernel is seqgp.kernels.RationalQuadratic else {}
    found = matrix(kernel([1.0, 1.0]), {"lengthscale": LENGTHSCALE} | extra)
    np.testing.assert_allclose(found, formula(distances()), rtol=1e-12)
    found = matrix(kernel(1.0), {"lengthscale": 0.9} | extra)
    np.testing.assert_allclose(found, formula(distances(0.9)), rtol=1e-12)


@pytest.mark.parametrize(("kernel", "formula"), FORMULAS)
def test_derivatives_are_finite_at_equal_inputs(kernel, formula):
    extra = {"alpha": 1.3} if kernel is seqgp.kernels.RationalQuadratic else {}
    one = kernel(1.0)
    prepared = one.prepare(jnp.asarray(X), jnp.asarray(X))
    gradient = jax.grad(lambda l: one.covariance(prepared, {"lengthscale": l} | extra).sum())(1.2)
    assert np.isfinite(gradient)


def test_product():
    kernel = seqgp.kernels.PerColumn([seqgp.kernels.Matern12(1.0), seqgp.kernels.SquaredExponential(1.0)])
    found = matrix(kernel, {"0.lengthscale": 0.7, "1.lengthscale": 1.6})
    delta = np.abs(X[:, None] - OTHER[None]) / LENGTHSCALE
    np.testing.assert_allclose(found, np.exp(-delta[..., 0] - delta[..., 1] ** 2 / 2), rtol=1e-12)


def test_a_tinygp_kernel_in_space():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        theirs = tinygp.kernels.Matern32(scale=0.8, distance=tinygp.kernels.distance.L2Distance())
        found = matrix(as_space_kernel(theirs), {})
        np.testing.assert_allclose(found, theirs(X, OTHER), rtol=1e-12)
        ours = matrix(seqgp.kernels.Matern32(1.0), {"lengthscale": 0.8})
    np.testing.assert_allclose(found, ours, rtol=1e-9)


def test_a_function_of_two_points_in_space():
    def cosine(a, b):
        return jnp.cos(a[0] - b[0]) * jnp.exp(-jnp.abs(a[1] - b[1]))

    expected = np.cos(X[:, None, 0] - OTHER[None, :, 0]) * np.exp(-np.abs(X[:, None, 1] - OTHER[None, :, 1]))
    np.testing.assert_allclose(matrix(as_space_kernel(cosine), {}), expected, rtol=1e-12)


def test_a_function_with_a_prior():
    kernel = seqgp.kernels.Covariance(
        lambda a, b, rate: jnp.exp(-rate * jnp.abs(a - b).sum()), rate=seqgp.ScaledSigmoid(0, 2)
    )
    separable = seqgp.Separable(time=seqgp.kernels.Matern12(1.0), space=kernel)
    assert "space.rate" in separable.slots()
    expected = np.exp(-0.4 * np.abs(X[:, None] - OTHER[None]).sum(-1))
    np.testing.assert_allclose(matrix(kernel, {"rate": 0.4}), expected, rtol=1e-12)


def test_separable_names_its_parameters():
    kernel = seqgp.Separable(
        time=seqgp.kernels.RationalQuadratic(1.0, alpha=2.0),
        space=seqgp.kernels.SquaredExponential([1.0, 2.0]),
        scale=0.5,
    )
    assert kernel.slots() == {
        "time.lengthscale": 1.0,
        "time.alpha": 2.0,
        "space.lengthscale": (1.0, 2.0),
        "scale": 0.5,
    }


TERM = seqgp.Separable(time=seqgp.kernels.Matern32(1.0), space=seqgp.kernels.Matern32(1.0))


def test_terms_add_in_any_way():
    assert sum([TERM, TERM, TERM]) == TERM + TERM + TERM


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: seqgp.kernels.Matern32(-1.0), "Matern32: lengthscale = -1.0 is not positive"),
        (
            lambda: seqgp.Separable(time=3, space=seqgp.kernels.Matern32(1.0)),
            "time must be a stationary kernel, got int",
        ),
        (
            lambda: seqgp.Separable(time=seqgp.kernels.Matern32([1.0, 2.0]), space=seqgp.kernels.Matern32(1.0)),
            "2 lengthscales, but x has 1 columns",
        ),
        (
            lambda: seqgp.Separable(time=seqgp.kernels.Matern32(1.0), space="rbf"),
            "a kernel or a function of two points",
        ),
        (
            lambda: seqgp.Separable(time=seqgp.kernels.Matern32(1.0), space=seqgp.kernels.Matern32(1.0), scale=0),
            "scale = 0.0 is not positive",
        ),
        (
            lambda: seqgp.Separable(time=seqgp.kernels.Matern32(1.0), space=seqgp.kernels.Matern32(1.0), scale=[1, 2]),
            "one number or prior, not a list",
        ),
        (lambda: seqgp.kernels.RationalQuadratic(1.0, alpha=0), "alpha = 0.0 is not positive"),
        (lambda: seqgp.kernels.PerColumn([]), "a list of stationary kernels"),
        (lambda: seqgp.kernels.PerColumn([seqgp.kernels.Matern12([1.0, 2.0])]), "factor 0 has several lengthscales"),
        (lambda: seqgp.kernels.Covariance(3), "expected a function of two points, got int"),
        (lambda: 2.0 * TERM, "Separable and float do not multiply"),
        (lambda: TERM * TERM, "Separable and Separable do not multiply"),
        (lambda: 1.0 + TERM, r"Separable \+ float: expected another seqgp.Separable"),
    ],
)
def test_bad_kernels_are_named(make, message):
    with pytest.raises(seqgp.ModelError, match=message):
        make()
