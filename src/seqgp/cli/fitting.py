"""Commands that sample: ``fit`` and ``update``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import typer

from seqgp.base.errors import SeqgpError
from seqgp.base.remarks import add_up, headline
from seqgp.cli.common import GOES_ON, Debug, Json, Mistake, RunFolder, Seed, command, moment, open_run, show
from seqgp.io.configuration import Configuration, ConfigurationError, read_configuration
from seqgp.io.configured import check_configured, check_table, read_snapshots, resolved, stations_of
from seqgp.io.errors import DamagedError
from seqgp.io.manifest import REMEDY
from seqgp.io.metrics import MetricsFile
from seqgp.io.run import Run, run
from seqgp.io.seen import Seen
from seqgp.io.session import Session
from seqgp.io.stations import Stations
from seqgp.io.store import Store
from seqgp.io.tables import Columns, Labelled, snapshots_from
from seqgp.io.title import title_of, with_source
from seqgp.io.unused_rows import leave_out


@command(stopped=GOES_ON)
def fit(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="A configuration; `seqgp new` writes one.")],
    seed: Seed = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Sample after each time of a table, and keep the draws in a run.

    A run that was interrupted goes on where it was: give the same command again.
    """
    configuration = resolved(config, read_configuration(config), seed)
    snapshots = read_snapshots(configuration)
    try:
        sampler, why = configuration.choose(snapshots[0])
    except SeqgpError as error:
        raise ConfigurationError(f"{config}: [sampler]: {error}") from error
    check_configured(configuration, sampler, snapshots)
    metrics = MetricsFile.of(configuration)
    result = run(
        sampler,
        snapshots,
        callbacks=[metrics] if metrics else [],
        key=jax.random.key(configuration.run.seed),
        keep=configuration.run.keep,
        store=configuration.run.folder,
        configuration=with_source(configuration.model_dump(mode="json"), config),
    )
    if metrics:  # nothing new is a success too
        metrics(result.state, result.infos[-1])
    report_run(result._replace(why=why), json, whole=True)


