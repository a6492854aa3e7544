"""The filters for known parameters: against the dense likelihood of all data at once, and against each other."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal

import seqgp
import small
from seqgp.statespace.dense import DenseFilter
from seqgp.statespace.eigenbasis import RotatedFilter
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.observation import Observation, SiteOperator

SITES = 6
RNG = np.random.default_rng(3)
X = RNG.random((SITES, 2))
TIMES = np.cumsum(RNG.random(7) + 0.1)
Y = RNG.normal(size=(len(TIMES), SITES))
KERNELS = [seqgp.kernels.Matern12, seqgp.kernels.Matern32, seqgp.kernels.Matern52]
MEANS = [0.3, seqgp.ScaledSigmoid(0, 1), dist.Normal(0.2, 0.7)]


def model(time=seqgp.kernels.Matern32, mean=0.3, space=seqgp.kernels.Matern52):
    short = seqgp.ScaledSigmoid(0, 2)
    return small.model(time=time(seqgp.ScaledSigmoid(0, 3)), space=space([short, short]), mean=mean)


def observations(ssm: StateSpaceModel, y: np.ndarray) -> list[Observation]:
    found = []
    for i, (t, values) in enumerate(zip(TIMES, y)):
        columns = ssm.columns(t, X, None)
        dt = np.asarray(0.0 if i == 0 else t - TIMES[i - 1])
        filled, seen = np.nan_to_num(values), ~np.isnan(values)
        none = np.zeros(())
        operator = SiteOperator(index=np.arange(SITES))
        found.append(Observation(dt, operator, filled, seen, ssm.design(columns), columns, none, none, None))
    return found


def filtered(filter, z, data, begun=None):
    """matrices, state and log evidence after all data, which follow on ``begun`` (matrices and state)."""

    def update(matrices, state, observation):
        return filter.update(matrices, filter.predict(matrices, state, observation.dt), observation)

    def run(observations):  # compiled for one observation, and not for each of them
        matrices = filter.matrices(z) if begun is None else begun[0]
        state = filter.start(matrices) if begun is None else begun[1]
        state, evidences = jax.lax.scan(lambda *inputs: update(matrices, *inputs), state, observations)
        return matrices, state, jnp.sum(evidences)

    return jax.jit(run)(jax.tree.map(lambda *leaves: jnp.stack(leaves), *data))


def f_at_sites(filter, matrices, state):
    """Moments of the coefficients in the state and of ``f`` at all sites."""

    def predicted():
        ssm = filter.ssm
        columns = jnp.asarray(ssm.columns(0.0, X, None))
        offset = ssm.offset(matrices.parameters, columns)
        return filter.at_data(matrices, state, SiteOperator(index=jnp.arange(SITES)), ssm.design(columns), offset, 0.0)

    return jax.jit(predicted)()


def all_at_once(ssm: StateSpaceModel, z, y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Log evidence, and moments of ``f`` at the sites at the last time, from the joint covariance of all data."""
    parameters, kernel = ssm.parameters(z), ssm.model.kernel
    time = kernel.time.covariance(
        kernel.time.prepare(TIMES[:, None], TIMES[:, None]), {"lengthscale": parameters["time.lengthscale"]}
    )
    space = kernel.space.covariance(kernel.space.prepare(X, X), {"lengthscale": parameters["space.lengthscale"]})
    prior = np.asarray(parameters["scale"] ** 2 * np.kron(time, space))
    if ssm.in_state:
        prior = prior + float(ssm.coefficient_scales()[0]) ** 2
    mean, data = np.full(len(prior), float(parameters["mean"])), y.reshape(-1)
    seen = np.flatnonzero(~np.isnan(data))
    covariance = prior[np.ix_(seen, seen)] + float(parameters["noise"]) ** 2 * np.eye(len(seen))
    gain = np.linalg.solve(covariance, prior[seen]).T[-SITES:]
    return (
        float(multivariate_normal.logpdf(data[seen], mean[seen], covariance)),
        mean[-SITES:] + gain @ (data - mean)[seen],
        prior[-SITES:, -SITES:] - gain @ prior[np.ix_(seen, np.arange(len(prior)))][:, -SITES:],
    )


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("time", KERNELS)
def test_every_path_is_the_exact_posterior(time, mean):
    ssm = StateSpaceModel(model(time, mean))
    z = jnp.asarray(np.random.default_rng(1).normal(size=len(ssm.in_particles)))
    data = observations(ssm, Y)
    dense, rotated = DenseFilter(ssm, X, np.ones(SITES, bool)), RotatedFilter(ssm, X, None)
    truth, centre, cov = all_at_once(ssm, z, Y)
    by_rotation = filtered(rotated, z, data)
    as_dense = (*jax.jit(lambda: rotated.to_dense(dense, *by_rotation[:2]))(), by_rotation[2])
    for matrices, state, evidence in (filtered(dense, z, data), as_dense):
        assert float(evidence) == pytest.approx(truth, abs=1e-9)
        predicted = f_at_sites(dense, matrices, state)
        q = len(ssm.in_state)
        assert np.array(predicted.mean[q:]) == pytest.approx(centre, abs=1e-10)
        assert np.array(predicted.covariance[q:, q:]) == pytest.approx(cov, abs=1e-10)


