"""What ``latent="auto"`` chooses, and why."""

import numpy as np
import pytest
import tinygp

import seqgp
from seqgp.fields.choice import DENSE_UP_TO, Automatic
from seqgp.fields.dense import Dense
from seqgp.fields.sites import Window

MANY = DENSE_UP_TO + 1


def begin(space, dimension):
    model = seqgp.Model(seqgp.Separable(seqgp.kernels.Matern12(1.0), space), seqgp.likelihoods.Gaussian(0.3))
    return Automatic().begin(model, np.random.default_rng(0).random((MANY, dimension)))


@pytest.mark.parametrize(
    ("space", "dimension", "name", "why"),
    [
        (seqgp.kernels.SquaredExponential(1.0), 2, "knots", "a smooth kernel, and more than"),
        (
            seqgp.kernels.PerColumn([seqgp.kernels.SquaredExponential(1.0), seqgp.kernels.Matern52(1.0)]),
            2,
            "knots",
            "a smooth kernel",
        ),
        (
            seqgp.kernels.PerColumn([seqgp.kernels.SquaredExponential(1.0), seqgp.kernels.Matern12(1.0)]),
            2,
            "dense",
            "exact for a rough kernel",
        ),
        (seqgp.kernels.Matern12(1.0), 2, "dense", "exact for a rough kernel"),
        (seqgp.kernels.SquaredExponential(1.0), 4, "dense", "more than 3 columns of x"),
        (tinygp.kernels.ExpSquared(scale=1.0), 2, "dense", "a kernel of one's own may be rough"),
    ],
    ids=["smooth", "product", "rough factor", "rough", "four columns", "tinygp"],
)
def test_many_points(space, dimension, name, why):
    latent, said = begin(space, dimension)
    assert latent.name.split()[0] == name
    assert why in said


def test_a_representation_that_changes_says_why():
    model = seqgp.Model(
        seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.SquaredExponential(1.0)),
        seqgp.likelihoods.Gaussian(0.3),
    )
    x = np.random.default_rng(0).random((5, 2))
    window = Window(np.array([0.0]), x[None], np.ones((1, 5), bool), np.zeros((3, 1, 5)))
    shared, moved, why = Automatic().follow(model, Dense(), window, x)
    assert (shared.name, why) == ("grid", "the inputs are those of the time before")
    assert Automatic().follow(model, shared, moved, x)[2] == "as before"
    other, _, why = Automatic().follow(model, shared, moved, x + 1.0)
    assert (other.name, why) == ("dense", "the inputs have changed")
    assert Automatic().follow(model, Dense(), window, x + 1.0)[2] == "as before"
