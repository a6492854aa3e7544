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

from seqgp.io.errors import StoreError

LOCK, HOLDER = ".lock", ".holder.json"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run. The operating system releases it when the process dies, however it dies."""
    lock = FileLock(str(folder / LOCK))
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise StoreError(f"{folder}: in use by {_holder(folder)}; wait for it to finish, or stop it") from error
    except OSError as error:
        raise StoreError(f"{folder}: cannot be locked ({error.strerror or error}); check its permissions") from error
    try:
        with contextlib.suppress(OSError):  # only for the message to others
            (folder / HOLDER).write_text(json.dumps(_identity()))
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
        who = json.loads((folder / HOLDER).read_text())
        return f"process {who['process']} of {who['user']} on {who['host']} since {who['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
