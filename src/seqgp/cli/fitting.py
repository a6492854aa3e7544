"""Commands that sample: ``fit`` and ``update``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import jax
import typer
from rich.console import Console

from seqgp.base.flags import HEADLINES
from seqgp.base.info import Info
from seqgp.base.remarks import add_up, headline, parse
from seqgp.base.transforms import transform_of
from seqgp.cli.common import GOES_ON, Debug, Json, Mistake, RunFolder, Seed, command, moment, open_run, show
from seqgp.cli.lines import StepLines, is_revision, revised
from seqgp.io.configuration import Configuration, read_configuration
from seqgp.io.configured import check_table, chosen_sampler, read_snapshots, resolved, stations_of
from seqgp.io.errors import DamagedError
from seqgp.io.late_rows import fresh_rows, put_in
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
from seqgp.samplers.arrivals import remedy
from seqgp.samplers.loop import LateOption

LateData = Annotated[
    LateOption,
    typer.Option(
        "--late",
        help="What to do with rows that are late or corrected: revise the past, refuse the table, or name them and "
        "leave them out.",
    ),
]


@command(stopped=GOES_ON)
def fit(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="A configuration; `seqgp new` writes one.")],
    seed: Seed = None,
    late: LateData = "revise",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Sample after each time of a table, and keep the draws in a run.

    A run that was interrupted goes on where it was: give the same command again. Rows that are late, or that were
    corrected since, revise the past.
    """
    configuration = resolved(config, read_configuration(config), seed)
    snapshots = read_snapshots(configuration)
    sampler, why = chosen_sampler(config, configuration, snapshots)
    metrics, lines = MetricsFile.of(configuration), StepLines(configuration.data.model_dump(), quiet=json)
    result = run(
        sampler,
        snapshots,
        callbacks=[lines, *([metrics] if metrics else [])],
        key=jax.random.key(configuration.run.seed),
        keep=configuration.run.keep,
        store=configuration.run.folder,
        configuration=with_source(configuration.model_dump(mode="json"), config),
        late=late,
    )
    if metrics:  # nothing new is a success too
        metrics(result.state, result.infos[-1])
    report_run(result._replace(why=why), json, whole=True, taken=lines.infos)


