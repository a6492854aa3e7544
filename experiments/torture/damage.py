"""Damaged files, and a disk that is full."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np

import seqgp
from experiments.torture.runs import SAMPLERS, Runs, draws, here, started

SMALL = 900  # bytes that a file may have on a disk that is full


def flipped(runs: Runs) -> tuple[int, int]:
    """One bit of one file, for every file of both runs: `check` names it, or nothing that is read has changed."""
    tried = held = 0
    for sampler in SAMPLERS:
        run = runs.copy(sampler)
        here("update", run, _late(run), "--revise")  # a note in left/, and thus every kind of file
        for path in _files(run):
            whole = path.read_bytes()
            for place in runs.rng.choice(8 * len(whole), min(25 * runs.size, 8 * len(whole)), replace=False):
                content = bytearray(whole)
                content[place // 8] ^= 1 << (place % 8)
                path.write_bytes(bytes(content))
                tried += 1
                held += _noticed_or_harmless(run, path, whole, bytes(content))
            path.write_bytes(whole)
    return tried, held


def cut_off(runs: Runs) -> tuple[int, int]:
    """A file cut off at a random byte, for every file of both runs: `check` names it, and every command refuses."""
    tried = held = 0
    for sampler in SAMPLERS:
        run = runs.copy(sampler)
        for path in _files(run):
            whole = path.read_bytes()
            for length in runs.rng.integers(0, len(whole) - 1, 5 * runs.size):
                path.write_bytes(whole[:length])
                tried += 1
                held += bool(seqgp.Store(run).check())
            code, said = here("summary", run)
            tried += 1
            held += code == 3 and "Traceback" not in said
            path.write_bytes(whole)
    return tried, held


def repaired(runs: Runs) -> tuple[int, int]:
    """Each file of a run broken in turn, or gone: after `check --repair` the run goes on."""
    tried = held = 0
    for sampler in SAMPLERS:
        for name in [path.relative_to(runs.folder / sampler / "run") for path in _files(runs.folder / sampler / "run")]:
            for content in (b"rubbish", None):
                run = runs.copy(sampler)
                (run / name).unlink() if content is None else (run / name).write_bytes(content)
                code, said = here("check", run, "--repair")
                whole = seqgp.Store(run).check() == []
                # The last of two steps may be broken: the run then goes on from the first. A first that is lost takes
                # the data with it that filters need, and a command says so.
                after, why = here("update", run, run.parent / "more.csv", "--skip-seen")
                tried += 1
                held += whole and "Traceback" not in said + why and after in (0, 2, 3) and code in (0, 3)
    return tried, held


def full_disk(runs: Runs) -> tuple[int, int]:
    """No file may grow beyond a kilobyte: every command that writes ends with one line, and leaves nothing."""
    tried = held = 0
    for sampler in list(SAMPLERS)[: 2 if runs.size >= 10 else 1]:
        for name, *arguments in _writing(runs, sampler)[: None if runs.size >= 10 else 4]:
            before = _content(runs.folder)
            code, said = _limited(name, *arguments)
            clean = {path: size for path, size in _content(runs.folder).items() if before.get(path) != size}
            named = "disk is full" in said or "File too large" in said
            right = code in (2, 143) and named and "Traceback" not in said and not clean
            tried, held = tried + 1, held + right
            if not right:
                print(f"{name}: exit code {code}, left {sorted(map(str, clean))}: {said}", file=sys.stderr, flush=True)
    return tried, held


def _writing(runs: Runs, sampler: str) -> list[tuple[object, ...]]:
    """Commands that write, each on a run of its own."""
    run, new, out = runs.copy(sampler), runs.copy(sampler, begun=False), runs.folder / f"out-{sampler}"
    out.mkdir()
    (run.parent / "inbox").mkdir()
    shutil.copy(run.parent / "more.csv", run.parent / "inbox")
    points = run.parent / "points.csv"
    points.write_text("x\n" + "\n".join(f"{i / 40}" for i in range(40)) + "\n")
    return [
        ("fit", new.parent / "config.toml"),
        ("update", run, run.parent / "more.csv"),
        ("watch", run, run.parent / "inbox", "--interval", "0.05"),
        ("export", run, out / "out.nc"),
        ("export", run, out / "out.zarr"),
        ("export", run, out / "out.parquet"),
        ("predict", run, points, "-o", out / "out.csv"),
        ("report", run, "-o", out / "out.html"),
        ("new", out / "new.toml"),
        ("demo", "line", "--steps", "2", "-o", out / "demo"),
    ]


def _limited(*arguments: object) -> tuple[int, str]:
    """A command that may write small files only; `watch` is stopped once it has said so."""

    def small() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, SMALL))

    process = started(*arguments, preexec_fn=small)
    said = ""
    if arguments[0] == "watch":
        assert process.stdout is not None
        said = process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
    out, errors = process.communicate()
    code = process.returncode
    return (143 if arguments[0] == "watch" and code == 0 else code), said + out + errors


def _content(folder: Path) -> dict[Path, int]:
    """All files and their sizes, but for compiled code and locks."""
    files = (path for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts)
    return {path: path.stat().st_size for path in files if path.name != ".lock"}


def _files(run: Path) -> list[Path]:
    notes = (run / "left").glob("*.json")
    return [run / "manifest.json", *sorted((run / "steps").iterdir()), *notes]


def _late(run: Path) -> Path:
    from experiments.torture.runs import rows

    late = run.parent / "late.csv"
    late.write_text(rows([0.5]))
    return late


def _noticed_or_harmless(run: Path, path: Path, whole: bytes, damaged: bytes) -> bool:
    if seqgp.Store(run).check():
        return True
    if path.parent.name == "left":  # a note for people, without a checksum: it must not stand in the way
        return here("summary", run)[0] == 0
    if path.name == "manifest.json":
        return json.loads(damaged) == json.loads(whole)
    after = draws(run)
    path.write_bytes(whole)
    return all(np.array_equal(a, b) for a, b in zip(after, draws(run), strict=True))
