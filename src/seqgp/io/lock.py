"""One writer a run: the second is told at once who the first is, and a dead one does not block."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from seqgp.io.errors import DamagedError, PassingError, StoreError
from seqgp.io.files import read_own, write_json

LOCK, HOLDER = ".lock", ".holder.json"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run. The operating system releases it when the process dies, however it dies."""
    if (folder / LOCK).is_symlink():
        raise DamagedError(f"{folder / LOCK}: is a link, which seqgp never makes; remove it")
    lock = FileLock(str(folder / LOCK))
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise PassingError(f"{folder}: in use by {_holder(folder)}; wait for it to finish, or stop it") from error
    except OSError as error:
        raise StoreError(f"{folder}: cannot be locked ({error.strerror or error}); check its permissions") from error
    try:
        with contextlib.suppress(StoreError):  # only for the message to others
            write_json(folder / HOLDER, _identity())
        yield
    finally:
        with contextlib.suppress(OSError):
            (folder / HOLDER).unlink()
        lock.release()


def _identity() -> dict[str, str | int]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"process": os.getpid(), "user": user, "host": socket.gethostname(), "since": since}


def _holder(folder: Path) -> str:
    try:
        who = json.loads(read_own(folder / HOLDER))
        return f"process {who['process']} of {who['user']} on {who['host']} since {who['since']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
