"""What became of a stream: a row of the table, and a small file beside the runs, ``STORE/.fleet/NAME.json``."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock

from seqgp.base.info import Info
from seqgp.base.remarks import add_up
from seqgp.io.errors import StoreError
from seqgp.io.files import read_own, write_json
from seqgp.io.layout import STEPS, own_folder, step_number
from seqgp.io.store import Store

NOTES, NAMES = ".fleet", ".names.json"
POINTS = 60  # of the curve that is kept of a stream's scores
SHOWN = (
    "stream", "steps", "added", "t", "crps", "log_score", "coverage_95", "log_evidence", "warnings", "seconds", "step",
    "error",
)  # fmt: skip


class Outcome(NamedTuple):
    """The outcome of one stream.

    Attributes:
        stream: its name.
        steps: the number of steps of its run.
        added: the steps that this call added.
        t: the last time.
        crps: mean over the steps, of forecasts one step ahead; likewise ``log_score`` and ``coverage_95``, the share of
            data inside their 95 % interval.
        log_evidence: of all data, if the sampler has it.
        warnings: the number of steps with a warning.
        remark: the most frequent warning.
        seconds: of this call; ``sampling`` of them in steps, and ``compiling``.
        worker: where it ran.
        error: what went wrong, in a line; ``step`` is the number of the step that failed.
        passing: whether the error may be temporary.
        trace: where an error came from that is not seqgp's own.
        curve: the CRPS over time.
        files: what tells the files of its run from those of a run that was changed since (:func:`files_of`).
    """

    stream: str
    steps: int = 0
    added: int = 0
    t: float | None = None
    crps: float | None = None
    log_score: float | None = None
    coverage_95: float | None = None
    log_evidence: float | None = None
    warnings: int = 0
    remark: str = ""
    seconds: float = 0.0
    sampling: float = 0.0
    compiling: float = 0.0
    worker: str = ""
    error: str | None = None
    step: int | None = None
    passing: bool = False
    trace: str = ""
    curve: tuple[float, ...] = ()
    files: str = ""

    def row(self) -> dict[str, Any]:
        """What the table shows."""
        return {name: getattr(self, name) for name in SHOWN}


def of_infos(name: str, steps: int, infos: Sequence[Info]) -> Outcome:
    """The outcome of a stream from what happened in its steps."""
    if not infos:
        return Outcome(name, steps)
    crps = _scores(infos, "crps")
    index = np.unique(np.linspace(0, len(crps) - 1, POINTS).round().astype(int)) if crps else []
    totals = add_up(info.warnings for info in infos)
    return Outcome(
        name,
        steps,
        t=float(infos[-1].t),
        crps=_mean(crps),
        log_score=_mean(_scores(infos, "log_score")),
        coverage_95=_mean(_scores(infos, "coverage_95")),
        log_evidence=_finite(getattr(infos[-1], "log_evidence", None)),
        warnings=sum(bool(info.warnings) for info in infos),
        remark=totals[0].among(len(infos)) if totals else "",
        curve=tuple(crps[i] for i in index),
    )


def _scores(infos: Sequence[Info], which: str) -> list[float]:
    found = (_finite(info.scores.get(which)) for info in infos)
    return [value for value in found if value is not None]


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def files_of(run: Path) -> tuple[int, str]:
    """How many steps a run has, and what tells its files from others: their names, sizes and times; none is opened."""
    found = []
    try:
        with os.scandir(own_folder(run, STEPS)) as entries:
            for entry in entries:
                if step_number(Path(entry.name)) is not None:
                    status = entry.stat(follow_symlinks=False)
                    found.append((entry.name, status.st_size, status.st_mtime_ns))
    except (FileNotFoundError, NotADirectoryError):
        return 0, ""
    return len(found), hashlib.sha256(repr(sorted(found)).encode()).hexdigest()[:16] if found else ""


def read_run(folder: Path, name: str) -> Outcome:
    """The outcome of a stream as far as its run goes."""
    store = Store(folder / name)
    return of_infos(name, len(store), [step.info for step in store])


def write_note(folder: Path, outcome: Outcome) -> None:
    """Keep an outcome beside the runs: all but errors can be found again from the run, so it need not be synced."""
    write_json(_note(folder, outcome.stream), {**outcome._asdict(), "seqgp": "fleet"}, durable=False)


def read_note(folder: Path, name: str) -> Outcome | None:
    """The outcome of the last call for a stream; ``None`` where there is none that can be read."""
    try:
        content = json.loads(read_own(_note(folder, name)))
        found = Outcome(**{field: content[field] for field in Outcome._fields if field in content})
        numbers = (found.steps, found.warnings, found.seconds, *found.curve)
        texts = (found.files, found.error or "", found.remark)
        sound = found.stream == name and all(isinstance(value, (int, float)) for value in numbers)
        sound = sound and all(isinstance(text, str) for text in texts)
        return found._replace(curve=tuple(found.curve)) if sound else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def announce(folder: Path, names: Iterable[str]) -> None:
    """Note which streams there are, so that those which wait are known as well; fleets on one store add up."""
    try:
        (folder / NOTES).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder}: the folder cannot be made ({error.strerror}); choose another") from error
    with FileLock(str(folder / NOTES / ".lock")):
        before = read_names(folder)
        every = sorted({*before, *names})
        if every != before:
            write_json(folder / NOTES / NAMES, every)


def read_names(folder: Path) -> list[str]:
    """The names of streams that were announced."""
    try:
        found = json.loads(read_own(folder / NOTES / NAMES))
        return [name for name in found if isinstance(name, str) and Path(name).name == name]
    except (OSError, ValueError, TypeError, RecursionError):
        return []


def _note(folder: Path, name: str) -> Path:
    return folder / NOTES / f"{name}.json"


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
