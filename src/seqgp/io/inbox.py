"""A folder where tables arrive: which of them are whole, which are on their way, and which can never be a table."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import NamedTuple

from seqgp.io.files import open_regular
from seqgp.io.frames import LARGEST, READERS

UNFINISHED = (".part", ".partial", ".tmp", ".crdownload")  # endings of names of files that are on their way
PATIENCE = 10  # looks that a table which is not whole is waited for
LONGEST_PAUSE = 60.0  # seconds between two attempts at files that could not be taken

Mark = tuple[int, int, int]  # size, time of the content, time of the permissions: what tells a file from a later one
NO_MARK: Mark = (0, 0, 0)


class Arrival(NamedTuple):
    """A file in the folder that has stopped changing."""

    path: Path
    mark: Mark
    wrong: str | None = None  # why it is no table


class Look(NamedTuple):
    """What a look at the folder found, by name: files to take, and files that are on their way.

    A file is on its way for ``PATIENCE`` looks at most: until then, those with later times wait for it.
    """

    whole: list[Arrival]
    coming: list[Path]


class Inbox:
    """Looks at a folder; a file is whole when nothing about it has changed between two looks.

    A file that was taken, or cannot be, is looked at again when its size, its time or its permissions change.

    Args:
        folder: the folder.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._known: dict[Path, Mark] = {}
        self._before: dict[Path, Mark] = {}
        self._same: dict[Path, int] = {}  # looks since the file changed
        self._looks: dict[Path, int] = {}  # looks since the file was first seen, or known
        self._until, self._pause = 0.0, 0.0  # nothing is taken before this time; the pause that led to it

    def look(self) -> Look:
        """Files that have arrived, or are arriving, and are not known yet; none while the inbox is on hold."""
        now = {arrival.path: arrival for arrival in _scan(self.folder)}
        found = Look([], [])
        for path, arrival in now.items():
            if self._known.get(path) == arrival.mark:
                continue
            same = self._before.get(path) == arrival.mark
            self._same[path] = self._same.get(path, 0) + 1 if same else 0
            self._looks[path] = self._looks.get(path, 0) + 1
            if same and (self._same[path] >= PATIENCE or arrival.wrong is not None or _is_ended(path)):
                found.whole.append(arrival)
            elif arrival.wrong is None and self._looks[path] <= PATIENCE:
                found.coming.append(path)
        self._before = {path: arrival.mark for path, arrival in now.items()}
        for kept in (self._same, self._looks):
            for path in kept.keys() - now.keys():
                del kept[path]
        return found if time.monotonic() >= self._until else Look([], [])

    def done(self, arrival: Arrival) -> None:
        """The file need not be looked at again, unless it changes."""
        self._known[arrival.path] = arrival.mark
        self._looks.pop(arrival.path, None)

    def hold(self, pause: float) -> None:
        """Take nothing for a while, longer each time: no file goes before one that has to wait."""
        self._pause = pause if not self._pause else min(LONGEST_PAUSE, 2 * self._pause)
        self._until = time.monotonic() + self._pause

    def release(self) -> None:
        """Nothing has to wait any more."""
        self._until = self._pause = 0.0


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
                found.append(Arrival(path, NO_MARK, "a link to a file that is not there"))
            continue
        except OSError as error:
            found.append(Arrival(path, NO_MARK, f"cannot be looked at ({error.strerror})"))
            continue
        wrong = None
        if not stat.S_ISREG(status.st_mode):
            wrong = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        elif status.st_size > LARGEST:
            wrong = f"{status.st_size / 2**30:.1f} GiB, more than can be read at once; split it"
        # The time of a folder or a device changes with its use, and says nothing.
        mark = NO_MARK if wrong is not None else (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        found.append(Arrival(path, mark, wrong))
    return found


def _is_ended(path: Path) -> bool:
    """Whether a file looks finished: the last line of a CSV is ended, a Parquet file has its footer.

    A file that may not be read is not waited for: it is named, and tried again when its permissions change.
    """
    ends = b"PAR1" if READERS[path.suffix.lower()] == "parquet" else b"\n"
    try:
        with open_regular(path, follow=True) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - len(ends)))
            return file.read() in (ends, b"\r")
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
