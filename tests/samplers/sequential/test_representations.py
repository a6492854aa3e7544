"""The representation of the latent changes the cost, and not the posterior."""

import itertools

import jax
import numpy as np
import pytest

import seqgp
from sequences import KNOWN, MEAN, matrix_scores, sampler, snapshots

X = snapshots([4])[0].x
SHARED = [seqgp.Snapshot(t, X, s.y) for t, s in zip((0.0, 0.4, 1.0), snapshots([4, 4, 4]))]


def run(latent, data=SHARED, **changes):
    sequential = sampler(KNOWN, latent=latent, **changes)
    states = [sequential.init(jax.random.key(0), data[0])[0]]
    for i, snapshot in enumerate(data[1:]):
        states.append(sequential.step(jax.random.key(1 + i), states[-1], snapshot)[0])
    return states


@pytest.fixture(scope="module")
def dense():
    return run(seqgp.Dense())


@pytest.mark.parametrize("latent", [seqgp.Grid(), "auto"])
def test_shared_inputs_give_the_draws_of_the_dense_representation(dense, latent):
    """Both have the same root, so the same random numbers give the same draws (but for the jitter)."""
    for one, two in zip(run(latent), dense):
        np.testing.assert_allclose(one.latent, two.latent, atol=1e-4)


def test_from_a_product_grid_to_scattered_inputs():
    """``auto`` leaves the grid when the inputs do, and the window goes along: ``|z| < 4`` for 20 numbers."""
    rng = np.random.default_rng(3)
    grid = np.array(list(itertools.product([0.0, 0.7], [-0.5, 0.6])))[[2, 0, 3, 1]]
    data = [
        seqgp.Snapshot(0.0, grid, MEAN + rng.normal(size=4)),
        seqgp.Snapshot(0.5, rng.uniform(-1, 1, (4, 2)), MEAN + rng.normal(size=4)),
    ]
    settings = {"draws": 2000, "chains": 4, "warmup": 100, "thin": 5, "updates": seqgp.Plain(sweeps=(40, 0, 1))}
    before, after = run("auto", data, **settings)
    assert before.representation.name == "grid (Kronecker)"
    assert after.representation.name == "dense"
    np.testing.assert_allclose(before.latent, MEAN + np.asarray(before.window.f)[:, -1][:, before.representation.order])
    assert matrix_scores(before, after, data[1]).max() < 4
