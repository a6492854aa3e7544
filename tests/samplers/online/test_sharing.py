"""Particles that share eigenvectors of space: the same filters, exact weights, few eigendecompositions.

The truth: filters with eigenvectors of their own at the same parameters, and ``seqgp.reference.online_posterior``.
"""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.reference import online_posterior
from seqgp.samplers.online import network, pending, programs
from seqgp.samplers.online.filters import chosen, either, filter_of, run_filters
from seqgp.samplers.online.history import build_timeline
from seqgp.samplers.online.predictive import predictive_of
from seqgp.samplers.online.programs import SharedMatrices
from seqgp.statespace.latent_moments import latent_moments

MODEL = seqgp.Model(
    seqgp.Separable(
        seqgp.kernels.Matern12(dist.LogNormal(0.5, 0.5)),
        seqgp.kernels.Matern32(dist.LogNormal(-0.7, 0.5)),
        dist.LogNormal(0.0, 0.5),
    ),
    seqgp.likelihoods.Gaussian(0.3),
    mean=dist.Normal(0.0, 1.0),
)


def stream(stations=12, times=10, missing=0.0, joins=None, seed=0):
    """Of a Matérn field; the last station joins at a time."""
    rng = np.random.default_rng(seed)
    x = rng.random((stations, 2))
    distance = np.linalg.norm(x[:, None] - x[None], axis=2) / 0.5 * 3**0.5
    root = np.linalg.cholesky((1 + distance) * np.exp(-distance) + 1e-9 * np.eye(stations))
    f, found = root @ rng.normal(size=stations), []
    for t in range(times):
        f = 0.6 * f + 0.8 * root @ rng.normal(size=stations)
        y = 0.5 + f + 0.3 * rng.normal(size=stations)
        y[rng.random(stations) < missing] = np.nan
        there = slice(None) if joins is None or t >= joins else slice(None, -1)
        found.append(seqgp.Snapshot(float(t), x[there], y[there]))
    return found


@pytest.fixture
def few(monkeypatch):
    """Sharing from a few stations on."""
    monkeypatch.setattr(programs, "SHARED_FROM", 8)


def run(sampler, data, seed=0):
    state, infos = None, []
    for i, snapshot in enumerate(data):
        key = jax.random.fold_in(jax.random.key(seed), i)
        state, info = sampler.init(key, snapshot) if state is None else sampler.step(key, state, snapshot)
        infos.append(info)
    return state, infos


def different(filters):
    return {id(one) for matrices, _ in filters.groups for one in matrices.bases}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("spread", [False, True])
def test_the_posterior_is_exact(spread, monkeypatch):
    """256 particles, two seeds: means within .2 sd, sds within 25%, the log evidence within .25; few lengthscales."""
    if spread:
        monkeypatch.setattr(pending, "FROM_SNAPSHOTS", 3)
    data = stream()
    exact = online_posterior(MODEL, data)
    for seed in range(2):
        state, infos = run(seqgp.OnlineSampler(MODEL, particles=256, draws=4000), data, seed)
        assert "spread" in [one.kind for info in infos for one in info.rejuvenations] or not spread
        assert isinstance(state.live.filters.groups[0][0], SharedMatrices)
        assert len(different(state.live.filters)) <= 24
        z = np.asarray(state.z)
        for i, name in enumerate(exact.names):
            j = MODEL.names.index(name)
            assert abs(z[:, j].mean() - exact.mean[i]) < 0.2 * exact.sd[i]
            assert z[:, j].std() == pytest.approx(exact.sd[i], rel=0.25)
        assert infos[-1].log_evidence == pytest.approx(exact.log_evidence, abs=0.25)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("stations", "missing", "joins"), [(12, 0.0, None), (12, 0.1, 6), (62, 0.08, None), (62, 0.08, 4)]
)
def test_filters_are_those_with_eigenvectors_of_their_own(stations, missing, joins, monkeypatch):
    """Rotated, dense and of low rank, and from each to the next: log densities to 1e-6, and draws' moments."""
    data = stream(stations, 8, missing, joins)
    data[0] = seqgp.Snapshot(0.0, data[0].x, np.where(np.isnan(data[0].y), 0.1, data[0].y))
    ssm = seqgp.OnlineSampler(MODEL).ssm
    rng = np.random.default_rng(1)
    z = rng.normal(size=(32, len(ssm.names)))
    entry = ssm.names.index("space.lengthscale")
    z[:, entry] = rng.integers(-3, 4, 32) / 4 - 0.75
    history = build_timeline(ssm, "auto", data, [None] * 8)
    shared, found, _ = run_filters(history, z, 8)
    monkeypatch.setattr(programs, "SHARED_FROM", 10**6)
    own, expected, _ = run_filters(history, z, 8)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)
    if not isinstance(shared.groups[0][0], SharedMatrices):
        assert history.filter.name == "dense"
        return
    index = rng.permutation(32)[:24]
    a, b = chosen(shared, index), chosen(own, index)
    take = rng.random(24) < 0.5
    other = chosen(shared, index[::-1]), chosen(own, index[::-1])
    a, b = either(take, a, other[0]), either(take, b, other[1])
    assert len(different(a)) <= 7
    assert np.array_equal(a.keys, b.keys)
    for particle in (0, 7, 23):
        mine, its = (filter_of(one, particle, history.filter) for one in (a, b))
        mine, its = (history.filter.as_dense(*one)[2] for one in (mine, its))
        assert np.asarray(mine.mean) == pytest.approx(np.asarray(its.mean), abs=1e-6)
        assert np.asarray(mine.covariance) == pytest.approx(np.asarray(its.covariance), abs=1e-6)


