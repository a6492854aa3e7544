"""Roots as linear operators against dense matrices, and the ladder of jitter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqgp.fields.operators import Kronecker, Triangular, root_with_jitter
from seqgp.linalg.factor import solve_lower

RNG = np.random.default_rng(0)


def lower(n):
    return np.tril(RNG.normal(size=(n, n))) + 3 * np.eye(n)


A, B, C = lower(2), lower(3), lower(2)
OPERATORS = {
    "triangular": (Triangular(jnp.asarray(B)), B),
    "triangular, its square at hand": (Triangular(jnp.asarray(B), jnp.asarray(B @ B.T)), B),
    "one factor": (Kronecker(jnp.asarray(0.7), (Triangular(jnp.asarray(B)),)), 0.7 * B),
    "three factors": (
        Kronecker(jnp.asarray(0.7), tuple(Triangular(jnp.asarray(m)) for m in (A, B, C))),
        0.7 * np.kron(A, np.kron(B, C)),
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("columns", [(), (4,)], ids=["vector", "columns"])
def test_operators_are_their_matrices(name, columns):
    operator, dense = OPERATORS[name]
    v = RNG.normal(size=(len(dense), *columns))
    np.testing.assert_allclose(operator.apply(jnp.asarray(v)), dense @ v, rtol=1e-10)
    np.testing.assert_allclose(operator.pull(jnp.asarray(v)), dense.T @ v, rtol=1e-10)
    np.testing.assert_allclose(operator.solve(jnp.asarray(v)), np.linalg.solve(dense, v), rtol=1e-9)


@pytest.mark.parametrize("name", OPERATORS)
def test_pull_of_a_diagonal(name):
    operator, dense = OPERATORS[name]
    d = RNG.normal(size=len(dense))
    half = dense.T @ np.diag(d)
    np.testing.assert_allclose(operator.pull_diagonal(jnp.asarray(d)), half, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(operator.gram_diagonal(jnp.asarray(d)), half.T @ half, rtol=1e-10, atol=1e-12)


def test_solve_lower_and_its_transpose():
    v = RNG.normal(size=3)
    np.testing.assert_allclose(solve_lower(jnp.asarray(B), jnp.asarray(v)), np.linalg.solve(B, v), rtol=1e-10)
    np.testing.assert_allclose(
        solve_lower(jnp.asarray(B), jnp.asarray(v), transpose=True), np.linalg.solve(B.T, v), rtol=1e-10
    )


def counts(events):
    return int(events.not_positive_definite), int(events.jitter_raised)


def test_the_first_jitter_that_works_is_taken():
    """A matrix whose least eigenvalue is −1e-5 (relative to its unit) needs a jitter above that."""
    vectors, _ = np.linalg.qr(RNG.normal(size=(4, 4)))
    unit = 2.5
    matrix = unit * (vectors * np.array([1.0, 0.5, 0.1, -1e-5])) @ vectors.T
    factor = jax.jit(root_with_jitter, static_argnums=2)

    def attempt(ladder):
        return factor(jnp.asarray(matrix), jnp.asarray(unit), ladder)

    (root, square), events = attempt((1e-8, 1e-4, 1e-2))
    np.testing.assert_allclose(root @ root.T, matrix + 1e-4 * unit * np.eye(4), atol=1e-12)
    np.testing.assert_allclose(root @ root.T, square, atol=1e-12)
    assert counts(events) == (0, 1)
    _, events = attempt((1e-3,))
    assert counts(events) == (0, 0)
    (root, _), events = attempt((1e-8,))
    assert np.isnan(root).any()
    assert counts(events) == (1, 0)
    _, events = attempt((1e-8, 1e-6))
    assert counts(events) == (1, 1)


def test_a_nan_matrix_is_not_positive_definite():
    (root, _), events = root_with_jitter(jnp.full((3, 3), jnp.nan), jnp.ones(()), (1e-8, 1e-4))
    assert np.isnan(root).any()
    assert int(events.not_positive_definite) == 1
