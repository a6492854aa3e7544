"""Rejuvenation spread over steps: exact weights, a bounded number of filter steps, and resumed bit for bit.

The truth is quadrature over the two parameters (``streams.exact``), and the filters of ``run_filters``.
"""

import jax
import numpy as np
import pytest

import seqgp
from seqgp.samplers import ibis
from seqgp.samplers.online import pending
from seqgp.samplers.online.filters import run_filters, run_further, started
from seqgp.samplers.online.history import build_timeline
from seqgp.statespace.model import StateSpaceModel
from streams import exact, model, sampled, snapshots

EARLY = 3  # snapshots from which rejuvenations are spread here


@pytest.fixture
def early(monkeypatch):
    """New particles begin in every step, and take over whenever more of them are effective."""
    monkeypatch.setattr(pending, "FROM_SNAPSHOTS", EARLY)
    monkeypatch.setattr(pending, "BEGIN_ESS_FRACTION", 0.999)
    monkeypatch.setattr(pending, "SNAPSHOTS_PER_STEP", 8)


def stream(count, seed=2, missing=0.0):
    """An AR(1) at three stations."""
    rng = np.random.default_rng(seed)
    x, f = rng.random((3, 2)), rng.normal(size=3)
    for t in range(count):
        f = 0.7 * f + 0.7 * rng.normal(size=3)
        y = 0.5 + f + 0.3 * rng.normal(size=3)
        yield seqgp.Snapshot(float(t), x, np.where(rng.random(3) < missing, np.nan, y))


def steps_of(sampler, data, seed=0):
    """States and infos of all steps."""
    state, found = None, []
    for i, snapshot in enumerate(data):
        key = jax.random.fold_in(jax.random.key(seed), i)
        state, info = sampler.init(key, snapshot) if state is None else sampler.step(key, state, snapshot)
        found.append((state, info))
    return found


def kinds(infos):
    return [one.kind for info in infos for one in info.rejuvenations]


@pytest.mark.usefixtures("early")
def test_the_posterior_is_that_of_quadrature():
    """512 particles, three seeds: means within .15 sd and log evidence within .15, as without spreading."""
    data, m = snapshots(missing=0.2), model()
    total, mean, sd = exact(m, data)
    for seed in range(3):
        states = steps_of(seqgp.OnlineSampler(m, particles=512, draws=10), data, seed)
        assert "spread" in kinds([info for _, info in states])
        particles = states[-1][0].particles
        assert np.abs((particles.weights() @ particles.z - mean) / sd).max() < 0.15
        assert states[-1][1].log_evidence == pytest.approx(total, abs=0.15)


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize(("forget", "history"), [(1.0, None), (0.95, None), (1.0, 10), (0.95, 10)])
def test_weights_are_those_of_filters_over_all_data(forget, history):
    """After a swap: log prior + discounted evidence of the kept data and of what is remembered − log proposal."""
    sampler = seqgp.OnlineSampler(model(), particles=32, draws=10, forget=forget, history=history)
    checked = 0
    for state, info in steps_of(sampler, list(stream(36, missing=0.2))):
        if kinds([info]) != ["spread"]:
            continue
        _, increments, _ = run_filters(state.live.history, state.particles.z, len(state.snapshots))
        before = np.zeros(32)
        first = 0
        if state.memory is not None:
            before, first = state.memory.log_evidence.at(state.particles.z), state.memory.anchor - state.dropped
        for column in increments[:, first:-1].T:
            before = forget * (before + column)
        assert state.particles.log_evidences == pytest.approx(before, rel=1e-9, abs=1e-9)
        assert state.particles.log_increment == pytest.approx(increments[:, -1], rel=1e-9, abs=1e-9)
        checked += 1
    assert checked >= 2


def test_a_long_stream_has_no_long_step(monkeypatch):
    """Where rejuvenations are spread no step runs more than nine snapshots; within a step it would be all of them."""
    monkeypatch.setattr(pending, "FROM_SNAPSHOTS", 30)
    states = steps_of(seqgp.OnlineSampler(model(), particles=64, draws=10), list(stream(80)))
    infos = [info for _, info in states[pending.FROM_SNAPSHOTS :]]
    assert "spread" in kinds(infos)
    assert max(info.extras["filter_steps"] for info in infos) <= 1 + pending.SNAPSHOTS_PER_STEP


