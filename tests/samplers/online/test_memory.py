"""A bounded history."""

import jax
import numpy as np
import pytest

import seqgp
from seqgp.runtime import engine
from seqgp.samplers.online import predictive, programs
from seqgp.samplers.online.filters import run_filters
from seqgp.samplers.online.history import build_timeline
from seqgp.samplers.online.quadratics import QuadraticFit
from seqgp.statespace.model import StateSpaceModel
from streams import model, sampled


def stream(count):
    """An AR(1) at three stations."""
    rng = np.random.default_rng(2)
    x, f = rng.random((3, 2)), rng.normal(size=3)
    for t in range(count):
        f = 0.7 * f + 0.7 * rng.normal(size=3)
        yield seqgp.Snapshot(float(t), x, 0.5 + f + 0.3 * rng.normal(size=3))


def test_a_quadratic_is_remembered_exactly():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(60, 2))
    values = 3.0 - (z[:, 0] - 1) ** 2 + z[:, 0] * z[:, 1]
    found = QuadraticFit.fitted(z, values, np.full(60, 1 / 60))
    other = rng.normal(size=(5, 2))
    assert found.at(other) == pytest.approx(3.0 - (other[:, 0] - 1) ** 2 + other[:, 0] * other[:, 1], abs=1e-3)
    assert found.residual < 1e-3
    far = found.centre + 100 * found.scale
    assert found.at(far[None], within=2.0) == pytest.approx(found.at((found.centre + 2 * found.scale)[None]))


def test_a_bounded_history_ends_near_the_whole_one_with_few_snapshots_in_memory():
    found = {}
    for history in (None, 10):
        sampler = seqgp.OnlineSampler(model(), particles=64, draws=500, history=history)
        state = None
        for i, snapshot in enumerate(stream(70)):
            key = jax.random.fold_in(jax.random.key(0), i)
            state, info = sampler.init(key, snapshot) if state is None else sampler.step(key, state, snapshot)
            if history:
                assert len(state.snapshots) < 3 * history
        weights = state.particles.weights()
        mean = weights @ state.particles.z
        found[history] = mean, np.sqrt(weights @ (state.particles.z - mean) ** 2), info.log_evidence
        assert state.step == 70
    assert np.abs((found[10][0] - found[None][0]) / found[None][1]).max() < 0.5
    assert found[10][2] == pytest.approx(found[None][2], abs=1.5)


def test_a_bounded_history_is_taken_up_again_bit_for_bit():
    sampler = seqgp.OnlineSampler(model(), particles=16, draws=20, history=10)
    data, state = list(stream(36)), None
    for i, snapshot in enumerate(data[:-1]):
        key = jax.random.fold_in(jax.random.key(0), i)
        state, _ = sampler.init(key, snapshot) if state is None else sampler.step(key, state, snapshot)
    assert state.memory is not None
    again = state.packed().unpacked(lambda count: [(one, None) for one in data[35 - count : 35]])
    one, other = (sampler.step(jax.random.key(5), s, data[-1])[0] for s in (state, again))
    assert np.array_equal(one.latent, other.latent)


def test_a_number_of_stations_that_varies_compiles_few_programs():
    """The draws at 3 to 8 of 8 stations are compiled for 8."""
    engine.forget()
    rng, x = np.random.default_rng(0), np.random.default_rng(1).random((8, 2))
    few = [rng.permutation(8)[:n] for n in (8, 7, 5, 8, 3, 4, 6)]
    data = [seqgp.Snapshot(float(t), x[chosen], rng.normal(size=len(chosen))) for t, chosen in enumerate(few)]
    state, _ = sampled(seqgp.OnlineSampler(model(), particles=16, draws=20), data)
    assert state.latent.shape == (20, 6)
    white = [shapes[-1][0] for function, *_, shapes in engine._CACHE if function is predictive._draws]
    assert {shape[-1] for shape in white} == {8}


def coming_and_going(count, stations=12):
    """Between a third and all of some stations at each time, in any order."""
    rng, x = np.random.default_rng(2), np.random.default_rng(3).random((stations, 2))
    for t in range(count):
        chosen = rng.permutation(stations)[: rng.integers(stations // 3, stations + 1)]
        yield seqgp.Snapshot(float(t), x[chosen], rng.normal(size=len(chosen)))


def test_sites_that_are_there_from_the_start_change_nothing():
    """Each snapshot's log density for each particle is the one with stations that join as they come."""
    ssm, data = StateSpaceModel(model()), list(coming_and_going(8))
    z = np.random.default_rng(0).normal(size=(16, len(ssm.particle_prior()[0])))
    one_by_one, together = (build_timeline(ssm, "auto", data, [None] * 8, count) for count in (1, 8))
    assert len(one_by_one.segments) > 1 == len(together.segments)
    expected, found = (run_filters(history, z, 8)[1] for history in (one_by_one, together))
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_a_bounded_history_of_stations_that_come_and_go():
    """What is dropped leaves one program for all that follow, and a stored state goes on bit for bit."""
    sampler = seqgp.OnlineSampler(model(), particles=16, draws=20, history=10)
    data, state, counts = list(coming_and_going(66)), None, []
    for i, snapshot in enumerate(data[:-1]):
        key = jax.random.fold_in(jax.random.key(0), i)
        before = state and state.dropped
        state, _ = sampler.init(key, snapshot) if state is None else sampler.step(key, state, snapshot)
        if before is not None and state.dropped > before:
            ours = (programs.run_snapshots, programs.convert_filters, programs.begin_filters)
            counts.append(sum(function in ours for function, *_ in engine._CACHE))
    assert len(counts) >= 4
    assert counts[1:] == counts[1:2] * len(counts[1:])
    again = state.packed().unpacked(lambda count: [(one, None) for one in data[65 - count : 65]])
    one, other = (sampler.step(jax.random.key(5), s, data[-1])[0] for s in (state, again))
    assert np.array_equal(one.latent, other.latent)