@command(stopped=GOES_ON)
def update(
    folder: RunFolder,
    table: Annotated[Path, typer.Argument(metavar="MORE.csv", help="A table with the same columns, and later times.")],
    skip_seen: Annotated[
        bool, typer.Option("--skip-seen", help="Leave out times that the run has seen with the same values.")
    ] = False,
    revise: Annotated[
        bool,
        typer.Option(
            "--revise", help="As --skip-seen; late times, and new values of seen ones, are named and left out."
        ),
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Add one or more later times to a run."""
    continued = Continued.of(open_run(folder))
    snapshots = _new_ones(continued, table, skip_seen or revise, revise)
    report_run(continued.extend(snapshots), json, added=len(snapshots))


def configuration_of(store: Store) -> Configuration:
    """What a run was configured with."""
    content = store.manifest.configuration
    if content is None or "data" not in content:
        raise Mistake(f"{store.path}: the run was made in Python, not by `seqgp fit`; go on with it there")
    content = {name: content[name] for name in Configuration.model_fields if name in content}
    content["sampler"] = {"method": "sequential", **(content.get("sampler") or {})}  # in version 0.1
    try:
        return Configuration.model_validate(content)
    except ValueError as error:
        why = " ".join(str(error).split())[:160]
        raise DamagedError(f"{store.path}: its configuration cannot be read ({why}); {REMEDY}") from error


class Continued(NamedTuple):
    """A run that goes on as it was configured."""

    store: Store
    configuration: Configuration
    session: Session
    stations: Stations
    metrics: MetricsFile | None = None

    @classmethod
    def of(cls, store: Store) -> Continued:
        """What its configuration says, read and built once."""
        configuration = configuration_of(store)
        sampler = configuration.build(next(iter(store)).snapshot)  # as when the run began
        session = Session(sampler, store, configuration.run.keep)
        metrics = MetricsFile.of(configuration)
        return cls(store, configuration, session, stations_of(configuration, sampler, store), metrics)

    def columns(self) -> Columns:
        """Those of the run's tables; times are dates if, and only if, those of its first table were."""
        data = self.configuration.data
        return data.columns()._replace(dates=data.origin is not None)

    def check(self, table: Path, snapshots: list[Labelled]) -> None:
        """Raise unless the run can go on with what a table holds."""
        section = self.configuration.data.model_dump()
        check_table(table, self.session.sampler, snapshots, self.session.state, section)
        self.stations.check(table, snapshots)

    def extend(self, snapshots: list[Labelled]) -> Run:
        """Sample after each of some later snapshots."""
        manifest = self.store.manifest
        section = manifest.section("run") | {"title": title_of(self.store)}
        told = {**(manifest.configuration or {}), "run": section}
        after = self.session.extend(snapshots, configuration=told, callbacks=[self.metrics] if self.metrics else [])
        if self.metrics:  # nothing new is a success too
            self.metrics(after.state, after.infos[-1])
        return Run(*after, self.session.sampler.model, self.store)


def sort_out(seen: Seen, file: Path, snapshots: list[Labelled]) -> tuple[list[Labelled], list[str]]:
    """The snapshots that are new, and what is to be said of those that are neither new nor known."""
    new, refused = [], []
    for snapshot in snapshots:
        found = seen.compare(snapshot)
        if found.refused:
            refused.append(f"{snapshot.rows(file)}: {found.why}")
        elif found.later:
            new.append(snapshot)
    return new, refused


def _new_ones(continued: Continued, table: Path, skip_seen: bool, revise: bool) -> list[Labelled]:
    snapshots, seen = snapshots_from(table, continued.columns()), continued.session.seen
    new, refused = sort_out(seen, table, snapshots)
    if len(new) < len(snapshots) and not skip_seen:
        raise Mistake(
            f"{table}: {moment(continued.store, snapshots[0].t)} is not after the last time of the run, "
            f"{moment(continued.store, seen.last)}; leave out what was seen, or --skip-seen"
        )
    if refused and not revise:
        more = f" (and {len(refused) - 1} more times)" if len(refused) > 1 else ""
        raise Mistake(f"{table}: {refused[0]}{more}; nothing was added: mend the table, or --revise to leave them out")
    for text in refused:
        warnings.warn(f"{table}: left out: {text}", stacklevel=2)
    continued.check(table, new)
    if refused:
        leave_out(continued.store.path, table, "; ".join(refused))
    return new


def report_run(
    result: Run, as_json: bool, whole: bool = False, added: int | None = None, steps: int | None = None
) -> None:
    """What was sampled, with one line about the last step, or (``whole``) the remarks on all steps added up.

    ``added`` is how many times were new, ``steps`` how many the run has, where that is known.
    """
    info, store = result.infos[-1], result.store
    if steps is None:
        steps = 0 if store is None else len(store)
    summed = [total.among(len(result.infos)) for total in add_up(step.warnings for step in result.infos)]
    said = (
        {
            "run": None if store is None else str(store.path),
            "steps": steps,
            "t": result.state.t,
            "draws": result.state.draws,
            "min_ess": info.min_ess,
            "max_rhat": getattr(info, "max_rhat", None),
            "log_evidence": getattr(info, "log_evidence", None),
            "exact": exact._asdict() if (exact := getattr(info, "exact", None)) is not None else None,
            "warnings": list(info.warnings),
            "warnings_of_all_steps": summed,
        }
        | ({} if added is None else {"added": added})
        | ({"why": result.why} if result.why else {})
    )

    def text(out: Any) -> None:
        if added == 0:
            out.print("nothing new was added", markup=False)
        if result.why:
            out.print(f"sampler: {result.why}", markup=False)
        out.print(
            f"{said['run']}: {steps} steps, the last at {moment(store, result.state.t)}: {result.state.draws} draws, "
            f"{info.health}",
            markup=False,
        )
        for line in summed if whole else [headline(info.warnings)][: len(info.warnings)]:
            out.print(f"  note: {line}", markup=False)

    show(said, as_json, text)
