"""Functions compiled once per shape and setting; tasks on all cores, or on those that a thread was given."""

import gc
import threading

import equinox as eqx
import jax
import numpy as np
import pytest

from seqgp.runtime import engine


def test_threads_can_be_limited():
    """Tasks of a thread that has one core run in it, one after the other."""
    with engine.at_most(1):
        assert set(engine.in_threads([threading.get_ident] * 4)) == {threading.get_ident()}
    with engine.at_most(2):
        assert threading.get_ident() not in engine.in_threads([threading.get_ident] * 4)


def test_a_compiled_function_is_kept_by_shape_and_setting():
    traced = []

    def scaled(factor, x):
        traced.append(factor)
        return factor * x

    for factor, x in [(2.0, np.ones(3)), (2.0, np.zeros(3)), (3.0, np.ones(3)), (2.0, np.ones(4))]:
        run, _ = engine.compiled(scaled, factor, x)
        np.testing.assert_array_equal(run(), factor * x)
    assert traced == [2.0, 3.0, 2.0]
    assert isinstance(run(), jax.Array)


class Factor(eqx.Module):
    value: np.ndarray
    power: int


def test_a_module_is_taken_apart_once_while_it_lives():
    """Its arrays are arguments, so that equal modules share what is compiled, and none is kept alive."""
    traced = []

    def scaled(factor, x):
        traced.append(factor.power)
        return factor.value**factor.power * x

    two, three, squared = Factor(np.array(2.0), 1), Factor(np.array(3.0), 1), Factor(np.array(2.0), 2)
    for factor in (two, three, squared, two, three):
        np.testing.assert_array_equal(engine.compiled(scaled, factor, np.ones(3))[0](), factor.value**factor.power)
    assert traced == [1, 2]
    assert id(two) in engine._PARTED
    number = id(two)
    del two, factor
    gc.collect()
    assert number not in engine._PARTED


def test_what_shapes_alone_decide_is_found_once_for_each():
    calls = []

    def rank(x, name):
        calls.append(name)
        return x.ndim

    assert [engine.cached_by_shape(rank, np.full(n, 1.0 * n), name) for n, name in [(3, "a"), (3, "a"), (4, "a")]] == [
        1
    ] * 3
    assert engine.cached_by_shape(rank, np.zeros(3), "b") == 1
    assert calls == ["a", "a", "b"]


def test_many_shapes_drive_out_nothing_that_is_compiled():
    traced = []

    def doubled(x):
        traced.append(len(x))
        return 2 * x

    for _ in range(2):
        engine.compiled(doubled, np.ones(3))
        for n in range(engine._CACHE_SIZE + 1):
            engine.cached_by_shape(len, np.ones(n))
    assert traced == [3]


@pytest.mark.parametrize(
    ("backend", "flags", "option", "expected"),
    [
        ("cpu", "", engine.FUSION_EMITTERS, {engine.FUSION_EMITTERS: False}),
        ("cpu", f"--{engine.FUSION_EMITTERS}=true", engine.FUSION_EMITTERS, {}),
        ("cpu", "", "xla_has_no_such_option", {}),
        ("gpu", "", engine.FUSION_EMITTERS, {}),
    ],
    ids=["on a CPU", "the user has chosen", "another version of XLA", "elsewhere"],
)
def test_what_the_compiler_is_told(backend, flags, option, expected, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setenv("XLA_FLAGS", flags)
    monkeypatch.setattr(engine, "FUSION_EMITTERS", option)
    assert engine._compiler_options.__wrapped__() == expected
