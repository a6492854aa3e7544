"""How the streams of a fleet stand on disk: names, sizes and times, and files only where these differ."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from seqgp.base.errors import SeqgpError, one_line
from seqgp.fleets.outcome import NOTES, Outcome, files_of, read_names, read_note, read_run
from seqgp.io.errors import DamagedError, StoreError
from seqgp.io.integrity import check_run
from seqgp.io.layout import MANIFEST, missing_numbers
from seqgp.io.lock import shows_life
from seqgp.io.store import Store

STATES = ("damaged", "failed", "unfinished", "under way", "done", "waiting")  # the worst first


class Status(NamedTuple):
    """A stream of a fleet, as it stands on disk."""

    outcome: Outcome
    state: str  # one of STATES

    def badness(self) -> tuple[float, ...]:
        """By which streams are sorted, the worst first: failures, then what is remarked upon, then miscalibration."""
        one = self.outcome
        order = STATES.index(self.state)
        share = one.warnings / max(one.steps, 1)
        off = 0.0 if one.coverage_95 is None else abs(one.coverage_95 - 0.95)
        return order, -share, -off


def statuses(folder: str | Path) -> list[Status]:
    """All streams of a fleet's store, the worst first."""
    root = Path(folder)
    names = set(read_names(root)) | _noted(root)
    try:
        with os.scandir(root) as entries:
            names |= {entry.name for entry in entries if os.path.lexists(os.path.join(entry.path, MANIFEST))}
    except (FileNotFoundError, NotADirectoryError):
        pass
    if not names:
        raise StoreError(f"{root}: there is no fleet here; give the folder that seqgp.fleet(…, store=…) was given")
    return sorted((status_of(root, name) for name in names), key=lambda one: (one.badness(), one.outcome.stream))


def status_of(root: Path, name: str) -> Status:
    """One stream, whatever is wrong with it."""
    try:
        return _standing(root, name)
    except (SeqgpError, OSError) as error:
        damaged = isinstance(error, DamagedError)
        why = one_line(error, 1000) if isinstance(error, SeqgpError) else f"{root / name}: {error.strerror}"
        found = read_note(root, name) or Outcome(name)
        return Status(found._replace(error=why, step=None), "damaged" if damaged else "failed")


def _standing(root: Path, name: str) -> Status:
    note = read_note(root, name)
    steps, files = files_of(root / name)
    if shows_life(root / name):
        current = note if note is not None and note.steps == steps else read_run(root, name)
        return Status(current, "under way")
    if note is not None and note.files == files:  # as it was left
        return Status(note, "done" if note.error is None else "failed")
    if note is not None and note.steps == steps:
        _verify(root / name)
        return Status(note, "done" if note.error is None else "failed")
    if not steps:
        return Status(note, "failed") if note is not None and note.error else Status(Outcome(name), "waiting")
    store = Store(root / name)
    if missing_numbers([step.number for step in store]):
        _verify(root / name)
    store.latest().verify()
    found = read_run(root, name)
    return Status(found, "unfinished") if note is None or note.error is None else Status(note, "failed")


def _verify(run: Path) -> None:
    """Raise where a file of a run is not as it was written."""
    found = check_run(run)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise DamagedError(f"{found[0].why}{more}; `seqgp check {run}` lists all")


def _noted(root: Path) -> set[str]:
    try:
        names = os.listdir(root / NOTES)
    except (FileNotFoundError, NotADirectoryError):
        return set()
    return {name.removesuffix(".json") for name in names if name.endswith(".json") and not name.startswith(".")}
