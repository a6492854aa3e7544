"""Networks with gaps in the online sampler: the filter of low rank is chosen, accurate, stored and smoothed.

The truth is the dense filter at the sampler's own particles, which other tests compare with dense algebra.
"""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.samplers.online import history as history_module
from seqgp.samplers.online import network, pending, rank, step
from seqgp.samplers.online.filters import run_filters
from seqgp.samplers.online.history import build_timeline
from seqgp.samplers.online.network import FIRST_PLAN
from seqgp.samplers.online.predictive import predictive_of
from seqgp.statespace import takeover, two_level
from seqgp.statespace.dense import DenseFilter
from seqgp.statespace.network import NetworkFilter

STATIONS, TIMES, JOINS = 61, 10, 6
MODEL = seqgp.Model(
    seqgp.Separable(
        seqgp.kernels.Matern32(dist.LogNormal(0.0, 0.5)), seqgp.kernels.Matern32(0.3), dist.LogNormal(0.0, 0.5)
    ),
    seqgp.likelihoods.Gaussian(0.3),
    mean=dist.Normal(0.0, 2.0),
)


def stream(missing=0.1, stations=STATIONS, times=TIMES, seed=0):
    """Of a Matérn field: values missing at random, one station silent and back, one that joins."""
    rng = np.random.default_rng(seed)
    x = rng.random((stations, 2))
    distance = np.linalg.norm(x[:, None] - x[None], axis=2) / 0.3 * 3**0.5
    root = np.linalg.cholesky((1 + distance) * np.exp(-distance) + 1e-9 * np.eye(stations))
    f, found = root @ rng.normal(size=stations), []
    for t in range(times):
        f = 0.8 * f + 0.6 * root @ rng.normal(size=stations)
        y = 1.0 + f + 0.3 * rng.normal(size=stations)
        y[rng.random(stations) < missing] = np.nan
        y[1] = np.nan if 2 <= t < 7 else y[1]
        there = slice(None) if t >= JOINS else slice(None, -1)
        found.append(seqgp.Snapshot(0.5 * t, x[there], y[there]))
    return found


DATA = stream()


def sampler():
    return seqgp.OnlineSampler(MODEL, particles=16, draws=64)


@pytest.fixture(scope="module")
def run():
    return seqgp.run(sampler(), DATA, key=jax.random.key(3))


@pytest.fixture(scope="module")
def dense(run):
    """The dense filters of the same particles over the same data."""
    state = run.state
    history = build_timeline(
        sampler().ssm, "auto", state.snapshots, state.linearised_snapshots, plan=FIRST_PLAN._replace(rank=0)
    )
    filters, increments, _ = run_filters(history, np.asarray(state.particles.z), TIMES)
    return history, filters, increments


def test_low_rank_is_chosen_and_its_error_told(run):
    info = run.infos[-1]
    assert info.settings["filter"] == "low rank"
    assert info.extras["low_rank"] == 24
    assert abs(info.extras["low_rank_shift"]) < 0.09
    assert info.extras["low_rank_spread"] < 0.03
    assert info.extras["low_rank_folded"] > 0
    assert "compression: info.extras['low_rank_spread']" in info.exact.why
    assert not any("low rank" in warning for warning in info.warnings)


def test_log_evidences_are_those_of_the_dense_filter(run, dense):
    """Spread between particles and common error; the sampler's weights use nothing else."""
    particles, (history, _, increments) = run.state.particles, dense
    assert all(isinstance(segment.filter, DenseFilter) for segment in history.segments)
    off = particles.log_evidences + particles.log_increment - increments.sum(axis=1)
    assert np.std(off, ddof=1) < 0.03
    assert np.abs(off).max() < 0.09


NEW = np.random.default_rng(9).random((4, 2))


