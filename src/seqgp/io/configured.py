"""What a configuration stands for: its table as snapshots, checked before anything is sampled or written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from seqgp.base.errors import SeqgpError
from seqgp.fields.grid import Grid, SharedGrid
from seqgp.io.configuration import Configuration, ConfigurationError, DataSection
from seqgp.io.coordinates import check_coordinates
from seqgp.io.dates import parse_origin
from seqgp.io.errors import TableError
from seqgp.io.frames import row_in_file
from seqgp.io.stations import Stations
from seqgp.io.store import Store
from seqgp.io.tables import Labelled, first_date, snapshots_from
from seqgp.io.timestamps import moment_text
from seqgp.model import Model
from seqgp.samplers.base import Sampler, State
from seqgp.samplers.validation import check_snapshot

FEWEST_ROWS = 2


def configured_snapshots(configuration: Configuration, sampler: Any) -> list[Labelled]:
    """The snapshots of a configuration's table, which its sampler can take."""
    snapshots = read_snapshots(configuration)
    check_configured(configuration, sampler, snapshots)
    return snapshots


def read_snapshots(configuration: Configuration) -> list[Labelled]:
    """The snapshots of a configuration's table."""
    file = configuration.data.file
    snapshots = snapshots_from(file, configuration.data.columns())
    if sum(len(snapshot.x) for snapshot in snapshots) < FEWEST_ROWS:
        raise TableError(f"{file}: one row only; a latent function needs at least {FEWEST_ROWS}")
    if all(np.isnan(snapshot.y).all() for snapshot in snapshots):
        raise TableError(
            f"{file}: column {configuration.data.value!r}: every value is missing; is it the right column?"
        )
    return snapshots


def chosen_sampler(config: Path, configuration: Configuration, snapshots: list[Labelled]) -> tuple[Any, str]:
    """The sampler that a configuration asks for, or that its first snapshot allows, and why; it takes all snapshots."""
    try:
        sampler, why = configuration.choose(snapshots[0])
    except SeqgpError as error:
        raise ConfigurationError(f"{config}: [sampler]: {error}") from error
    check_configured(configuration, sampler, snapshots)
    return sampler, why


def check_configured(configuration: Configuration, sampler: Sampler, snapshots: list[Labelled]) -> None:
    """Raise, before anything is sampled or written, unless the sampler can take all snapshots of the table."""
    file = configuration.data.file
    check_table(file, sampler, snapshots, data=configuration.data.model_dump())
    folder = Store(configuration.run.folder)
    stations_of(configuration, sampler, folder if folder.exists else None).check(file, snapshots)
    if len(snapshots) > 1:
        try:
            sampler.model.mean_function.check_varying(snapshots)
        except SeqgpError as error:
            raise ConfigurationError(f"{file}: {error}") from error


def stations_of(configuration: Configuration, sampler: Sampler, store: Store | None = None) -> Stations:
    """Where the named locations of a run are, as far as they must stay there."""
    data = configuration.data
    return Stations(data.inputs, sampler.model.kernel, store, moving=data.locations == "moving")


def resolved(config: Path, configuration: Configuration, seed: int | None) -> Configuration:
    """Paths relative to the configuration's folder, the seed of the command line, and dates counted from the first."""
    data, section = configuration.data, configuration.run
    file, folder = str(config.parent / data.file), config.parent / section.folder
    store = Store(folder)
    origin = _origin(config, data, file, store)
    _check_transform(config, data, store)
    if origin is None and "unit" in data.model_fields_set:
        raise ConfigurationError(
            f"{config}: data.unit has no effect: column {data.time!r} holds numbers, not dates; leave it out"
        )
    given = {"folder": str(folder), "seed": section.seed if seed is None else seed}
    if section.metrics is not None:  # in full: later commands may be given from another folder
        given["metrics"] = str((config.parent / section.metrics).absolute())
    return configuration.model_copy(
        update={
            "data": data.model_copy(update={"file": file, "origin": origin}),
            "run": section.model_copy(update=given),
        }
    )


