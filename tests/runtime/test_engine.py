"""Tasks on all cores, or on those that a thread was given."""

import threading

from seqgp.runtime import engine


def test_threads_can_be_limited():
    """Tasks of a thread that has one core run in it, one after the other."""
    with engine.at_most(1):
        assert set(engine.in_threads([threading.get_ident] * 4)) == {threading.get_ident()}
    with engine.at_most(2):
        assert threading.get_ident() not in engine.in_threads([threading.get_ident] * 4)
