"""Commands that sample: ``fit``, ``update`` and ``watch``."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Annotated, Any

import jax
import typer

from seqgp.cli.common import Debug, Json, Mistake, RunFolder, Seed, command, console, open_run, show
from seqgp.io.configuration import Configuration, ConfigurationError, read_configuration
from seqgp.io.errors import TableError
from seqgp.io.run import Run, run
from seqgp.io.store import Store
from seqgp.io.tables import READERS, Columns, Labelled, first_date, snapshots_from
from seqgp.models.errors import SeqgpError
from seqgp.samplers.checks import check_snapshot
from seqgp.samplers.remarks import add_up, headline

FEWEST_ROWS = 2
PARTS = (".part", ".partial", ".tmp", ".crdownload")


@command
def fit(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="A configuration; `seqgp new` writes one.")],
    seed: Seed = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Sample after each time of a table, and keep the draws in a run.

    A run that was interrupted goes on where it was: give the same command again.
    """
    configuration = read_configuration(config)
    configuration = _resolved(config, configuration, seed)
    snapshots = snapshots_from(configuration.data.file, configuration.data.columns())
    if sum(len(snapshot.x) for snapshot in snapshots) < FEWEST_ROWS:
        raise TableError(f"{configuration.data.file}: one row only; a latent function needs at least {FEWEST_ROWS}")
    sampler = configuration.build()
    for snapshot in snapshots:
        _check(configuration.data.file, sampler.model, snapshot)
    result = run(
        sampler,
        snapshots,
        key=jax.random.key(configuration.run.seed),
        keep=configuration.run.keep,
        store=configuration.run.folder,
        configuration=configuration.model_dump(mode="json"),
    )
    _report(result, json, whole=True)


@command
def update(
    folder: RunFolder,
    table: Annotated[Path, typer.Argument(metavar="MORE.csv", help="A table with the same columns, and later times.")],
    skip_seen: Annotated[bool, typer.Option("--skip-seen", help="Leave out times that the run has seen.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Add one or more later times to a run."""
    store = open_run(folder)
    snapshots = _later(store, table, configuration_of(store).data.columns(), skip_seen)
    _report(_extend(store, snapshots), json)


@command
def watch(
    folder: RunFolder,
    inbox: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where new tables arrive.")],
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks.")] = 5.0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Take new tables as they arrive in a folder, until stopped by a signal (Ctrl-C, or SIGTERM).

    A file is taken when it is whole: when neither its size nor its time has changed between two looks. One that cannot
    be used is named once, and left alone.
    """
    store = open_run(folder)
    columns = configuration_of(store).data.columns()
    if not inbox.is_dir():
        raise Mistake(f"{inbox}: not a folder; give the one where new tables arrive")
    signal.signal(signal.SIGTERM, _stop)
    known: dict[Path, tuple[int, int]] = {}
    seen_before: dict[Path, tuple[int, int]] = {}
    try:
        while True:
            now = _files(inbox)
            for path, mark in now.items():
                if known.get(path) != mark and seen_before.get(path) == mark:
                    known[path] = mark
                    _take(store, path, columns, json)
            seen_before = now
            time.sleep(interval)
    except (KeyboardInterrupt, _Stopped):
        last = store.latest()
        show(
            {"stopped": True, "steps": len(store), "t": last.t},
            json,
            lambda out: out.print(f"stopped; the run is whole up to step {last.number} (t = {last.t:g})"),
        )


def configuration_of(store: Store) -> Configuration:
    """What a run was configured with."""
    content = store.manifest.configuration
    if content is None or "data" not in content:
        raise Mistake(f"{store.path}: the run was made in Python, not by `seqgp fit`; go on with it there")
    return Configuration.model_validate(content)


def _resolved(config: Path, configuration: Configuration, seed: int | None) -> Configuration:
    """Paths relative to the configuration's folder, the seed of the command line, and dates counted from the first."""
    data, section = configuration.data, configuration.run
    file = str(config.parent / data.file)
    origin = data.origin if data.origin is not None else first_date(file, data.time)
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


def _later(store: Store, table: Path, columns: Columns, skip_seen: bool) -> list[Labelled]:
    snapshots = snapshots_from(table, columns)
    last = store.latest().t
    seen = [snapshot for snapshot in snapshots if snapshot.t <= last]
    if seen and not skip_seen:
        raise Mistake(
            f"{table}: t = {seen[0].t:g} is not after the last time of the run, {last:g}; leave out what was seen, or "
            "--skip-seen"
        )
    later = snapshots[len(seen) :]
    if not later and not skip_seen:
        raise Mistake(f"{table}: nothing later than t = {last:g}")
    model = store.model
    for snapshot in later:
        _check(table, model, snapshot)
    return later


def _extend(store: Store, snapshots: list[Labelled]) -> Run:
    configuration = configuration_of(store)
    return run(configuration.build(), snapshots, keep=configuration.run.keep, store=store)


def _report(result: Run, as_json: bool, whole: bool = False) -> None:
    """What was sampled, with one line about the last step, or (``whole``) the remarks on all steps added up."""
    info, store = result.infos[-1], result.store
    steps = 0 if store is None else len(store)
    summed = [f"{total} of {len(result.infos)}" for total in add_up(step.warnings for step in result.infos)]
    said = {
        "run": None if store is None else str(store.path),
        "steps": steps,
        "t": result.state.t,
        "draws": result.state.draws,
        "min_ess": info.min_ess,
        "max_rhat": info.max_rhat,
        "warnings": list(info.warnings),
        "warnings_of_all_steps": summed,
    }

    def text(out: Any) -> None:
        out.print(
            f"{said['run']}: {steps} steps, the last at t = {result.state.t:g}: {result.state.draws} draws, "
            f"least ESS {info.min_ess:.0f}, largest R-hat {info.max_rhat:.3f}",
            markup=False,
        )
        for line in summed if whole else [headline(info.warnings)][: len(info.warnings)]:
            out.print(f"  note: {line}", markup=False)

    show(said, as_json, text)


class _Stopped(Exception):
    """Asked to stop by a signal."""


def _stop(*_: Any) -> None:
    raise _Stopped


def _files(inbox: Path) -> dict[Path, tuple[int, int]]:
    found = {}
    for path in sorted(inbox.iterdir()):
        if path.suffix.lower() not in READERS or path.name.startswith(".") or path.name.endswith(PARTS):
            continue
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        found[path] = (status.st_size, status.st_mtime_ns)
    return found


def _take(store: Store, path: Path, columns: Columns, as_json: bool) -> None:
    try:
        later = _later(store, path, columns, skip_seen=True)
        if not later:
            return
        result = _extend(store, later)
    except SeqgpError as error:
        text = " ".join(str(error).split())
        show({"file": path, "error": text}, as_json, lambda out: out.print(f"left alone: {text}", markup=False))
        return
    if not as_json:
        console().print(f"{path.name}:", markup=False)
    _report(result, as_json)
