"""A run on disk: one folder with a manifest, and one file a step. The sampler never stores, the store never samples."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from seqgp.io.errors import DamagedError, StoreError
from seqgp.io.files import PARTIAL
from seqgp.io.lock import HOLDER, LOCK, locked
from seqgp.io.manifest import NAME, Manifest, check_same, new_manifest, read_manifest, write_manifest
from seqgp.io.step import Step, write_step
from seqgp.models.errors import DataError
from seqgp.models.model import Model
from seqgp.models.snapshot import Snapshot
from seqgp.samplers.info import Info
from seqgp.samplers.protocol import Sampler, State

STEPS, BROKEN = "steps", "broken"


class Damage(NamedTuple):
    """A file of a run that is not as it should be."""

    path: Path
    why: str


class Store:
    """A run on disk.

    ``seqgp.run(…, store="runs/wind")`` writes it; this reads it, lazily::

        store = seqgp.Store("runs/wind")
        store.times                  # of all steps
        store.latest().state         # the draws of the last one
        store[0.05].info             # what happened at t = 0.05
        store.to_datatree()          # ArviZ

    Args:
        path: the folder.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._manifest: Manifest | None = None

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r}, {len(self) if self.exists else 0} steps)"

    @property
    def exists(self) -> bool:
        """Whether there is a run in the folder."""
        return (self.path / NAME).exists()

    @property
    def manifest(self) -> Manifest:
        """What is the same for all steps."""
        if self._manifest is None:
            self._manifest = read_manifest(self.path)
        return self._manifest

    @property
    def model(self) -> Model | None:
        """The model, where it is made of ready-made parts; one with code of one's own is not stored."""
        return self.manifest.build_model()

    def __len__(self) -> int:
        return len(self._files())

    def __iter__(self) -> Iterator[Step]:
        manifest = self.manifest
        return (Step(path, manifest) for path in self._files())

    @property
    def times(self) -> list[float]:
        """The times of all steps."""
        return [step.t for step in self]

    def step(self, number: int) -> Step:
        """The step of a number, from 1."""
        path = self._path(number)
        if not path.exists():
            raise StoreError(f"{self.path}: there is no step {number}; the last is {self.latest().number}")
        return Step(path, self.manifest)

    def latest(self) -> Step:
        """The last step."""
        manifest, files = self.manifest, self._files()
        if not files:
            raise StoreError(f"{self.path}: the run has no step yet")
        return Step(files[-1], manifest)

    def __getitem__(self, t: float) -> Step:
        """The step at a time."""
        for step in self:
            if step.t == float(t):
                return step
        times = self.times
        span = f"{len(times)} times from {times[0]} to {times[-1]}" if times else "no step yet"
        raise StoreError(f"{self.path}: no step at t = {t}; the run has {span}")

    def to_datatree(self, model: Model | None = None) -> Any:
        """All whole steps for ArviZ; see :func:`seqgp.to_datatree`."""
        from seqgp.io.arviz import to_datatree

        return to_datatree(self, model)

    @contextlib.contextmanager
    def writing(
        self,
        sampler: Sampler,
        key: Any = None,
        keep: int | None = None,
        configuration: dict[str, Any] | None = None,
    ) -> Iterator[Writer]:
        """Hold the run for writing: begin it, or check that this sampler and key can continue it.

        Args:
            sampler: what makes the steps.
            key: the random key; for an existing run the same one, or none.
            keep: how many of the last steps to keep whole (the others become summaries); all by default.
            configuration: what the run was configured with, remembered in the manifest.
        """
        if keep is not None and keep < 1:
            raise StoreError(f"keep = {keep}: at least the last step must be kept, to go on from")
        made = self._make_folder()
        try:
            with locked(self.path):
                self._begin(sampler, key, configuration)
                for left_over in self._partial():
                    left_over.unlink(missing_ok=True)
                yield Writer(self, keep)
        finally:
            self._remove_if_empty(made)

    def check(self) -> list[Damage]:
        """Read every file of the run, and name those that are broken or do not belong to it."""
        manifest, found = self.manifest, []
        for path in sorted((self.path / STEPS).iterdir()) if (self.path / STEPS).is_dir() else []:
            if not (path.suffix == ".npz" and path.stem.isdigit()):
                why = "left over from an interrupted write" if path.name.endswith(PARTIAL) else "not a file of a run"
                found.append(Damage(path, why))
                continue
            try:
                Step(path, manifest).verify()
            except StoreError as error:
                found.append(Damage(path, str(error)))
        return found

    def repair(self) -> list[Damage]:
        """Move broken and foreign files to ``broken/``; the run goes on after its last whole step."""
        with locked(self.path):
            found = self.check()
            for path, _ in found:
                (self.path / BROKEN).mkdir(exist_ok=True)
                shutil.move(path, _unused(self.path / BROKEN / path.name))
        return found

    def _begin(self, sampler: Sampler, key: Any, configuration: dict[str, Any] | None) -> None:
        if self.exists:
            check_same(self.path, self.manifest, sampler, key)
            return
        if key is None:
            raise StoreError(f"{self.path}: a new run needs a random key: key=jax.random.key(0), say")
        self._manifest = new_manifest(sampler, key, configuration)
        write_manifest(self.path, self._manifest)

    def _make_folder(self) -> bool:
        """Make the folder of the run; whether it was not there."""
        new = not self.path.exists()
        ours = new or self.exists or {path.name for path in self._entries()} <= {STEPS, LOCK, HOLDER}
        if not ours:
            raise StoreError(f"{self.path}: the folder holds other things, and no run; choose an empty or new one")
        try:
            (self.path / STEPS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.path}: the folder cannot be made ({error.strerror}); choose another") from error
        return new

    def _entries(self) -> list[Path]:
        try:
            return list(self.path.iterdir())
        except OSError as error:
            raise StoreError(
                f"{self.path}: not a folder that can be read ({error.strerror}); choose another"
            ) from error

    def _remove_if_empty(self, made: bool) -> None:
        """A run that failed before its first step leaves nothing behind."""
        if not made or self._files():
            return
        self._manifest = None
        shutil.rmtree(self.path, ignore_errors=True)

    def _path(self, number: int) -> Path:
        return self.path / STEPS / f"{number:06d}.npz"

    def _files(self) -> list[Path]:
        return sorted(path for path in (self.path / STEPS).glob("*.npz") if path.stem.isdigit())

    def _partial(self) -> list[Path]:
        return [path for folder in (self.path, self.path / STEPS) for path in folder.glob(f".*{PARTIAL}")]