@command(stopped=GOES_ON)
def update(
    folder: RunFolder,
    table: Annotated[Path, typer.Argument(metavar="MORE.csv", help="A table with the same columns, and later times.")],
    skip_seen: Annotated[
        bool, typer.Option("--skip-seen", help="Leave out times that the run has seen with the same values.")
    ] = False,
    late: LateData = "revise",
    revise: Annotated[bool, typer.Option("--revise", hidden=True)] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Add later times to a run; rows that are late or corrected revise its past.

    A late row at a known place takes the place of what is known there, and retracts it where its value is empty. The
    state becomes that of a run to which the data came in order; `seqgp log` lists what was replaced.
    """
    if revise:
        raise Mistake("--revise left late rows out: that is --late=skip now; --late=revise, the default, uses them")
    continued = Continued.of(open_run(folder), late)
    found = _sorted_out(continued, table, skip_seen)
    result = continued.extend([*found.late, *found.new], json)
    report_run(result, json, added=len(found.new), taken=continued.taken)


def configuration_of(store: Store) -> Configuration:
    """What a run was configured with."""
    content = store.manifest.configuration
    if content is None or "data" not in content:
        raise Mistake(f"{store.path}: the run was made in Python, not by `seqgp fit`; go on with it there")
    content = {name: content[name] for name in Configuration.model_fields if name in content}
    settings = {"method": "sequential", **(content.get("sampler") or {})}  # in version 0.1
    content["sampler"] = {name: value for name, value in settings.items() if name != "carry"}  # until version 0.2
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
    lines: StepLines
    metrics: MetricsFile | None = None

    @classmethod
    def of(cls, store: Store, late: LateOption = "revise") -> Continued:
        """What its configuration says, read and built once."""
        configuration = configuration_of(store)
        sampler = configuration.build(next(iter(store)).snapshot)  # as when the run began
        session = Session(sampler, store, configuration.run.keep, late=late)
        metrics, lines = MetricsFile.of(configuration), StepLines(configuration.data.model_dump())
        return cls(store, configuration, session, stations_of(configuration, sampler, store), lines, metrics)

    def columns(self) -> Columns:
        """Those of the run's tables; times are dates if, and only if, those of its first table were."""
        data = self.configuration.data
        return data.columns()._replace(dates=data.origin is not None)

    def check(self, table: Path, snapshots: list[Labelled]) -> None:
        """Raise unless the run can go on with what a table holds."""
        section = self.configuration.data.model_dump()
        check_table(table, self.session.sampler, snapshots, self.session.state, section)
        self.stations.check(table, snapshots)

    @property
    def taken(self) -> list[Info]:
        """The infos of the steps that ``extend`` added last."""
        return self.lines.infos

    def extend(self, snapshots: list[Labelled], quiet: bool = False) -> Run:
        """Sample after each of some later snapshots, and put late rows into the past."""
        self.lines.begin(quiet)
        manifest = self.store.manifest
        section = manifest.section("run") | {"title": title_of(self.store)}
        configuration = {**(manifest.configuration or {}), "run": section}
        called = [self.lines, *([self.metrics] if self.metrics else [])]

        def whole(seen: Seen) -> list[Labelled]:
            return [one if one.t > seen.last else put_in(seen, one) for one in snapshots]

        after = self.session.extend(whole, configuration=configuration, callbacks=called, again=False)
        if self.metrics:  # nothing new is a success too
            self.metrics(after.state, after.infos[-1])
        return Run(*after, self.session.sampler.model, self.store)


class Sorted(NamedTuple):
    """What a table holds, as far as a run is concerned."""

    new: list[Labelled]  # after all that the run has used
    late: list[Labelled]  # the rows that revise its past
    refused: list[str]  # what is neither new, nor known, nor put into the past
    known: int  # how many times were used already


def sort_out(continued: Continued, file: Path, snapshots: list[Labelled], again: bool) -> Sorted:
    """Tell new, late and known data apart.

    Args:
        continued: the run.
        file: where the data stand, for messages.
        snapshots: the data.
        again: whether rows that were used and replaced since are known, as in files that may be read twice.
    """
    found, session = Sorted([], [], [], 0), continued.session
    seen, known = session.seen, 0
    for snapshot in snapshots:
        if snapshot.t > seen.last:
            found.new.append(snapshot)
            continue
        rows = fresh_rows(seen, snapshot, again)
        if rows is None:
            known += 1
            continue
        fixed = remedy(session.sampler, session.state, snapshot.t, "revise")
        if not fixed and session.late == "revise":
            found.late.append(rows)
            continue
        why = seen.compare(put_in(seen, rows), -1).why
        found.refused.append(f"{snapshot.rows(file)}: {why}" + (f"; {fixed}" if fixed else ""))
    return found._replace(known=known)


def _sorted_out(continued: Continued, table: Path, skip_seen: bool) -> Sorted:
    snapshots, skipped = snapshots_from(table, continued.columns()), continued.session.late == "skip"
    found = sort_out(continued, table, snapshots, again=False)
    if found.known and not (skip_seen or skipped or found.late or found.refused):
        raise Mistake(
            f"{table}: {moment(continued.store, snapshots[0].t)} is not after the last time of the run, "
            f"{moment(continued.store, continued.session.seen.last)}; leave out what was seen, or --skip-seen"
        )
    if found.refused and not skipped:
        more = f" (and {len(found.refused) - 1} more times)" if len(found.refused) > 1 else ""
        raise Mistake(
            f"{table}: {found.refused[0]}{more}; nothing was added: mend the table, or --late=skip to leave them out"
        )
    for text in found.refused:
        warnings.warn(f"{table}: left out: {text}", stacklevel=2)
    continued.check(table, [*found.late, *found.new])
    if found.refused:
        leave_out(continued.store.path, table, "; ".join(found.refused))
    return found


def flagged_words(info: object, store: Store) -> list[str]:
    """The stations that are flagged after a step, in words and in units of the data."""
    stations = getattr(info, "stations", None)
    transform = transform_of(store.manifest.section("data"))
    flags = () if stations is None else stations.flags
    return [flag.sentence(lambda t: moment(store, t), transform) for flag in flags]


def report_run(
    result: Run,
    as_json: bool,
    whole: bool = False,
    added: int | None = None,
    steps: int | None = None,
    taken: Sequence[Info] = (),
) -> None:
    """What was sampled, with one line about the last step, or (``whole``) the remarks on all steps added up.

    ``added`` is how many times were new, ``steps`` how many the run has, where that is known, and ``taken`` has the
    infos of the steps that were added.
    """
    revisions = [step for step in taken if is_revision(step)]
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
        | ({"revised": [step.extras for step in revisions]} if revisions else {})
    )

    def text(out: Console) -> None:
        if added == 0 and not revisions:
            out.print("nothing new was added", markup=False)
        for step in revisions:
            out.print(revised(step.extras), markup=False)
        if result.why:
            out.print(f"sampler: {result.why}", markup=False)
        out.print(
            f"{said['run']}: {steps} steps, the last at {moment(store, result.state.t)}: {result.state.draws} draws, "
            f"{info.health}",
            markup=False,
        )
        for line in [] if store is None else flagged_words(info, store):
            out.print(f"  flagged: {line}", markup=False)
        others = [text for text in info.warnings if parse(text).kind not in HEADLINES.values()]
        for line in summed if whole else [headline(others)][: len(others)]:
            out.print(f"  note: {line}", markup=False)

    show(said, as_json, text)
