"""Predictions at some of the stations, in any order, some twice: against dense Gaussian algebra in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
from seqgp.statespace.eigenbasis import RotatedFilter
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.observation import Observation, Query, SiteOperator

STATIONS, TIME, SPACE, SCALE, NOISE, MEAN = 6, 2.0, 0.7, 1.3, 0.4, 0.3
RNG = np.random.default_rng(8)
X = RNG.random((STATIONS, 2))
Y = RNG.normal(size=STATIONS)
AHEAD = 0.8


def model():
    separable = seqgp.Separable(seqgp.kernels.Matern12(TIME), seqgp.kernels.Matern12([SPACE, SPACE]), SCALE)
    return seqgp.Model(separable, seqgp.likelihoods.Gaussian(NOISE), mean=MEAN)


def exact(index, ahead):
    """Mean and covariance of ``f`` at stations, a while after one complete snapshot."""
    away = np.abs(X[:, None, :] - X[None, :, :]) / SPACE
    space = SCALE**2 * np.exp(-np.sqrt((away**2).sum(-1)))
    later = np.exp(-ahead / TIME)
    gain = later * space[index] @ np.linalg.inv(space + NOISE**2 * np.eye(STATIONS))
    return MEAN + gain @ (Y - MEAN), space[np.ix_(index, index)] - gain @ (later * space[:, index])


def some_stations(case):
    """Subsets, permutations, and stations that are asked about more than once."""
    rng = np.random.default_rng(case)
    if case % 3 == 0:
        return rng.choice(STATIONS, size=rng.integers(1, STATIONS + 3))
    return rng.permutation(STATIONS)[: rng.integers(1, STATIONS + 1)]


@pytest.mark.parametrize("case", range(12))
def test_draws_at_stations_have_the_right_mean_and_covariance(case):
    """Draws are linear in their normal numbers, so that both are read off without any Monte Carlo error."""
    index, ahead = some_stations(case), AHEAD * (case % 2)
    ssm = StateSpaceModel(model())
    filter, none = RotatedFilter(ssm, X, None), np.zeros(())
    columns = ssm.columns(0.0, X, None)
    complete = Observation(
        none, SiteOperator(index=np.arange(STATIONS)), Y, np.ones(STATIONS, bool), ssm.design(columns), columns, none,
        none, None,
    )  # fmt: skip
    query = Query(X[index], SiteOperator(index=index), columns[index], np.asarray(ahead))

    def drawn():
        matrices = filter.matrices(jnp.zeros(0))
        state, _ = filter.update(matrices, filter.start(matrices), complete)
        white = jnp.concatenate([jnp.zeros((1, filter.normals(query))), jnp.eye(filter.normals(query))])
        return filter.draw_f_given(matrices, state, query, jnp.zeros((len(white), 0)), white)

    found = np.asarray(jax.jit(drawn)())
    mean, covariance = exact(index, ahead)
    root = found[1:] - found[0]
    np.testing.assert_allclose(found[0], mean, atol=1e-7)
    np.testing.assert_allclose(root.T @ root, covariance, atol=1e-7)


@pytest.mark.parametrize("index", [[2], [4, 0, 1], [5, 5, 3]])
def test_predict_at_some_stations(index):
    """The public way: means within 5 standard errors and sds within 10% of 4000 draws, a false alarm in 1e5."""
    state, _ = seqgp.OnlineSampler(model(), particles=16, draws=4000).init(jax.random.key(0), seqgp.Snapshot(0.0, X, Y))
    f = np.asarray(seqgp.predict(jax.random.key(1), model(), state, X[index], t=AHEAD).f)
    mean, covariance = exact(np.array(index), AHEAD)
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(f.mean(0) - mean) < 5 * sd / np.sqrt(len(f))).all()
    np.testing.assert_allclose(np.cov(f, rowvar=False).reshape(len(index), -1), covariance, atol=0.1 * sd.max() ** 2)
