"""Functions compiled once per shape and setting; tasks on all cores, or on those that a thread was given."""

import threading

import jax
import numpy as np

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