class Writer:
    """The right to add steps to a run, while the lock is held."""

    def __init__(self, store: Store, keep: int | None):
        self.store = store
        self.keep = keep
        self._shrunk: set[Path] = set()

    def last(self) -> Step | None:
        """The step to go on from; ``None`` where the run has none yet."""
        if not len(self.store):
            return None
        step = self.store.latest()
        if not step.whole:
            raise DamagedError(
                f"{self.store.path}: the draws of the last step ({step.number}) are not kept, so the run cannot go on; "
                "begin a new one, with a larger keep="
            )
        return step

    def append(self, state: State, info: Info, snapshot: Snapshot) -> Step:
        """Add a step, and shrink those that are no longer kept whole."""
        files = self.store._files()
        if files and state.step <= int(files[-1].stem):
            raise StoreError(
                f"{self.store.path}: step {state.step} is there already; the last is {int(files[-1].stem)}"
            )
        if state.t != snapshot.t:
            raise DataError(f"{self.store.path}: a state at t = {state.t} with data at t = {snapshot.t}")
        path = self.store._path(state.step)
        write_step(path, self.store.manifest, state, info, snapshot)
        if self.keep is not None:
            for old in files[: max(0, len(files) + 1 - self.keep)]:
                if old not in self._shrunk:
                    Step(old, self.store.manifest).shrink()
                    self._shrunk.add(old)
        return Step(path, self.store.manifest)


def _unused(path: Path) -> Path:
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free
