"""Who holds a run: a process of another host, whose lock is not seen from here, is known by its signs of life."""

import json
import os
import threading
import time

import pytest

from seqgp.io import lock as module
from seqgp.io.errors import PassingError, StoreError
from seqgp.io.lock import BEAT, HOLDER, LEASE, LOCK, Held, locked

ELSEWHERE = {"process": 4711, "user": "ada", "host": "node-7", "boot": "another", "since": "2026-01-01T00:00:00+00:00"}


NOW = 1_800_000_000  # of the file server


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The clock of the files stands still: the machine may be as slow as it likes."""
    monkeypatch.setattr(module, "_touch", lambda path: os.utime(path, (NOW, NOW)))


def left_by(folder, who, age):
    """What a process has left that was killed, or that still runs on another host."""
    (folder / HOLDER).write_text(json.dumps(who))
    os.utime(folder / HOLDER, (NOW - age, NOW - age))


def test_a_living_process_on_another_host_is_named(tmp_path):
    left_by(tmp_path, ELSEWHERE, age=LEASE / 2)
    with (
        pytest.raises(PassingError, match=r"in use by process 4711 of ada on node-7 .* sign of life 30 s ago"),
        locked(tmp_path),
    ):
        pass
    assert json.loads((tmp_path / HOLDER).read_text()) == ELSEWHERE  # and is left alone


def test_a_dead_process_on_another_host_does_not_block(tmp_path):
    left_by(tmp_path, ELSEWHERE, age=LEASE + 5)
    with locked(tmp_path):
        assert json.loads((tmp_path / HOLDER).read_text())["process"] == os.getpid()
    assert not (tmp_path / HOLDER).exists()


def test_the_age_is_by_the_clock_of_the_files_not_ours(tmp_path, monkeypatch):
    left_by(tmp_path, ELSEWHERE, age=0)
    monkeypatch.setattr(time, "time", lambda: 1e12)
    with pytest.raises(PassingError, match="in use"), locked(tmp_path):
        pass


@pytest.mark.parametrize("host", ["this", "renamed"])
def test_a_dead_process_of_this_host_does_not_block_for_a_moment(tmp_path, host):
    """Its lock was released by the system: what it left says nothing, whatever the host is called."""
    left_by(tmp_path, ELSEWHERE | {"boot": module._boot(), "host": host}, age=0)
    with locked(tmp_path):
        pass


class Ended:
    """An event that is set after some waits, each noted."""

    def __init__(self, waits):
        self.waits, self.waited = waits, []

    def wait(self, seconds):
        self.waited.append(seconds)
        return len(self.waited) > self.waits


def test_a_holder_gives_signs_of_life(tmp_path):
    left_by(tmp_path, ELSEWHERE, age=1000)
    ended = Ended(1)
    Held(tmp_path).beat(ended)
    assert (tmp_path / HOLDER).stat().st_mtime == NOW
    assert ended.waited == [BEAT, BEAT]
    assert BEAT < LEASE / 3
    (tmp_path / HOLDER).unlink()
    with locked(tmp_path):
        assert any(thread.name.endswith("(beat)") for thread in threading.enumerate())
    assert not any(thread.name.endswith("(beat)") for thread in threading.enumerate())


def test_who_was_taken_for_dead_writes_no_more(tmp_path):
    with locked(tmp_path) as held:
        held.check()
        left_by(tmp_path, ELSEWHERE | {"token": "another"}, age=0)
        with pytest.raises(StoreError, match=r"taken over by process 4711 of ada on node-7"):
            held.check()
    assert (tmp_path / HOLDER).exists()  # it is the other's


def test_a_broken_note_names_nobody(tmp_path):
    (tmp_path / HOLDER).write_text("[" * 10)
    with locked(tmp_path), pytest.raises(PassingError, match="in use by process"), locked(tmp_path):
        pass
    assert (tmp_path / LOCK).exists()
