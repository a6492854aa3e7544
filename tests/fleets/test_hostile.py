"""Streams that exit, hang, lose their files or their permissions: each fails alone, and is called what it is."""

import errno
import io
import itertools
import os
import threading

import pytest

import seqgp
from fleet_streams import STEPS, model, same_draws, sampler, snapshots, streams
from seqgp.base.errors import DataError, SamplerError
from seqgp.cli import main
from seqgp.fleets import outcome, timeout
from seqgp.fleets import status as module
from seqgp.fleets.outcome import Outcome, announce, files_of, write_note
from seqgp.fleets.status import statuses


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight")
    seqgp.fleet(streams(3), store=folder)
    return folder


@pytest.fixture
def forbid(monkeypatch):
    """Nothing below a folder can be reached, whoever runs the tests."""

    def forbidden(folder):
        def guarded(function):
            def call(path=".", *args, **kwargs):
                text = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
                if text.startswith(f"{folder}{os.sep}"):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), text)
                return function(path, *args, **kwargs)

            return call

        for owner, names in ((os, ("scandir", "listdir", "open", "stat", "lstat", "mkdir")), (io, ("open",))):
            for name in names:
                monkeypatch.setattr(owner, name, guarded(getattr(owner, name)))

    return forbidden


def states(folder):
    return {one.outcome.stream: one.state for one in statuses(folder)}


def reported(folder):
    with pytest.raises(SystemExit) as ended:
        main(["fleet", "report", str(folder)])
    return ended.value.code, (folder / "report.html").read_text()


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("nothing to say")


def raising(error):
    def read():
        raise error

    return read


def test_a_reader_that_exits_or_cannot_say_why_fails_alone(tmp_path, straight):
    chosen = sampler()
    found = seqgp.fleet(
        [
            seqgp.Stream("exits", chosen, raising(SystemExit(3))),
            seqgp.Stream("mute", chosen, raising(Mute())),
            seqgp.Stream("s2", chosen, snapshots(2)),
        ],
        store=tmp_path,
    )
    assert [row.error for row in found.rows] == ["SystemExit: 3", "Mute: Mute", None]
    assert states(tmp_path) == {"exits": "failed", "mute": "failed", "s2": "done"}
    assert same_draws(straight, tmp_path, ["s2"])


def test_a_folder_without_permission_fails_alone(tmp_path, straight, forbid, capsys):
    seqgp.fleet(streams(2, steps=2), store=tmp_path)
    forbid(tmp_path / "s0")
    found = seqgp.fleet(streams(3), store=tmp_path)
    assert [row.error is None for row in found.rows] == [False, True, True]
    assert "ermission" in found.rows[0].error
    assert states(tmp_path) == {"s0": "failed", "s1": "done", "s2": "done"}
    code, page = reported(tmp_path)
    assert code == 0
    assert "Permission denied" in page
    assert same_draws(straight, tmp_path, ["s1", "s2"])


def test_linked_steps_fail_alone_and_are_called_damaged(tmp_path, capsys):
    seqgp.fleet(streams(2), store=tmp_path)
    (tmp_path / "s0" / "steps").rename(tmp_path / "elsewhere")
    (tmp_path / "s0" / "steps").symlink_to(tmp_path / "elsewhere")
    assert states(tmp_path) == {"s0": "damaged", "s1": "done"}
    found = seqgp.fleet(streams(2), store=tmp_path)
    assert "is a link" in found.rows[0].error
    assert found.rows[1].error is None
    assert states(tmp_path) == {"s0": "damaged", "s1": "done"}
    code, page = reported(tmp_path)
    assert (code, "is a link" in page) == (0, True)


@pytest.mark.parametrize("which", ["000002.npz", "000004.npz"])
def test_a_damaged_run_is_called_so_and_the_report_has_the_others(tmp_path, capsys, which):
    seqgp.fleet(streams(2), store=tmp_path)
    path = tmp_path / "s0" / "steps" / which
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 400] = bytes(400)
    path.write_bytes(content)
    (first, second) = statuses(tmp_path)
    assert (first.outcome.stream, first.state) == ("s0", "damaged")
    assert which in first.outcome.error
    assert (second.outcome.stream, second.state) == ("s1", "done")
    code, page = reported(tmp_path)
    assert code == 0
    assert "Damaged: 1 of 2 streams" in page
    assert (tmp_path / ".reports" / "s1.html").exists()
    path.unlink()
    assert states(tmp_path)["s0"] == ("damaged" if which == "000002.npz" else "unfinished")


