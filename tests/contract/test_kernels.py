"""Every ready-made kernel keeps the same promises: covariance, names, words, states, checks by name."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import tinygp
from experiments import calibration
from experiments.calibrated_models import OF_SPACE, OF_TIME
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv

import seqgp
from kept import through_store, through_toml
from seqgp import kernels
from states import by_kernel, by_state

RNG = np.random.default_rng(0)
LINE = np.concatenate([[0.0, 0.0], np.sort(RNG.uniform(0, 3, 7))])[:, None]  # a place twice
PLANE = np.concatenate([np.zeros((2, 2)), RNG.normal(size=(8, 2))])
GLOBE = np.column_stack([RNG.uniform(-180, 180, 9), RNG.uniform(-90, 90, 9)])
OUTPUTS = np.column_stack([np.arange(10) % 2, PLANE])


def matern(nu: float, lengthscale: Any = 0.8) -> Callable[[np.ndarray], np.ndarray]:
    """By Bessel's function: the formula for any smoothness."""

    def covariance(x):
        r = np.sqrt(2 * nu) * cdist(x / np.asarray(lengthscale), x / np.asarray(lengthscale))
        apart = np.where(r > 0, r, 1.0)
        return np.where(r > 0, 2 ** (1 - nu) / gamma(nu) * apart**nu * kv(nu, apart), 1.0)

    return covariance


def theirs(kernel) -> Callable[[np.ndarray], np.ndarray]:
    """A tinygp kernel, of inputs in one column."""
    return lambda x: np.asarray(kernel(x[:, 0], x[:, 0]))


def rotated(x):
    turn = np.array([[np.cos(0.4), np.sin(0.4)], [-np.sin(0.4), np.cos(0.4)]])
    return matern(1.5, [0.3, 1.5])(x @ turn.T)


def on_globe(x):
    """By the haversine formula."""
    longitude, latitude = np.deg2rad(x).T
    half = np.sin((latitude[:, None] - latitude) / 2) ** 2
    half = half + np.cos(latitude[:, None]) * np.cos(latitude) * np.sin((longitude[:, None] - longitude) / 2) ** 2
    return np.exp(-2 * 6371.0 * np.arcsin(np.sqrt(half)) / 900.0)


def coregionalised(x):
    between = np.array([[0.25 + 0.04, 0.5 * -0.7], [0.5 * -0.7, 0.49 + 0.09]])
    which = x[:, 0].astype(int)
    return between[which[:, None], which] * matern(1.5)(x[:, 1:])


class Case(NamedTuple):
    kernel: Any
    x: np.ndarray
    closed_form: Callable[[np.ndarray], np.ndarray]
    names: list[str]


TIME = kernels.Matern12(1.0)
K, MATERN, PERIODIC = tinygp.kernels, kernels.Matern32(0.8), kernels.Periodic(0.9, 1.5)
L = ["lengthscale"]
CASES = {
    "Matern12": Case(kernels.Matern12(0.8), PLANE, matern(0.5), L),
    "Matern32": Case(kernels.Matern32(0.8), PLANE, matern(1.5), L),
    "Matern52": Case(kernels.Matern52([0.8, 1.7]), PLANE, matern(2.5, [0.8, 1.7]), L),
    "SquaredExponential": Case(kernels.SquaredExponential(0.8), LINE, theirs(K.ExpSquared(0.8)), L),
    "RationalQuadratic": Case(
        kernels.RationalQuadratic(0.8, 1.3), LINE, theirs(K.RationalQuadratic(0.8, alpha=1.3)), [*L, "alpha"]
    ),
    "Periodic": Case(PERIODIC, LINE, theirs(K.ExpSineSquared(1.5, gamma=2 / 0.9**2)), [*L, "period"]),
    "Constant": Case(kernels.Constant(scale=0.6), PLANE, lambda x: np.full((len(x), len(x)), 0.36), ["scale"]),
    "WhiteNoise": Case(kernels.WhiteNoise(0.6), PLANE, lambda x: 0.36 * (cdist(x, x) == 0), ["scale"]),
    "LinearKernel": Case(
        kernels.DotProduct(0.6, centre=[1.0, 2.0]), PLANE, lambda x: 0.36 * (x - [1, 2]) @ (x - [1, 2]).T, ["scale"]
    ),
    "sum": Case(
        MATERN + PERIODIC, LINE, theirs(K.Matern32(0.8) + K.ExpSineSquared(1.5, gamma=2 / 0.9**2)),
        ["0.lengthscale", "1.lengthscale", "1.period"],
    ),
    "product": Case(
        MATERN * PERIODIC, LINE, theirs(K.Matern32(0.8) * K.ExpSineSquared(1.5, gamma=2 / 0.9**2)),
        ["0.lengthscale", "1.lengthscale", "1.period"],
    ),
    "sum of products": Case(
        kernels.Constant(scale=0.5) * MATERN + kernels.WhiteNoise(0.2), LINE,
        lambda x: 0.25 * matern(1.5)(x) + 0.04 * (cdist(x, x) == 0), ["0.0.scale", "0.1.lengthscale", "1.scale"],
    ),
    "Product": Case(
        kernels.PerColumn([kernels.Matern12(0.8), kernels.SquaredExponential(1.1)]), PLANE,
        lambda x: matern(0.5)(x[:, :1]) * np.exp(-0.5 * cdist(x[:, 1:], x[:, 1:], "sqeuclidean") / 1.21),
        ["0.lengthscale", "1.lengthscale"],
    ),
    "Rotated": Case(kernels.Rotated(kernels.Matern32([0.3, 1.5]), 0.4), PLANE, rotated, [*L, "angle"]),
    "GreatCircle": Case(kernels.GreatCircle(kernels.Matern12(900.0)), GLOBE, on_globe, L),
    "Coregionalised": Case(
        kernels.Coregionalised(2, 1, MATERN, weights=[0.5, -0.7], own=[0.2, 0.3]), OUTPUTS, coregionalised,
        ["x.lengthscale", "weights", "own"],
    ),
}  # fmt: skip
EXACT = ["Matern12", "Matern32", "Matern52", "Constant", "WhiteNoise", "product of exact", "sum of products"]


