"""Nearly exact data of a smooth field: the jitter of the model is no part of what filters compute."""

import jax
import numpy as np
import pytest

import seqgp

N, NOISE = 8, 1e-5
X = np.linspace(0, 1, N)[:, None]
Y = np.sin(2 * X[:, 0]) + 0.3 * np.cos(5 * X[:, 0]) + NOISE * np.random.default_rng(0).normal(size=N)


def cholesky(matrix):
    """In extended precision, which NumPy's does not take."""
    root = np.zeros_like(matrix)
    for i in range(len(matrix)):
        for j in range(i + 1):
            rest = matrix[i, j] - root[i, :j] @ root[j, :j]
            root[i, j] = np.sqrt(rest) if i == j else rest / root[j, j]
    return root


def solve(root, columns):
    """``root⁻¹ columns``."""
    found = np.zeros_like(columns)
    for i, row in enumerate(root):
        found[i] = (columns[i] - row[:i] @ found[:i]) / row[i]
    return found


def dense(y):
    """Log evidence, and mean and sd of ``f`` at the data, in extended precision."""
    seen = ~np.isnan(y)
    x, y = X[seen, 0].astype(np.longdouble), y[seen].astype(np.longdouble)
    k = np.exp(-((x[:, None] - x[None, :]) ** 2) / 2)
    root = cholesky(k + np.longdouble(NOISE) ** 2 * np.eye(len(y)))
    white, half = solve(root, y), solve(root, k)
    evidence = -0.5 * white @ white - np.log(np.diag(root)).sum() - 0.5 * len(y) * np.log(2 * np.pi)
    sd = np.sqrt(np.diag(k) - (half**2).sum(0))
    return float(evidence), (half.T @ white).astype(float), sd.astype(float), seen


@pytest.mark.parametrize("jitter", [1e-8, 1e-3])
@pytest.mark.parametrize("gap", [False, True])
def test_evidence_and_mean_are_those_of_dense_algebra_without_jitter(gap, jitter):
    """Means within 5 standard errors of 1000 draws, sds within 15%: a false alarm in 1e5."""
    y = np.where((np.arange(N) == 3) & gap, np.nan, Y)
    model = seqgp.Model(
        seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.SquaredExponential(1.0), 1.0),
        seqgp.likelihoods.Gaussian(NOISE),
        jitter=jitter,
    )
    state, info = seqgp.OnlineSampler(model, particles=16, draws=1000).init(
        jax.random.key(0), seqgp.Snapshot(0.0, X, y)
    )
    evidence, mean, sd, seen = dense(y)
    assert info.log_evidence == pytest.approx(evidence, abs=0.01)
    drawn = np.asarray(state.latent)[:, seen]
    assert (np.abs(drawn.mean(0) - mean) < 5 * sd / np.sqrt(1000)).all()
    np.testing.assert_allclose(drawn.std(0), sd, rtol=0.15)