@pytest.mark.usefixtures("early")
def test_a_stored_state_goes_on_bit_for_bit_in_the_middle():
    """At every step, whether particles are on their way or have just taken over."""
    sampler = seqgp.OnlineSampler(model(), particles=16, draws=20)
    data = list(stream(30, missing=0.1))
    states = steps_of(sampler, data)
    assert sum(state.pending is not None for state, _ in states) >= 5
    for i in range(EARLY, 29, 5):
        again = states[i][0].packed().unpacked(lambda dropped: [(one, None) for one in data[: i + 1]])  # noqa: B023
        state = again
        for j in range(i + 1, min(i + 4, 30)):
            state, _ = sampler.step(jax.random.fold_in(jax.random.key(0), j), state, data[j])
            assert np.array_equal(state.latent, states[j][0].latent)
            assert np.array_equal(state.particles.z, states[j][0].particles.z)


@pytest.mark.usefixtures("early")
def test_a_run_that_was_stopped_in_the_middle_is_taken_up_again(tmp_path):
    """From the store, which holds the new particles too."""
    sampler, data = seqgp.OnlineSampler(model(), particles=16, draws=20), list(stream(24))
    whole = seqgp.run(sampler, data, key=jax.random.key(3))
    seqgp.run(sampler, data[:15], key=jax.random.key(3), store=tmp_path / "run")
    stored = list(seqgp.Store(tmp_path / "run"))[-1].state
    assert stored.pending is not None
    assert stored.pending.done > 0
    again = seqgp.run(sampler, data, key=jax.random.key(3), store=tmp_path / "run")
    assert np.array_equal(again.state.latent, whole.state.latent)


def test_filters_run_in_parts_are_those_run_at_once():
    """Bit for bit, over gaps, stations that join and snapshots of different sizes; nothing is run twice."""
    rng, ssm = np.random.default_rng(5), StateSpaceModel(model())
    x = rng.random((6, 2))
    data = []
    for t in range(45):
        n = 4 if t < 12 else (6 if t < 40 else 5)
        y = rng.normal(size=n)
        if t > 20:
            y[rng.random(n) < 0.3] = np.nan
        data.append(seqgp.Snapshot(float(t), x[:n], y))
    z = rng.normal(size=(16, len(ssm.particle_prior()[0])))
    none = [None] * len(data)
    filters, done, increments, arrived = started(build_timeline(ssm, "auto", data[:1], none), z), 0, [], 30
    while done < len(data):
        arrived = min(arrived + 1, len(data))
        history = build_timeline(ssm, "auto", data[:arrived], none[:arrived])
        filters, found, _ = run_further(history, filters, done, 8, len(z))
        assert 0 < found.shape[1] <= 8
        increments.append(found)
        done += found.shape[1]
        if done % 5 == 0 or done == arrived:
            expected, all_increments, _ = run_filters(history, z, done)
            for one, other in zip(jax.tree.leaves(filters), jax.tree.leaves(expected)):
                assert np.array_equal(one, other)
            assert np.array_equal(np.concatenate(increments, axis=1), all_increments)
        if done == arrived and arrived < len(data):
            assert arrived > 30


def test_too_few_effective_particles_do_not_wait():
    """An outlier on a long history: the step rejuvenates at once, as on a short one."""
    data = list(stream(pending.FROM_SNAPSHOTS + 3))
    far = seqgp.Snapshot(data[-1].t, data[-1].x, data[-1].y + np.array([9.0, -9.0, 9.0]))
    states = steps_of(seqgp.OnlineSampler(model(), particles=32, draws=10), [*data[:-1], far])
    state, info = states[-1]
    assert set(kinds([info])) <= {"importance", "moves"}
    assert kinds([info])
    assert state.pending is None
    assert state.particles.ess() >= ibis.MIN_ESS_FRACTION * 32


def test_a_revised_history_begins_anew():
    sampler = seqgp.OnlineSampler(model(), particles=32, draws=10)
    data = list(stream(90))
    state, _ = sampled(sampler, data)
    state = state._replace(
        pending=pending.begin_pending(np.random.default_rng(0), state.particles, (np.zeros(2), np.ones(2)))
    )
    late = seqgp.Snapshot(20.5, data[0].x, data[0].y)
    revised, _ = sampler.revise(jax.random.key(1), state, [late])
    assert revised.pending is None
