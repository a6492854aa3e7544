"""The configuration of a run (TOML): validated, with the line of a mistake."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator

from seqgp.evaluate.choose import best_sampler
from seqgp.io.dates import parse_origin
from seqgp.io.errors import TableError
from seqgp.io.frames import read_bytes
from seqgp.io.spec_entries import Real, Whole
from seqgp.io.specification import ModelSpec, Strict
from seqgp.io.tables import Columns
from seqgp.latents.dense import Dense
from seqgp.latents.grid import Grid
from seqgp.latents.knots import Knots
from seqgp.models.errors import SeqgpError, one_line
from seqgp.online.sampler import OnlineSampler
from seqgp.samplers.checks import MOST
from seqgp.samplers.protocol import Sampler
from seqgp.sequential.sampler import SequentialSampler

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

    file: str = Field(description="the table, CSV or Parquet; relative to the configuration")
    time: str = Field(description="the column of times: numbers, or dates (ISO, with offsets or without)")
    inputs: tuple[str, ...] = Field(min_length=1, description="the columns of the inputs")
    value: str = Field(description="the column of the data; empty cells are missing values")
    location: str | None = Field(None, description="the column with names of the locations, for report and exports")
    covariates: dict[str, str] = Field(
        default_factory=dict,
        description='what mean and likelihood need, by column: `{ exposure = "population" }`',
    )
    unit: Literal["seconds", "minutes", "hours", "days", "weeks"] = Field(
        "days", description="where times are dates, the unit that they are counted in"
    )
    origin: str | None = Field(None, description="where times are dates, the date of time zero; by default the first")

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
        return self

    def columns(self) -> Columns:
        """The columns of the table."""
        return Columns(self.time, self.inputs, self.value, self.location, self.covariates, self.unit, self.origin)


ONLINE = ("particles", "history", "forget")
SEQUENTIAL = ("tau", "chains", "warmup", "thin", "updates", "carry")


class SamplerSection(Strict):
    """The sampler's settings; what is left out takes the library's default."""

    method: Literal["auto", "online", "sequential"] = Field(
        "auto", description="auto: online where the model allows it and nothing asks for the other"
    )
    draws: Whole | None = Field(None, ge=4, le=MOST, description="at each time; 1000 by default")
    particles: Whole | None = Field(None, ge=16, le=MOST, description="of the online sampler; 256 by default")
    history: Whole | None = Field(None, ge=10, le=MOST, description="snapshots that the online sampler keeps; all")
    forget: Real | None = Field(None, gt=0, le=1, description="discount of the past of the parameters; 1 for none")
    tau: Whole | None = Field(None, ge=1, le=1000, description="past times that the present is conditioned on")
    chains: Whole | None = Field(None, ge=1, le=MOST, description="how many; chosen by the sampler")
    warmup: Whole | None = Field(None, ge=0, le=MOST, description="sweeps before the first draw; chosen by the sampler")
    thin: Whole | None = Field(None, ge=1, le=MOST, description="sweeps a draw; chosen by the sampler")
    latent: Literal["auto", "dense", "grid", "knots"] = "auto"
    nodes: tuple[Annotated[Whole, Field(ge=2, le=10_000)], ...] | None = None
    updates: Literal["auto", "plain", "informed"] | None = None
    carry: Literal["paper", "level", "joint"] | None = None

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

    def build(self, model: Any) -> Sampler:
        """The sampler."""
        latent: Any = {"auto": "auto", "dense": Dense(), "grid": Grid()}.get(self.latent)
        if self.latent == "knots":
            latent = Knots(nodes=self.nodes)
        both = self._given(("draws",))
        online, sequential = self._given(ONLINE), self._given(SEQUENTIAL)
        if self.method == "sequential" or sequential:
            return SequentialSampler(model, latent=latent, **both, **sequential)
        if self.method == "online" or online:
            return OnlineSampler(model, latent=latent, **both, **online)
        return best_sampler(model, latent=latent, **both).sampler


class RunSection(Strict):
    """Where the run is kept."""

    folder: str = Field(description="where the run is kept; relative to the configuration")
    title: str | None = Field(None, description="of the report")
    seed: Whole = Field(0, ge=0, lt=2**63, description="of the random numbers")
    keep: Whole | None = Field(None, ge=1, description="whole steps on disk; of older ones only summaries")

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
        of_mean, family = self.model.covariates(), self.model.likelihood.family
        used = tuple(dict.fromkeys(self.model.likelihood.used_covariates() + of_mean))
        for name in self.model.likelihood.needed_covariates() + of_mean:
            if name not in self.data.covariates:
                who = "the mean" if name in of_mean else f"a {family} likelihood"
                raise ValueError(f'data.covariates.{name} is missing, and {who} needs it: {{ {name} = "its column" }}')
        for name in self.data.covariates:
            if name not in used:
                known = f"it uses {', '.join(used)}" if used else f"a {family} likelihood uses none"
                raise ValueError(f"data.covariates.{name} has no effect: {known}; leave it out")
        if self.sampler.nodes is not None and self.sampler.latent != "knots":
            raise ValueError(f"sampler.nodes has no effect with latent = {self.sampler.latent!r}; knots have nodes")
        return self

    def build(self) -> Sampler:
        """The sampler of this configuration."""
        return self.sampler.build(self.model.build())


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
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{path}: not valid TOML: {one_line(error)}") from error


def validated(path: Path, text: str, content: dict[str, Any], what: type[Section] = Configuration) -> Section:
    """What a TOML file says as a configuration; a mistake is named with its line."""
    try:
        found = what.model_validate(content)
        if isinstance(found, Configuration):
            found.model.build()
    except ValidationError as error:
        raise ConfigurationError(_describe(path, text, error)) from error
    except SeqgpError as error:
        raise ConfigurationError(f"{path}: [model]: {error}") from error
    return found


def _describe(path: Path, text: str, error: ValidationError) -> str:
    """The first mistake, in one line."""
    first = error.errors(include_url=False)[0]
    keys = [key for key in first["loc"] if not str(key).startswith("$")]  # the rest are the tags of unions
    names = [str(key) for key in keys]
    line = _line_of(text, [key for key in keys if isinstance(key, str)])
    message = first["msg"].removeprefix("Value error, ").replace("Extra inputs are not permitted", "no such key")
    message = message.replace("Field required", "is missing")
    given = first.get("input")
    shown = f" (given: {given!r})" if isinstance(given, (str, int, float, bool)) and "missing" not in message else ""
    where = f"{path}, line {line}" if line else str(path)
    more = f"; and {error.error_count() - 1} more" if error.error_count() > 1 else ""
    what = f"{'.'.join(names)}: " if names else ""
    return f"{where}: {what}{message}{shown}{more}"


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
