"""A folder where tables arrive: which of them are whole, and which can never be one."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import NamedTuple

from seqgp.io.files import open_regular
from seqgp.io.frames import LARGEST, READERS
from seqgp.io.left import Mark

UNFINISHED = (".part", ".partial", ".tmp", ".crdownload")  # endings of names of files that are on their way
PATIENCE = 10  # looks that a table without an end of its last line is waited for
LONGEST_PAUSE = 60.0  # seconds between two attempts at a file that could not be taken


class Arrival(NamedTuple):
    """A file in the folder that has stopped changing."""

    path: Path
    mark: Mark
    wrong: str | None = None  # why it is no table


class Inbox:
    """Looks at a folder; a file is whole when neither size nor time has changed between two looks.

    Args:
        folder: the folder.
        known: files that need not be looked at again, as long as they stay as they are.
    """

    def __init__(self, folder: Path, known: dict[str, Mark]):
        self.folder = folder
        self._known = known
        self._before: dict[Path, Mark] = {}
        self._looks: dict[Path, int] = {}
        self._later: dict[Path, tuple[float, float]] = {}  # not before this time, and the pause that led to it

    def look(self) -> list[Arrival]:
        """The files that have arrived whole and are not known yet, by name."""
        now = {arrival.path: arrival for arrival in _scan(self.folder)}
        ready = []
        for path, arrival in now.items():
            if self._known.get(str(path)) == arrival.mark:
                continue
            same = self._before.get(path) == arrival.mark
            self._looks[path] = self._looks.get(path, 0) + 1 if same else 0
            patient = self._looks[path] >= PATIENCE or arrival.wrong is not None or _is_ended(path)
            if same and patient and time.monotonic() >= self._later.get(path, (0.0, 0.0))[0]:
                ready.append(arrival)
        self._before = {path: arrival.mark for path, arrival in now.items()}
        self._looks = {path: looks for path, looks in self._looks.items() if path in now}
        return ready

    def done(self, arrival: Arrival) -> None:
        """The file need not be looked at again, unless it changes."""
        self._known[str(arrival.path)] = arrival.mark
        self._later.pop(arrival.path, None)

    def again(self, arrival: Arrival, pause: float) -> bool:
        """Try the file again after a pause, longer each time; whether it is the first time."""
        first = arrival.path not in self._later
        wait = pause if first else min(LONGEST_PAUSE, 2 * self._later[arrival.path][1])
        self._later[arrival.path] = (time.monotonic() + wait, wait)
        return first


def _scan(folder: Path) -> list[Arrival]:
    found = []
    for name in sorted(os.listdir(folder)):
        path = folder / name
        if path.suffix.lower() not in READERS or name.startswith(".") or name.endswith(UNFINISHED):
            continue
        try:
            status = path.stat()
        except FileNotFoundError:
            if path.is_symlink():
                found.append(Arrival(path, (0, 0), "a link to a file that is not there"))
            continue
        except OSError as error:
            found.append(Arrival(path, (0, 0), f"cannot be looked at ({error.strerror})"))
            continue
        wrong = None
        if not stat.S_ISREG(status.st_mode):
            wrong = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        elif status.st_size > LARGEST:
            wrong = f"{status.st_size / 2**30:.1f} GiB, more than can be read at once; split it"
        # The time of a folder or a device changes with its use, and says nothing.
        found.append(Arrival(path, (status.st_size, status.st_mtime_ns) if wrong is None else (0, 0), wrong))
    return found


def _is_ended(path: Path) -> bool:
    """Whether a file looks finished: the last line of a CSV is ended, a Parquet file has its footer."""
    ends = b"PAR1" if READERS[path.suffix.lower()] == "parquet" else b"\n"
    try:
        with open_regular(path, follow=True) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - len(ends)))
            return file.read() in (ends, b"\r")
    except (OSError, ValueError):
        return False
