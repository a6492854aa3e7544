"""Where the files of a run lie in its folder: none of them is ever reached through a link.

RUN/manifest.json       what is the same for all steps
RUN/steps/000001.npz    one file a step
RUN/broken/             what `seqgp check --repair` set aside
RUN/left/               which data were not used, and why
"""

from __future__ import annotations

import re
from pathlib import Path

from seqgp.io.errors import DamagedError
from seqgp.io.files import PARTIAL

MANIFEST, STEPS, BROKEN, LEFT = "manifest.json", "steps", "broken", "left"
_STEP = re.compile(r"[0-9]{6,}")


def step_path(folder: Path, number: int) -> Path:
    """The file of a step."""
    return folder / STEPS / f"{number:06d}.npz"


def step_number(path: Path) -> int | None:
    """The number of a step from the name of its file; ``None`` where it is not one that seqgp gives."""
    if path.suffix != ".npz" or not _STEP.fullmatch(path.stem):
        return None
    number = int(path.stem)
    return number if number > 0 and f"{number:06d}" == path.stem else None


def step_files(folder: Path) -> list[Path]:
    """The files of the steps, in order."""
    inside = own_folder(folder, STEPS)
    try:
        found = [(step_number(path), path) for path in inside.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path for number, path in sorted(found, key=lambda pair: pair[0] or 0) if number is not None]


def own_folder(folder: Path, name: str) -> Path:
    """A folder inside a run; a link in its place would lead writes, and repairs, to files of someone else."""
    inside = folder / name
    if inside.is_symlink():
        raise DamagedError(f"{inside}: is a link, which seqgp never makes; put the folder itself there")
    return inside


def unfinished_files(folder: Path) -> list[Path]:
    """What a write that is going on, or that was cut off, has left."""
    places = (folder, own_folder(folder, STEPS), own_folder(folder, LEFT))
    return [path for place in places for path in place.glob(f".*{PARTIAL}")]


def missing_numbers(numbers: list[int]) -> list[int]:
    """The numbers that a run from 1 to its last step should have besides."""
    there = set(numbers)
    return [number for number in range(1, max(there, default=0)) if number not in there]
