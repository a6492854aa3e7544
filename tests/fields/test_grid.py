"""Shared inputs: the same conditional prior as the dense one, at less cost."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
from seqgp.fields.dense import Dense
from seqgp.fields.grid import Grid, grid_axes

JITTER = (1e-12,)
TIMES = np.array([0.0, 0.3, 1.1])
RNG = np.random.default_rng(0)
PRODUCT = np.array(list(itertools.product([0.0, 0.7, 1.5], [-1.0, 0.4])))[RNG.permutation(6)]
SCATTERED = RNG.normal(size=(6, 2))
SQUARED = seqgp.kernels.SquaredExponential([1.0, 1.0])
PER_AXIS = seqgp.kernels.PerColumn([seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern52(1.0)])
MATERN = seqgp.kernels.Matern32(1.0)
PARAMETERS = {
    "time.lengthscale": jnp.asarray(0.9),
    "space.lengthscale": jnp.asarray([0.6, 1.3]),
    "space.0.lengthscale": jnp.asarray(0.6),
    "space.1.lengthscale": jnp.asarray(1.3),
    "scale": jnp.asarray(1.4),
}


def conditional(latent, kernel, x, mask):
    sites = latent.sites(x, len(x))
    blocks = jnp.asarray(np.stack([sites.x] * len(TIMES)))
    geometry = latent.geometry(kernel, jnp.asarray(TIMES), blocks, jnp.asarray(mask), 1)
    return sites, latent.conditional(kernel, geometry, PARAMETERS, JITTER)


@pytest.mark.parametrize("known", [(True, True), (False, True)], ids=["full window", "one time"])
@pytest.mark.parametrize(
    ("space", "x", "name"),
    [
        (SQUARED, PRODUCT, "grid (Kronecker)"),
        (PER_AXIS, PRODUCT, "grid (Kronecker)"),
        (MATERN, PRODUCT, "grid"),
        (SQUARED, SCATTERED, "grid"),
    ],
)
def test_the_same_prior_as_the_dense_one(space, x, name, known):
    kernel = seqgp.Separable(time=seqgp.kernels.Matern32(1.0), space=space)
    mask = np.repeat(np.array([*known, True])[:, None], len(x), axis=1)
    shared = Grid().resolve(kernel, x)
    assert shared.name == name
    sites, found = conditional(shared, kernel, x, mask)
    _, dense = conditional(Dense(), kernel, x, mask)

    def seen(v):
        """From the order of the sites to that of the data."""
        return np.asarray(sites.observe(jnp.asarray(v)))

    np.testing.assert_array_equal(seen(sites.x), x)
    matrix = np.asarray(found.root.apply(jnp.eye(len(x))))
    covariance = seen(seen(matrix @ matrix.T).T)
    np.testing.assert_allclose(covariance, dense.root.root @ dense.root.root.T, atol=1e-8)
    window = RNG.normal(size=(2, len(x)))
    data_window = np.stack([seen(f) for f in window])
    np.testing.assert_allclose(seen(found.mean(jnp.asarray(window))), dense.mean(jnp.asarray(data_window)), atol=1e-6)


def test_axes_of_a_product_grid():
    axes, place = grid_axes(PRODUCT)
    assert [axis.tolist() for axis in axes] == [[0.0, 0.7, 1.5], [-1.0, 0.4]]
    points = np.array(list(itertools.product(*axes)))
    np.testing.assert_array_equal(points[place], PRODUCT)
    assert grid_axes(SCATTERED) is None
    assert grid_axes(np.repeat(PRODUCT[:3], 2, axis=0)) is None


def test_other_inputs_are_refused():
    kernel = seqgp.Separable(time=seqgp.kernels.Matern32(1.0), space=SQUARED)
    shared = Grid().resolve(kernel, PRODUCT)
    with pytest.raises(seqgp.DataError, match=r"not the x of the first snapshot .* latent=seqgp\.Dense\(\)"):
        shared.sites(PRODUCT + 0.1, len(PRODUCT))
    with pytest.raises(seqgp.DataError, match=r"x of shape \(5, 2\)"):
        shared.sites(PRODUCT[:5], 5)
