"""One writer a run: the second is told at once who the first is, and a dead one does not block.

The operating system releases a lock when its process dies, however it dies. On a file system that several hosts share,
a lock may be known to its own host only; so a holder also gives a sign of life every few seconds, and a run that
another host holds is free once these have stopped. Both ages are read off the file server's clock, never off ours.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from seqgp.io.errors import DamagedError, PassingError, StoreError
from seqgp.io.files import read_own, write_json

LOCK, HOLDER = ".lock", ".holder.json"
BEAT = 5.0  # seconds between two signs of life
LEASE = 60.0  # seconds without one after which a process on another host counts as dead
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Held:
    """The lock of a run, while it is held."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._token = uuid.uuid4().hex

    def announce(self) -> None:
        """Say who holds the run, while this machine runs: for the message to others, and for other hosts."""
        with contextlib.suppress(StoreError):
            write_json(self._folder / HOLDER, _identity() | {"token": self._token}, durable=False)

    def beat(self, ended: threading.Event) -> None:
        """Give signs of life until the event is set."""
        while not ended.wait(BEAT):
            with contextlib.suppress(OSError):
                _touch(self._folder / HOLDER)

    def check(self) -> None:
        """Raise if another host took this process for dead, and the run with it."""
        who = _read(self._folder)
        if who.get("token", self._token) != self._token:
            raise StoreError(
                f"{self._folder}: taken over by {_named(who)}, because this process gave no sign of life for "
                f"{LEASE:.0f} s; nothing of it is lost, and the other goes on with it"
            )

    def withdraw(self) -> None:
        """Leave nothing behind, unless it is another's."""
        if _read(self._folder).get("token") == self._token:
            with contextlib.suppress(OSError):
                (self._folder / HOLDER).unlink()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[Held]:
    """Hold the lock of a run."""
    if (folder / LOCK).is_symlink():
        raise DamagedError(f"{folder / LOCK}: is a link, which seqgp never makes; remove it")
    lock = FileLock(str(folder / LOCK))
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        who = _named(_read(folder))
        raise PassingError(f"{folder}: in use by {who}; wait for it to finish, or stop it") from error
    except OSError as error:
        raise StoreError(f"{folder}: cannot be locked ({error.strerror or error}); check its permissions") from error
    held, ended = Held(folder), threading.Event()
    beating = threading.Thread(target=held.beat, args=(ended,), name="seqgp (beat)", daemon=True)
    try:
        _refuse_if_held_elsewhere(folder)
        held.announce()
        beating.start()
        yield held
    finally:
        ended.set()
        if beating.ident is not None:
            beating.join()
        held.withdraw()
        lock.release()


def shows_life(folder: Path) -> bool:
    """Whether somebody writes to the run, by the signs of life alone: nobody is disturbed by the question."""
    try:
        return abs(time.time() - (folder / HOLDER).lstat().st_mtime) < LEASE
    except OSError:
        return False


def _refuse_if_held_elsewhere(folder: Path) -> None:
    """Raise where a process of another host, whose lock this one cannot see, still gives signs of life."""
    who = _read(folder)
    if not who or "boot" not in who or who["boot"] == _boot():
        return  # nobody; or one of this host, whose lock would have been in the way
    age = _age(folder)
    if age < -BEAT:  # dated ahead, by a clock that was set back: from now on it ages as others do
        with contextlib.suppress(OSError):
            _touch(folder / HOLDER)
    if age < LEASE:
        raise PassingError(
            f"{folder}: in use by {_named(who)}, which gave a sign of life {max(age, 0):.0f} s ago; wait for it to "
            f"finish, or {LEASE:.0f} s if it is dead"
        )


def _age(folder: Path) -> float:
    """Seconds since the holder's last sign of life; both times are set by whoever keeps the files."""
    try:
        _touch(folder / LOCK)
        return (folder / LOCK).stat().st_mtime - (folder / HOLDER).lstat().st_mtime
    except OSError:
        return float("inf")


def _touch(path: Path) -> None:
    os.utime(path, follow_symlinks=os.utime not in os.supports_follow_symlinks)


def _identity() -> dict[str, str | int]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"process": os.getpid(), "user": user, "host": socket.gethostname(), "boot": _boot(), "since": since}


def _boot() -> str:
    """What tells one running system from another: names of hosts repeat, and containers share one."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return f"{uuid.getnode():012x}"


def _read(folder: Path) -> dict[str, Any]:
    try:
        who = json.loads(read_own(folder / HOLDER))
    except (OSError, ValueError, RecursionError):
        return {}
    return who if isinstance(who, dict) else {}


def _named(who: dict[str, Any]) -> str:
    try:
        return f"process {who['process']} of {who['user']} on {who['host']} since {who['since']}"
    except KeyError:
        return "another process"
