"""One step of a run on disk: written whole, and read from a file that is opened once for what is asked."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from seqgp.io.errors import DamagedError, StoreError
from seqgp.io.files import Container, write_container
from seqgp.io.layout import step_path
from seqgp.io.manifest import FORMAT, Manifest, sealed
from seqgp.io.serialise import Arrays, decode, encode
from seqgp.io.summary import Summary, summarise
from seqgp.models.snapshot import Snapshot
from seqgp.samplers.info import Info
from seqgp.samplers.protocol import State

PARTS = {"run", "step", "t", "labels", "data", "state", "info", "snapshot", "summary"}  # of a header


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
            if not set(header) >= PARTS:
                lacks = ", ".join(sorted(PARTS - set(header)))
                raise DamagedError(f"{self.path}: its header lacks {lacks}; `seqgp check {run} --repair` sets it aside")
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
        t, x, y, context = self._decode("snapshot")
        return Snapshot(t, x, y, context)

    @property
    def labels(self) -> list[str] | None:
        """The names of the locations, where the data have them."""
        return self._header["labels"]

    @property
    def summary(self) -> Summary:
        """Moments and quantiles of latent and parameters."""
        return Summary(*self._decode("summary"))

    @property
    def digest(self) -> str:
        """What tells the data of this step from others."""
        return self._header["data"]

    def verify(self) -> None:
        """Read everything, and raise where something is broken."""
        with self.opened() as container:
            for name in container:
                container[name]
            there = [part for part in ("state", "beside_data") if container.header.get(part) is not None]
            for part in ("info", "snapshot", "summary", *there):
                self._decode_from(container, part)

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
        return [(step.snapshot, step.beside_data) for step in steps]

    def _decode(self, part: str) -> Any:
        with self.opened() as container:
            return self._decode_from(container, part)

    def _decode_from(self, container: Container, part: str) -> Any:
        if container.header[part] is None:
            raise StoreError(
                f"{self.path}: only the summary of step {self.number} (t = {self.t}) is kept; a larger keep= keeps more"
            )
        try:
            return decode(container.header[part], container)
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DamagedError(f"{self.path}: its {part} cannot be read ({error})") from error
        except DamagedError as error:
            text = str(error)
            raise error if str(self.path) in text else DamagedError(f"{self.path}: {text}") from error


def write_step(path: Path, manifest: Manifest, state: State, info: Info, snapshot: Snapshot) -> None:
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
        "state": encode(state.packed(), "state", arrays),
        "info": encode(info, "info", arrays, lenient=True),
        "snapshot": encode(tuple(snapshot), "snapshot", arrays),
        "beside_data": encode(state.beside_data(), "beside_data", arrays),
        "summary": encode(tuple(summarise(state)), "summary", arrays),
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