def test_a_copy_of_a_fleet_is_done_as_the_fleet_was(tmp_path):
    """Other times of files are no damage."""
    seqgp.fleet(streams(1), store=tmp_path)
    for path in (tmp_path / "s0" / "steps").iterdir():
        os.utime(path, (1, 1))
    assert states(tmp_path) == {"s0": "done"}


def test_a_stream_that_hangs_is_left_behind(tmp_path, straight, monkeypatch):
    """The clock runs only while the stream hangs."""
    hanging, let_go, ticks = threading.Event(), threading.Event(), itertools.count()

    def hangs():
        yield from snapshots(0)[:2]
        hanging.set()
        let_go.wait()
        yield from snapshots(0)[2:]

    monkeypatch.setattr(timeout.time, "monotonic", lambda: 1000.0 * next(ticks) if hanging.is_set() else 0.0)
    chosen = sampler()
    hung = [seqgp.Stream("s0", chosen, hangs)]
    (row,) = seqgp.fleet(hung, store=tmp_path, timeout=500.0).rows
    assert "timeout: no new step for 500 s" in row.error
    assert (row.steps, row.step, row.added) == (2, 3, 2)
    hanging.clear()
    assert seqgp.fleet([seqgp.Stream("s1", chosen, snapshots(1))], store=tmp_path, timeout=500.0).failed == ()
    let_go.set()
    for thread in threading.enumerate():
        if thread.name == "seqgp (stream)":
            thread.join()
    assert len(seqgp.Store(tmp_path / "s0")) == 2  # it stopped when it was let go
    assert seqgp.fleet(streams(2), store=tmp_path, timeout=500.0).failed == ()
    assert same_draws(straight, tmp_path, ["s0", "s1"])


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf"), "5", True])
def test_a_timeout_is_a_number_of_seconds(tmp_path, wrong):
    with pytest.raises(SamplerError, match="timeout = "):
        seqgp.fleet(streams(1), store=tmp_path, timeout=wrong)


def test_a_stream_is_not_called_as_the_page():
    for name in ("report.html", "Report.HTML"):
        with pytest.raises(DataError, match="the name of the fleet's page"):
            seqgp.Stream(name, sampler(), [])


class Interrupted(seqgp.OnlineSampler):
    """As a Ctrl-C in the middle of a step, once."""

    def __init__(self):
        super().__init__(model(), particles=16, draws=8)
        self._times = [2.0]

    def step(self, key, state, snapshot, progress=None):
        found = super().step(key, state, snapshot, progress)
        if snapshot.t in self._times:
            self._times.remove(snapshot.t)
            raise KeyboardInterrupt
        return found


def test_an_interrupt_inside_a_step(tmp_path):
    """What is finished is kept, the run is free, and the same call goes on to the same draws."""
    chosen = Interrupted()
    made = [seqgp.Stream(f"s{i}", chosen, snapshots(i)) for i in range(2)]
    with pytest.raises(KeyboardInterrupt):
        seqgp.fleet(made, store=tmp_path / "runs")
    assert states(tmp_path / "runs") == {"s0": "unfinished", "s1": "waiting"}
    assert seqgp.Store(tmp_path / "runs" / "s0").check() == []
    assert len(seqgp.Store(tmp_path / "runs" / "s0")) == 2
    assert seqgp.fleet(made, store=tmp_path / "runs").table.added.tolist() == [STEPS - 2, STEPS]
    seqgp.fleet(made, store=tmp_path / "straight")
    assert same_draws(tmp_path / "straight", tmp_path / "runs", ["s0", "s1"])


def test_the_status_of_many_streams_opens_no_run(tmp_path, monkeypatch):
    """A note each, and the names and times of files: what 10,000 streams cost is linear, and light."""
    names = [f"s{i}" for i in range(500)]
    announce(tmp_path, names)
    for name in names:
        steps = tmp_path / name / "steps"
        steps.mkdir(parents=True)
        (steps / "000001.npz").write_text("never opened")
        write_note(tmp_path, Outcome(name, 1, t=0.0, files=files_of(tmp_path / name)[1]))
    opened = []
    monkeypatch.setattr(outcome, "read_own", lambda path, read=outcome.read_own: (opened.append(path), read(path))[1])
    monkeypatch.setattr(module, "read_run", None)
    monkeypatch.setattr(module, "check_run", None)
    assert set(states(tmp_path).values()) == {"done"}
    assert len(opened) == len(names) + 1  # a note each, and the list of names
