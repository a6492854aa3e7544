"""The one Gaussian vector behind all parameters, and what identifies a model."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import tinygp

import seqgp
import small
from seqgp import kernels, likelihoods


def model(**changes):
    """With a list of lengthscales, one of them known, a distribution as a prior, and a prior that is not centred."""
    parts = {
        "time": kernels.SquaredExponential(seqgp.ScaledSigmoid(0, 3)),
        "space": kernels.Matern32([seqgp.ScaledSigmoid(0, 2), 0.7]),
        "scale": dist.HalfNormal(1.0),
        "mean": seqgp.ScaledSigmoid(-1, 1),
        "likelihood": likelihoods.Gaussian(seqgp.ScaledSigmoid(0, 1, loc=-1.0)),
    }
    return small.model(**(parts | changes))


def test_z_and_its_blocks():
    assert model().names == ["time.lengthscale", "space.lengthscale[0]", "scale", "mean", "noise"]
    assert model().inferred == ["time.lengthscale", "space.lengthscale", "scale", "mean", "noise"]
    layout = model().layout()
    assert layout.kernel.tolist() == [0, 1, 2]
    assert layout.time.tolist() == [0]
    assert layout.mean.tolist() == [3]
    assert layout.likelihood.tolist() == [4]
    mean, covariance = model().prior_of_z()
    np.testing.assert_allclose(mean, [0, 0, 0, 0, -1])
    np.testing.assert_allclose(covariance, np.diag([2.25, 2.25, 1, 2.25, 2.25]))


def test_parameters_in_natural_units():
    z = np.array([0.3, -1.0, 0.2, 0.0, 2.0])
    found = model().parameters(jnp.asarray(z))
    sigmoid = 1 / (1 + np.exp(-z))
    np.testing.assert_allclose(found["time.lengthscale"], 3 * sigmoid[0])
    np.testing.assert_allclose(found["space.lengthscale"], [2 * sigmoid[1], 0.7])
    np.testing.assert_allclose(found["mean"], 0.0, atol=1e-15)
    np.testing.assert_allclose(found["noise"], sigmoid[4])
    many = model().natural(jnp.stack([jnp.asarray(z)] * 4))
    assert many["space.lengthscale"].shape == (4, 2)
    assert many["scale"].shape == (4,)


UNSORTED = {"width": seqgp.ScaledSigmoid(0, 1), "depth": dist.HalfNormal(1.0)}


@pytest.mark.parametrize(
    "changes",
    [
        {"mean": seqgp.means.Linear(["height", "day"], [dist.Normal(-5.0, 3.0), seqgp.ScaledSigmoid(0, 1)])},
        {"likelihood": likelihoods.Likelihood(lambda f, c, width, depth: dist.Normal(f, width + depth), **UNSORTED)},
        {"likelihood": likelihoods.StudentT(seqgp.ScaledSigmoid(0, 1), df=dist.Gamma(2.0, 0.1))},
        {"space": kernels.Covariance(lambda a, b, width, depth: jnp.exp(-jnp.sum((a - b) ** 2) / width), **UNSORTED)},
    ],
    ids=["mean", "likelihood", "ready-made", "kernel"],
)
def test_what_is_compiled_has_the_parameters_in_the_order_of_z(changes):
    """JAX sorts the keys of a dictionary when a model is taken apart and put together again."""
    ours = model(**changes)
    again = jax.tree.map(lambda leaf: leaf, ours)
    assert again.names == ours.names
    for before, after in zip(ours.prior_of_z(), again.prior_of_z()):
        np.testing.assert_array_equal(before, after)


def test_known_parameters_are_no_part_of_z():
    known = seqgp.Model(
        kernel=seqgp.Separable(time=kernels.Matern12(1.0), space=kernels.Matern12(2.0)),
        likelihood=likelihoods.Gaussian(0.1),
    )
    assert known.names == []
    assert known.parameters(jnp.zeros(0))["space.lengthscale"] == 2.0


def test_equal_models_have_equal_fingerprints():
    assert model().fingerprint() == model().fingerprint()


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("mean", {"mean": 0.5}),
        ("mean", {"mean": seqgp.ScaledSigmoid(-1, 2)}),
        ("likelihood", {"likelihood": likelihoods.Gaussian(0.5)}),
        (
            "likelihood",
            {"likelihood": likelihoods.Likelihood(lambda f, c, noise: dist.Laplace(f, noise), noise=0.5)},
        ),
        ("jitter", {"jitter": 1e-6}),
        ("kernel", {"kernel": seqgp.Separable(time=kernels.Matern12(1.0), space=kernels.Matern12(2.0))}),
        (
            "kernel",
            {"kernel": seqgp.Separable(time=kernels.Matern12(1.0), space=kernels.Matern12(dist.Gamma(2.0, 1.0)))},
        ),
    ],
)
def test_a_change_shows_in_the_fingerprint(part, changed):
    before, after = model().fingerprint(), model(**changed).fingerprint()
    assert [name for name in before if before[name] != after[name]] == [part]


def test_parameters_of_distributions_and_constants_of_functions_show_in_the_fingerprint():
    def with_scale(prior):
        return model(
            kernel=seqgp.Separable(time=kernels.Matern12(1.0), space=kernels.Matern12(2.0), scale=prior)
        ).fingerprint()

    assert with_scale(dist.Gamma(2.0, 1.0)) != with_scale(dist.Gamma(2.0, 3.0))
    assert with_scale(dist.Gamma(2.0, 1.0)) == with_scale(dist.Gamma(2.0, 1.0))


def scaled(f, context, factor):
    return dist.Normal(factor * f, 1.0)


def recursive(factor):
    def power(f, context, n=2):
        return dist.Normal(factor * f, 1.0) if n == 0 else power(f, context, n - 1)

    return power


@pytest.mark.parametrize(
    "function",
    [
        lambda factor: lambda f, context: dist.Normal(factor * f, 1.0),
        lambda factor: lambda f, context, by=factor: dist.Normal(by * f, 1.0),
        lambda factor: functools.partial(scaled, factor=factor),
        lambda factor: jax.jit(lambda f, context: factor * f),
        lambda factor: (
            (lambda f, context: (lambda: 2.0 * f)()) if factor == 2 else lambda f, context: (lambda: 3.0 * f)()
        ),
        recursive,
    ],
    ids=["closure", "default", "partial", "compiled", "inner function", "recursive"],
)
def test_what_a_function_is_given_shows_in_the_fingerprint(function):
    def fingerprint(factor):
        return model(likelihood=likelihoods.Likelihood(function(factor))).fingerprint()

    assert fingerprint(2.0) != fingerprint(3.0)
    assert fingerprint(2.0) == fingerprint(2.0)


def test_arrays_in_a_kernel_of_others_show_in_the_fingerprint():
    def fingerprint(scale):
        space = tinygp.kernels.Matern32(scale=np.asarray(scale))
        return model(kernel=seqgp.Separable(time=kernels.Matern12(1.0), space=space)).fingerprint()

    assert fingerprint(0.8) != fingerprint(0.9)
    assert fingerprint(0.8) == fingerprint(0.8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"kernel": kernels.Matern12(1.0)},
            r"seqgp.Separable\(time, space, scale\) or a sum of them, got Matern12",
        ),
        ({"likelihood": dist.Normal(0.0, 1.0)}, "likelihood must be a seqgp.likelihoods.Likelihood, got Normal"),
        ({"jitter": 0.0}, "jitter = 0.0 must be a positive number, or an increasing list"),
        ({"jitter": "a"}, "Model: jitter: expected a number"),
        ({"jitter": [1e-6, 1e-8]}, "must be a positive number, or an increasing list"),
        ({"mean": "zero"}, "Model: mean: expected a number"),
        (
            {"likelihood": likelihoods.Likelihood(lambda f, c, scale: dist.Normal(f, scale), scale=1.0)},
            "called 'scale' already; choose another name",
        ),
    ],
)
def test_bad_models_are_named(changes, message):
    with pytest.raises(seqgp.ModelError, match=message):
        model(**changes)