@pytest.mark.usefixtures("few")
def test_a_state_goes_on_bit_for_bit():
    """A stored state, whose eigenvectors are computed again."""
    sampler, data = seqgp.OnlineSampler(MODEL, particles=32, draws=20), stream(12, 7)
    state, _ = run(sampler, data[:-1])
    again = state.packed().unpacked(lambda dropped: [(one, None) for one in data[:-1]])
    one = sampler.step(jax.random.key(5), state, data[-1])[0]
    programs._KNOWN.clear()
    other = sampler.step(jax.random.key(5), again, data[-1])[0]
    assert np.array_equal(one.latent, other.latent)


@pytest.mark.usefixtures("few")
def test_known_eigenvectors_are_not_computed_again(monkeypatch):
    """Cells are powers of two wide, so a finer grid has the lengthscales of a coarser one."""
    computed = []
    real = programs.bases_of

    def counted(filter, keys):
        computed.append(len({key.tobytes() for key in keys} - {name[2] for name in programs._KNOWN}))
        return real(filter, keys)

    monkeypatch.setattr(programs, "bases_of", counted)
    state, infos = run(seqgp.OnlineSampler(MODEL, particles=128, draws=20), stream(12, 8))
    evaluations = 1 + sum(one.rounds for info in infos for one in info.rejuvenations)
    assert evaluations >= 3
    assert sum(computed) <= 16 * evaluations
    assert sum(computed) < 40
    assert state.particles.z.shape[0] == 128


def test_what_cannot_be_shared():
    """Several terms; more than two space lengthscales; nothing else that is inferred."""
    lengthscale = dist.LogNormal(0.0, 0.5)

    def entries(kernel):
        model = seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.3))
        return programs.space_entries(seqgp.OnlineSampler(model).ssm)

    time, space = seqgp.kernels.Matern12(lengthscale), seqgp.kernels.Matern32
    assert entries(seqgp.Separable(time, space(lengthscale), 1.0)) == (1,)
    assert entries(seqgp.Separable(time, space(1.0), 1.0)) == ()
    assert entries(seqgp.Separable(time, space([lengthscale] * 2), 1.0)) == (1, 2)
    assert entries(seqgp.Separable(time, space([lengthscale] * 3), 1.0)) is None
    assert entries(seqgp.Separable(seqgp.kernels.Matern12(1.0), space(lengthscale), 1.0)) is None
    one = seqgp.Separable(time, space(lengthscale), 1.0)
    assert entries(one + one) is None


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("missing", "filter"), [(0.0, "rotated"), (0.15, "low rank")])
def test_a_map_of_shared_eigenvectors_is_that_of_each_particle(missing, filter, monkeypatch):
    """Ahead in time, with a coefficient of the mean: draw by draw, against the particle's own eigenvectors."""
    monkeypatch.setattr(network, "DENSE_BELOW", 8)
    state, infos = run(seqgp.OnlineSampler(MODEL, particles=32, draws=48), stream(times=4, missing=missing))
    assert infos[-1].settings["filter"] == filter
    live = state.revived(MODEL)
    assert 2 <= len(different(live.filters)) < 32
    x = np.random.default_rng(1).random((7, 2))
    found = predictive_of(live.history, live.filters, state.particle, np.asarray(state.z), x, state.t + 0.5, None)
    mean, variance = found.moments(MODEL)
    for draw, particle in enumerate(state.particle):
        one = filter_of(live.filters, int(particle), live.history.filter)
        expected = latent_moments(live.history.filter, *one, found.query)
        np.testing.assert_allclose(mean[draw], expected[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(variance[draw], expected[1], rtol=1e-9, atol=1e-9)
