"""Several outputs: the kernel against its formula, and both samplers against the dense closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.streams import exact, sampled

import seqgp
from seqgp.fields.grid import Grid, is_product

WEIGHTS, OWN = np.array([[0.8, 0.0], [-0.5, 0.6], [0.3, 0.2]]), np.array([0.4, 0.3, 0.9])
B = WEIGHTS @ WEIGHTS.T + np.diag(OWN**2)
PLACES = np.random.default_rng(3).random((4, 2))
X = np.concatenate([np.column_stack([np.full(4, output), PLACES]) for output in range(3)])


def kernel(inner=None):
    return seqgp.kernels.Coregionalised(3, 2, inner or seqgp.kernels.Matern32([0.7, 1.2]), WEIGHTS.reshape(-1), OWN)


def matrix(kernel, x, other):
    values = {name: jnp.asarray(slot) for name, slot in kernel.slots().items()}
    return np.asarray(kernel.covariance(kernel.prepare(jnp.asarray(x), jnp.asarray(other)), values))


def test_it_is_a_kronecker_product_where_all_outputs_are_at_all_places():
    inner = seqgp.kernels.Matern32([0.7, 1.2])
    expected = np.kron(B, matrix(inner, PLACES, PLACES))
    np.testing.assert_allclose(matrix(kernel(), X, X), expected, rtol=1e-12)
    mixed = np.random.default_rng(0).permutation(12)
    np.testing.assert_allclose(matrix(kernel(), X[mixed], X[:5]), expected[mixed][:, :5], rtol=1e-12)


def test_along_the_axes_of_a_grid():
    """The factors along the axes multiply to the kernel."""
    of = kernel(seqgp.kernels.SquaredExponential(0.7))
    values = {name: jnp.asarray(slot) for name, slot in of.slots().items()}
    line = np.array([0.0, 0.3, 0.9])
    grid = np.array([[o, p] for o in range(3) for p in line])
    parts = []
    for axis, points in enumerate((np.arange(3.0), line)):
        factor, choose = of.along(axis, 2)
        prepared = factor.prepare(jnp.asarray(points)[:, None], jnp.asarray(points)[:, None])
        parts.append(np.asarray(factor.covariance(prepared, choose(values))))
    np.testing.assert_allclose(np.kron(*parts), matrix(of, grid, grid), rtol=1e-12)
    whole = seqgp.Separable(seqgp.kernels.Matern12(1.0), of)
    assert is_product(whole, 2)
    assert Grid().resolve(whole, grid).axes is not None


def model(shared, own=0.3):
    space = seqgp.kernels.Coregionalised(2, 1, seqgp.kernels.Matern12(0.8), weights=[1.0, shared], own=own)
    return seqgp.Model(
        seqgp.Separable(seqgp.kernels.Matern32(2.0), space, seqgp.ScaledSigmoid(0.2, 3)),
        seqgp.likelihoods.Gaussian(0.3),
    )


def snapshots(seed=1, times=6):
    """Two outputs at three places, now and then missing, the second at two of the places only."""
    x = np.array([[0, 0.0], [0, 0.5], [0, 1.0], [1, 0.0], [1, 1.0]])
    design = [seqgp.Snapshot(0.7 * i, x, np.where([False] * 4 + [i % 3 == 1], np.nan, 0.0)) for i in range(times)]
    truth = seqgp.Model(
        seqgp.Separable(
            seqgp.kernels.Matern32(2.0),
            seqgp.kernels.Coregionalised(2, 1, seqgp.kernels.Matern12(0.8), [1.0, -0.9], 0.3),
        ),
        seqgp.likelihoods.Gaussian(0.3),
    )
    return list(seqgp.simulate(jax.random.key(seed), truth, design).snapshots)


def test_the_online_sampler_finds_the_weights_by_quadrature():
    """The share that the outputs have in common, its sign included, within five standard errors of 256 particles."""
    of, data = model(seqgp.ScaledSigmoid(-2, 2)), snapshots()
    evidence, mean, sd = exact(of, data)
    state, info = sampled(seqgp.OnlineSampler(of, particles=64, draws=500), data)
    assert abs(info.log_evidence - evidence) < 5 * max(info.log_evidence_se, 0.02)
    found = np.asarray(state.z)
    error = np.abs(found.mean(0) - mean) / (sd / np.sqrt(info.ess))
    assert error.max() < 5
    assert np.asarray(state.parameters["space.weights"])[:, 1].mean() < 0
    unrelated, _, _ = exact(model(0.0), data, nodes=41)  # a mutant: no common part
    assert evidence - unrelated > 3


@pytest.mark.parametrize("make", [seqgp.OnlineSampler, seqgp.SequentialSampler])
def test_predictions_of_an_output_where_only_the_other_is_measured(make):
    """One snapshot, all known: the closed form of the level at new points, within five standard errors."""
    of = seqgp.Model(
        seqgp.Separable(
            seqgp.kernels.Matern12(1.0),
            seqgp.kernels.Coregionalised(2, 1, seqgp.kernels.Matern12(0.8), [1.0, -0.9], 0.3),
        ),
        seqgp.likelihoods.Gaussian(0.2),
    )
    x, y = np.array([[0, 0.0], [0, 0.5], [1, 1.0]]), np.array([1.2, 0.7, 0.4])
    new = np.array([[1, 0.0], [0, 1.0]])
    state, _ = make(of, draws=600).init(jax.random.key(0), seqgp.Snapshot(0.0, x, y))
    prediction = seqgp.predict(jax.random.key(1), of, state, new)
    space = of.kernel.space
    values = {name: jnp.asarray(slot) for name, slot in space.slots().items()}

    def k(a, b):
        return np.asarray(space.covariance(space.prepare(jnp.asarray(a), jnp.asarray(b)), values))

    solve = np.linalg.solve(k(x, x) + 0.04 * np.eye(3), np.column_stack([y, k(x, new)]))
    mean, covariance = k(new, x) @ solve[:, 0], k(new, new) - k(new, x) @ solve[:, 1:]
    sd = np.sqrt(np.diag(covariance))
    drawn = np.asarray(prediction.f)
    assert (np.abs(drawn.mean(0) - mean) < 5 * sd / np.sqrt(300)).all()
    np.testing.assert_allclose(drawn.std(0), sd, rtol=0.2)
    assert mean[0] < 0  # from output 0 alone, by way of the negative weight


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: seqgp.kernels.Coregionalised(1), "outputs = 1: expected a whole number, 2 or more"),
        (lambda: seqgp.kernels.Coregionalised(2, 3), "rank = 3: expected a whole number from 1 to outputs = 2"),
        (lambda: seqgp.kernels.Coregionalised(2, kernel=2.0), "expected a kernel of x such as Matern32, got float"),
        (
            lambda: seqgp.kernels.Coregionalised(2, weights=[1.0]),
            "weights has 1 entries, expected one, or outputs · rank = 2",
        ),
        (lambda: seqgp.kernels.Coregionalised(2, own=0.0), r"own = 0.0 is not positive"),
        (lambda: seqgp.kernels.Coregionalised(2).check_dimension(3), "has no kernel of x, but x has 3 columns"),
        (lambda: kernel().check_dimension(1), "x has one column; expected the output's number"),
        (lambda: kernel().check_inputs(np.zeros((2, 4))), "2 lengthscales, but x has 3 columns"),
    ],
)
def test_bad_ones_are_named(make, message):
    with pytest.raises(seqgp.ModelError, match=message):
        make()


def test_the_number_of_an_output_is_checked():
    sampler = seqgp.OnlineSampler(model(0.5))
    with pytest.raises(seqgp.DataError, match=r"0 to 1, and 1 of 2 rows have another \(row 1: 2\)"):
        sampler.init(jax.random.key(0), seqgp.Snapshot(0.0, [[0, 0.1], [2, 0.1]], [0.0, 1.0]))
    with pytest.raises(seqgp.SamplerError, match=r"Knots: no inputs that the kernel takes .* use latent=seqgp.Dense"):
        seqgp.Knots(4).resolve(model(0.5).kernel, X[:8, :2])


def test_by_default_all_is_inferred_and_no_two_weights_are_the_same_model():
    of = seqgp.Model(
        seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Coregionalised(3, 2)),
        seqgp.likelihoods.Gaussian(0.1),
    )
    assert of.names == [f"space.weights[{i}]" for i in (0, 2, 3, 4, 5)] + [f"space.own[{i}]" for i in range(3)]
    values = of.parameters(jnp.zeros(8))
    assert values["space.weights"][0] > 0
    assert values["space.weights"][1] == 0
    np.testing.assert_allclose(values["space.own"], 0.6745, atol=1e-3)
