"""One configuration as a template over many streams: rows of a table, or the files of a folder.

``{column}`` in any text of the configuration stands for the row's value; alone in a text, a number stays a number.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from seqgp.base.errors import DataError
from seqgp.fleets.stream import Stream, check_streams
from seqgp.io.configuration import Configuration, ConfigurationError, as_path, read_toml, validated
from seqgp.io.configured import configured_snapshots, resolved
from seqgp.io.frames import READERS, read_table
from seqgp.io.spec_entries import Real, Whole
from seqgp.io.specification import Strict
from seqgp.io.tables import Labelled
from seqgp.samplers.base import Sampler

_PLACE = re.compile(r"\{([^{}]*)\}")


class FleetSection(Strict):
    """For `seqgp fleet`, in place of `[run]`: which streams there are, and where their runs are kept."""

    folder: str = Field(description="the folder of the runs, one subfolder per stream; relative to the configuration")
    streams: str | None = Field(
        None, description="a table with one row per stream: `stream` is its name, other columns fill `{column}`"
    )
    files: str | None = Field(
        None,
        description="instead of `streams`: files, `quotes/*.csv`, one each; `{stream}` is the name, `{file}` the file",
    )
    seed: Whole = Field(
        0, ge=0, lt=2**63, description="the seed of the random numbers, together with the name of a stream"
    )
    keep: Whole | None = Field(None, ge=1, description="complete steps to keep on disk; older ones shrink to summaries")
    timeout: Real | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="seconds that a stream may take without a new step; no limit by default",
    )
    title: str | None = Field(None, description="the title of each report; `{stream}` by default")

    @field_validator("folder")
    @classmethod
    def _path(cls, text: str) -> str:
        return as_path(text)

    @model_validator(mode="after")
    def _one_of_both(self) -> FleetSection:
        if (self.streams is None) == (self.files is None):
            raise ValueError("either streams (a table) or files (a pattern) says which streams there are")
        return self


class _Sections(Strict):
    """A configuration of a fleet before its template is filled."""

    fleet: FleetSection
    data: dict[str, Any]
    model: dict[str, Any]
    sampler: dict[str, Any] = Field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class TableStream(Stream):
    """A stream that is configured: its table is read where it is run."""

    configuration: Configuration
    config: Path  # the file that it is from

    def opened(self) -> tuple[list[Labelled], dict[str, Any]]:
        """The snapshots of the table, and the configuration with dates counted from the first."""
        configuration = resolved(self.config, self.configuration, None)
        return configured_snapshots(configuration, self.sampler), configuration.model_dump(mode="json")


def read_fleet(config: Path) -> tuple[FleetSection, Path, list[Stream]]:
    """The fleet of a configuration: its settings, the folder of its runs, and its streams."""
    text, content = read_toml(config)
    if "run" in content:
        raise ConfigurationError(
            f"{config}: [run] is of a single run; [fleet] has folder, seed and keep of all of them"
        )
    sections = validated(config, text, content, _Sections)
    section = sections.fleet
    here = config.parent.resolve()
    template = {name: content[name] for name in ("data", "model", "sampler") if name in content}
    if section.files is not None:
        template["data"] = {"file": "{file}", **template["data"]}
    folder, samplers = here / section.folder, _Samplers()
    streams: list[Stream] = []
    for row in _rows(config, section, here):
        value = functools.partial(_value, config, row)
        filled, name = _filled(template, value), str(row["stream"])
        run = {"folder": str(folder / name), "seed": section.seed, "keep": section.keep}
        run["title"] = name if section.title is None else str(_filled(section.title, value))
        try:
            configuration = validated(config, text, {**filled, "run": run})
            streams.append(TableStream(name, samplers(configuration), (), configuration, here / config.name))
        except (ConfigurationError, DataError) as error:
            raise ConfigurationError(f"{error} (stream {name!r})") from error
    try:
        return section, folder, check_streams(streams)
    except DataError as error:
        raise ConfigurationError(f"{config}: {error}") from error


def _rows(config: Path, section: FleetSection, here: Path) -> list[dict[str, Any]]:
    """What is known of each stream: at least its name."""
    if section.streams is not None:
        table = here / section.streams
        frame = read_table(table, lambda name: name == "stream")  # 007 is a name, not 7
        if "stream" not in frame.columns:
            known = ", ".join(map(str, frame.columns))
            raise ConfigurationError(f"{table}: there is no column 'stream' with the names of streams; it has: {known}")
        return [{str(name): _plain(value) for name, value in row.items()} for row in frame.to_dict("records")]
    pattern = Path(section.files or "")
    root = Path(pattern.anchor) if pattern.is_absolute() else here
    try:
        found = sorted(root.glob(str(pattern.relative_to(root)) if pattern.is_absolute() else str(pattern)))
    except (ValueError, NotImplementedError) as error:
        raise ConfigurationError(
            f"{config}: fleet.files: {section.files!r} is no pattern of files ({error})"
        ) from error
    files = [path for path in found if path.suffix.lower() in READERS]
    if not files:
        kinds = ", ".join(READERS)
        raise ConfigurationError(f"{config}: fleet.files: no file ({kinds}) matches {section.files!r} in {here}")
    return [{"stream": path.stem, "file": str(path)} for path in files]


def _filled(part: object, value: Callable[[str], object]) -> Any:
    """A part of the template with the values of a row."""
    if isinstance(part, dict):
        return {name: _filled(inner, value) for name, inner in part.items()}
    if isinstance(part, list):
        return [_filled(inner, value) for inner in part]
    if not isinstance(part, str):
        return part
    whole = _PLACE.fullmatch(part)
    return value(whole.group(1)) if whole else _PLACE.sub(lambda found: str(value(found.group(1))), part)


def _value(config: Path, row: dict[str, Any], name: str) -> Any:
    if name not in row:
        raise ConfigurationError(f"{config}: {{{name}}}: streams have no such column; they have: {', '.join(row)}")
    found = row[name]
    if found is None or (isinstance(found, float) and math.isnan(found)):
        raise ConfigurationError(f"{config}: {{{name}}}: the cell of stream {row['stream']!r} is empty")
    return found


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


class _Samplers:
    """Samplers by their settings: streams that are configured alike share one, and what is compiled for it."""

    def __init__(self) -> None:
        self._made: dict[str, Sampler] = {}

    def __call__(self, configuration: Configuration) -> Sampler:
        said = json.dumps([configuration.model.model_dump(), configuration.sampler.model_dump()], default=str)
        if said not in self._made:
            self._made[said] = configuration.build()
        return self._made[said]