def _origin(config: Path, data: DataSection, file: str, store: Store) -> str | None:
    """The date of time zero: of a run that is there it is the run's, for the first date of a table may change."""
    held = store.manifest.section("data") if store.exists and len(store) else {}
    zero = held.get("origin")
    if not isinstance(zero, str):  # of a run that begins, that counts in numbers, or that was made in Python
        found = data.origin or first_date(file, data.time)
        if found is not None and "origin" in held:
            raise ConfigurationError(f"{file}: column {data.time!r} holds dates, but the run's times are numbers")
        return found
    agree = {
        "unit": data.unit == held.get("unit"),
        "origin": data.origin is None or parse_origin(data.origin) == parse_origin(zero),
    }
    for key, same in agree.items():
        if not same:
            raise ConfigurationError(
                f"{config}: data.{key} is {getattr(data, key)!r}, but the run in {store.path} counts its times with "
                f"{held.get(key)!r}; give the same, or another folder"
            )
    return zero


def _check_transform(config: Path, data: DataSection, store: Store) -> None:
    """A run has one transform: its steps hold transformed data."""
    held = store.manifest.section("data") if store.exists and len(store) else {}
    if "file" in held and held.get("transform") != data.transform:
        raise ConfigurationError(
            f"{config}: data.transform is {data.transform!r}, but the run in {store.path} was begun with "
            f"{held.get('transform')!r}; give the same, or another folder"
        )


def _check(file: str | Path, model: Model, snapshot: Labelled, data: Mapping[str, Any]) -> None:
    """A snapshot that the model cannot take is refused before anything is sampled or written."""
    try:
        check_snapshot(model, snapshot)
    except SeqgpError as error:
        where = moment_text(snapshot.t, data)
        row = _first_refused(model, snapshot)
        if row is not None and snapshot.records is not None:
            named = "" if snapshot.labels is None else f", location {snapshot.labels[row]!r}"
            where = f"row {row_in_file(Path(file), int(snapshot.records[row]))} ({where}{named})"
        raise ConfigurationError(f"{file}: {where}: {error}") from error


def _first_refused(model: Model, snapshot: Labelled) -> int | None:
    """The first row whose value the likelihood refuses, with all others missing; ``None`` where it is no value."""
    for row in np.flatnonzero(~np.isnan(snapshot.y)) if snapshot.y.ndim == 1 else ():
        alone = np.full_like(snapshot.y, np.nan)
        alone[row] = snapshot.y[row]
        try:
            model.likelihood.check_data(alone, snapshot.context)
        except SeqgpError:
            return int(row)
    return None


def check_table(
    file: str | Path,
    sampler: Sampler,
    snapshots: list[Labelled],
    state: State | None = None,
    data: Mapping[str, Any] | None = None,
) -> None:
    """Snapshots that model or sampler cannot take are refused before anything is sampled or written.

    Args:
        file: where they stand.
        sampler: the sampler of the run.
        snapshots: the snapshots.
        state: the last one of a run that goes on; one that begins has a representation that suits its first snapshot.
        data: the section of the configuration, for the dates in messages.
    """
    for snapshot in snapshots:
        _check(file, sampler.model, snapshot, data or {})
    check_coordinates(file, snapshots, (data or {}).get("inputs") or ())
    latent = getattr(sampler, "latent", None)
    if not snapshots or not isinstance(latent, Grid):
        return
    held = getattr(state, "representation", None)  # not every sampler has one
    grid = held if isinstance(held, SharedGrid) else latent.resolve(sampler.model.kernel, snapshots[0].x)
    for snapshot in snapshots:
        if not grid.accepts(snapshot.x):
            raise ConfigurationError(
                f"{file}: {snapshot.rows(file)} (t = {snapshot.t:g}): the inputs are not those of the first time, as "
                'latent = "grid" needs; use "auto", "dense" or "knots"'
            )
