"""A step is compiled once."""

import jax
import numpy as np
import pytest

from sequences import KNOWN, compilations, sampler, snapshots


@pytest.fixture
def compiled():
    """The number of programs that XLA has compiled since."""
    found = []

    def listen(event, duration, **_):
        if event.endswith("backend_compile_duration"):
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield found
    jax.monitoring.unregister_event_duration_listener(listen)


def test_ten_steps_are_compiled_once(compiled):
    """The first step compiles; the next nine, at other times and inputs, nothing at all."""
    data = snapshots([4] * 11)
    sequential = sampler(KNOWN)
    state, _ = sequential.init(jax.random.key(0), data[0])
    before = compilations()
    state, info = sequential.step(jax.random.key(1), state, data[1])
    assert info.compile_seconds > 0
    once = compilations()
    assert once - before
    compiled.clear()
    for i, snapshot in enumerate(data[2:]):
        state, info = sequential.step(jax.random.key(2 + i), state, snapshot)
        assert info.compile_seconds == 0
    assert compilations() == once
    assert not compiled


def test_fewer_inputs_than_before_are_padded():
    """Within a padded size the number of inputs is free; beyond it, one more compilation covers the next ones."""
    data = snapshots([4, 4, 3, 4, 2, 6, 7, 5])
    sequential = sampler(KNOWN)
    state, _ = sequential.init(jax.random.key(0), data[0])
    state, _ = sequential.step(jax.random.key(1), state, data[1])
    sizes = []
    for i, snapshot in enumerate(data[2:]):
        before = compilations()
        state, _ = sequential.step(jax.random.key(2 + i), state, snapshot)
        assert state.latent.shape[1] == len(snapshot.x)
        sizes.append(len(compilations() - before))
    assert sizes[:3] == [0, 0, 0]
    assert sizes[3] > 0
    assert sizes[4:] == [0, 0]


def test_a_number_of_inputs_that_varies_compiles_nothing(compiled):
    """Not even a slice: each would stay in memory, one for each number of inputs that there ever was."""
    sizes = [8, 8, 8, 7, 5, 6, 4, 8, 7]
    data = snapshots(sizes)
    sequential = sampler(KNOWN)
    state, _ = sequential.init(jax.random.key(0), data[0])
    for i, snapshot in enumerate(data[1:]):
        if i == 2:
            compiled.clear()
        state, _ = sequential.step(jax.random.key(1 + i), state, snapshot)
    assert not compiled


def test_padding_does_not_change_the_posterior():
    """Three inputs padded to four against three alone: ``|z| < 4`` for six numbers, two independent samples."""
    draws = 2000
    settings = {"draws": draws, "chains": 4, "warmup": 100, "thin": 5}
    first, second = snapshots([3])[0], snapshots([3], [0.9], seed=4)[0]
    sequential = sampler(KNOWN, **settings)
    state, _ = sequential.init(jax.random.key(0), first)
    alone, info = sequential.step(jax.random.key(1), state, second)
    pad = [(0, 0), (0, 0), (0, 1)]
    window = state.window._replace(
        x=np.pad(state.window.x, [(0, 0), (0, 1), (0, 0)]),
        mask=np.pad(state.window.mask, [(0, 0), (0, 1)]),
        f=np.pad(np.asarray(state.window.f), pad, constant_values=1e3),  # whatever stands there is not seen
    )
    padded, other = sequential.step(jax.random.key(3), state._replace(window=window), second)
    assert padded.latent.shape == alone.latent.shape
    effective = min(info.min_ess, other.min_ess)
    a, b = np.asarray(alone.latent), np.asarray(padded.latent)
    assert (np.abs(a.mean(0) - b.mean(0)) < 4 * a.std(0) * np.sqrt(2 / effective)).all()
    assert (np.abs(a.var(0) / b.var(0) - 1) < 4 * np.sqrt(4 / effective)).all()
