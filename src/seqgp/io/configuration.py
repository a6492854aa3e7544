"""The configuration of a run (TOML): validated, with the line of a mistake."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from seqgp.base.errors import SeqgpError, did_you_mean, one_line
from seqgp.base.snapshot import Snapshot
from seqgp.base.transforms import transform_from, transform_of
from seqgp.base.validation import MAX_COUNT
from seqgp.evaluate.choose import Choice, best_sampler
from seqgp.fields.dense import Dense
from seqgp.fields.grid import Grid
from seqgp.fields.knots import Knots
from seqgp.io.dates import parse_origin
from seqgp.io.errors import TableError
from seqgp.io.frames import read_bytes
from seqgp.io.spec_entries import Real, Whole
from seqgp.io.specification import ModelSpec, Strict
from seqgp.io.tables import Columns
from seqgp.model import Model
from seqgp.samplers.base import Sampler
from seqgp.samplers.online.sampler import OnlineSampler
from seqgp.samplers.sequential.sampler import SequentialSampler

Section = TypeVar("Section", bound=Strict)


class ConfigurationError(TableError):
    """A configuration that cannot be used; names file, line and key."""


def as_path(text: str) -> str:
    """The name of a file or folder that can be one."""
    if not text or "\0" in text or len(text) > 4000:
        raise ValueError("not a path")
    return text


class DataSection(Strict):
    """Where the table is, and which column is what."""

    file: str = Field(description="the table, CSV or Parquet; the path is relative to the configuration")
    time: str = Field(description="the column of times: numbers or ISO dates, with or without offsets")
    inputs: tuple[str, ...] = Field(min_length=1, description="the columns of the inputs")
    value: str = Field(description="the column of the data; empty cells are missing values")
    location: str | None = Field(None, description="the column of location names, for the report and exports")
    locations: Literal["fixed", "moving"] = Field(
        "fixed", description="fixed: refuse a named location whose inputs change; moving: allow it"
    )
    covariates: dict[str, str] = Field(
        default_factory=dict,
        description='what the mean and the likelihood need, by column: `{ exposure = "population" }`',
    )
    unit: Literal["seconds", "minutes", "hours", "days", "weeks"] = Field(
        "days", description="the unit of time, if times are dates"
    )
    origin: str | None = Field(None, description="the date of time zero, if times are dates; the first date by default")
    transform: str | dict[str, Any] | None = Field(
        None,
        description='transform the data for the model; results are in their own units: `"log"`, `"sqrt"`, '
        "`{ log_offset = 1 }` or `{ boxcox = 0.5 }`",
    )

    @field_validator("file")
    @classmethod
    def _path(cls, text: str) -> str:
        return as_path(text)

    @field_validator("origin")
    @classmethod
    def _date(cls, text: str | None) -> str | None:
        if text is not None:
            parse_origin(text)
        return text

    @field_validator("transform", mode="before")
    @classmethod
    def _known_transform(cls, words: object) -> Any:
        if words is not None:
            transform_from(words)
        return words

    @field_validator("inputs")
    @classmethod
    def _distinct(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) != len(names):
            raise ValueError("the same column twice")
        return names

    @model_validator(mode="after")
    def _data_apart(self) -> DataSection:
        uses = {"time": [self.time], "inputs": self.inputs, "covariates": self.covariates.values()}
        for key, names in uses.items():
            if self.value in names:
                raise ValueError(f"column {self.value!r} is value and {key}; data cannot be explained by themselves")
        if self.locations == "moving" and self.location is None:
            raise ValueError("data.locations has no effect without data.location, the column with their names")
        return self

    def columns(self) -> Columns:
        """The columns of the table."""
        return Columns(
            self.time, self.inputs, self.value, self.location, self.covariates, self.unit, self.origin,
            transform=transform_of({"transform": self.transform}),
        )  # fmt: skip


METRICS = ".prom"  # how the names of files end that Prometheus' collectors read
ONLINE = ("particles", "history", "forget", "paths", "robust", "false_alarms")
SEQUENTIAL = ("tau", "chains", "warmup", "thin", "updates")


class SamplerSection(Strict):
    """The sampler's settings; what is left out takes the library's default."""

    method: Literal["auto", "online", "sequential"] = Field(
        "auto", description="auto: online if the model allows it and no key requires the sequential sampler"
    )
    draws: Whole | None = Field(
        None, ge=4, le=MAX_COUNT, description="the number of draws at each time; 1000 by default"
    )
    particles: Whole | None = Field(
        None, ge=16, le=MAX_COUNT, description="the number of particles of the online sampler; 256 by default"
    )
    history: Whole | None = Field(
        None, ge=10, le=MAX_COUNT, description="snapshots that the online sampler keeps; all by default"
    )
    forget: Real | None = Field(
        None, gt=0, le=1, description="discount of past evidence about the parameters; 1 is none"
    )
    paths: Annotated[Whole, Field(ge=0, le=10_000)] | Literal["auto"] | None = Field(
        None,
        description="paths that correct EP where data are not Gaussian, or 0 for none; auto by default",
    )
    robust: Literal["flag", "exclude", "downweight"] | None = Field(
        None,
        description="what is done with values of stations that the monitor flags: kept (the default), missing, or "
        "with more noise",
    )
    false_alarms: Real | None = Field(
        None, gt=0, le=100, description="of the monitor in 1000 readings of a station, at most; 0.1 by default"
    )
    tau: Whole | None = Field(None, ge=1, le=1000, description="the number of past times that a step conditions on")
    chains: Whole | None = Field(
        None, ge=1, le=MAX_COUNT, description="the number of chains; the sampler chooses by default"
    )
    warmup: Whole | None = Field(
        None, ge=0, le=MAX_COUNT, description="sweeps before the first draw; the sampler chooses by default"
    )
    thin: Whole | None = Field(None, ge=1, le=MAX_COUNT, description="sweeps per draw; the sampler chooses by default")
    latent: Literal["auto", "dense", "grid", "knots"] = "auto"
    nodes: tuple[Annotated[Whole, Field(ge=2, le=10_000)], ...] | None = None
    updates: Literal["auto", "plain", "informed"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_carry(cls, words: object) -> Any:
        """``carry = "paper"``, a choice of version 0.2, means the sequential sampler."""
        if not isinstance(words, dict) or "carry" not in words:
            return words
        if words["carry"] not in (None, "paper"):
            raise ValueError(
                f"carry = {words['carry']!r} is gone: leave it out, and the online sampler is used where the model "
                'allows it; the sequential sampler has the paper\'s carry ("paper")'
            )
        method = {"method": "sequential"} if words["carry"] else {}
        return method | {name: value for name, value in words.items() if name != "carry" and value != "auto"}

    @model_validator(mode="after")
    def _without_effect(self) -> SamplerSection:
        online, sequential = self._given(ONLINE), self._given(SEQUENTIAL)
        for method, others in (("sequential", online), ("online", sequential)):
            if self.method == method and others:
                raise ValueError(f"sampler.{next(iter(others))} has no effect with method = {method!r}; leave it out")
        if online and sequential:
            a, b = next(iter(online)), next(iter(sequential))
            raise ValueError(f"sampler.{a} is of the online sampler, sampler.{b} of the sequential one; choose one")
        return self

    def _given(self, names: tuple[str, ...]) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def choose(self, model: Model, snapshot: Snapshot | None = None) -> Choice:
        """The sampler and why it is taken; ``auto`` looks at the first snapshot, as ``seqgp.run`` does."""
        latent: Any = {"auto": "auto", "dense": Dense(), "grid": Grid()}.get(self.latent)
        if self.latent == "knots":
            latent = Knots(nodes=self.nodes)
        both = self._given(("draws",))
        online, sequential = self._given(ONLINE), self._given(SEQUENTIAL)
        if self.method == "sequential" or sequential:
            sampler = SequentialSampler(model, latent=latent, **both, **sequential)
            return Choice(sampler, "the sequential sampler, as configured")
        if self.method == "online" or online:
            return Choice(OnlineSampler(model, latent=latent, **both, **online), "the online sampler, as configured")
        return best_sampler(model, snapshot, latent=latent, **both)


class RunSection(Strict):
    """Where the run is kept."""

    folder: str = Field(description="the folder of the run, relative to the configuration")
    title: str | None = Field(None, description="the title of the report")
    seed: Whole = Field(0, ge=0, lt=2**63, description="the seed of the random numbers")
    keep: Whole | None = Field(None, ge=1, description="complete steps to keep on disk; older ones shrink to summaries")
    metrics: str | None = Field(
        None, description="a file for Prometheus, `wind.prom`, rewritten after each step; relative to the configuration"
    )

    @field_validator("metrics")
    @classmethod
    def _ending(cls, text: str | None) -> str | None:
        if text is not None and not as_path(text).endswith(METRICS):
            raise ValueError(f"the name of a file for Prometheus ends in {METRICS}")
        return text

    @field_validator("folder")
    @classmethod
    def _path(cls, text: str) -> str:
        return as_path(text)


class Configuration(Strict):
    """All of a run."""

    data: DataSection
    model: ModelSpec
    sampler: SamplerSection = Field(default_factory=lambda: SamplerSection.model_validate({}))
    run: RunSection

    @model_validator(mode="after")
    def _without_effect(self) -> Configuration:
        of_mean, family, likelihood = (
            self.model.covariates(),
            self.model.likelihood.family,
            self.model.likelihood.build(),
        )
        used = tuple(dict.fromkeys(likelihood.covariates() + likelihood.optional_covariates() + of_mean))
        for name in likelihood.covariates() + of_mean:
            if name not in self.data.covariates:
                who = "the mean" if name in of_mean else f"a {family} likelihood"
                raise ValueError(f'data.covariates.{name} is missing, and {who} needs it: {{ {name} = "its column" }}')
        for name in self.data.covariates:
            if name not in used:
                known = f"it uses {', '.join(used)}" if used else f"a {family} likelihood uses none"
                raise ValueError(f"data.covariates.{name} has no effect: {known}; leave it out")
        if self.data.transform is not None and (
            family != "Gaussian" or likelihood.arguments().get("errors") is not None
        ):
            what = f"the {family} likelihood" if family != "Gaussian" else "likelihood.errors"
            why = "is for the data as they are" if family != "Gaussian" else "are in the units of the data"
            raise ValueError(
                f"data.transform is for a Gaussian likelihood alone, and {what} {why}; leave one of them out"
            )
        if self.sampler.nodes is not None and self.sampler.latent != "knots":
            raise ValueError(f"sampler.nodes has no effect with latent = {self.sampler.latent!r}; knots have nodes")
        return self

    def choose(self, snapshot: Snapshot | None = None) -> Choice:
        """The sampler of this configuration for data that begin with a snapshot, and why it is taken."""
        return self.sampler.choose(self.model.build(), snapshot)

    def build(self, snapshot: Snapshot | None = None) -> Sampler:
        """The sampler of this configuration."""
        return self.choose(snapshot).sampler


def read_configuration(path: Path) -> Configuration:
    """A configuration from a TOML file; a mistake is named with its line."""
    text, content = read_toml(path)
    return validated(path, text, content)


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file, and what it says."""
    if path.is_dir():
        raise ConfigurationError(f"{path}: a folder, not a configuration; give a .toml file")
    if not path.exists() and not path.is_symlink():
        raise ConfigurationError(f"{path}: no such file; `seqgp new {path.name}` writes one")
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: cannot be read as text ({one_line(error)})") from error
    except TableError as error:
        raise ConfigurationError(str(error)) from error
    try:
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of TOML, or a number of thousands of digits
        raise ConfigurationError(f"{path}: not valid TOML: {_short(one_line(error))}") from error


