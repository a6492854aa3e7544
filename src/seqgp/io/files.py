"""Files that are whole or absent: written aside, synced, renamed; with a checksum of every part.

A container is a plain ``.npz`` (NumPy reads it) with two more members: ``header.json``, which holds the SHA-256 of
every array, and ``header.sha256``. It is opened once: what is read from it belongs together, also where another process
replaces the file meanwhile. Members are read, and verified, only when asked for.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import secrets
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from seqgp.io.errors import DamagedError, PassingError, StoreError

HEADER, SEAL = "header.json", "header.sha256"
PARTIAL = ".partial"  # how the name of an unfinished file ends
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# How a damaged archive fails in zipfile, struct, json and NumPy's parser.
_BROKEN = (
    zipfile.BadZipFile, struct.error, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError,
    OverflowError, NotImplementedError, RuntimeError, SyntaxError,
)  # fmt: skip
_LAST_WRITTEN = (1980, 1, 1, 0, 0, 0)  # of members: equal content gives equal files


def open_regular(path: Path, follow: bool = False) -> IO[bytes]:
    """Open a file for reading, if it is a regular one: no pipe that blocks, no device that never ends, no folder.

    Args:
        path: the file.
        follow: whether a link to one will do.

    Raises:
        OSError: with what it is instead.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags if follow else flags | getattr(os, "O_NOFOLLOW", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_own(path: Path) -> bytes:
    """All of a file of a run."""
    with open_regular(path) as file:
        return file.read()


def write_atomically(path: Path, fill: Callable[[IO[bytes]], object], durable: bool = True) -> None:
    """Write a file so that it is there whole, with its old content, or not at all.

    Args:
        path: the file.
        fill: writes the content.
        durable: whether it outlives a loss of power; without, only whoever looks while the machine runs finds it whole.
    """
    aside = path.with_name(f".{path.name}-{secrets.token_hex(4)}{PARTIAL}")
    try:
        with aside.open("xb") as file:
            fill(file)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(aside, path)
        if durable:
            sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        if isinstance(error, OSError):
            raise unwritten(path, error) from error
        raise


def write_json(path: Path, content: object, durable: bool = True) -> None:
    """A JSON file, written atomically."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()), durable)


def write_csv(path: Path, frame: Any, index: bool = False) -> None:
    """A pandas table as CSV, written atomically."""
    text = frame.to_csv(index=index)
    write_atomically(path, lambda file: file.write(text.encode()))


def write_container(path: Path, header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """A header and arrays in one file, written atomically."""
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    sums = {name: _digest(array) for name, array in contiguous.items()}
    text = json.dumps({**header, "sha256": sums}, allow_nan=False).encode()

    def fill(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(_member(HEADER), text)
            archive.writestr(_member(SEAL), hashlib.sha256(text).hexdigest())
            for name, array in contiguous.items():
                with archive.open(_member(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)

    write_atomically(path, fill)


class Container(Mapping[str, np.ndarray]):
    """A container on disk, open until it is closed: the header is read at once, an array when it is asked for."""

    def __init__(self, path: Path):
        self.path = path
        self._file: IO[bytes] | None = None
        try:
            with self._named():
                self._file = open_regular(path)
                self._archive = zipfile.ZipFile(self._file)
                self.header: dict[str, Any] = self._read_header()
        except BaseException:
            self.close()
            raise
        self._sums: dict[str, str] = self.header["sha256"]

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def __getitem__(self, name: str) -> np.ndarray:
        with self._named():
            return self._read(name)

    def __iter__(self):
        return iter(self._sums)

    def __len__(self) -> int:
        return len(self._sums)

    def member(self, name: str) -> bytes:
        """The bytes of a member, whatever it is."""
        return self._bytes(name)

    def _read_header(self) -> dict[str, Any]:
        text = self._bytes(HEADER)
        if hashlib.sha256(text).hexdigest().encode() != self._bytes(SEAL):
            raise ValueError("the checksum of its header is wrong")
        header = json.loads(text)
        return as_header(header)

    def _read(self, name: str) -> np.ndarray:
        if name not in self._sums:
            raise ValueError(f"it has no {name}")
        return verified(name, self._bytes(f"{name}.npy"), self._sums[name])

    def _bytes(self, member: str) -> bytes:
        if self._archive.getinfo(member).compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{member} is compressed, which seqgp never writes")
        return self._archive.read(member)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Every way in which a broken file fails, as one error that names it."""
        try:
            yield
        except FileNotFoundError as error:
            raise DamagedError(f"{self.path}: the file is gone; {_remedy(self.path)}") from error
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EINVAL):
                what = "a link" if error.errno == errno.ELOOP else "not a regular file"
                raise DamagedError(f"{self.path}: {what}, not a file of a run; {_remedy(self.path)}") from error
            raise StoreError(f"{self.path}: cannot be read ({error.strerror}); check the file and the disk") from error
        except _BROKEN as error:
            why = "not a file of a run" if isinstance(error, zipfile.BadZipFile) else str(error).strip("'\"")
            raise DamagedError(f"{self.path}: truncated or corrupted ({why}); {_remedy(self.path)}") from error


def as_header(content: Any) -> dict[str, Any]:
    """What was read, if it can be the header of a container.

    Raises:
        ValueError: where it cannot.
    """
    sums = content.get("sha256") if isinstance(content, dict) else None
    if not isinstance(sums, dict) or not all(isinstance(one, str) for one in sums.values()):
        raise ValueError("its header is not one of a run")
    return content


def verified(name: str, content: bytes, checksum: str) -> np.ndarray:
    """The array in the bytes of an npy file, if it has this checksum.

    Raises:
        ValueError: where it has not, or declares more numbers than there are.
    """
    file = io.BytesIO(content)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(file)
    if version not in read:
        raise ValueError(f"{name} is of version {version}, which seqgp never writes")
    shape, _, dtype = read[version](file)
    declared, there = math.prod(shape) * dtype.itemsize, len(content) - file.tell()
    if declared != there or any(size < 0 for size in shape):
        raise ValueError(f"{name} declares {declared} bytes of shape {shape}, and has {there}")
    file.seek(0)
    array = np.lib.format.read_array(file, allow_pickle=False)
    if _digest(array) != checksum:
        raise ValueError(f"the checksum of {name} is wrong")
    return array


def _remedy(path: Path) -> str:
    run = path.parent.parent
    return f"see `seqgp check {run}`, and `seqgp check {run} --repair` to set it aside"


def _digest(array: np.ndarray) -> str:
    described = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    described.update(np.asarray(array, order="C").reshape(-1).view(np.uint8).data if array.size else b"")
    return described.hexdigest()


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, _LAST_WRITTEN)


def sync_folder(folder: Path) -> None:
    """See to it that the names in a folder outlive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unwritten(path: Path, error: OSError) -> StoreError:
    """Why a file could not be written, and what to do about it."""
    if error.errno in _FULL:
        return PassingError(
            f"{path}: the disk is full; nothing was half-written: free some space and run again, it goes on from here"
        )
    return StoreError(f"{path}: cannot be written ({error.strerror or error}); check the folder and its permissions")
