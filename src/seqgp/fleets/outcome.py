"""What became of a stream: a row of the table, and a small file beside the runs, ``STORE/.fleet/NAME.json``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock

from seqgp.io.errors import StoreError
from seqgp.io.files import read_own, write_json
from seqgp.io.layout import step_files
from seqgp.io.lock import shows_life
from seqgp.io.store import Store
from seqgp.models.errors import SeqgpError
from seqgp.samplers.info import Info
from seqgp.samplers.remarks import add_up

NOTES, NAMES = ".fleet", ".names.json"
POINTS = 60  # of the curve that is kept of a stream's scores
SHOWN = (
    "stream", "steps", "added", "t", "crps", "log_score", "coverage_95", "log_evidence", "warnings", "seconds", "step",
    "error",
)  # fmt: skip


class Outcome(NamedTuple):
    """What became of a stream.

    Attributes:
        stream: its name.
        steps: how many its run has.
        added: … of them in this call.
        t: the last time.
        crps: mean over the steps, of forecasts one step ahead; likewise ``log_score`` and ``coverage_95``, the share of
            data inside their 95 % interval.
        log_evidence: of all data, where the sampler has it.
        warnings: how many steps were remarked upon.
        remark: what was remarked upon most often.
        seconds: of this call; ``sampling`` of them in steps, and ``compiling``.
        worker: where it was run.
        error: what went wrong, in a line; ``step`` is the number of the step that failed.
        passing: whether the error may be over in a moment.
        trace: where an error came from that is not seqgp's own.
        curve: the CRPS over time.
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
        log_evidence=_finite(infos[-1].log_evidence),
        warnings=sum(bool(info.warnings) for info in infos),
        remark=totals[0].among(len(infos)) if totals else "",
        curve=tuple(crps[i] for i in index),
    )


def _scores(infos: Sequence[Info], which: str) -> list[float]:
    found = (_finite(info.scores.get(which)) for info in infos)
    return [value for value in found if value is not None]


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def read_run(folder: Path, name: str) -> Outcome:
    """The outcome of a stream as far as its run goes."""
    store = Store(folder / name)
    return of_infos(name, len(store), [step.info for step in store])


class Status(NamedTuple):
    """A stream of a fleet, as it stands on disk."""

    outcome: Outcome
    state: str  # done, failed, under way, unfinished, waiting

    def badness(self) -> tuple[float, ...]:
        """By which streams are sorted, the worst first: failures, then what is remarked upon, then miscalibration."""
        one = self.outcome
        order = ("failed", "unfinished", "under way", "done", "waiting").index(self.state)
        share = one.warnings / max(one.steps, 1)
        off = 0.0 if one.coverage_95 is None else abs(one.coverage_95 - 0.95)
        return order, -share, -off


def statuses(folder: str | Path) -> list[Status]:
    """All streams of a fleet's store, the worst first."""
    root = Path(folder)
    names = set(_read_names(root)) | {path.stem for path in (root / NOTES).glob("[!.]*.json")}
    names |= {path.parent.name for path in root.glob("*/manifest.json")}
    if not names:
        raise StoreError(f"{root}: there is no fleet here; give the folder that seqgp.fleet(…, store=…) was given")
    return sorted((_status(root, name) for name in names), key=lambda one: (one.badness(), one.outcome.stream))


def _status(root: Path, name: str) -> Status:
    note, steps = read_note(root, name), len(step_files(root / name))
    if shows_life(root / name):
        current = note if note is not None and note.steps == steps else _read_quietly(root, name)
        return Status(current, "under way")
    if note is not None and note.error is not None:
        return Status(note, "failed")
    if note is not None and note.steps == steps:
        return Status(note, "done")
    if not steps:
        return Status(Outcome(name), "waiting")
    found = _read_quietly(root, name)
    return Status(found, "unfinished" if found.error is None else "failed")


def _read_quietly(root: Path, name: str) -> Outcome:
    try:
        return read_run(root, name)
    except SeqgpError as error:
        return Outcome(name, len(step_files(root / name)), error=str(error))


def write_note(folder: Path, outcome: Outcome) -> None:
    """Keep an outcome beside the runs."""
    write_json(_note(folder, outcome.stream), {**outcome._asdict(), "seqgp": "fleet"})


def read_note(folder: Path, name: str) -> Outcome | None:
    """The outcome of the last call for a stream; ``None`` where there is none that can be read."""
    try:
        content = json.loads(read_own(_note(folder, name)))
        found = Outcome(**{field: content[field] for field in Outcome._fields})
        numbers = (found.steps, found.warnings, found.seconds, *found.curve)
        sound = found.stream == name and all(isinstance(value, (int, float)) for value in numbers)
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
        before = _read_names(folder)
        every = sorted({*before, *names})
        if every != before:
            write_json(folder / NOTES / NAMES, every)


def _read_names(folder: Path) -> list[str]:
    try:
        found = json.loads(read_own(folder / NOTES / NAMES))
        return [name for name in found if isinstance(name, str) and Path(name).name == name]
    except (OSError, ValueError, TypeError, RecursionError):
        return []


def _note(folder: Path, name: str) -> Path:
    return folder / NOTES / f"{name}.json"


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
