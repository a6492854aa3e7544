"""Means with covariates: columns, names, and what is wrong with a covariate said by name."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.means.base import ConstantMean, covariate_effect

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 2))
NORMAL = dist.Normal(0.0, 2.0)


def slope(t, x):
    return t * x[:, 0]


MEAN = seqgp.means.Linear(
    ["height", slope, seqgp.means.harmonics(10.0, 2)], weights=NORMAL, intercept=dist.Normal(1.0, 3.0)
)
CONTEXT = {"height": RNG.normal(size=5)}


def test_columns_and_names():
    design = MEAN.design(3.0, X, CONTEXT)
    angle = 2 * np.pi * 3.0 / 10.0
    waves = [np.cos(angle), np.sin(angle), np.cos(2 * angle), np.sin(2 * angle)]
    expected = np.column_stack([np.ones(5), CONTEXT["height"], 3.0 * X[:, 0], *(np.full(5, wave) for wave in waves)])
    np.testing.assert_allclose(design, expected, rtol=1e-14)
    assert MEAN.names == ["mean", "mean.height", "mean.slope", *(f"mean.season[{i}]" for i in range(4))]
    assert MEAN.gaussian() == [(1.0, 3.0)] + [(0.0, 2.0)] * 6


def test_the_value_is_the_design_times_the_coefficients():
    design, beta = MEAN.design(3.0, X, CONTEXT), RNG.normal(size=7)
    parameters = {"mean": beta[0], "mean.height": beta[1], "mean.slope": beta[2], "mean.season": beta[3:]}
    parameters = {name: jnp.asarray(value) for name, value in parameters.items()}
    np.testing.assert_allclose(MEAN.value(parameters, design), design @ beta, rtol=1e-13)
    columns = MEAN.columns(3.0, X, CONTEXT)
    np.testing.assert_allclose(beta[0] + covariate_effect(columns, parameters), design @ beta, rtol=1e-13)


def test_a_constant_has_no_covariates():
    constant = ConstantMean(0.3)
    assert not constant.covariates
    assert constant.columns(0.0, X, None) == {}
    np.testing.assert_array_equal(constant.design(0.0, X, None), np.ones((5, 1)))
    assert constant.gaussian() == [None]


def test_a_model_keeps_its_mean_and_names_its_weights():
    kernel = seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(1.0))
    model = seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.3), MEAN)
    assert model.names == MEAN.names
    assert model.layout().mean.tolist() == list(range(7))
    assert model.inferred == ["mean", "mean.height", "mean.slope", "mean.season"]
    other = seqgp.means.Linear(
        ["height", slope, seqgp.means.harmonics(11.0, 2)], weights=NORMAL, intercept=dist.Normal(1.0, 3.0)
    )
    assert (
        model.fingerprint()["mean"] != seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.3), other).fingerprint()["mean"]
    )
    assert seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.3), 0.4).fingerprint()["mean"] == "0.4"


def test_weights_for_each_feature():
    by_name = seqgp.means.Linear(["a", "b"], weights={"b": 2.0, "a": NORMAL})
    assert by_name.slots()["mean.b"] == 2.0
    in_order = seqgp.means.Linear(["a", seqgp.means.harmonics(1.0)], weights=[1.0, [2.0, 3.0]])
    assert in_order.slots() == {"mean": 0.0, "mean.a": 1.0, "mean.season": (2.0, 3.0)}


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (None, "covariate 'height' is missing at t = 3: the context has nothing; give context="),
        ({"depth": X[:, 0]}, "covariate 'height' is missing at t = 3: the context has depth"),
        ({"height": X[:3, 0]}, r"covariate 'height' has shape \(3,\) at t = 3, expected \(5,\)"),
        (
            {"height": [1.0, 2.0, np.nan, 1.0, 2.0]},
            r"1 of 5 values at t = 3 are not finite \(first at index 2\)",
        ),
    ],
)
def test_what_is_wrong_with_a_covariate_is_named(context, message):
    with pytest.raises(seqgp.DataError, match=message):
        MEAN.design(3.0, X, context)


def test_a_covariate_that_does_not_vary_is_refused_beside_an_intercept():
    """In a run of several snapshots and in a batch; where it varies over time, or has no intercept, it is taken."""
    kernel = seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(1.0))

    def model(intercept=NORMAL, weights=NORMAL):
        return seqgp.Model(
            kernel, seqgp.likelihoods.Gaussian(0.3), seqgp.means.Linear(["height", "day"], weights, intercept)
        )

    def data(days, height=CONTEXT["height"]):
        return [seqgp.Snapshot(t, X, np.zeros(5), {"height": height, "day": day}) for t, day in enumerate(days)]

    message = (
        r"covariate 'day' is 3 at all 10 data: its weight cannot be told from the intercept; leave it out, or give"
    )
    with pytest.raises(seqgp.DataError, match=message):
        seqgp.run(model(), data([3.0, 3.0]))
    with pytest.raises(seqgp.DataError, match=message):
        seqgp.FullSampler(model()).sample(None, data([3.0, 3.0]))
    with pytest.raises(seqgp.DataError, match="'height' is 2 at all 10 data"):
        model().mean_function.check_varying(data([1.0, 2.0], height=2.0))
    for fine, days in (
        (model(), [3.0, 4.0]), (model(), [0.0, 0.0]), (model(intercept=1.0), [3.0, 3.0]),
        (model(weights=[NORMAL, 0.5]), [3.0, 3.0]),
    ):  # fmt: skip
        fine.mean_function.check_varying(data(days))
    seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.3), NORMAL).mean_function.check_varying(data([3.0, 3.0]))
    known_season = seqgp.means.Linear([seqgp.means.harmonics(1.0)], weights=[[0.5, 0.5]], intercept=NORMAL)
    known_season.check_varying(data([3.0, 3.0]))


def test_a_function_of_the_wrong_width_is_named():
    wide = seqgp.means.Linear([seqgp.means.Feature(lambda t, x: x, name="wide")], weights=1.0)
    with pytest.raises(seqgp.DataError, match=r"'wide' returned shape \(5, 2\) at t = 0, expected \(5, 1\)"):
        wide.design(0.0, X, None)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda t, x: x[:, 7], r"feature 'own' failed at t = 3 \(IndexError: index 7 is out of bounds"),
        (lambda t, x: ["a"] * len(x), "what feature 'own' returned at t = 3 is not an array of numbers"),
        (lambda t, x: x[:, 0] + 1j, "what feature 'own' returned at t = 3 .* of complex ones"),
    ],
)
def test_a_function_that_fails_or_returns_no_numbers_is_named(function, message):
    with pytest.raises(seqgp.DataError, match=message):
        seqgp.means.Linear([seqgp.means.Feature(function, name="own")], weights=1.0).design(3.0, X, None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: seqgp.means.Linear([], weights=1.0), "features is empty"),
        (lambda: seqgp.means.Linear("elevation", weights=1.0), "features = 'elevation': expected a list of features"),
        (
            lambda: seqgp.means.Linear(seqgp.means.harmonics(1.0), weights=1.0),
            "features = Feature: expected a list of features",
        ),
        (lambda: seqgp.means.Linear(["a", "a"], weights=1.0), "two features are called 'a'"),
        (lambda: seqgp.means.Linear(["a"], weights={"b": 1.0}), "'a' has no weight|'b' is no feature|features are a"),
        (lambda: seqgp.means.Linear(["a"], weights=[1.0, 2.0]), "2 weights for 1 features"),
        (lambda: seqgp.means.Linear([3], weights=1.0), "names of the context or functions .*, got int"),
        (lambda: seqgp.means.Linear([lambda t, x: x[:, 0]], weights=1.0), "give it a name"),
        (
            lambda: seqgp.means.Linear([seqgp.means.harmonics(1.0)], weights=[[1.0, 2.0, 3.0]]),
            "3 weights for the 2 columns",
        ),
        (lambda: seqgp.means.harmonics(0.0), "period = 0.0 is not positive"),
        (lambda: seqgp.means.harmonics(1.0, 0), "order = 0 is not a whole number"),
    ],
)
def test_bad_means_are_named(make, message):
    with pytest.raises(seqgp.ModelError, match=message):
        make()


def test_whole_numbers_of_numpy_are_whole_numbers():
    assert seqgp.means.harmonics(1.0, np.int64(2)).width == 4
    assert seqgp.likelihoods.LogGaussianCox([(0, 1), (0, 2)], np.array([4, 2])).bins == (4, 2)
    assert seqgp.likelihoods.LogGaussianCox([(0, 1)], np.int64(4)).bins == (4,)
    assert seqgp.kernels.Coregionalised(np.int64(2), np.int64(1)) == seqgp.kernels.Coregionalised(2)
