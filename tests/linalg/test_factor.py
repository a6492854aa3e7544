"""Factors and solves against NumPy: alone, under ``vmap`` (one lane after the other), and differentiated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqgp.linalg.factor import SINGULAR_SHARE, cholesky, covariance_root, eigenvectors, inverse_root, solve_lower

RNG = np.random.default_rng(0)
HALF = RNG.normal(size=(3, 4, 4))
MATRICES = HALF @ HALF.swapaxes(1, 2) + np.eye(4)
ROOTS = np.linalg.cholesky(MATRICES)
COLUMNS = RNG.normal(size=(3, 4, 2))


def test_a_factor_is_that_of_the_upper_triangle():
    spoilt = np.where(np.tri(4, k=-1, dtype=bool), 99.0, MATRICES[0])
    np.testing.assert_allclose(cholesky(spoilt), ROOTS[0], atol=1e-12)
    assert np.isnan(cholesky(np.array([[1.0, 2.0], [2.0, 1.0]]))).any()  # it has none


@pytest.mark.parametrize("transpose", [False, True])
def test_solves(transpose):
    matrix = ROOTS[0].T if transpose else ROOTS[0]
    spoilt = ROOTS[0] + np.triu(np.ones((4, 4)), 1)  # what is not of the triangle is not looked at
    np.testing.assert_allclose(solve_lower(spoilt, COLUMNS[0], transpose), np.linalg.solve(matrix, COLUMNS[0]))
    vector = COLUMNS[0, :, 0]
    np.testing.assert_allclose(solve_lower(ROOTS[0], vector, transpose), np.linalg.solve(matrix, vector))


@pytest.mark.parametrize("roots", [True, False])
@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("transpose", [False, True])
def test_solves_of_many_lanes_are_those_of_each(roots, columns, transpose):
    root, column = ROOTS if roots else ROOTS[0], COLUMNS if columns else COLUMNS[0]
    axes = 0 if roots else None, 0 if columns else None
    if axes == (None, None):
        axes = (None, None, 0)
        found = jax.vmap(lambda r, c, _: solve_lower(r, c, transpose), axes)(root, column, np.zeros(3))
    else:
        found = jax.vmap(lambda r, c: solve_lower(r, c, transpose), axes)(root, column)
    for lane in range(3):
        one = ROOTS[lane] if roots else ROOTS[0]
        expected = np.linalg.solve(one.T if transpose else one, COLUMNS[lane] if columns else COLUMNS[0])
        np.testing.assert_allclose(found[lane], expected)


def test_factors_and_eigenvectors_of_many_lanes_are_those_of_each():
    np.testing.assert_allclose(jax.vmap(cholesky)(MATRICES), ROOTS, atol=1e-12)
    values, vectors = jax.vmap(eigenvectors)(MATRICES)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(MATRICES))
    np.testing.assert_allclose(vectors * values[:, None, :] @ vectors.swapaxes(1, 2), MATRICES, atol=1e-12)
    same, _ = jax.vmap(lambda _: eigenvectors(MATRICES[0]))(np.zeros(2))
    np.testing.assert_allclose(same, np.linalg.eigvalsh(MATRICES[:1])[[0, 0]])


def ranks(function, *args):
    """The ranks of the matrices that LAPACK is given, in the program of a function and in all that is inside it."""
    found, todo = set(), [jax.make_jaxpr(function)(*args).jaxpr]
    while todo:
        for equation in todo.pop().eqns:
            if equation.primitive.name in ("cholesky", "triangular_solve", "eigh"):
                found.add(equation.invars[0].aval.ndim)
            todo += [getattr(inner, "jaxpr", inner) for inner in jax.tree.leaves(
                list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")
            ) if hasattr(inner, "eqns") or hasattr(inner, "jaxpr")]  # fmt: skip
    return found


def test_no_batched_kernel_is_called_under_vmap():
    """Those wait for each other in several threads; JAX's own functions would call them."""
    assert ranks(jax.vmap(cholesky), MATRICES) == {2}
    assert ranks(jax.vmap(solve_lower), ROOTS, COLUMNS) == {2}
    assert ranks(jax.vmap(lambda column: solve_lower(ROOTS[0], column)), COLUMNS) == {2}
    assert ranks(jax.vmap(eigenvectors), MATRICES) == {2}
    assert ranks(jax.vmap(jax.vmap(cholesky)), MATRICES[None]) == {2}
    assert ranks(jax.vmap(jnp.linalg.cholesky), MATRICES) == {3}