def validated(path: Path, text: str, content: dict[str, Any], what: type[Section] = Configuration) -> Section:
    """What a TOML file says as a configuration; a mistake is named with its line."""
    try:
        found = what.model_validate(content)
        if isinstance(found, Configuration):
            found.model.build()
    except ValidationError as error:
        raise ConfigurationError(_describe(path, text, error, what)) from error
    except SeqgpError as error:
        raise ConfigurationError(f"{path}: [model]: {_short(str(error), 400)}") from error
    return found


def _describe(path: Path, text: str, error: ValidationError, what: type[BaseModel]) -> str:
    """The first mistake, in one line."""
    first = error.errors(include_url=False)[0]
    keys = [key for key in first["loc"] if not re.match(r"\$|[a-z-]+\[.*\]$", str(key))]  # without the tags of unions
    names = [str(key) for key in keys]
    line = _line_of(text, [key for key in keys if isinstance(key, str)])
    message = first["msg"].removeprefix("Value error, ").replace("Field required", "is missing")
    if first["type"] == "extra_forbidden":
        message = f"no such key{did_you_mean(names[-1], _keys(what)) if names else ''}"
    given = first.get("input")
    shown = f" (given: {given!r})" if isinstance(given, (str, int, float, bool)) and "missing" not in message else ""
    where = f"{path}, line {line}" if line else str(path)
    more = f"; and {error.error_count() - 1} more" if error.error_count() > 1 else ""
    key = f"{_short('.'.join(names))}: " if names else ""
    return f"{where}: {key}{_short(message, 300)}{_short(shown)}{more}"


def _keys(what: type[BaseModel]) -> set[str]:
    """The keys of all tables of a file."""
    schema = what.model_json_schema()
    return {key for table in (schema, *schema.get("$defs", {}).values()) for key in table.get("properties", {})}


def _short(text: str, most: int = 80) -> str:
    """A text with its middle left out, where it is long: what was given may be a whole file."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


def _line_of(text: str, keys: list[Any]) -> int | None:
    """The line where a key stands, or that of the table that it belongs in; ``None`` where neither is there."""
    section: list[str] = []
    best, depth = None, 0
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.split("#")[0].strip()
        header = re.fullmatch(r"\[\[?\s*([^\]]+?)\s*\]?\]", stripped)
        if header:
            section = [part.strip().strip("\"'") for part in header.group(1).split(".")]
            found = section
        elif "=" in stripped:
            left = stripped.split("=")[0].strip()
            found = section + [part.strip().strip("\"'") for part in left.split(".")]
        else:
            continue
        common = _common(found, keys)
        if common == len(found) and common > depth:
            best, depth = number, common
    return best


def _common(found: list[str], keys: list[Any]) -> int:
    count = 0
    for a, b in zip(found, keys):
        if a != b:
            break
        count += 1
    return count