def of_time(kernel):
    """Whether a kernel of time may be this one."""
    try:
        kernel.check_dimension(1)
    except seqgp.ModelError:
        return False
    return kernel.stationary


STATES = {
    "Matern52": kernels.Matern52(0.8),
    "product of exact": MATERN * kernels.Constant(scale=0.5),
    **{name: case.kernel for name, case in CASES.items() if of_time(case.kernel)},
}


@pytest.fixture(autouse=True)
def standard_promotion():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # tinygp's own
        yield


def values_of(kernel):
    return {name: jnp.asarray(slot) for name, slot in kernel.slots().items()}


def matrix(kernel, x, other=None):
    x, other = jnp.asarray(x), jnp.asarray(x if other is None else other)
    return np.asarray(kernel.covariance(kernel.prepare(x, other), values_of(kernel)))


def model(kernel, time=TIME):
    return seqgp.Model(seqgp.Separable(time, kernel, 0.7), seqgp.likelihoods.Gaussian(0.3))


@pytest.mark.parametrize("name", CASES)
def test_the_covariance_is_one_and_has_its_closed_form(name):
    kernel, x, closed_form, _ = CASES[name]
    kernel.check_inputs(x)
    found = matrix(kernel, x)
    np.testing.assert_allclose(found, closed_form(x), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found, found.T, rtol=1e-14)
    assert np.linalg.eigvalsh(found).min() > -1e-10 * np.trace(found)
    np.testing.assert_allclose(matrix(kernel, x[:4], x[3:]), found[:4, 3:], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", CASES)
def test_what_it_says_of_itself(name):
    """Stationary where shifts change nothing, with its variance on the diagonal; names are stable."""
    kernel, x, _, names = CASES[name]
    assert list(kernel.slots()) == names
    assert [one.removeprefix("space.") for one in model(kernel).slots()][1 : 1 + len(names)] == names
    if kernel.stationary:
        np.testing.assert_allclose(matrix(kernel, x + 0.3), matrix(kernel, x), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(matrix(kernel, x).diagonal(), kernel.variance(values_of(kernel)), rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_finite_also_where_a_place_comes_twice(name):
    kernel, x, *_ = CASES[name]
    prepared = kernel.prepare(jnp.asarray(x), jnp.asarray(x))
    slopes = jax.grad(lambda values: kernel.covariance(prepared, values).sum())(values_of(kernel))
    assert all(np.isfinite(slope).all() for slope in slopes.values())


@pytest.mark.parametrize("name", CASES)
def test_there_and_back_as_toml_and_in_a_store(name, tmp_path):
    kernel = CASES[name].kernel
    one = model(kernel, kernel if of_time(kernel) else TIME)
    for again in (through_toml(one, tmp_path), through_store(one, tmp_path)):
        assert again.fingerprint() == one.fingerprint()
        np.testing.assert_array_equal(
            matrix(again.kernel.terms()[0][1].space, CASES[name].x), matrix(kernel, CASES[name].x)
        )


def test_every_kernel_is_here_and_is_calibrated():
    """By ``make models``: in space, and in time those that are states; each with every sampler that takes it."""
    named = {kernel for kernel in kernels.catalogue.classes(kernels.Kernel).values() if kernel.in_files}
    assert {type(case.kernel) for case in CASES.values()} == named | {kernels.Sum, kernels.Product, kernels.PerColumn}
    assert {type(kernel) for kernel in OF_SPACE.values()} >= {type(case.kernel) for case in CASES.values()}
    assert {type(kernel) for kernel in OF_TIME.values()} == {type(kernel) for kernel in STATES.values()}
    samplers = {name.rpartition(": ")[2] for name in calibration.piece_cases()}
    assert samplers == set(calibration.SAMPLERS)


def test_kernels_have_different_fingerprints_and_so_have_their_parameters():
    prints = [model(case.kernel).fingerprint()["kernel"] for case in CASES.values()]
    prints += [
        model(kernels.Matern12(0.9)).fingerprint()["kernel"],
        model(kernels.Matern12([0.8])).fingerprint()["kernel"],
    ]
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize("name", STATES)
def test_as_a_state_it_has_the_same_covariance(name):
    """Exactly, or within the error that the state tells."""
    kernel = STATES[name]
    state, values = kernel.state(), values_of(kernel)
    apart = np.abs(by_state(state, values) - by_kernel(kernel, values)).max()
    assert apart <= 1e-10 + 1.1 * state.error
    assert (state.error == 0) == (name in EXACT)
    assert state.error < 1e-3


def test_separable_terms_add(tmp_path):
    first = seqgp.Separable(kernels.Matern32(0.8), kernels.Matern12(0.8), 0.7)
    second = seqgp.Separable(kernels.Constant(scale=1.0), kernels.WhiteNoise(1.0), 0.4)
    both = first + second
    assert list(both.slots()) == [
        "0.time.lengthscale", "0.space.lengthscale", "0.scale", "1.time.scale", "1.space.scale", "1.scale",
    ]  # fmt: skip
    t = np.linspace(0, 2, len(PLANE))
    found = np.asarray(both.covariance(both.prepare(jnp.asarray(t), jnp.asarray(PLANE)), values_of(both)))
    expected = 0.49 * matern(1.5)(t[:, None]) * matern(0.5)(PLANE) + 0.16 * (cdist(PLANE, PLANE) == 0)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.linalg.eigvalsh(found).min() > -1e-12
    one = seqgp.Model(both, seqgp.likelihoods.Gaussian(0.3))
    for again in (through_toml(one, tmp_path), through_store(one, tmp_path)):
        assert again.fingerprint() == one.fingerprint()


MUST_BE_POSITIVE = {
    "Matern12: lengthscale": kernels.Matern12,
    "Matern32: lengthscale": kernels.Matern32,
    "Matern52: lengthscale": kernels.Matern52,
    "SquaredExponential: lengthscale": kernels.SquaredExponential,
    "RationalQuadratic: lengthscale": kernels.RationalQuadratic,
    "RationalQuadratic: alpha": lambda value: kernels.RationalQuadratic(1.0, alpha=value),
    "Periodic: lengthscale": lambda value: kernels.Periodic(value, 1.0),
    "Periodic: period": lambda value: kernels.Periodic(1.0, value),
    r"Constant: scale \(a standard deviation\)": lambda value: kernels.Constant(scale=value),
    "WhiteNoise: scale": kernels.WhiteNoise,
    "DotProduct: scale": kernels.DotProduct,
    "Coregionalised: own": lambda value: kernels.Coregionalised(2, own=value),
    "Separable: scale": lambda value: seqgp.Separable(MATERN, MATERN, value),
}


@pytest.mark.parametrize("where", MUST_BE_POSITIVE)
def test_what_must_be_positive_is_named_where_it_is_not(where):
    make = MUST_BE_POSITIVE[where]
    for value, message in [
        (0.0, r"= 0.0 is not positive"),
        (-2.0, r"= -2.0 is not positive"),
        (np.nan, r"= nan is not finite"),
        (dist.Normal(1.0, 1.0), r"its prior reaches below zero .*; take one of positive numbers, such as"),
        (seqgp.ScaledSigmoid(-1.0, 2.0), r"its prior reaches below zero \(to -1"),
        ("long", r"expected a number, a prior or a one-dimensional NumPyro distribution, got str"),
    ]:
        with pytest.raises(seqgp.ModelError, match=where + r"(\[0\])?:? ?" + message):
            make(value)
    make(dist.LogNormal(0.0, 1.0))


@pytest.mark.parametrize(
    ("kernel", "columns", "message"),
    [
        (kernels.Matern32([1.0, 2.0]), 3, "Matern32 has 2 lengthscales, but x has 3 columns"),
        (kernels.Periodic(1.0, 1.0), 2, "Periodic takes one dimension, but x has 2 columns"),
        (kernels.DotProduct([1.0, 2.0]), 3, "2 scales, but x has 3 columns"),
        (CASES["Product"].kernel, 3, "PerColumn has 2 factors, but x has 3 columns"),
        (CASES["Rotated"].kernel, 3, "Rotated turns two columns, but x has 3"),
        (CASES["GreatCircle"].kernel, 1, "longitude and latitude, but x has 1 columns"),
        (CASES["Coregionalised"].kernel, 1, "expected the output's number, then the columns"),
        (MATERN + kernels.Periodic(1.0, 1.0), 2, "Periodic takes one dimension"),
    ],
)
def test_inputs_of_the_wrong_width_are_named(kernel, columns, message):
    with pytest.raises(seqgp.ModelError, match=message):
        model(kernel).kernel.check_inputs(np.zeros((3, columns)))