@pytest.mark.parametrize("x", [DATA[-1].x[[5, 60, 1]], NEW], ids=["stations", "new"])
def test_predictions_are_those_of_the_dense_filter(run, dense, x):
    """Ahead, at a few stations (one that joined and one that was silent among them) and at new points."""
    state, (history, filters, _) = run.state, dense
    live = state.revived(MODEL)
    found = _f_moments(live.history, live.filters, state, x)
    exact = _f_moments(history, filters, state, x)
    sd = np.sqrt(np.diagonal(exact.covariance, axis1=1, axis2=2))
    assert np.abs((found.mean - exact.mean) / sd).max() < 0.02
    assert np.abs(np.diagonal(found.covariance, axis1=1, axis2=2) / sd**2 - 1).max() < 0.02
    prediction = seqgp.predict(jax.random.key(1), MODEL, state, x, t=state.t + 0.5)
    z = (np.asarray(prediction.f).mean(axis=0) - exact.mean[:, 1:].mean(axis=0)) / sd[:, 1:].mean(axis=0)
    assert np.abs(z).max() < 5 / 8  # five standard errors of 64 draws
    y = np.asarray(exact.mean[0, 1:])
    scored = prediction.log_score(y)
    by_dense = state._replace(live=type(live)(history, filters))
    assert scored == pytest.approx(
        seqgp.predict(jax.random.key(1), MODEL, by_dense, x, t=state.t + 0.5).log_score(y), abs=0.05
    )


def _f_moments(history, filters, state, x):
    query = predictive_of(history, filters, state.particle, np.asarray(state.z), x, state.t + 0.5, None).query

    def run(groups):
        return jax.lax.map(lambda one: history.filter.predict_f(*one, query), groups)

    parts = [jax.jit(run)(group) for group in filters.groups]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def test_a_run_is_taken_up_again_bit_for_bit(run, tmp_path):
    """Stopped after the station has joined, with a checked rank: read from the store, the draws are the same."""
    seqgp.run(sampler(), DATA[:8], key=jax.random.key(3), store=tmp_path / "run")
    again = seqgp.run(sampler(), DATA, key=jax.random.key(3), store=tmp_path / "run")
    assert np.array_equal(again.state.latent, run.state.latent)
    assert again.infos[-1].extras["low_rank_spread"] == run.infos[-1].extras["low_rank_spread"]
    assert isinstance(again.state, seqgp.OnlineState)
    assert again.state.plan == run.state.plan


def test_smoothed_moments_are_those_of_the_dense_filter(run):
    """At stations, silent ones too, and at new points; five standard errors of the draws of both."""
    state, times = run.state, [1.5, 4.0]
    draws = 64
    by_rank = FIRST_PLAN._replace(rank=0)._asdict()
    exact = state._replace(settings=state.settings | {"network": by_rank}, live=None)
    x = np.concatenate([DATA[-1].x[:8], NEW])
    found, truth = (
        seqgp.smooth(jax.random.key(7), sampler(), one, times, x=x, draws=draws).latent for one in (state, exact)
    )
    for a, b in zip(found, truth):
        sd = np.sqrt(a.var(axis=0) + b.var(axis=0))
        assert np.abs((a.mean(axis=0) - b.mean(axis=0)) / sd).max() < 5 / np.sqrt(draws)
        assert np.abs(np.log(a.var(axis=0) / b.var(axis=0))).max() < 5 * np.sqrt(4 / draws)


def test_where_it_does_not_pay_the_dense_filter_is_used():
    """Too few stations, and too many gaps; a bad day among good ones changes nothing."""
    ssm = sampler().ssm

    def used(data):
        history = build_timeline(ssm, "auto", data, [None] * len(data))
        return [segment.filter.name for segment in history.segments]

    assert set(used(stream(stations=50))) == {"dense"}
    assert set(used(stream(missing=0.4))) == {"dense"}
    bad = stream()
    bad[3] = seqgp.Snapshot(bad[3].t, bad[3].x[:20], bad[3].y[:20])
    assert used(bad) == ["low rank", "low rank"]  # a second one where a station joins
    complete = stream(missing=0.0)
    for one in (0, 1):
        complete[one] = seqgp.Snapshot(complete[one].t, complete[one].x, np.zeros(STATIONS - 1))
    assert used(complete)[:2] == ["rotated", "low rank"]
    late = [*stream(missing=0.4)[:3], *stream(times=16)[3:]]
    assert used(late)[-1] == "low rank"  # gaps became few
    many = stream(missing=0.4, stations=401, times=2)
    assert set(used(many)) == {"low rank"}  # the dense filter costs so much more
    assert set(used(stream(missing=0.6, stations=401, times=2))) == {"dense"}


