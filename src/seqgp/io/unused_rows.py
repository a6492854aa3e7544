"""Which data a run was given and did not use, with the reason: one small file for each, in ``RUN/left``."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from seqgp.io.errors import DamagedError
from seqgp.io.files import read_own, write_json
from seqgp.io.layout import LEFT, own_folder


class LeftOut(NamedTuple):
    """Data that were not used."""

    file: str
    why: str
    when: str


def leave_out(run: Path, file: Path, why: str) -> None:
    """Note that (some of) a file was not used."""
    folder = own_folder(run, LEFT)
    folder.mkdir(exist_ok=True)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(folder / _name(file), LeftOut(_text(file), why, when)._asdict())


def used(run: Path, file: Path) -> None:
    """Forget the note about a file, all of which is used now."""
    with contextlib.suppress(OSError, DamagedError):
        (own_folder(run, LEFT) / _name(file)).unlink()


def left_out(run: Path) -> list[LeftOut]:
    """All data that were not used, the oldest note first; a note that cannot be read is one that says so."""
    folder = own_folder(run, LEFT)
    found = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            content = json.loads(read_own(path))
            found.append(LeftOut(str(content["file"]), str(content["why"]), str(content["when"])))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            found.append(LeftOut(_text(path), "this note cannot be read", ""))
    return sorted(found, key=lambda note: note.when)


def _text(path: Path) -> str:
    """A file's name as text, whatever bytes it is made of and however its folder was spelled."""
    folder = os.path.realpath(path.parent)
    return os.path.join(folder, path.name).encode("utf-8", "backslashreplace").decode()


def _name(file: Path) -> str:
    return hashlib.sha256(_text(file).encode()).hexdigest()[:24] + ".json"