def test_gradients():
    gradient = jax.jit(jax.vmap(jax.grad(lambda matrix: jnp.sum(jnp.log(jnp.diagonal(cholesky(matrix)))))))
    inverse = np.linalg.inv(MATRICES)  # half of it is the gradient of ½ log det; each entry above the diagonal is two
    np.testing.assert_allclose(gradient(MATRICES), np.triu(inverse, 1) + 0.5 * inverse * np.eye(4), atol=1e-10)
    for transpose in (False, True):  # of the sum of root⁻¹ v: −root⁻ᵀ 1 (root⁻¹ v)', below the diagonal
        solved = jax.grad(lambda root: jnp.sum(solve_lower(root, COLUMNS[0], transpose)))(ROOTS[0])  # noqa: B023
        matrix = ROOTS[0].T if transpose else ROOTS[0]
        outer = -np.linalg.solve(matrix.T, np.ones((4, 2))) @ np.linalg.solve(matrix, COLUMNS[0]).T
        np.testing.assert_allclose(solved, np.tril(outer.T if transpose else outer), atol=1e-12)


@pytest.mark.parametrize("outer", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("inner", [jax.jacfwd, jax.jacrev])
def test_second_derivatives(outer, inner):
    """Along a line: of ``½ log det(A + x B)`` it is ``−½ tr (A⁻¹B)²``, of ``|(root (1 + x))⁻¹ v|²`` six times that."""
    along = MATRICES[1]

    def half_log_det(x):
        return jnp.sum(jnp.log(jnp.diagonal(cholesky(MATRICES[0] + x * along))))

    def square(x):
        return jnp.sum(solve_lower((1.0 + x) * ROOTS[0], COLUMNS[0]) ** 2)

    ratio = np.linalg.solve(MATRICES[0], along)
    found = jax.jit(lambda x: (outer(inner(half_log_det))(x), outer(inner(square))(x)))(0.0)
    np.testing.assert_allclose(found, (-0.5 * np.trace(ratio @ ratio), 6 * square(0.0)), rtol=1e-10)


def test_a_root_of_a_singular_covariance():
    half = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, -1.0]])
    covariance = half @ half.T
    assert np.isnan(np.asarray(cholesky(jnp.asarray(covariance - 1e-12 * np.eye(3))))).any()
    root = np.asarray(covariance_root(jnp.asarray(covariance - 1e-12 * np.eye(3))))
    np.testing.assert_allclose(root @ root.T, covariance, atol=1e-8)


def test_a_root_where_rounding_left_a_variance_at_or_below_zero():
    """Nothing varies there, whatever rounding left beside the diagonal; the other variances stay."""
    covariance = np.array([[1.0, 0.4, 3e-17], [0.4, 2.0, -2e-17], [3e-17, -2e-17, -1e-18]])
    root = np.asarray(covariance_root(jnp.asarray(covariance)))
    np.testing.assert_allclose((root @ root.T)[:2, :2], covariance[:2, :2], atol=1e-12)
    np.testing.assert_array_equal(root[2], 0.0)
    np.testing.assert_array_equal(covariance_root(jnp.zeros((2, 2))), np.zeros((2, 2)))


def test_a_root_keeps_what_little_two_that_are_nearly_equal_differ_by():
    covariance = np.array([[1.0, 1.0 - 1e-11], [1.0 - 1e-11, 1.0]])
    root = np.asarray(covariance_root(jnp.asarray(covariance)))
    difference = np.array([1.0, -1.0]) @ root
    assert difference @ difference == pytest.approx(2e-11, rel=0.01)


def test_a_root_says_when_the_covariance_has_no_digits_left():
    """Correlations of 1 + d have the eigenvalue -d; a variance below zero has no correlations at all."""
    correlated = jnp.array([[1.0, 1.001], [1.001, 1.0]])
    scale = jnp.array([1.0, 1e-5])
    for covariance in (correlated, scale[:, None] * correlated * scale[None, :]):
        assert np.isfinite(covariance_root(covariance, 2e-3)).all()
        assert np.isnan(covariance_root(covariance, 5e-4)).all()
        assert np.isfinite(covariance_root(covariance)).all()
    assert np.isnan(covariance_root(jnp.diag(jnp.array([1.0, -1e-17])), 1e-2)).all()
    both = jax.vmap(lambda covariance: covariance_root(covariance, 5e-4))(jnp.stack([correlated, jnp.eye(2)]))
    assert np.isnan(both[0]).all()
    np.testing.assert_allclose(both[1], np.eye(2), atol=1e-9)


def test_what_the_inverse_root_leaves_out_is_bounded():
    """By Cauchy and Schwarz: Σ (c'v)² / λ ≤ k over the eigenvectors v that are left out, k the new variance."""
    x, new = np.linspace(0, 1, 12), np.linspace(-1, 2, 31)
    known, cross = (np.exp(-0.5 * (a[:, None] - x[None, :]) ** 2) for a in (x, new))
    root = np.asarray(inverse_root(jnp.asarray(known)))
    left_out = np.linalg.norm(root, axis=1) == 0
    assert 0 < left_out.sum() < 12
    kept = cross @ root.T @ root @ known
    most = np.sqrt(SINGULAR_SHARE * np.linalg.eigvalsh(known)[-1])
    assert np.linalg.norm(kept - cross, axis=1).max() < most
    assert np.abs(kept - cross).max() < np.sqrt(SINGULAR_SHARE * 12)
