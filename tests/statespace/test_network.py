"""The filter of networks with gaps on a model: exact at full rank, and accurate where it is compressed.

The truth is the dense filter, which ``test_filters.py`` compares with the joint density of all data.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.base.errors import DataError
from seqgp.statespace.dense import DenseFilter
from seqgp.statespace.eigenbasis import RotatedFilter
from seqgp.statespace.low_rank import check_gaps
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.network import Compression, NetworkFilter, gap_room
from seqgp.statespace.observation import Observation, Query, SiteOperator, padded
from seqgp.statespace.takeover import RECENT, take_over

PRIOR = dist.LogNormal(0.0, 0.3)


def model(terms=1, mean=None):
    separable = seqgp.Separable(seqgp.kernels.Matern32(PRIOR), seqgp.kernels.Matern32(0.4), PRIOR)
    if terms == 2:
        own = seqgp.Separable(seqgp.kernels.Matern12(2.0), seqgp.kernels.WhiteNoise(), 0.5)
        separable = separable + own
    mean = (
        seqgp.means.Linear(["east"], weights=dist.Normal(0, 1), intercept=dist.Normal(0, 2)) if mean is None else mean
    )
    return seqgp.Model(separable, seqgp.likelihoods.Gaussian(0.3), mean)


def observation(ssm, sites, x, y, t, dt):
    """A snapshot at some of the sites, NaN where it is missing."""
    number = {tuple(row): i for i, row in enumerate(sites)}
    columns = ssm.columns(t, x, {"east": x[:, 0]})
    none = np.zeros(())
    operator = SiteOperator(index=np.array([number[tuple(row)] for row in x]))
    return Observation(
        np.asarray(dt), operator, np.nan_to_num(y), ~np.isnan(y), ssm.design(columns), columns, none, none, None
    )


def network_filter(ssm, x, rank, size=None, recent=(), leading=None):
    size = len(x) if size is None else size
    wide = np.concatenate([x, np.repeat(x[-1:], size - len(x), axis=0)])
    dts = np.concatenate([np.full(RECENT - len(recent), np.inf), recent])
    return NetworkFilter(ssm, wide, np.arange(size) < len(x), dts, None, Compression(rank, leading))


def run(filter, z, observations, begun=None):
    """Environments and states of particles after the observations, and the log density of each."""

    def one(z, begun):
        matrices = filter.matrices(z) if begun is None else begun[0]
        state = filter.start(matrices) if begun is None else begun[1]
        evidence = []
        for each in observations:
            state, log_density = filter.update(matrices, filter.predict(matrices, state, each.dt), each)
            evidence.append(log_density)
        return (matrices, state), jnp.stack(evidence)

    return jax.jit(lambda z, begun: jax.lax.map(lambda inputs: one(*inputs), (z, begun)))(z, begun)


def data_with_gaps(sites, times, missing, joins_at=None, seed=0):
    """Random walks at stations: one is silent for half of the time, another (the last) joins late."""
    rng = np.random.default_rng(seed)
    x = rng.random((sites, 2))
    smooth = np.exp(-np.linalg.norm(x[:, None] - x[None], axis=2) / 0.5)
    root = np.linalg.cholesky(smooth + 1e-9 * np.eye(sites))
    y = (
        np.cumsum(0.4 * rng.normal(size=(times, sites)) @ root.T, axis=0)
        + 0.3 * rng.normal(size=(times, sites))
        + x[:, 0]
    )
    y[rng.random(y.shape) < missing] = np.nan
    y[times // 4 : 3 * times // 4, 1] = np.nan
    rows = [slice(None, -1) if joins_at is not None and t < joins_at else slice(None) for t in range(times)]
    return x, [(x[row], y[t, row]) for t, row in enumerate(rows)]


def build_timeline(ssm, filter, sites, data, first=0):
    found = []
    for t, (x, y) in enumerate(data):
        one = observation(ssm, sites, x, y, 0.7 * t, 0.7 * (t > 0))
        found.append(filter.sized(one) if isinstance(filter, NetworkFilter) else padded(one, len(sites)))
    return found[first:]


def f_moments(filter, groups, query):
    return jax.jit(lambda groups: jax.lax.map(lambda one: filter.predict_f(*one, query), groups))(groups)


def where_at(ssm, x, sites=None, dt=0.0):
    columns = ssm.columns(0.0, x, {"east": x[:, 0]})
    index = None if sites is None else np.array([np.flatnonzero((sites == row).all(axis=1))[0] for row in x])
    return Query(x, None if index is None else SiteOperator(index=index), columns, np.asarray(dt))


@pytest.mark.parametrize("terms", [1, 2])
def test_exact_at_full_rank_with_gaps_padding_and_coefficients(terms):
    """Log densities; ``f`` at sites and elsewhere, ahead; draws, which are linear in their normal numbers."""
    ssm = StateSpaceModel(model(terms))
    z = jnp.asarray(np.random.default_rng(1).normal(size=(1, len(ssm.in_particles))))
    sites, data = data_with_gaps(11, 5, 0.3)
    data[3] = (sites[2:6], data[3][1][2:6])  # most rows are not even there
    data[4] = (sites, np.full(11, np.nan))
    dense = DenseFilter(ssm, sites, np.ones(11, bool))
    network = network_filter(ssm, sites, ssm.order * 13, size=13)
    found, densities = run(network, z, build_timeline(ssm, network, sites, data))
    truth, expected = run(dense, z, build_timeline(ssm, dense, sites, data))
    np.testing.assert_allclose(densities, expected, atol=1e-8)
    assert float(densities[0, 4]) == 0.0
    elsewhere = np.random.default_rng(4).random((3, 2))
    for query in (where_at(ssm, sites[[4, 0]], sites, 0.4), where_at(ssm, elsewhere, dt=0.4)):
        f, exact = f_moments(network, found, query), f_moments(dense, truth, query)
        np.testing.assert_allclose(f.mean, exact.mean, atol=1e-7)
        np.testing.assert_allclose(f.covariance, exact.covariance, atol=1e-7)
        check_draws(network, found, query, f, q=2)


def check_draws(filter, found, query, f, q):
    """Draws from the unit vectors: their differences from the draw of zeros are a root of the covariance."""
    matrices, state = jax.tree.map(lambda leaf: leaf[0], found)
    cov, mean = np.asarray(f.covariance[0]), np.asarray(f.mean[0])
    real = np.ones(len(mean), bool)

    def unit(size):
        return jnp.concatenate([jnp.zeros((1, size)), jnp.eye(size)])

    drawn = np.asarray(filter.draw_f(matrices, state, query, real, unit(q + filter.normals(query))))
    root = drawn[1:] - drawn[0]
    np.testing.assert_allclose(drawn[0], mean, atol=1e-8)
    np.testing.assert_allclose(root.T @ root, cov, atol=1e-7)
    white, known = unit(filter.normals(query)), np.array([0.3, -0.2])
    given = np.asarray(filter.draw_f_given(matrices, state, query, jnp.asarray(np.tile(known, (len(white), 1))), white))
    gain = np.linalg.solve(cov[:q, :q], cov[:q, q:]).T
    np.testing.assert_allclose(given[0], mean[q:] + gain @ (known - mean[:q]), atol=1e-7)
    root = given[1:] - given[0]
    np.testing.assert_allclose(root.T @ root, cov[q:, q:] - gain @ cov[:q, q:], atol=1e-7)


@pytest.fixture(scope="module")
def network_of_sixty():
    """Eight particles; 10% missing, a station off and back, one that joins after 8 of 16 snapshots."""
    ssm = StateSpaceModel(model())
    z = jnp.asarray(0.5 * np.random.default_rng(1).normal(size=(8, len(ssm.in_particles))))
    sites, data = data_with_gaps(61, 16, 0.1, joins_at=8)
    dense = DenseFilter(ssm, sites, np.ones(61, bool))
    truth, expected = run(dense, z, build_timeline(ssm, dense, sites, data))
    return ssm, z, sites, data, (dense, truth, np.asarray(expected))


def accuracy(ssm, found, densities, network, sites, truth):
    """Spread of the log evidence between particles, and the largest errors of means and variances at the sites."""
    dense, groups, expected = truth
    query = where_at(ssm, sites, sites)
    f, exact = f_moments(network, found, query), f_moments(dense, groups, query)
    sd = np.sqrt(np.diagonal(exact.covariance, axis1=1, axis2=2))
    variance = np.diagonal(f.covariance, axis1=1, axis2=2)
    off = (np.asarray(densities) - expected).sum(axis=1)
    return off, np.abs((f.mean - exact.mean) / sd).max(), np.abs(variance / sd**2 - 1).max()


def compressed(network_of_sixty, rank, leading=None):
    ssm, z, sites, data, truth = network_of_sixty
    few = network_filter(ssm, sites[:60], rank, leading=leading)
    whole = network_filter(ssm, sites, rank, 64, [0.0] + [0.7] * 7, leading)
    groups, before = run(few, z, build_timeline(ssm, few, sites, data[:8]))
    groups = jax.jit(lambda groups: jax.lax.map(lambda one: take_over(few, whole, *one), groups))(groups)
    groups, after = run(whole, z, build_timeline(ssm, whole, sites, data, first=8), groups)
    densities = np.concatenate([before, after], axis=1)
    return accuracy(ssm, groups, densities, whole, sites, truth), groups


def test_accurate_where_it_is_compressed(network_of_sixty):
    (off, mean, variance), groups = compressed(network_of_sixty, 32)
    assert np.std(off, ddof=1) < 0.03
    assert np.abs(off).max() < 0.09
    assert mean < 0.02
    assert variance < 0.02
    assert 0 < float(jnp.max(groups[1].folded)) < np.inf


def test_a_rank_that_is_too_small_is_seen(network_of_sixty):
    """The same test fails at rank 2, and more is folded: the measures see what compression loses."""
    (off, mean, _), groups = compressed(network_of_sixty, 2)
    assert np.std(off, ddof=1) > 0.03 or mean > 0.02
    assert float(jnp.max(groups[1].folded)) > 1.0


def test_complete_data_then_gaps_take_over_exactly():
    ssm = StateSpaceModel(model())
    z = jnp.asarray(np.random.default_rng(1).normal(size=(1, len(ssm.in_particles))))
    sites, data = data_with_gaps(9, 6, 0.4)
    data = [(x, np.where(np.isnan(y), 0.7, y)) for x, y in data[:3]] + data[3:]
    rotated, dense = RotatedFilter(ssm, sites, None), DenseFilter(ssm, sites, np.ones(9, bool))
    network = network_filter(ssm, sites, 18)
    groups, before = run(rotated, z, build_timeline(ssm, rotated, sites, data[:3]))
    groups = jax.lax.map(lambda one: take_over(rotated, network, *one), groups)
    _, after = run(network, z, build_timeline(ssm, network, sites, data, first=3), groups)
    _, expected = run(dense, z, build_timeline(ssm, dense, sites, data))
    np.testing.assert_allclose(np.concatenate([before, after], axis=1), expected, atol=1e-8)


def test_room_for_gaps_has_few_sizes_and_is_never_too_small():
    rooms = [gap_room(missing, 100) for missing in range(101)]
    assert len(set(rooms)) < 14
    assert all(room >= missing + (missing > 0) for missing, room in enumerate(rooms[:90]))
    assert rooms[-1] == 100
    assert gap_room(100, 1000) < 150  # a day with 100 gaps in the mean has more than 125 once in 160
    with pytest.raises(DataError, match="compiled for 2 at most"):
        check_gaps(np.arange(10) > 4, 2)
    ssm = StateSpaceModel(model(mean=0.0))
    sites = np.random.default_rng(0).random((40, 2))
    network = network_filter(ssm, sites, 4)
    few = observation(ssm, sites, sites, np.where(np.arange(40) < 2, np.nan, 1.0), 0.0, 0.0)
    assert [np.size(np.asarray(network.sized(few, before).gaps)) for before in (0, 10, 40)] == [6, 10, 10]
