"""One step of a run on disk: written whole, and read from a file that is opened once for what is asked."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from seqgp.base.errors import SeqgpError, one_line
from seqgp.base.info import Info
from seqgp.base.snapshot import Snapshot
from seqgp.base.transforms import transform_of
from seqgp.io.errors import DamagedError, StoreError
from seqgp.io.files import Container, write_container
from seqgp.io.layout import step_path
from seqgp.io.manifest import FORMAT, Manifest, sealed
from seqgp.io.serialise import Arrays, check_fields, decode, encode
from seqgp.io.summary import Summary, summarise
from seqgp.samplers.base import State

PARTS = {"run", "step", "t", "labels", "data", "state", "info", "snapshot", "summary"}  # of a header


_UNREADABLE = (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError, RecursionError)


class _Asked(Exception):
    """The data of earlier steps were asked for."""


class Step:
    """A step of a run: ``state``, ``info``, ``snapshot`` and ``summary`` are read from disk when they are asked for."""

    def __init__(self, path: Path, manifest: Manifest):
        self.path = path
        self._manifest = manifest

    def __repr__(self) -> str:
        return f"Step({self.number}, t={self.t}{'' if self.whole else ', summary only'})"

    @property
    def number(self) -> int:
        """The number of the step, from 1."""
        return int(self.path.stem)

    @contextlib.contextmanager
    def opened(self) -> Iterator[Container]:
        """The file, opened once: what is read from it belongs together, also while another process replaces it."""
        with Container(self.path) as container:
            header, run = container.header, self.path.parent.parent
            if header.get("run") != self._manifest.run or header.get("step") != self.number:
                other = header.get("run") != self._manifest.run
                what = "a step of another run" if other else f"step {header.get('step')}"
                raise DamagedError(
                    f"{self.path}: this file is {what}; put the right one back, or `seqgp check {run} --repair`"
                )
            wrong = wrong_header(header)
            if wrong:
                raise DamagedError(f"{self.path}: its header {wrong}; `seqgp check {run} --repair` sets it aside")
            yield container

    @functools.cached_property
    def _header(self) -> dict[str, Any]:
        with self.opened() as container:
            return container.header

    @property
    def t(self) -> float:
        """The time."""
        return float(self._header["t"])

    @property
    def whole(self) -> bool:
        """Whether the draws are kept, or only their summary."""
        return self._header["state"] is not None

    @property
    def state(self) -> State:
        """The draws, and what the next step needs."""
        state = self._decode("state")
        if self._header.get("format") == 1:
            state = state._replace(fingerprint=self._manifest.fingerprint_in_format_1())
        return state.unpacked(self._kept)

    @property
    def info(self) -> Info:
        """What happened in the step."""
        return self._decode("info")

    @property
    def snapshot(self) -> Snapshot:
        """The data of the step."""
        return self._decode("snapshot")

    @property
    def labels(self) -> list[str] | None:
        """The names of the locations, where the data have them."""
        return self._header["labels"]

    @property
    def summary(self) -> Summary:
        """Moments and quantiles of latent and parameters."""
        return self._decode("summary")

    @property
    def digest(self) -> str:
        """What tells the data of this step from others."""
        return self._header["data"]

    @property
    def previous(self) -> Previous | None:
        """What this step says of the one before it, where it does."""
        found = self._header.get("previous")
        return None if found is None else Previous(float(found["t"]), found["data"])

    def needed(self) -> range:
        """The numbers of the steps whose data are needed to go on from this one; it is whole."""
        asked: list[int] = []

        def ask(dropped: int) -> Any:
            asked.append(dropped)
            raise _Asked

        with contextlib.suppress(_Asked):
            self._decode("state").unpacked(ask)
        return range(asked[0] + 1, self.number + 1) if asked else range(0)

    def verify(self) -> dict[str, Any]:
        """Read everything, and raise where something is broken; the header."""
        with self.opened() as container:
            arrays = {name: container[name] for name in container}  # each is read once
            there = [part for part in ("state", "beside_data") if container.header.get(part) is not None]
            for part in ("info", "snapshot", "summary", *there):
                self._decode_from(container, part, arrays)
            return container.header

    def shrink(self) -> None:
        """Replace the file by one that holds only the summary, the data and the info."""
        with self.opened() as container:
            if container.header["state"] is None:
                return
            arrays = {name: container[name] for name in container if not name.startswith("state/")}
            header = {name: value for name, value in container.header.items() if name != "sha256"}
        write_container(self.path, {**header, "state": None}, arrays)
        self.__dict__.pop("_header", None)

    @property
    def beside_data(self) -> Any:
        """What later steps need of this one, where they do."""
        return self._decode("beside_data") if self._header.get("beside_data") is not None else None

    def _kept(self, dropped: int) -> list[tuple[Snapshot, Any]]:
        """The data of this step and of those before it, but for the first few, and what is kept beside them."""
        folder = self.path.parent.parent
        steps = [Step(step_path(folder, number), self._manifest) for number in range(dropped + 1, self.number + 1)]
        lost = [step.number for step in steps if not step.path.exists()]
        if lost:
            raise DamagedError(
                f"{self.path}: the data of step {lost[0]} are needed to go on from here, and are lost; `seqgp check "
                f"{folder} --repair` recovers them, or goes back to the step before"
            )
        return [(step.snapshot, step.beside_data) for step in steps]

    def _decode(self, part: str) -> Any:
        with self.opened() as container:
            return self._decode_from(container, part)

    def _decode_from(self, container: Container, part: str, arrays: Any = None) -> Any:
        if container.header[part] is None:
            raise StoreError(
                f"{self.path}: only the summary of step {self.number} (t = {self.t}) is kept; a larger keep= keeps more"
            )
        try:
            return decoded(container.header, part, container if arrays is None else arrays)
        except DamagedError as error:
            text = str(error)
            raise error if str(self.path) in text else DamagedError(f"{self.path}: {text}") from error


def decoded(header: dict[str, Any], part: str, arrays: Any) -> Any:
    """A part of a step, of the kind that it should be.

    Raises:
        DamagedError: where it is not.
    """
    try:
        found: Any = decode(header[part], arrays)
        if part == "snapshot":
            found = Snapshot(*found)
        elif part == "summary":
            found = Summary(*found)
            check_fields(Summary, found._asdict())
    except DamagedError:
        raise
    except (SeqgpError, *_UNREADABLE) as error:
        raise DamagedError(f"its {part} cannot be read ({one_line(error)})") from error
    if part == "info" and not isinstance(found, Info):
        raise DamagedError(f"its info is a {type(found).__name__}")
    if part == "state" and not (hasattr(found, "unpacked") and (found.step, found.t) == (header["step"], header["t"])):
        raise DamagedError(f"its state is not that of step {header['step']} at t = {header['t']}")
    return found


def wrong_header(header: dict[str, Any]) -> str:
    """What is wrong with the header of a step, in words; empty where nothing is."""
    if not set(header) >= PARTS:
        return f"lacks {', '.join(sorted(PARTS - set(header)))}"
    labels = header["labels"]
    right = {
        "t": _is_number(header["t"]) and math.isfinite(header["t"]),
        "labels": labels is None or (isinstance(labels, list) and all(isinstance(label, str) for label in labels)),
        "data": isinstance(header["data"], str),
        "format": isinstance(header.get("format", FORMAT), int),
        "previous": _is_previous(header.get("previous")),
    } | {part: isinstance(header[part], dict) for part in ("info", "snapshot", "summary")}
    wrong = [name for name, fine in right.items() if not fine]
    return f"holds no {' and no '.join(wrong)}" if wrong else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_previous(value: Any) -> bool:
    if value is None:
        return True
    kinds = isinstance(value, dict) and {"t": _is_number(value.get("t")), "data": isinstance(value.get("data"), str)}
    return bool(kinds) and all(kinds.values())


class Previous(NamedTuple):
    """What a step says of the one before it, should that be lost."""

    t: float
    data: str


def write_step(
    path: Path, manifest: Manifest, state: State, info: Info, snapshot: Snapshot, previous: Previous | None = None
) -> None:
    """Write a step: whole, or not at all."""
    arrays: Arrays = {}
    header = {
        "format": FORMAT,
        "run": manifest.run,
        "manifest": sealed(manifest),  # from which a lost one can be restored
        "step": state.step,
        "t": float(state.t),
        "key": manifest.key,  # of the run: the next step folds its number into it
        "labels": labels_of(snapshot),
        "data": data_digest(snapshot),
        "previous": None if previous is None else previous._asdict(),
        "state": encode(state.packed(), "state", arrays),
        "info": encode(info, "info", arrays, lenient=True),
        "snapshot": encode(tuple(snapshot), "snapshot", arrays),
        "beside_data": encode(state.beside_data(), "beside_data", arrays),
        "summary": encode(tuple(summarise(state, transform_of(manifest.section("data")))), "summary", arrays),
    }
    write_container(path, header, arrays)


def labels_of(snapshot: Snapshot) -> list[str] | None:
    """The names of a snapshot's locations, where it has them."""
    labels = getattr(snapshot, "labels", None)
    return None if labels is None else [str(label) for label in labels]


def data_digest(snapshot: Snapshot) -> str:
    """What tells the data of one time from others."""
    found = hashlib.sha256(repr(float(snapshot.t)).encode())
    for leaf in jax.tree.leaves((snapshot.x, snapshot.y, snapshot.context)):
        array = np.asarray(leaf)
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()[:16]
