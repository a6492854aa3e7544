"""A run on disk: one folder with a manifest, and one file a step. The sampler never stores, the store never samples."""

from __future__ import annotations

import contextlib
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxtyping import Key

from seqgp.base.errors import SeqgpError
from seqgp.base.snapshot import Snapshot
from seqgp.io.errors import DamagedError, StoreError
from seqgp.io.files import PARTIAL, sync_folder
from seqgp.io.integrity import Damage, check_run, repair_run
from seqgp.io.layout import BROKEN, LEFT, STEPS, own_folder, step_files, step_path, unfinished_files
from seqgp.io.layout import MANIFEST as NAME
from seqgp.io.lock import HOLDER, LOCK, locked
from seqgp.io.manifest import (
    HOW_TO_SEE,
    REMEDY,
    Manifest,
    check_same,
    is_sealed,
    knows_objects_by_type,
    new_manifest,
    read_manifest,
    settings_of,
    unseen_objects,
    write_manifest,
)
from seqgp.io.step import Step
from seqgp.io.writer import Writer
from seqgp.linalg.types import Array
from seqgp.model import Model
from seqgp.samplers.base import Sampler


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
        """The model, if all its parts are ready-made; a store holds no code of your own."""
        try:
            return self.manifest.build_model()
        except SeqgpError as error:
            raise DamagedError(f"{self.path / NAME}: its model cannot be built ({error}); {REMEDY}") from error

    def __len__(self) -> int:
        return len(self._files())

    def __iter__(self) -> Iterator[Step]:
        manifest = self.manifest
        return (Step(path, manifest) for path in self._files())

    def last_ones(self, count: int | None) -> list[Step]:
        """The last few steps, or all."""
        manifest = self.manifest
        return [Step(path, manifest) for path in self._files()[-count if count else None :]]

    def after(self, number: int) -> Iterator[Step]:
        """The steps after that of a number."""
        manifest = self.manifest
        return (Step(path, manifest) for path in self._files() if int(path.stem) > number)

    @property
    def times(self) -> list[float]:
        """The times of all steps; a step that revised the past has that of the step before it."""
        return [step.t for step in self]

    def standing(self) -> list[Step]:
        """The current step of each time: after a revision, the last one at that time."""
        found: list[Step] = []
        manifest, together = self.manifest, dict[int, Step]()
        for step in (Step(path, manifest, together) for path in self._files()):
            if found and step.late_times:
                found.pop()
            found.append(step)
        return found

    def snapshots(self) -> list[Snapshot]:
        """The current data of all times, with late and corrected ones."""
        return self.latest().data_now()

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
        """The step at a time; where late data revised the past, the last one."""
        found = None
        for step in self:
            found = step if step.t == float(t) else found
        if found is not None:
            return found
        times = self.times
        span = f"{len(times)} times from {times[0]} to {times[-1]}" if times else "no step yet"
        raise StoreError(f"{self.path}: no step at t = {t}; the run has {span}")

    def to_datatree(self, model: Model | None = None) -> Any:
        """All complete steps for ArviZ; see ``seqgp.to_datatree``."""
        from seqgp.io.arviz import to_datatree

        return to_datatree(self, model)

    @contextlib.contextmanager
    def writing(
        self,
        sampler: Sampler,
        key: Key[Array, ""] | None = None,
        keep: int | None = None,
        configuration: dict[str, Any] | None = None,
    ) -> Iterator[Writer]:
        """Hold the run for writing: begin it, or check that this sampler and key can continue it.

        Args:
            sampler: what makes the steps.
            key: the random key; for an existing run the same one, or none.
            keep: how many of the last steps to keep whole (the others become summaries); all by default.
            configuration: what the run was configured with, remembered in the manifest: the last that was given.
        """
        if keep is not None and keep < 1:
            raise StoreError(f"keep = {keep}: at least the last step must be kept, to go on from")
        made = self._make_folder()
        try:
            with locked(self.path) as held:
                self._begin(sampler, key, configuration)
                for left_over in unfinished_files(self.path):
                    left_over.unlink(missing_ok=True)
                yield Writer(self, keep, held)
        finally:
            self._remove_if_empty(made)

    def forget(self) -> None:
        """Read the manifest again when it is asked for next: another process may have written it."""
        self._manifest = None

    def check(self) -> list[Damage]:
        """Read every file of the run, and name what is broken, missing, or does not belong to it."""
        return check_run(self.path)

    def repair(self) -> list[Damage]:
        """Move broken and foreign files to ``broken/``; the run goes on after its last whole step.

        A manifest that is gone or broken is restored from the copy that every step has.
        """
        with locked(self.path):
            found = repair_run(self.path)
        self._manifest = None
        return found

    def _begin(self, sampler: Sampler, key: object, configuration: dict[str, Any] | None) -> None:
        if self.exists and (len(self) or key is None):
            self._go_on(sampler, key, configuration)
            return
        if not self.exists and len(self):
            read_manifest(self.path)  # says what to do about one that is gone
        if key is None:
            raise StoreError(f"{self.path}: a new run needs a random key: key=jax.random.key(0), say")
        if unseen := unseen_objects(sampler):
            warnings.warn(f"{self.path}: {unseen}: the run cannot be resumed; {HOW_TO_SEE}", stacklevel=4)
        # A manifest without a step, of a run that was stopped before its first, binds nobody.
        self._manifest = new_manifest(sampler, key, configuration)
        write_manifest(self.path, self._manifest)

    def _go_on(self, sampler: Sampler, key: object, configuration: dict[str, Any] | None) -> None:
        before = manifest = self.manifest
        check_same(self.path, manifest, sampler, key)
        if not is_sealed(self.path) or knows_objects_by_type(manifest, sampler):
            # Of version 0.1 or 0.2: from now on the model is known in full, an edit noticed.
            identity = {"model": sampler.model.fingerprint(), "sampler": settings_of(sampler)}
            manifest = manifest._replace(**identity, by_names=False)
        if configuration is not None:  # titles, names of columns: model, sampler and key are the same
            manifest = manifest._replace(configuration=configuration)
        if manifest != before:
            self._manifest = manifest
            write_manifest(self.path, manifest)

    def _make_folder(self) -> bool:
        """Make the folder of the run; whether it was not there."""
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        if not (missing or self.exists or all(_is_ours(path) for path in self._entries())):
            raise StoreError(f"{self.path}: the folder holds other things, and no run; choose an empty or new one")
        try:
            own_folder(self.path, STEPS).mkdir(parents=True, exist_ok=True)
            for folder in missing:  # the names of these; the manifest sees to what is in the run
                sync_folder(folder.parent)
        except OSError as error:
            raise StoreError(f"{self.path}: the folder cannot be made ({error.strerror}); choose another") from error
        return bool(missing)

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
        return step_path(self.path, number)

    def _files(self) -> list[Path]:
        return step_files(self.path)


def _is_ours(path: Path) -> bool:
    return path.name in {STEPS, BROKEN, LEFT, LOCK, HOLDER} or (
        path.name.startswith((f".{NAME}", f".{HOLDER}")) and path.name.endswith(PARTIAL)
    )
