"""Others at the same run: a second writer, a reader beside one that prunes, and a folder with all kinds of files."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import seqgp
from experiments.torture.runs import SAMPLERS, Runs, here, rows, started
from seqgp.io.files import write_atomically
from seqgp.io.lock import locked
from seqgp.io.step import Step
from seqgp.io.unused_rows import left_out

LONGEST = 240.0  # seconds that a watch is given


def second_writer(runs: Runs) -> tuple[int, int]:
    """While one holds the run, `update`, `fit` and `check --repair` are told so at once, and nothing is written."""
    tried = held = 0
    for sampler in SAMPLERS:
        run = runs.copy(sampler)
        (run / "steps" / "000002.npz").write_bytes(b"")  # something to repair
        commands = [("check", run, "--repair")]
        whole = runs.copy(sampler)
        commands += [("update", whole, whole.parent / "more.csv"), ("fit", whole.parent / "config.toml")]
        for arguments in commands:
            place = run if arguments[0] == "check" else whole
            with locked(place):
                process = started(*arguments)
                _, said = process.communicate()
            tried += 1
            held += process.returncode == 2 and "in use by process" in said
        held += seqgp.Store(whole).check() == [] and len(seqgp.Store(whole)) == 2
        tried += 1
    return tried, held


def racing_writers(runs: Runs) -> tuple[int, int]:
    """Two updates with the same table at once: one of them adds it, once, and the draws are those of one alone."""
    tries, held = max(1, runs.size // 4), 0
    for i in range(tries):
        sampler = list(SAMPLERS)[i % 2]
        run = runs.copy(sampler)
        pair = [started("update", run, run.parent / "more.csv", "--skip-seen") for _ in range(2)]
        said = [process.communicate()[1] for process in pair]
        codes = [process.returncode for process in pair]
        told = all(code == 0 or (code == 2 and "in use" in text) for code, text in zip(codes, said))
        held += 0 in codes and told and seqgp.Store(run).check() == [] and runs.as_expected(run, sampler)
    return tries, held


def pruned(runs: Runs) -> tuple[int, int]:
    """Checks while a step is rewritten and shrunk all the time: none finds damage."""
    run, ended = runs.copy("sequential"), threading.Event()
    path = run / "steps" / "000001.npz"
    whole, manifest = path.read_bytes(), seqgp.Store(run).manifest

    def write() -> None:
        for _ in range(50 * runs.size):
            write_atomically(path, lambda file: file.write(whole))
            Step(path, manifest).shrink()
        ended.set()

    threading.Thread(target=write).start()
    tried = held = 0
    while not ended.is_set():
        tried += 1
        held += seqgp.Store(run).check() == []
    return tried, held


HOSTILE: dict[str, bytes] = {  # what arrives in the folder, and can never be used
    "late.csv": rows([0.5]).encode(),
    "corrected.csv": rows([1], shift=0.1).encode(),
    "empty.csv": b"",
    "header.csv": b"t,x,y\n",
    "rubbish.csv": bytes(range(256)) * 8 + b"\n",
    "page.csv": b"<!DOCTYPE html><html></html>\n",
    "other columns.csv": b"a,b,c\n1,2,3\n",
    "twice.csv": b"t,x,x\n9,1,2\n",
    "dates.csv": b"t,x,y\n2024-01-01,0.1,2\n",
    "infinite.csv": b"t,x,y\n9,inf,2\n",
    "huge.csv": b"t,x,y\n9,0.1,1e200\n",
    "text.csv": b"t,x,y\n9,0.1,much\n",
    "cut off.csv": b"t,x,y\n9,0.1,2\n9,0.",
    "not.parquet": b"PAR1 no table PAR1",
    "line\nbreak.csv": b"t,x,y\n-9,0.1,2\n",
    "=formula.csv": b"t,x,y\n-9,0.1,2\n",
}


def watched(runs: Runs) -> tuple[int, int]:
    """A folder where good files come out of order, twice and in pieces, among hostile ones: none is lost in silence."""
    tried = held = 0
    for sampler in list(SAMPLERS)[: 2 if runs.size >= 10 else 1]:
        run = runs.copy(sampler)
        inbox = run.parent / "inbox"
        inbox.mkdir()
        process = started("watch", run, inbox, "--interval", "0.05", "--late", "skip")
        _fill(inbox)
        wanted = {*HOSTILE, "pipe.csv", "zero.csv", "nowhere.csv", "loop.csv", "folder.csv"}
        end = time.monotonic() + LONGEST
        while time.monotonic() < end and not (len(seqgp.Store(run)) == 4 and _left(run) >= wanted):
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate()
        left = _left(run)
        outcomes = [name in left for name in wanted]
        outcomes += [process.returncode == 128 + signal.SIGTERM and "Traceback" not in said, left == wanted]
        outcomes += [seqgp.Store(run).times == [0, 1, 2, 3], runs.as_expected(run, sampler)]
        outcomes += [here("summary", run)[0] == 0]
        tried, held = tried + len(outcomes), held + sum(outcomes)
    return tried, held


def _fill(inbox: Path) -> None:
    (inbox / "10 third.csv").write_text(rows([3]))  # by name before the second
    second = rows([2])
    with (inbox / "9 second.csv").open("w") as file:  # in two pieces
        file.write(second[: len(second) // 2])
        file.flush()
        time.sleep(0.3)
        file.write(second[len(second) // 2 :])
    (inbox / "seen.csv").write_text(rows([0, 1]))
    for name, content in HOSTILE.items():
        (inbox / name).write_bytes(content)
    os.mkfifo(inbox / "pipe.csv")
    (inbox / "zero.csv").symlink_to("/dev/zero")
    (inbox / "nowhere.csv").symlink_to("not there")
    (inbox / "loop.csv").symlink_to("loop.csv")
    (inbox / "folder.csv").mkdir()


def _left(run: Path) -> set[str]:
    """The names of the files that were not used, as the run notes them."""
    return {Path(note.file).name for note in left_out(run)}
