"""One step of a run on disk: written whole, and read from a file that is opened once for what is asked."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from seqgp.base.errors import SeqgpError, one_line
from seqgp.base.info import Info
from seqgp.base.snapshot import Snapshot
from seqgp.base.transforms import transform_of
from seqgp.io.errors import DamagedError, StoreError
from seqgp.io.files import Container, write_container
from seqgp.io.header import Previous, wrong_header
from seqgp.io.late_data import PART as LATE
from seqgp.io.late_data import LateData, beside, decode_late, encode_late, kept_data
from seqgp.io.layout import step_path
from seqgp.io.manifest import FORMAT, Manifest, sealed
from seqgp.io.serialise import Arrays, check_fields, decode, encode
from seqgp.io.summary import Summary, summarise
from seqgp.samplers.base import State

_UNREADABLE = (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError, RecursionError)

DATA = ("snapshot", "beside_data", LATE)  # what the states of later steps need of a step


class _Asked(Exception):
    """The data of earlier steps were asked for."""


class Step:
    """A step of a run: ``state``, ``info``, ``snapshot`` and ``summary`` are read from disk when they are asked for."""

    def __init__(self, path: Path, manifest: Manifest, together: dict[int, Step] | None = None):
        """A step.

        Args:
            path: its file.
            manifest: of the run.
            together: steps of the run that are read together, by number: each reads its data once, also for others.
        """
        self.path = path
        self._manifest = manifest
        self._together = together
        self._read: dict[str, Any] = {}
        if together is not None:
            together[self.number] = self

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

    @property
    def late(self) -> LateData | None:
        """The late and corrected data that the step put into the past; ``None`` where it took a further snapshot."""
        return None if self._header.get(LATE) is None else self._decode(LATE)

    @property
    def late_times(self) -> list[float]:
        """The times of late and corrected data."""
        return (self._header.get(LATE) or {"t": []})["t"]

    @property
    def beside_times(self) -> list[float]:
        """The times of what is kept beside the data after late ones."""
        return (self._header.get(LATE) or {"beside_t": []})["beside_t"]

    def needed(self, unreadable: frozenset[int] = frozenset()) -> list[int]:
        """The numbers of the steps whose data are needed to go on from this one; it is whole.

        Args:
            unreadable: the numbers of steps that are there and cannot be read.
        """
        asked: list[int] = []

        def ask(count: int) -> Any:
            asked.append(count)
            raise _Asked

        with contextlib.suppress(_Asked):
            self._decode("state").unpacked(ask)
        return kept_data(self._back(unreadable), asked[0]).numbers[::-1] if asked else []

    def _back(self, unreadable: frozenset[int] = frozenset()) -> Iterator[Step | int]:
        """This step and those before it, the last first; a number in place of one that is not there."""
        yield self
        for number in range(self.number - 1, 0, -1):
            path = step_path(self.path.parent.parent, number)
            there = number not in unreadable and path.exists()
            yield (
                ((self._together or {}).get(number) or Step(path, self._manifest, self._together)) if there else number
            )

    def verify(self) -> dict[str, Any]:
        """Read everything, and raise where something is broken; the header."""
        with self.opened() as container:
            arrays = {name: container[name] for name in container}  # each is read once
            there = [part for part in ("state", "beside_data", LATE) if container.header.get(part) is not None]
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

    def _kept(self, count: float) -> list[tuple[Snapshot, Any]]:
        """The data of the last few times up to this step, as they were then, and what is kept beside them."""
        folder = self.path.parent.parent
        found = kept_data(self._back(), count)
        lost = [number for number in found.numbers if not step_path(folder, number).exists()]
        times = sorted(found.data)[-int(min(count, len(found.data))) :]
        if lost or len(times) < count < math.inf:
            what = f"step {lost[-1]} are needed to go on from here, and are lost" if lost else "earlier steps are lost"
            raise DamagedError(
                f"{self.path}: the data of {what}; `seqgp check {folder} --repair` recovers them, or goes back to the "
                "step before"
            )
        return [(found.data[t].snapshot(), beside(found.beside.get(t))) for t in times]

    def data_now(self) -> list[Snapshot]:
        """The data of all times up to this step, as they were when it was sampled; those of lost steps are left out."""
        found = kept_data(self._back(), math.inf).data
        return [found[t].snapshot() for t in sorted(found)]

    def parts(self, *names: str) -> list[Any]:
        """Some parts, of a file that is opened once."""
        with self.opened() as container:
            found = {name: self._decode_from(container, name) for name in names}
        if self._together is not None:
            self._read |= {name: part for name, part in found.items() if name in DATA}
        return list(found.values())

    def _decode(self, part: str) -> Any:
        if part in self._read:
            return self._read[part]
        with self.opened() as container:
            found = self._decode_from(container, part)
        if self._together is not None and part in DATA:
            self._read[part] = found
        return found

    def _decode_from(self, container: Container, part: str, arrays: object = None) -> Any:
        if container.header[part] is None:
            raise StoreError(
                f"{self.path}: only the summary of step {self.number} (t = {self.t}) is kept; a larger keep= keeps more"
            )
        try:
            return decoded(container.header, part, container if arrays is None else arrays)
        except DamagedError as error:
            text = str(error)
            raise error if str(self.path) in text else DamagedError(f"{self.path}: {text}") from error


def decoded(header: dict[str, Any], part: str, arrays: object) -> Any:
    """A part of a step, of the kind that it should be.

    Raises:
        DamagedError: where it is not.
    """
    try:
        found: Any = decode_late(header[LATE], arrays) if part == LATE else decode(header[part], arrays)
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


def write_step(
    path: Path,
    manifest: Manifest,
    state: State,
    info: Info,
    snapshot: Snapshot,
    previous: Previous | None = None,
    late: LateData | None = None,
    labels: list[str] | None = None,
) -> None:
    """Write a step, with the late data that it put into the past: whole, or not at all.

    ``labels`` are the names of the locations of a snapshot that has none itself.
    """
    arrays: Arrays = {}
    header = {
        "format": FORMAT,
        "run": manifest.run,
        "manifest": sealed(manifest),  # from which a lost one can be restored
        "step": state.step,
        "t": float(state.t),
        "key": manifest.key,  # of the run: the next step folds its number into it
        "labels": labels_of(snapshot) or labels,
        "data": data_digest(snapshot),
        "previous": None if previous is None else previous._asdict(),
        "state": encode(state.packed(), "state", arrays),
        "info": encode(info, "info", arrays, lenient=True),
        "snapshot": encode(tuple(snapshot), "snapshot", arrays),
        "beside_data": encode(state.beside_data(), "beside_data", arrays),
        "summary": encode(tuple(summarise(state, transform_of(manifest.section("data")))), "summary", arrays),
    } | ({} if late is None else {LATE: encode_late(late, arrays)})
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