def test_a_rank_that_is_too_small_grows(run):
    data, ssm = DATA[:4], sampler().ssm
    history = build_timeline(ssm, "auto", data, [None] * 4, plan=FIRST_PLAN._replace(rank=4))
    filters, _, _ = run_filters(history, np.asarray(run.state.particles.z), 4)
    grown, _ = rank.with_accurate_rank(history, run.state.particles, filters, 4, 1, whole=False)
    assert grown.plan.rank in (8, 16, 32)
    assert grown.plan.spread <= 0.03
    assert isinstance(grown.filter, NetworkFilter)
    assert grown.filter.compression.rank == grown.plan.rank


def test_the_rank_is_checked_once_more_when_the_dense_filter_takes_over(run):
    """The filters before it have compressed, and their error stays in the weights."""
    data, ssm, z = stream(times=8), sampler().ssm, np.asarray(run.state.particles.z)
    for i in (5, 6, 7):  # gaps become many
        y = np.where(np.arange(len(data[i].y)) < 50, np.nan, data[i].y)
        data[i] = seqgp.Snapshot(data[i].t, data[i].x, y)
    few = FIRST_PLAN._replace(rank=4, checked_at=7, folded=10.0)
    history = build_timeline(ssm, "auto", data, [None] * 8, plan=few)
    taken = next(i for i, one in enumerate(history.segments) if isinstance(one.filter, DenseFilter) and i)
    assert isinstance(history.segments[taken - 1].filter, NetworkFilter)
    number = history.segments[taken].first + 1
    history = build_timeline(ssm, "auto", data[:number], [None] * number, plan=few)
    filters, _, _ = run_filters(history, z, number)
    assert rank.rank_due(history, filters, number)
    grown, _ = rank.with_accurate_rank(history, run.state.particles, filters, number, 1, whole=False)
    assert grown.plan.rank > 4
    _, found, _ = run_filters(grown, z, number)
    by_dense = build_timeline(ssm, "auto", data[:number], [None] * number, plan=FIRST_PLAN._replace(rank=0))
    _, exact, _ = run_filters(by_dense, z, number)
    counted = rank.few_particles(run.state.particles)  # others have hardly any weight
    assert np.std((found - exact).sum(axis=1)[counted], ddof=1) < 0.03
    assert rank.rank_extras(grown)["low_rank_spread"] <= 0.03


def test_much_that_is_folded_has_the_rank_checked(run):
    filters, history = run.state.live.filters, run.state.live.history
    folded = rank.folded_traces(filters).max()
    for before, due in ((folded / 2, False), (0.0, folded > rank.MUCH_FOLDED), (folded / 2 - rank.MUCH_FOLDED, True)):
        plan = history.plan._replace(checked_at=TIMES, folded=before)
        assert rank.rank_due(history.compressed(plan), filters, TIMES) == due


def test_a_rejuvenation_that_is_spread_over_steps_has_no_check_of_its_own(monkeypatch):
    """A check runs filters over all data within one step; on a long history it comes when the data have doubled."""
    monkeypatch.setattr(pending, "FROM_SNAPSHOTS", 4)
    monkeypatch.setattr(pending, "BEGIN_ESS_FRACTION", 0.999)
    checked, due, check, is_due = [], [], step.with_accurate_rank, step.rank_due

    def noted(history, particles, filters, number, *rest):
        checked.append(number)
        return check(history, particles, filters, number, *rest)

    def noted_due(history, filters, number):
        due.extend([number] * is_due(history, filters, number))
        return number in due

    monkeypatch.setattr(step, "with_accurate_rank", noted)
    monkeypatch.setattr(step, "rank_due", noted_due)
    state, spread = None, []
    for i, snapshot in enumerate(DATA):
        key = jax.random.key(i)
        state, info = sampler().init(key, snapshot) if state is None else sampler().step(key, state, snapshot)
        spread += [i + 1 for one in info.rejuvenations if one.kind == "spread"]
    assert set(spread) - set(due)
    assert not set(checked) & (set(spread) - set(due))


