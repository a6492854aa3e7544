"""What a run looks like from outside, for monitoring: a text file in the exposition format of Prometheus."""

from __future__ import annotations

import datetime
import math
import os
import time
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from seqgp.base.errors import SeqgpError
from seqgp.base.flags import HEADLINES
from seqgp.base.info import Info
from seqgp.io.configuration import METRICS, Configuration, ConfigurationError
from seqgp.io.files import write_atomically
from seqgp.io.timestamps import date_of
from seqgp.samplers.base import State


class Metric(NamedTuple):
    """A gauge with its samples: values by labels (beside ``run``)."""

    name: str
    help: str
    samples: Mapping[tuple[tuple[str, str], ...], float]


class MetricsFile(NamedTuple):
    """Writes the metrics of a run after each step; an instance is a callback of ``run``.

    Attributes:
        path: the file; readers find it whole, with the old or the new content.
        run: the name of the run, a label of every sample.
        data: the section ``[data]`` of the run's configuration, which says what times are counted from.
    """

    path: Path
    run: str
    data: Mapping[str, Any]

    @classmethod
    def of(cls, configuration: Configuration) -> MetricsFile | None:
        """The file that a configuration asks for, if it does.

        Raises:
            ConfigurationError: where no file can be written there.
        """
        if configuration.run.metrics is None:
            return None
        path = Path(configuration.run.metrics)
        check_metrics_path(path)
        return cls(path, Path(configuration.run.folder).name, configuration.data.model_dump())

    def __call__(self, state: State | None, info: Info) -> None:
        """Write the file. A step is worth more than its metrics: where that fails, a warning says so."""
        text = exposition(metrics_of(info, self.data, time.time()), self.run)
        try:
            write_atomically(self.path, lambda file: file.write(text.encode()), durable=False)
        except (OSError, SeqgpError) as error:
            warnings.warn(f"run.metrics: {error}; the run goes on without", stacklevel=2)


def check_metrics_path(path: Path) -> None:
    """Raise unless a file can be written at this path."""
    if path.is_dir():
        raise ConfigurationError(f"run.metrics: {path}: is a folder; give a file whose name ends in {METRICS}")
    if not path.parent.is_dir():
        raise ConfigurationError(f"run.metrics: {path}: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigurationError(f"run.metrics: {path}: the folder {path.parent} may not be written to")


def metrics_of(info: Info, data: Mapping[str, object], now: float) -> list[Metric]:
    """The metrics of a run after a step; what the step does not have is left out.

    Args:
        info: of the last step.
        data: the section ``[data]`` of the run's configuration.
        now: the Unix time at which the step was complete.
    """
    found = [
        _gauge("last_success_timestamp_seconds", "Unix time of the last update that succeeded.", now),
        _gauge("steps", "Steps of the run.", info.step),
        _gauge("time", "Time of the last step, in the run's unit of time.", info.t),
        _gauge("data_timestamp_seconds", "Date of the last step as Unix time.", _timestamp(info.t, data)),
        _gauge("step_seconds", "Seconds that the last step took.", info.seconds),
        _gauge("step_compile_seconds", "Seconds of the last step that compilation took.", info.compile_seconds),
        _gauge("ess", "Effective number of particles, or the smallest effective sample size.", info.min_ess),
        _gauge("log_evidence", "Log evidence of all data.", getattr(info, "log_evidence", None)),
        _gauge("log_score", "Log score of the forecast of the last step, all data jointly.", _score(info, "log_score")),
        _gauge("crps", "Mean CRPS of the forecast of the last step.", _score(info, "crps")),
        Metric(
            "coverage",
            "Share of the data of the last step inside their central forecast interval.",
            {
                (("level", level),): value
                for level, name in (("0.5", "coverage_50"), ("0.95", "coverage_95"))
                if (value := _score(info, name)) is not None
            },
        ),
        Metric(
            "flagged_stations",
            "Stations that the monitor flags after the last step, by kind of fault.",
            {(("kind", kind),): float(count) for kind, count in flag_counts(info).items()},
        ),
        _gauge("missing_values", "Missing values of the last step.", info.missing),
        _gauge("warnings", "Warnings of the last step.", len(info.warnings)),
    ]
    return [metric for metric in found if metric.samples]


def exposition(metrics: Iterable[Metric], run: str) -> str:
    """Metrics in the text format of Prometheus, version 0.0.4."""
    lines = []
    for metric in metrics:
        name = f"seqgp_{metric.name}"
        lines += [f"# HELP {name} {metric.help}", f"# TYPE {name} gauge"]
        for labels, value in metric.samples.items():
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in (("run", run), *labels))
            lines.append(f"{name}{{{shown}}} {_number(value)}")
    return "\n".join(lines) + "\n"


def flag_counts(info: Info) -> dict[str, int]:
    """How many stations are flagged after a step, by kind of fault; empty where no monitor looks at them."""
    stations = getattr(info, "stations", None)
    if stations is None:
        return {}
    kinds = [flag.kind for flag in stations.flags]
    return {kind: kinds.count(kind) for kind in HEADLINES}


def _gauge(name: str, text: str, value: float | None) -> Metric:
    return Metric(name, text, {} if value is None else {(): float(value)})


def _score(info: Info, name: str) -> float | None:
    return info.scores.get(name)


def _timestamp(t: float, data: Mapping[str, Any]) -> float | None:
    """The Unix time of a time of the run, where it is a date; one without an offset is in UTC."""
    if not isinstance(data.get("origin"), str):
        return None
    try:
        date = datetime.datetime.fromisoformat(date_of(t, data["origin"], data.get("unit") or "days"))
    except (OverflowError, ValueError, TypeError):  # no calendar has it
        return None
    return (date if date.tzinfo else date.replace(tzinfo=datetime.UTC)).timestamp()


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"


def _escaped(text: str) -> str:
    printable = text.encode("utf-8", "backslashreplace").decode()
    return printable.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
