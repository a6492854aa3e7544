"""The runs of a folder, as a server shows them: found by looking, known by name, read again when they grow."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqgp.base.errors import DataError, SeqgpError, one_line
from seqgp.base.flags import HEADLINES
from seqgp.base.remarks import parse
from seqgp.base.transforms import transform_of
from seqgp.evaluate.past import predict_past
from seqgp.evaluate.predict import predict
from seqgp.evaluate.transformed import in_units
from seqgp.fields.sites import pad_rows, round_size
from seqgp.io.dates import time_from
from seqgp.io.layout import MANIFEST, step_files
from seqgp.io.naming import naming_of
from seqgp.io.store import Store
from seqgp.io.summary import STATISTICS, flat_parameters
from seqgp.io.timestamps import moment_text
from seqgp.io.title import title_of
from seqgp.report.make import page_of
from seqgp.samplers.keys import stream

DEPTH = 3  # folders below the one that is served
PAGES, STATES = 8, 4  # that are kept in memory
POINTS = 1000  # of one prediction, at most
QUANTILES = {"q2.5": 0.025, "q50": 0.5, "q97.5": 0.975}


class Entry(NamedTuple):
    """A run that was found; ``version`` changes when it grows."""

    name: str
    store: Store
    version: str


class RunCatalogue:
    """The runs in a folder and below it. Whatever is asked by name is looked up among them, and nowhere else.

    Args:
        folder: the folder, or that of a single run.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._summaries, self._pages, self._states = _Latest(1000), _Latest(PAGES), _Latest(STATES)

    def entries(self) -> dict[str, Entry]:
        """The runs by name, as they are now."""
        return {name: Entry(name, Store(path), _version(path)) for name, path in sorted(_runs(self.folder))}

    def summary(self, entry: Entry) -> dict[str, Any]:
        """What is to be said of a run in a line; of one that cannot be read, why."""
        return self._summaries.get(entry, lambda: _summary(entry))

    def page(self, entry: Entry) -> str:
        """The report of a run."""
        return self._pages.get(entry, lambda: page_of(entry.store))

    def predict(self, entry: Entry, points: np.ndarray, context: dict[str, np.ndarray], time: str | None) -> Any:
        """Latent function and new data at some points: mean, sd and quantiles.

        Args:
            entry: the run.
            points: the inputs, ``(n, D)``.
            context: covariates there, by name.
            time: a number or a date, the last one of the run by default; a past one is smoothed: given all data.
        """
        model = entry.store.model
        if model is None:
            raise DataError("the model has code of its own, which a run does not store")
        state = self._states.get(entry, lambda: entry.store.latest().state.ready(model))
        section = entry.store.manifest.section("data")
        data, transform = naming_of(section, state.dimension), transform_of(section)
        try:
            t = None if time is None else time_from(time, data.origin, data.unit)
        except ValueError as error:
            raise DataError(f"time = {time}: {error}") from error
        known = section.get("covariates") or {}
        for name in context:
            if name not in known:
                raise DataError(f"{name}: no covariate of this run; it has {', '.join(known) or 'none'}")
        for name in model.mean_function.from_context:
            if name in known and name not in context:
                raise DataError(f"covariate {name!r} is missing; give one value for each point: {name}=…")
        n, size = len(points), round_size(len(points)) if model.likelihood.pointwise else len(points)
        padded = {name: pad_rows(values, n, size) for name, values in context.items()} or None
        key, x = stream(0, "predict"), pad_rows(points, n, size)
        found = (
            predict_past(key, model, state, x, t, padded, transform)
            if t is not None and t < state.t
            else in_units(predict(key, model, state, x, t, padded), transform)
        )
        return {
            "run": entry.name,
            "t": found.t,
            "time": moment_text(found.t, section),
            "x": points,
            "f": _statistics(found.f, n),
            "y": _statistics(found.y, n),
        }


class _Latest:
    """Results by run, for as long as the run has not grown; computed once, however many ask at the same time."""

    def __init__(self, most: int):
        self._most, self._kept = most, OrderedDict[str, tuple[str, Any]]()
        self._lock, self._locks = threading.Lock(), dict[str, threading.Lock]()

    def get(self, entry: Entry, make: Callable[[], object]) -> Any:
        with self._lock:
            lock = self._locks.setdefault(entry.name, threading.Lock())
        with lock:
            version, value = self._kept.get(entry.name, (None, None))
            if version != entry.version:
                value = make()
            with self._lock:
                self._kept[entry.name] = entry.version, value
                self._kept.move_to_end(entry.name)
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
            return value


def _runs(folder: Path, depth: int = 0, name: str = "") -> Iterator[tuple[str, Path]]:
    """Runs by name: the path below the folder. Links are not followed, and a run has no runs inside."""
    if (folder / MANIFEST).is_file():
        yield name or folder.resolve().name, folder
        return
    if depth == DEPTH:
        return
    try:
        inside = [Path(one.path) for one in os.scandir(folder) if one.is_dir(follow_symlinks=False)]
    except OSError:  # gone meanwhile, or not ours to read
        return
    for path in inside:
        if path.name.isprintable() and not path.name.startswith("."):  # others have no address
            yield from _runs(path, depth + 1, f"{name}/{path.name}" if name else path.name)


def _version(path: Path) -> str:
    """What tells a run from the same run after more steps."""
    try:
        files = step_files(path)
        last = [os.stat(one) for one in (path / MANIFEST, *files[-1:])]
    except (OSError, SeqgpError):
        return "unreadable"
    return f"{len(files)}-" + "-".join(f"{one.st_mtime_ns:x}" for one in last)


def _summary(entry: Entry) -> dict[str, Any]:
    store = entry.store
    said: dict[str, Any] = {"run": entry.name, "version": entry.version, "title": entry.name, "error": None}
    try:
        last = store.latest()
        info, data = last.info, store.manifest.section("data")
        scores = {name: value for name, value in info.scores.items() if np.ndim(value) == 0}
        parameters, transform = flat_parameters(last.summary.parameters), transform_of(data)
        flags = getattr(getattr(info, "stations", None), "flags", ())
        flagged = [flag.sentence(lambda t: moment_text(t, data).split(" (t = ")[0], transform) for flag in flags]
        return said | {
            "title": title_of(store) or entry.name,
            "steps": last.number,
            "t": last.t,
            "time": moment_text(last.t, data),
            "updated": os.stat(last.path).st_mtime,
            "seconds": info.seconds,
            "ess": info.min_ess,
            "log_evidence": getattr(info, "log_evidence", None),
            "scores": scores,
            "flags": [
                flag._asdict() | flag.in_units(transform)._asdict() | {"text": text}
                for flag, text in zip(flags, flagged)
            ],
            "warnings": [*flagged, *(text for text in info.warnings if parse(text).kind not in HEADLINES.values())],
            "parameters": {name: dict(zip(STATISTICS, values.tolist())) for name, values in parameters.items()},
        }
    except (SeqgpError, OSError) as error:
        return said | {"error": one_line(error, 300).replace(str(store.path), entry.name)}


def _statistics(draws: object, n: int) -> dict[str, np.ndarray]:
    values = np.asarray(draws)[:, :n]
    found = {"mean": values.mean(axis=0), "sd": values.std(axis=0)}
    return found | dict(zip(QUANTILES, np.quantile(values, list(QUANTILES.values()), axis=0)))
