"""What is done where the data of a step are lost that later steps need: recovered, or gone back before them.

A sampler that carries all it needs in its state goes on without an earlier step. One whose filters are run over all
data (the online sampler) needs the data of every step since its history begins.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqgp.base.info import ChainInfo
from seqgp.base.transforms import transform_of
from seqgp.io.errors import DamagedError, StoreError
from seqgp.io.files import HEADER, SEAL, Container, as_header, read_own, verified, write_container
from seqgp.io.header import PARTS, wrong_header
from seqgp.io.late_data import PART as LATE
from seqgp.io.late_data import encode_late
from seqgp.io.layout import BROKEN, own_folder, step_files, step_path
from seqgp.io.manifest import Manifest
from seqgp.io.serialise import Arrays, encode
from seqgp.io.step import Step, decoded
from seqgp.io.summary import summarise

_LOCAL = struct.Struct("<4s5H3I2H")  # the header of a member of an archive
_MANY = 0xFFFFFFFF  # in place of a size that stands in the extra field


class Stuck(NamedTuple):
    """A run that cannot go on from its last step: the numbers of the steps whose data it lacks."""

    last: int
    lost: list[int]

    @property
    def why(self) -> str:
        """In words."""
        some = ", ".join(map(str, self.lost[:5])) + (" and others" if len(self.lost) > 5 else "")
        return f"the run cannot go on from this step, for the data of step {some} are lost"


def stuck(folder: Path, manifest: Manifest, unreadable: set[int]) -> Stuck | None:
    """Whether a run lacks the data of steps that its last one needs."""
    steps = [Step(path, manifest) for path in step_files(folder)]
    there = {step.number for step in steps} - unreadable
    for step in reversed(steps):
        if step.number in there and step.whole:
            lost = [number for number in step.needed(frozenset(unreadable)) if number not in there]
            return Stuck(step.number, lost) if lost else None
    return None


def recover(folder: Path, manifest: Manifest) -> list[tuple[Path, str]]:
    """Let a run go on that lacks the data of a step; what was done, file by file. The lock must be held."""
    done = []
    found = stuck(folder, manifest, set())
    for number in [] if found is None else found.lost:
        if _salvaged(folder, manifest, number):
            done.append((step_path(folder, number), "its data were recovered from broken/; its draws are lost"))
    while found := stuck(folder, manifest, set()):
        done.append(_back(folder, manifest, found))
    return done


def _back(folder: Path, manifest: Manifest, found: Stuck) -> tuple[Path, str]:
    """Set the last step aside, which needs what is lost."""
    path = step_path(folder, found.last)
    t = Step(path, manifest).t
    aside = own_folder(folder, BROKEN)
    aside.mkdir(exist_ok=True)
    shutil.move(path, unused(aside / path.name))
    return path, (
        f"set aside, for the data of step {found.lost[0]} are lost, which it needs; give the data at t = {t:.12g} "
        "again, after those that are lost (this file in broken/ still holds them)"
    )


def _salvaged(folder: Path, manifest: Manifest, number: int) -> bool:
    """Write a step anew from what can be read of a broken file of it; whether its data could."""
    name = step_path(folder, number).name
    for path in sorted(own_folder(folder, BROKEN).glob(f"{name}*"), reverse=True):
        with contextlib.suppress(StoreError, OSError, ValueError):
            header, arrays = _readable(path)
            if header.get("run") == manifest.run and header.get("step") == number:
                _write(step_path(folder, number), header, arrays)
                return True
    return False


def _write(path: Path, header: dict[str, Any], arrays: object) -> None:
    """A step of what can be read: its data must be among it."""
    if wrong_header({name: {} for name in PARTS} | header):
        raise DamagedError(f"{path}: its header {wrong_header(header)}")
    snapshot = decoded(header, "snapshot", arrays)
    beside = decoded(header, "beside_data", arrays) if header.get("beside_data") is not None else None
    parts = {part: _or_none(header, part, arrays) for part in ("state", "info", "summary")}
    number, t = header["step"], float(header["t"])
    info = parts["info"] or _no_info(number, t)
    summary = parts["summary"]
    if summary is None and parts["state"] is not None:
        section = (header.get("manifest") or {}).get("configuration") or {}
        summary = summarise(parts["state"], transform_of(section.get("data") or {}))
    if summary is None:
        summary = (np.full((7, len(snapshot.x)), np.nan), {})
    found: Arrays = {}
    kept = {name: value for name, value in header.items() if name != "sha256"}
    written = {
        "state": None if parts["state"] is None else encode(parts["state"], "state", found),
        "info": encode(info, "info", found, lenient=True),
        "snapshot": encode(tuple(snapshot), "snapshot", found),
        "beside_data": encode(beside, "beside_data", found),
        "summary": encode(tuple(summary), "summary", found),
    } | ({LATE: encode_late(decoded(header, LATE, arrays), found)} if header.get(LATE) is not None else {})
    write_container(path, kept | written, found)


def _or_none(header: dict[str, Any], part: str, arrays: object) -> Any:
    try:
        return decoded(header, part, arrays) if header.get(part) is not None else None
    except StoreError:
        return None


def _no_info(number: int, t: float) -> ChainInfo:
    lost = ("what happened in this step is lost: its file was broken",)
    return ChainInfo(t, number, 0.0, 0.0, 0, {}, lost, {}, {}, {}, {}, 0, float("nan"))


def _readable(path: Path) -> tuple[dict[str, Any], Any]:
    """Header and arrays of a broken file: as a container, or member by member where its end is cut off."""
    with contextlib.suppress(DamagedError), Container(path) as container:
        return container.header, _Arrays({name: _bytes(container, name) for name in container}, container.header)
    members = dict(_members(read_own(path)))
    text = members.get(HEADER, b"")
    if hashlib.sha256(text).hexdigest().encode() != members.get(SEAL):
        raise DamagedError(f"{path}: its header cannot be read")
    header = as_header(json.loads(text))
    return header, _Arrays({name.removesuffix(".npy"): content for name, content in members.items()}, header)


def _bytes(container: Container, name: str) -> bytes:
    try:
        return container.member(f"{name}.npy")
    except Exception:  # a member that is broken, in whatever way, is not there
        return b""


class _Arrays:
    """The arrays of a broken file, each verified when it is asked for."""

    def __init__(self, content: dict[str, bytes], header: dict[str, Any]):
        self._content, self._sums = content, header["sha256"]

    def __getitem__(self, name: str) -> np.ndarray:
        return verified(name, self._content[name], self._sums[name])


def _members(content: bytes) -> Any:
    """The members of an archive in their order, as far as they are whole, without the list at its end."""
    at = 0
    while at + _LOCAL.size <= len(content):
        mark, _, _, _, _, _, _, size, _, length, extra = _LOCAL.unpack_from(content, at)
        start = at + _LOCAL.size
        name, more = content[start : start + length], content[start + length : start + length + extra]
        if mark != b"PK\x03\x04":
            return
        if size == _MANY and len(more) >= 20:
            size = struct.unpack_from("<Q", more, 12)[0]
        start += length + extra
        if start + size > len(content):
            return
        yield name.decode("utf-8", "replace"), content[start : start + size]
        at = start + size


def unused(path: Path) -> Path:
    """A name that no file has yet."""
    number, free = 1, path
    while free.exists() or free.is_symlink():
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free
