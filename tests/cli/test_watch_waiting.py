"""Watching a folder when something is in the way: order is kept, nothing is given up for good, nothing ends it."""

import errno
import os
import stat

import pytest

import seqgp
from cli_tables import CONFIG, rows
from seqgp.cli import main
from seqgp.io import files, frames
from seqgp.io import inbox as tables
from seqgp.io.inbox import PATIENCE
from seqgp.io.lock import locked
from seqgp.io.unused_rows import left_out
from seqgp.samplers.online import state


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is moved."""
    now = [1000.0]
    monkeypatch.setattr(tables.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def closed(monkeypatch):
    """Files without any permission cannot be opened, whoever runs the tests."""

    def opened(path, follow=False, open_regular=files.open_regular):
        if not stat.S_IMODE(os.stat(path).st_mode):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return open_regular(path, follow)

    for module in (frames, tables):
        monkeypatch.setattr(module, "open_regular", opened)


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_later_file_waits_while_an_earlier_one_does(watched, inbox, look, clock):
    """The run is in use when the first file comes, and free when the second does."""
    (inbox / "d5.csv").write_text(rows([5]))
    with locked(watched):
        assert "in use by process" in look(2, pause=5.0)[0]["waiting"]
        (inbox / "d6.csv").write_text(rows([6]))
        look(1, pause=5.0)
    look(3, pause=5.0)
    clock[0] += 5.0
    assert [said["t"] for said in look(1) if "t" in said] == [5.0, 6.0]
    assert left_out(watched) == []


def test_a_later_file_waits_for_one_that_is_still_written(watched, inbox, look):
    (inbox / "d5.csv").write_text(rows([5])[:-1])  # no end of the last line yet
    (inbox / "d6.csv").write_text(rows([6]))
    (said,) = look(PATIENCE)
    assert "d6.csv: an earlier file is not whole yet" in said["waiting"]
    assert [said["t"] for said in look(1)] == [5.0, 6.0]
    assert left_out(watched) == []


def test_an_earlier_file_does_not_wait_for_a_later_one(watched, inbox, look):
    (inbox / "d5.csv").write_text(rows([5]))
    look(1)
    (inbox / "d6.csv").write_text(rows([6])[:-1])
    assert [said["t"] for said in look(1)] == [5.0]


def test_a_file_that_never_stops_growing_is_waited_for_ten_looks(watched, inbox, look):
    (inbox / "d5.csv").write_text(rows([5]))
    for number in range(PATIENCE):
        (inbox / "log.csv").write_text("x" * (number + 1))
        assert [said for said in look(1) if "t" in said] == []
    (inbox / "log.csv").write_text("x" * 100)
    assert [said["t"] for said in look(1)] == [5.0]


def test_a_file_is_tried_again_when_its_permissions_change(watched, inbox, look, closed):
    new = inbox / "new.csv"
    new.write_text(rows([3]))
    new.chmod(0)
    (said,) = look(PATIENCE + 2)
    assert "check its permissions" in said["error"]
    new.chmod(0o644)
    assert look(2)[0]["t"] == 3.0
    assert left_out(watched) == []


def test_a_new_start_tries_everything_again(watched, inbox, watching, monkeypatch):
    """What was in the way may be gone without a trace on the file itself: a share, an access list."""
    (inbox / "new.csv").write_text(rows([3]))
    with monkeypatch.context() as patch:
        patch.setattr(frames, "open_regular", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "denied")))
        (said,) = watching(watched, inbox)(2)
    assert "may not be read" in said["error"]
    assert watching(watched, inbox)(2)[0]["t"] == 3.0
    assert left_out(watched) == []


def test_a_broken_file_on_a_full_disk_is_named_now_and_listed_later(watched, inbox, look, monkeypatch):
    (inbox / "bad.csv").write_text("a,b\n1,2\n")
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        error, waiting = look(4)
    assert "no column 't'" in error["error"]
    assert "the disk is full" in waiting["waiting"]
    assert look(1) == []
    (note,) = left_out(watched)
    assert "no column 't'" in note.why


def test_a_list_that_cannot_be_written_does_not_end_the_watch(watched, inbox, look):
    place = watched / "left"
    place.write_text("not a folder")
    (inbox / "bad.csv").write_text("a,b\n1,2\n")
    (inbox / "new.csv").write_text(rows([3]))
    said = look(3)
    assert [entry["t"] for entry in said if "t" in entry] == [3.0]
    assert "list of unused files" in next(entry["waiting"] for entry in said if "waiting" in entry)
    place.unlink()
    assert look(1) == []
    assert len(left_out(watched)) == 1


def test_what_is_said_may_find_no_room(watched, inbox, look, monkeypatch):
    (inbox / "bad.csv").write_text("a,b\n1,2\n")
    (inbox / "new.csv").write_text(rows([3]))
    with monkeypatch.context() as patch:
        patch.setattr("builtins.print", full)
        look(2)
    assert seqgp.Store(watched).times[-1] == 3.0


def test_another_spelling_of_the_folder_is_the_same_folder(watched, inbox, watching, monkeypatch):
    (inbox / "bad.csv").write_text("a,b\n1,2\n")
    inbox.with_name("link").symlink_to(inbox)
    monkeypatch.chdir(inbox.parent)
    for spelling in (
        inbox,
        inbox.parent / "." / "in" / ".." / "in",
        inbox.with_name("link"),
        inbox.relative_to(inbox.parent),
    ):
        assert len(watching(watched, spelling)(2)) == 1
    (note,) = left_out(watched)
    assert note.file == str(inbox / "bad.csv")


def test_steps_that_another_process_added_are_noticed(watched, inbox, look, seqgp_, tmp_path):
    (inbox / "d3.csv").write_text(rows([3]))
    assert look(2)[0]["t"] == 3.0
    (tmp_path / "d4.csv").write_text(rows([4]))
    assert seqgp_("update", watched, tmp_path / "d4.csv")[0] == 0
    (inbox / "d5.csv").write_text(rows([5]))
    assert look(2)[0]["steps"] == 6
    straight = tmp_path / "straight.csv"
    straight.write_text(rows([0, 1, 2, 3, 4, 5]))
    (watched.parent / "config.toml").write_text(
        CONFIG.replace('"table.csv"', f'"{straight}"').replace('"run"', '"other"')
    )
    assert seqgp_("fit", watched.parent / "config.toml")[0] == 0
    mine, other = (seqgp.Store(path).latest().state for path in (watched, watched.parent / "other"))
    assert (mine.latent == other.latent).all()


ONLINE = CONFIG.replace('chains = 2\nwarmup = 10\nthin = 1\nlatent = "dense"\nupdates = "plain"', "particles = 16")


@pytest.fixture
def online(tmp_path):
    """A run of the online sampler, whose filters follow from all data."""
    (tmp_path / "config.toml").write_text(ONLINE.replace("draws = 20", "draws = 20\nforget = 1.0"))
    (tmp_path / "table.csv").write_text(rows([0, 1, 2]))
    with pytest.raises(SystemExit):
        main(["fit", str(tmp_path / "config.toml")])
    return tmp_path / "run"


def test_a_file_costs_the_same_however_long_the_run_is(online, inbox, watching, monkeypatch):
    """Nothing of earlier steps is read again, and no filter is run over earlier data."""
    look, counted = watching(online, inbox), []

    def counting(name, function):
        return lambda *args, **kwargs: (counted.append(name), function(*args, **kwargs))[1]

    monkeypatch.setattr(files, "zipfile", _Counted(files.zipfile, counted))
    monkeypatch.setattr(state.OnlineState, "revived", counting("revived", state.OnlineState.revived))
    monkeypatch.setattr(state, "build_timeline", counting("laid out anew", state.build_timeline))
    costs = []
    for day in range(3, 12):
        counted.clear()
        (inbox / f"d{day}.csv").write_text(rows([day]))
        assert look(2)[0]["steps"] == day + 1
        costs.append(sorted(counted))
    assert costs[1] == costs[-1]
    assert "laid out anew" not in costs[-1]


class _Counted:
    """The module ``zipfile``, with every archive that is read noted."""

    def __init__(self, module, counted):
        self._module, self._noted = module, counted

    def __getattr__(self, name):
        return getattr(self._module, name)

    def ZipFile(self, file, mode="r", *args):
        if mode == "r":
            self._noted.append("file read")
        return self._module.ZipFile(file, mode, *args)
