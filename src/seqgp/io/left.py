"""Which data a run was given and did not use, with the reason: one small file for each, in ``RUN/left``."""

from __future__ import annotations

import contextlib
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from seqgp.io.files import read_own, write_json
from seqgp.io.layout import LEFT, own_folder

Mark = tuple[int, int]  # size and time of a file: what tells it from a later one of the same name


class LeftOut(NamedTuple):
    """Data that were not used."""

    file: str
    why: str
    when: str
    mark: Mark


def leave_out(run: Path, file: Path, why: str, mark: Mark = (0, 0)) -> None:
    """Note that (some of) a file was not used."""
    folder = own_folder(run, LEFT)
    folder.mkdir(exist_ok=True)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(folder / _name(file), LeftOut(_text(file), why, when, mark)._asdict())


def used(run: Path, file: Path) -> None:
    """Forget the note about a file, all of which is used now."""
    with contextlib.suppress(OSError):
        (own_folder(run, LEFT) / _name(file)).unlink()


def left_out(run: Path) -> list[LeftOut]:
    """All data that were not used, the oldest note first; a note that cannot be read is one that says so."""
    folder = own_folder(run, LEFT)
    found = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            content = json.loads(read_own(path))
            size, time = content["mark"]
            found.append(LeftOut(str(content["file"]), str(content["why"]), str(content["when"]), (size, time)))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            found.append(LeftOut(_text(path), "this note cannot be read", "", (0, 0)))
    return sorted(found, key=lambda note: note.when)


def _text(path: Path) -> str:
    """A file's name as text, whatever bytes it is made of."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def _name(file: Path) -> str:
    return hashlib.sha256(_text(file).encode()).hexdigest()[:24] + ".json"
