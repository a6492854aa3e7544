"""What a configuration stands for: its table as snapshots, checked before anything is sampled or written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seqgp.io.configuration import Configuration, ConfigurationError
from seqgp.io.errors import TableError
from seqgp.io.step import Step
from seqgp.io.store import Store
from seqgp.io.tables import Labelled, first_date, snapshots_from
from seqgp.latents.grid import Grid, SharedGrid
from seqgp.models.errors import SeqgpError
from seqgp.samplers.checks import check_snapshot

FEWEST_ROWS = 2


def configured_snapshots(configuration: Configuration, sampler: Any) -> list[Labelled]:
    """The snapshots of a configuration's table, which its sampler can take."""
    file = configuration.data.file
    snapshots = snapshots_from(file, configuration.data.columns())
    if sum(len(snapshot.x) for snapshot in snapshots) < FEWEST_ROWS:
        raise TableError(f"{file}: one row only; a latent function needs at least {FEWEST_ROWS}")
    check_table(file, sampler, snapshots)
    if len(snapshots) > 1:
        try:
            sampler.model.mean_function.check_varying(snapshots)
        except SeqgpError as error:
            raise ConfigurationError(f"{file}: {error}") from error
    return snapshots


def resolved(config: Path, configuration: Configuration, seed: int | None) -> Configuration:
    """Paths relative to the configuration's folder, the seed of the command line, and dates counted from the first."""
    data, section = configuration.data, configuration.run
    file = str(config.parent / data.file)
    stored = Store(config.parent / section.folder)
    origin = data.origin
    if origin is None and stored.exists and len(stored):  # the first date of a table may change, that of a run may not
        origin = stored.manifest.section("data").get("origin")
    if origin is None:
        origin = first_date(file, data.time)
    if origin is None and "unit" in data.model_fields_set:
        raise ConfigurationError(
            f"{config}: data.unit has no effect: column {data.time!r} holds numbers, not dates; leave it out"
        )
    return configuration.model_copy(
        update={
            "data": data.model_copy(update={"file": file, "origin": origin}),
            "run": section.model_copy(
                update={
                    "folder": str(config.parent / section.folder),
                    "seed": section.seed if seed is None else seed,
                }
            ),
        }
    )


def _check(file: str | Path, model: Any, snapshot: Labelled) -> None:
    """A snapshot that the model cannot take is refused before anything is sampled or written."""
    try:
        check_snapshot(model, snapshot)
    except SeqgpError as error:
        raise ConfigurationError(f"{file}: t = {snapshot.t:g}: {error}") from error


def check_table(file: str | Path, sampler: Any, snapshots: list[Labelled], last: Step | None = None) -> None:
    """Snapshots that model or sampler cannot take are refused before anything is sampled or written.

    Args:
        file: where they stand.
        sampler: the sampler of the run.
        snapshots: the snapshots.
        last: the last step of a run that goes on; one that begins has a representation that suits its first snapshot.
    """
    for snapshot in snapshots:
        _check(file, sampler.model, snapshot)
    if not snapshots or not isinstance(getattr(sampler, "latent", None), Grid):
        return
    held = None if last is None else getattr(last.state, "representation", None)  # not every sampler has one
    grid = held if isinstance(held, SharedGrid) else sampler.latent.resolve(sampler.model.kernel, snapshots[0].x)
    for snapshot in snapshots:
        if not grid.accepts(snapshot.x):
            raise ConfigurationError(
                f"{file}: {snapshot.rows(file)} (t = {snapshot.t:g}): the inputs are not those of the first time, as "
                'latent = "grid" needs; use "auto", "dense" or "knots"'
            )
