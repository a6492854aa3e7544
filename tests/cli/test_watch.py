"""A folder of tables: taken in the order of their times; late, corrected, half-written and hostile ones are named."""

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys

import seqgp
from cli_tables import rows
from seqgp.io import files
from seqgp.io.inbox import PATIENCE
from seqgp.io.lock import locked
from seqgp.io.unused_rows import left_out


def test_files_are_taken_in_the_order_of_their_times(watched, inbox, look):
    (inbox / "day10.csv").write_text(rows([10]))
    (inbox / "day9.csv").write_text(rows([9]))
    (inbox / "a.csv").write_text(rows([8, 11]))  # on both sides of the others
    said = look()
    assert [entry["t"] for entry in said] == [8.0, 9.0, 10.0, 11.0]
    assert seqgp.Store(watched).times == [0.0, 1.0, 2.0, 8.0, 9.0, 10.0, 11.0]
    assert left_out(watched) == []


def test_late_corrected_and_second_files_are_named_and_listed(watched, inbox, look, seqgp_):
    (inbox / "late.csv").write_text(rows([1.5, 3]))  # what is late is left, what is new is used
    (inbox / "corrected.csv").write_text(rows([2]).replace("2,0.2,0.37,", "2,0.2,0.37,9"))
    (inbox / "same.csv").write_text(rows([1, 2]))
    (inbox / "second.csv").write_text(rows([3]).replace("3,0.2,0.37,", "3,0.2,0.37,9"))
    said = look()
    assert seqgp.Store(watched).times == [0.0, 1.0, 2.0, 3.0]
    named = {os.path.basename(entry["file"]): entry["error"] for entry in said if "error" in entry}
    assert set(named) == {"late.csv", "corrected.csv", "second.csv"}
    assert "rows 2 to 5: t = 1.5 is before the last stored time" in named["late.csv"]
    assert "not those that were stored" in named["corrected.csv"]
    assert "late.csv has other data for t = 3" in named["second.csv"]
    assert {os.path.basename(note.file): note.why for note in left_out(watched)} == named
    shown = seqgp_("summary", watched)[1]
    assert shown.count("late.csv: rows") == 1
    assert shown.count("late.csv") == 2  # once as the file, and once in what is said of second.csv
    assert look(5) == []  # named once


def test_a_file_that_is_mended_is_taken_and_forgotten_in_the_list(watched, inbox, look):
    (inbox / "new.csv").write_text("t,x1\n1,2\n")
    assert "no column 'x2'" in look()[0]["error"]
    assert len(left_out(watched)) == 1
    (inbox / "new.csv").write_text(rows([3]))
    assert look()[0]["t"] == 3.0
    assert left_out(watched) == []


def test_a_half_written_file_is_waited_for(watched, inbox, look):
    whole = rows([3])
    (inbox / "new.csv").write_text(whole[:-4])
    assert look(4) == []
    (inbox / "new.csv").write_text(whole)
    assert look(2)[0]["t"] == 3.0
    (inbox / "unended.csv").write_text(rows([4])[:-1])  # whole, but without the end of its last line
    assert look(PATIENCE) == []
    assert look(1)[0]["t"] == 4.0


def test_a_file_that_stops_in_the_middle_of_a_row_is_named_and_not_used(watched, inbox, look):
    """What pandas reads as a missing value is half a file."""
    (inbox / "day9.csv").write_text(rows([9]) + "9,0.")
    (said,) = look(PATIENCE + 1)
    assert "row 6 stops after 2 of 5 fields: the file is cut off" in said["error"]
    assert 9.0 not in seqgp.Store(watched).times


def test_a_half_written_file_that_was_taken_is_named_when_the_rest_arrives(watched, inbox, look):
    header, *lines = rows([3]).splitlines()
    (inbox / "new.csv").write_text("\n".join([header, *lines[:2]]) + "\n")
    assert look()[0]["t"] == 3.0
    (inbox / "new.csv").write_text(rows([3]))
    (said,) = look()
    assert "not those that were stored" in said["error"]
    assert len(left_out(watched)) == 1


def test_while_the_run_is_in_use_the_file_is_tried_again(watched, inbox, look):
    (inbox / "new.csv").write_text(rows([3]))
    (inbox / "newer.csv").write_text(rows([4]))
    with locked(watched):
        said = look(4)
    assert "in use by process" in said[0]["waiting"]
    assert "new.csv" in said[0]["waiting"]
    assert len(said) == 2  # each file is named once, and the later one does not overtake
    assert [entry["t"] for entry in look(2)] == [3.0, 4.0]
    assert left_out(watched) == []


def test_while_the_disk_is_full_the_file_is_tried_again(watched, inbox, look, monkeypatch):
    (inbox / "new.csv").write_text(rows([3]))

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        (said,) = look(3)
    assert "the disk is full" in said["waiting"]
    assert look(2)[0]["t"] == 3.0


def test_hostile_files_neither_block_nor_end_the_watch(watched, inbox, look):
    os.mkfifo(inbox / "pipe.csv")
    (inbox / "endless.csv").symlink_to("/dev/zero")
    (inbox / "loop.csv").symlink_to(inbox / "pool.csv")
    (inbox / "pool.csv").symlink_to(inbox / "loop.csv")
    (inbox / "folder.csv").mkdir()
    (inbox / "gone.csv").symlink_to(inbox / "nothing")
    (inbox / "\x1b[31mred\n.csv").write_text("t\n1\n")
    (inbox / os.fsdecode(b"\xff.csv")).write_text("t\n1\n")
    (inbox / "offsets.csv").write_text(
        rows([3]).replace("\n3,0.0", "\n2024-03-30T00:00:00+01:00,0.0").replace("\n3,", "\n2024-03-31T00:00:00+02:00,")
    )
    (inbox / "nested.csv").write_text('"' * 99_999 + "\n")
    (inbox / "bytes.parquet").write_bytes(b"PAR1" + bytes(range(256)) + b"PAR1")
    (inbox / "new.csv").write_text(rows([3]))
    said = look(2)
    assert [entry["t"] for entry in said if "t" in entry] == [3.0]
    assert len([entry for entry in said if "error" in entry]) == 11
    assert len(left_out(watched)) == 11
    assert look(3) == []


def test_a_folder_that_is_away_for_a_while(watched, inbox, look):
    shutil.move(inbox, inbox.with_name("away"))
    assert "trying again" in look(3)[0]["waiting"]
    shutil.move(inbox.with_name("away"), inbox)
    (inbox / "new.csv").write_text(rows([3]))
    assert look()[0]["t"] == 3.0


def test_watch_takes_whole_files_until_stopped(watched, inbox):
    (inbox / "old.csv").write_text(rows([1, 2]))  # seen: left out
    (inbox / "bad.csv").write_text("a,b\n1,2\n")
    (inbox / "later.csv.part").write_text(rows([9]))
    command = [sys.executable, "-m", "seqgp.cli", "watch", str(watched), str(inbox), "--interval", "0.2", "--json"]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert watching.stdout is not None
        assert "no column 't'" in json.loads(watching.stdout.readline())["error"]
        (inbox / "new.csv").write_text(rows([3]))
        assert json.loads(watching.stdout.readline())["t"] == 3.0
        watching.send_signal(signal.SIGTERM)
        assert json.loads(watching.stdout.readline()) == {"stopped": True, "steps": 4, "t": 3.0}
        assert watching.wait() == 143
    finally:
        with contextlib.suppress(ProcessLookupError):
            watching.kill()
        watching.wait()
    assert seqgp.Store(watched).check() == []