def test_in_large_networks_stations_that_join_are_sites_from_the_start(dense, monkeypatch):
    """All filters run anew over few snapshots, and no covariance is written out: accurate, and resumed bit for bit."""
    monkeypatch.setattr(history_module, "REPLAYED_SITES", STATIONS)
    monkeypatch.setattr(takeover, "_dense_to_low_rank", None)  # nothing is written out
    states = []
    for i, snapshot in enumerate(DATA):
        key = jax.random.key(i)
        states.append((sampler().step(key, states[-1], snapshot) if states else sampler().init(key, snapshot))[0])
    state, (history, _, _) = states[-1], dense
    assert [len(segment.filter.x) for segment in state.live.history.segments] == [64]
    assert state.evaluated_at >= JOINS + 1
    _, increments, _ = run_filters(history, np.asarray(state.particles.z), TIMES)
    off = state.particles.log_evidences + state.particles.log_increment - increments.sum(axis=1)
    assert np.std(off, ddof=1) < 0.03
    assert np.abs(off).max() < 0.09
    again = states[JOINS].packed().unpacked(lambda dropped: [(one, None) for one in DATA[: JOINS + 1]])
    for i in range(JOINS + 1, TIMES):
        again, _ = sampler().step(jax.random.key(i), again, DATA[i])
    assert np.array_equal(again.latent, state.latent)


def test_two_levels_are_those_of_the_dense_filter(run, monkeypatch):
    """In the sampler, with as many leading modes as the kernel asks for: told, accurate, taken up again."""
    for module in (network, rank):
        monkeypatch.setattr(module, "TWO_LEVELS", STATIONS - 1)
    monkeypatch.setattr(two_level, "MULTIPLE", 4)
    monkeypatch.setattr(network, "MULTIPLE", 4)
    state, infos = None, []
    for i, snapshot in enumerate(DATA[:6]):
        key = jax.random.key(i)
        state, info = sampler().init(key, snapshot) if state is None else sampler().step(key, state, snapshot)
        infos.append(info)
    extras = infos[-1].extras
    assert 16 <= extras["leading_modes"] < STATIONS - 1
    assert 0 < extras["left_out"] <= 2e-4
    assert state.live.filters.groups[0][1].low_rank.factor.shape[-1] == extras["leading_modes"]
    history = build_timeline(sampler().ssm, "auto", DATA[:6], [None] * 6, plan=FIRST_PLAN._replace(rank=0))
    _, increments, _ = run_filters(history, np.asarray(state.particles.z), 6)
    off = state.particles.log_evidences + state.particles.log_increment - increments.sum(axis=1)
    assert np.std(off, ddof=1) < 0.03
    assert np.abs(off).max() < 0.09
    again = state.packed().unpacked(lambda dropped: [(one, None) for one in DATA[:6]])
    one, other = (sampler().step(jax.random.key(9), s, DATA[6])[0] for s in (state, again))
    assert np.array_equal(one.latent, other.latent)


def test_without_an_accurate_rank_the_dense_filter_takes_over(monkeypatch):
    """All filters run anew; the run can be taken up again."""
    monkeypatch.setattr(rank, "is_accurate", lambda error: False)
    monkeypatch.setattr(rank, "NOTHING", -1.0)
    state, info = sampler().init(jax.random.key(0), DATA[0])
    assert info.settings["filter"] == "dense"
    assert state.plan.rank == 0
    again = state.packed().unpacked(lambda dropped: [(DATA[0], None)])
    one, other = (sampler().step(jax.random.key(5), s, DATA[1])[0] for s in (state, again))
    assert np.array_equal(one.latent, other.latent)