def test_missing_values_drop_out():
    ssm, y = StateSpaceModel(model(mean=dist.Normal(0.2, 0.7))), Y.copy()
    y[np.random.default_rng(0).random(y.shape) < 0.3] = np.nan
    y[3] = np.nan
    z = jnp.asarray(np.random.default_rng(2).normal(size=len(ssm.in_particles)))
    _, _, evidence = filtered(DenseFilter(ssm, X, np.ones(SITES, bool)), z, observations(ssm, y))
    assert float(evidence) == pytest.approx(all_at_once(ssm, z, y)[0], abs=1e-9)


def test_a_station_that_joins_and_padding_change_nothing():
    """The last two sites join after four snapshots, beside one slot of padding: as if they had been there all along."""
    ssm, y = StateSpaceModel(model(mean=dist.Normal(0.2, 0.7))), Y.copy()
    y[:4, 4:] = np.nan
    z = jnp.asarray(np.random.default_rng(2).normal(size=len(ssm.in_particles)))
    truth, centre, _ = all_at_once(ssm, z, y)
    data = observations(ssm, y)
    few = DenseFilter(ssm, X[:4], np.ones(4, bool))
    wide = np.concatenate([X, X[-1:]])
    whole = DenseFilter(ssm, wide, np.arange(SITES + 1) < SITES)
    first = [o._replace(operator=SiteOperator(index=np.arange(4)), y=o.y[:4], seen=o.seen[:4], design=o.design[:4],
                        columns=o.columns[:4]) for o in data[:4]]  # fmt: skip
    matrices, state, before = filtered(few, z, first)
    extended = jax.jit(lambda: few.extended(whole, matrices, state))()
    matrices, state, after = filtered(whole, z, data[4:], extended)
    assert float(before + after) == pytest.approx(truth, abs=1e-9)
    predicted = f_at_sites(whole, matrices, state)
    assert np.array(predicted.mean[1:]) == pytest.approx(centre, abs=1e-10)


def test_a_product_grid_is_rotated_by_its_factors():
    lines = np.linspace(0, 1, 3), np.linspace(0, 1, 4)
    x = np.stack([axis.reshape(-1) for axis in np.meshgrid(*lines, indexing="ij")], axis=1)
    ssm = StateSpaceModel(model(space=seqgp.kernels.SquaredExponential))
    z = jnp.zeros(len(ssm.in_particles))
    none = np.zeros(())
    columns = ssm.columns(0.0, x, None)
    y = np.random.default_rng(4).normal(size=len(x))
    data = [
        Observation(np.asarray(dt), SiteOperator(index=np.arange(len(x))), y, np.ones(len(x), bool),
                    ssm.design(columns), columns, none, none, None) for dt in (0.0, 0.7)
    ]  # fmt: skip
    whole, factors = RotatedFilter(ssm, x, None), RotatedFilter(ssm, x, lines)
    assert float(filtered(factors, z, data)[2]) == pytest.approx(float(filtered(whole, z, data)[2]), abs=1e-6)


def test_a_mutant_that_forgets_the_process_noise_is_caught():
    ssm = StateSpaceModel(model())
    z = jnp.asarray(np.random.default_rng(1).normal(size=len(ssm.in_particles)))

    class Mutant(DenseFilter):
        def predict(self, matrices, state, dt):
            frozen = matrices._replace(space=tuple(0 * space for space in matrices.space))
            return super().predict(frozen, state, dt)

    wrong = filtered(Mutant(ssm, X, np.ones(SITES, bool)), z, observations(ssm, Y))[2]
    assert abs(float(wrong) - all_at_once(ssm, z, Y)[0]) > 0.1
