"""Commands of fleets: ``seqgp fleet fleet.toml``, ``fleet status``, ``fleet report``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text
from typer.core import TyperGroup

from seqgp.cli.clusters import Scheduler, Workers, client_of
from seqgp.cli.common import GOES_ON, MISTAKE, Debug, Json, check_target, command, show, shown
from seqgp.cli.lazy import STYLE
from seqgp.fleets.outcome import Outcome
from seqgp.fleets.run import fleet as run_fleet
from seqgp.fleets.status import statuses
from seqgp.fleets.stream import PAGE
from seqgp.fleets.template import read_fleet

SHOWN = 20  # rows for people; --json has all


class RunByDefault(TyperGroup):
    """``seqgp fleet fleet.toml`` is ``seqgp fleet run fleet.toml``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What is given, with the command that it stands for."""
        if args and args[0] not in (*self.commands, "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


fleet = typer.Typer(
    cls=RunByDefault,
    help="Run many streams from one configuration: `seqgp fleet fleet.toml`.",
    no_args_is_help=True,
    **STYLE,
)
Store = Annotated[Path, typer.Argument(metavar="RUNS", help="The folder of a fleet's runs.")]


@fleet.command("run")
@command(stopped=GOES_ON)
def run(
    config: Annotated[Path, typer.Argument(metavar="FLEET.toml", help="A configuration with a section [fleet].")],
    scheduler: Scheduler = None,
    workers: Workers = None,
    patience: Annotated[float, typer.Option(min=0, help="Seconds to wait for a stream that is in use.")] = 120.0,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds that a stream may go without a new step; no limit.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run each stream to its end: here, on processes of this machine, or on a Dask cluster.

    A fleet that was interrupted goes on where it was: give the same command again.
    """
    section, folder, streams = read_fleet(config)
    with client_of(scheduler, workers) as client:
        limit = section.timeout if timeout is None else timeout
        found = run_fleet(streams, folder, client, section.seed, section.keep, patience=patience, timeout=limit)
    rows = [outcome.row() for outcome in found.rows]
    said = {"runs": folder, "streams": rows, "failed": len(found.failed)}
    worst = sorted(found.rows, key=lambda row: (row.error is None, -row.warnings))

    def text(out: Console) -> None:
        out.print(_table([(row, "done" if row.error is None else "failed") for row in worst]))
        steps = sum(row.added for row in found.rows)
        out.print(f"{shown(folder)}: {len(rows)} streams, {steps} new steps, {len(found.failed)} failed", markup=False)

    show(said, json, text)
    if found.failed:
        raise typer.Exit(MISTAKE)


@fleet.command("status")
@command
def status(folder: Store, json: Json = False, debug: Debug = False) -> None:
    """Show the streams of a fleet as they stand on disk, the worst first."""
    found = statuses(folder)
    counts = dict(Counter(one.state for one in found))

    def text(out: Console) -> None:
        out.print(_table([(one.outcome, one.state) for one in found]))
        out.print(", ".join(f"{count} {state}" for state, count in counts.items()), markup=False)

    rows = [{**one.outcome.row(), "state": one.state} for one in found]
    show({"runs": folder, "counts": counts, "streams": rows}, json, text)


@fleet.command("report")
@command
def report(
    folder: Store,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The page to write; RUNS/report.html by default.")
    ] = None,
    reports: Annotated[int, typer.Option(min=0, help="Streams, the worst first, that get a report of their own.")] = 10,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a page about a fleet: a row per stream, the worst first, with links to the reports of streams."""
    from seqgp.report.fleet import fleet_page, stream_reports

    found = statuses(folder)
    page = folder / PAGE if output is None else output
    check_target(page, force=True)
    without = stream_reports(folder, found, reports)
    fleet_page(folder, found, page)

    def text(out: Console) -> None:
        for name, why in without.items():
            out.print(shown(f"no report of {name}: {why}"), markup=False)
        out.print(f"wrote {shown(page)}", markup=False)

    show({"written": page, "without_report": without}, json, text)


def _table(rows: list[tuple[Outcome, str]]) -> Table:
    numbers = [Column(name, justify="right") for name in ("steps", "t", "CRPS", "inside 95 %", "warnings")]
    table = Table(Column("stream"), Column("state"), *numbers, Column("what is wrong", overflow="fold"), box=SIMPLE)
    for row, state in rows[:SHOWN]:
        where = "" if row.step is None else f"step {row.step}: "
        cells = (
            row.stream, state, str(row.steps), _number(row.t), _number(row.crps),
            "" if row.coverage_95 is None else f"{row.coverage_95:.0%}", str(row.warnings or ""),
            row.remark if row.error is None else where + row.error,
        )  # fmt: skip
        table.add_row(*(Text(shown(cell)) for cell in cells))  # brackets in names and errors are no markup
    if len(rows) > SHOWN:
        table.caption = f"and {len(rows) - SHOWN} more: --json has all"
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


__all__ = ["fleet"]
