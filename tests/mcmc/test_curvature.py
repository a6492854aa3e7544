"""The curvature of a log likelihood, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqgp.mcmc.exploration import diagonal_curvature, differentiable

AT = np.array([0.1, 0.4, -1.0])


@pytest.mark.parametrize("diagonal", [True, False])
def test_counts(diagonal):
    found = diagonal_curvature(lambda s: jnp.sum(2.0 * s - jnp.exp(s)), jnp.asarray(AT), diagonal)
    np.testing.assert_allclose(found, np.exp(AT))


def test_elements_that_depend_on_each_other():
    """Of ``−½ s'Hs`` it is the diagonal of ``H``; a product with ones would be the sums of its rows."""
    matrix = np.array([[2.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 3.0]])

    def log_density(s):
        return -0.5 * s @ matrix @ s

    np.testing.assert_allclose(diagonal_curvature(log_density, jnp.asarray(AT), False), np.diag(matrix))
    np.testing.assert_allclose(diagonal_curvature(log_density, jnp.asarray(AT), True), matrix.sum(1))  # where asked so


def test_what_is_not_concave_has_no_curvature():
    found = diagonal_curvature(lambda s: jnp.sum(jnp.cos(s)), jnp.asarray([0.0, np.pi, 1.0]), True)
    np.testing.assert_allclose(found, [1.0, 0.0, np.cos(1.0)], atol=1e-12)
    spoilt = diagonal_curvature(lambda s: jnp.sum(jnp.sqrt(s)), jnp.asarray([0.0, 1.0, -1.0]), True)
    np.testing.assert_allclose(spoilt, [0.0, 0.25, 0.0])  # infinite, finite, not a number


def test_what_cannot_be_differentiated_is_noticed():
    shape = jax.ShapeDtypeStruct((3,), float)
    called = jax.ShapeDtypeStruct((), float)

    def loop(s):
        return jax.lax.while_loop(lambda v: jnp.sum(v) < 10.0, lambda v: 2.0 * v, s)[0]

    assert differentiable(lambda s: jnp.sum(s**2), shape)
    assert not differentiable(lambda s: jax.pure_callback(lambda v: np.sum(np.asarray(v)), called, s), shape)
    assert not differentiable(loop, shape)
    assert not differentiable(lambda s: jnp.asarray(float(s[0])), shape)
