"""Whether a run is as it was written, and what can be done where it is not.

Every step is accounted for: it is there and whole, or it was set aside into ``broken/``.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

from seqgp.io.errors import DamagedError, StoreError
from seqgp.io.files import PARTIAL, Container, write_atomically
from seqgp.io.layout import (
    BROKEN,
    MANIFEST,
    STEPS,
    missing_numbers,
    own_folder,
    step_files,
    step_number,
    step_path,
    unfinished_files,
)
from seqgp.io.manifest import Manifest, manifest_from, read_manifest, sealed, write_manifest
from seqgp.io.recovery import recover, stuck, unused
from seqgp.io.step import Step

FIXED = ("created", "versions", "dtype", "key", "specification")  # what never changes in a manifest
GONE = ".gone"  # how the name of the note about a lost step ends


class Damage(NamedTuple):
    """A file of a run that is not as it should be."""

    path: Path
    why: str


def check_run(folder: Path) -> list[Damage]:
    """Read every file of a run, and name what is broken, missing, or does not belong to it.

    A file that may not be read, or a disk that fails, is not damage: it raises.
    """
    manifest, found = _examined(folder)
    unreadable = {number for number in (step_number(path) for path, _ in found) if number is not None}
    if manifest is not None and (lacking := stuck(folder, manifest, unreadable)):
        found.append(Damage(step_path(folder, lacking.last), lacking.why))
    return found


def _examined(folder: Path) -> tuple[Manifest | None, list[Damage]]:
    """The manifest of a run, or the copy of it in the steps, and what is wrong with each file by itself."""
    manifest, found = _manifest(folder)
    steps = own_folder(folder, STEPS)
    if not steps.is_dir():
        return manifest, [*found, Damage(steps, "the folder of the steps is missing; restore it from a backup")]
    for path in sorted(steps.iterdir()):
        if path.name.startswith(".") and path.name.endswith(PARTIAL):
            continue  # of a write that is going on, or that was cut off: the next writer removes it
        if step_number(path) is None:
            found.append(Damage(path, "not a file of a run"))
            continue
        try:
            if manifest is None:
                Container(path).close()
            else:
                header = Step(path, manifest).verify()
                _check_copy(path, header, manifest)
        except DamagedError as error:
            found.append(Damage(path, str(error)))
    aside = set_aside(folder)
    for number in missing_numbers([number_of(path) for path in step_files(folder)]):
        if number not in aside:
            why = "the step is missing, and was not set aside; put it back, or go on without it (--repair)"
            found.append(Damage(step_path(folder, number), why))
    return manifest, found


def repair_run(folder: Path) -> list[Damage]:
    """Restore what can be restored, set aside what is broken, and note what is lost; the lock must be held."""
    manifest, found = _examined(folder)
    for path, why in found:
        if path == folder / MANIFEST:
            _restore(folder)
        elif path == folder / STEPS:
            path.mkdir()
        elif path.exists() or path.is_symlink():
            shutil.move(path, unused(_broken(folder) / path.name))
        else:
            note = _broken(folder) / f"{path.name}{GONE}"
            write_atomically(note, lambda file, why=why: file.write(f"{why}\n".encode()))
    if manifest is not None:
        found += [Damage(path, why) for path, why in recover(folder, manifest)]
    for left_over in unfinished_files(folder):
        left_over.unlink(missing_ok=True)
    return found


def _check_copy(path: Path, header: dict[str, Any], manifest: Manifest) -> None:
    """Raise where the copy of the manifest in a step is not of the manifest of the run."""
    if "manifest" not in header:  # of version 0.1
        return
    copy = header["manifest"]
    current = sealed(manifest)
    other = [name for name in FIXED if not isinstance(copy, dict) or copy.get(name) != current[name]]
    if other:
        raise DamagedError(f"{path}: its copy of the manifest has another {', '.join(other)}")


def set_aside(folder: Path) -> set[int]:
    """The numbers of the steps that are known to be broken or lost."""
    broken = own_folder(folder, BROKEN)
    names = [path.name for path in broken.iterdir()] if broken.is_dir() else []
    numbers = (step_number(Path(name.split(".npz")[0] + ".npz")) for name in names if ".npz" in name)
    return {number for number in numbers if number is not None}


def number_of(path: Path) -> int:
    """The number of a step, from the name of a file that is one."""
    return int(path.stem)


def _manifest(folder: Path) -> tuple[Manifest | None, list[Damage]]:
    """The manifest, or the copy of it in the steps; and whether something is wrong with it."""
    try:
        manifest = read_manifest(folder)
    except DamagedError as error:
        return _copy(folder), [Damage(folder / MANIFEST, str(error))]
    header = next(_headers(folder), None)  # of the last step: whether others agree is seen when they are read
    if header is not None and header.get("run") != manifest.run:
        runs = _runs(folder)
        if manifest.run not in runs and len(set(runs)) == 1:
            why = f"is of another run than the {len(runs)} steps here"
            return _copy(folder), [Damage(folder / MANIFEST, why)]
    copy = None if header is None or header.get("run") != manifest.run else _copy(folder)
    other = [] if copy is None else [name for name in FIXED if getattr(copy, name) != getattr(manifest, name)]
    if other:
        why = f"its {', '.join(other)} differ from the copy that the last step holds"
        return copy, [Damage(folder / MANIFEST, why)]
    return manifest, []


def _headers(folder: Path):
    for path in reversed(step_files(folder)):
        try:
            with Container(path) as container:
                yield container.header
        except StoreError:
            continue


def _runs(folder: Path) -> list[str]:
    return [str(header.get("run")) for header in _headers(folder)]


def _copy(folder: Path) -> Manifest | None:
    """The manifest that the last readable step holds."""
    for header in _headers(folder):
        if "manifest" in header:
            manifest = manifest_from(header["manifest"], folder / MANIFEST)
            return manifest if manifest.run == header.get("run") else None
    return None


def _restore(folder: Path) -> None:
    manifest, path = _copy(folder), folder / MANIFEST
    if manifest is None:
        raise DamagedError(
            f"{path}: cannot be restored, for no step holds a copy of it (version 0.1 wrote none); take it from a "
            "backup, or begin the run anew in another folder"
        )
    if path.exists() or path.is_symlink():
        shutil.move(path, unused(_broken(folder) / path.name))
    write_manifest(folder, manifest)


def _broken(folder: Path) -> Path:
    broken = own_folder(folder, BROKEN)
    broken.mkdir(exist_ok=True)
    return broken
