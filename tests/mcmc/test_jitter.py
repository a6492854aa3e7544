"""What the jitter of chains does to the evidence of Gaussian data, against dense algebra, and when it is told."""

import jax
import numpy as np
import pytest

import seqgp
from seqgp.mcmc.jitter import jitter_effect
from seqgp.mcmc.problem import initial_problem
from seqgp.samplers.full.stacked import stacked_problem

X = np.linspace(0, 1, 8)[:, None]
PLANE = np.stack([part.ravel() for part in np.meshgrid(np.linspace(0, 1, 5), np.linspace(0, 1, 4), indexing="ij")], 1)
JITTER, SCALE = 1e-8, 2.0


def model(noise, jitter=JITTER, kernel=seqgp.kernels.SquaredExponential):
    between = seqgp.Separable(seqgp.kernels.Matern32(2.0), kernel(1.0), SCALE)
    return seqgp.Model(between, seqgp.likelihoods.Gaussian(noise), jitter=jitter)


def expected(covariance, added, noise):
    """``½ tr (C_j − C) C_j⁻¹`` for data of ``covariance``, to which jitter adds ``added``."""
    whole = covariance + added + noise**2 * np.eye(len(covariance))
    return np.trace(added @ np.linalg.inv(whole)) / 2


def squared_exponential(x):
    return SCALE**2 * np.exp(-((x[:, None] - x[None]) ** 2).sum(-1) / 2)


@pytest.mark.parametrize("noise", [1e-3, 1e-4])
def test_the_effect_is_that_of_dense_algebra(noise):
    """A row without data says nothing."""
    y = np.where(np.arange(8) == 2, np.nan, np.sin(3 * X[:, 0]))
    problem, _ = initial_problem(model(noise), seqgp.Dense(), seqgp.Snapshot(0.0, X, y))
    seen = X[~np.isnan(y)]
    true = expected(squared_exponential(seen), JITTER * SCALE**2 * np.eye(7), noise)
    assert jitter_effect(model(noise), problem, np.zeros(0)) == pytest.approx(true, rel=1e-3)


def test_on_a_grid_it_is_added_to_each_factor():
    noise = 1e-4
    of = model(noise)
    snapshot = seqgp.Snapshot(0.0, PLANE, np.ones(20))
    grid = seqgp.Grid().resolve(of.kernel, PLANE)
    problem, _ = initial_problem(of, grid, snapshot)
    factors = [np.exp(-((np.subtract.outer(*[np.unique(PLANE[:, d])] * 2)) ** 2) / 2) for d in range(2)]
    raised = [factor + JITTER * np.eye(len(factor)) for factor in factors]
    covariance = SCALE**2 * np.kron(*factors)
    added = SCALE**2 * (1 + JITTER) * np.kron(*raised) - covariance  # time is a factor as well
    true = expected(covariance, added, noise)
    assert true > 1e-3
    assert jitter_effect(of, problem, np.zeros(0)) == pytest.approx(true, rel=1e-3)


def test_all_times_at_once():
    noise = 1e-4
    of = model(noise)
    snapshots = [seqgp.Snapshot(t, X, np.ones(8)) for t in (0.0, 0.3)]
    problem, _ = stacked_problem(of, snapshots)
    scaled = np.sqrt(3) * 0.3 / 2.0
    between = (1 + scaled) * np.exp(-scaled)
    covariance = np.kron([[1, between], [between, 1]], squared_exponential(X))
    true = expected(covariance, JITTER * SCALE**2 * np.eye(16), noise)
    assert jitter_effect(of, problem, np.zeros(0)) == pytest.approx(true, rel=1e-3)


@pytest.mark.parametrize(
    "quiet",
    [model(0.01), model(1e-4, jitter=1e-12), model(1e-3, kernel=seqgp.kernels.Matern12)],
    ids=["usual noise", "small jitter", "rough"],
)
def test_what_is_negligible_is_not_told(quiet):
    problem, _ = initial_problem(quiet, seqgp.Dense(), seqgp.Snapshot(0.0, X, np.ones(8)))
    assert jitter_effect(quiet, problem, np.zeros(0)) < 0.1


@pytest.mark.parametrize("all_times", [False, True])
def test_samplers_of_chains_warn_where_it_matters(all_times):
    """Nearly exact data of a smooth field: means were off by a standard deviation, without a word."""
    of, snapshot = model(1e-5), seqgp.Snapshot(0.0, X, np.sin(3 * X[:, 0]))
    if all_times:
        _, info = seqgp.FullSampler(of, draws=40, warmup=20).sample(jax.random.key(0), [snapshot])
    else:
        _, info = seqgp.SequentialSampler(of, draws=40, warmup=20).init(jax.random.key(0), snapshot)
    assert info.extras["jitter_effect"] > 1
    assert any(one.startswith("jitter: Model(jitter=1e-08) counts as noise") for one in info.warnings)
