"""The command that shows the stations of a run: ``stations``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from seqgp.cli.common import Debug, Force, Json, Mistake, RunFolder, check_target, command, open_run, show
from seqgp.evaluate.stations import StationReport, station_cells, station_head
from seqgp.io.export import write_table
from seqgp.io.monitor import monitor

TABLES = (".csv", ".parquet")


@command
def stations(
    folder: RunFolder,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the table: .csv or .parquet.")] = None,
    false_alarms: Annotated[
        float | None,
        typer.Option("--false-alarms", help="Judge anew, with at most so many false alarms in 1000 readings."),
    ] = None,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show which stations of a run are at fault, since when and by how much."""
    store = open_run(folder)
    if output is not None:
        if output.suffix not in TABLES:
            raise Mistake(f"{output}: the name ends in {output.suffix!r}; expected .csv or .parquet")
        check_target(output, force)
    found = monitor(store, false_alarms=false_alarms)
    if output is not None:
        write_table(output, found.to_frame())
    said = {"run": folder, "stations": found.rows(), "flagged": found.sentences(), "written": output}
    show(said, json, lambda out: _show(out, found, output))


def _show(out: Console, found: StationReport, output: Path | None) -> None:
    whole = ("station", "since")  # other cells fold on a narrow terminal
    columns = (Column(name, no_wrap=name in whole, overflow="fold") for name in station_head(found))
    table = Table(*columns, box=SIMPLE, pad_edge=False, collapse_padding=True)
    for one in found.stations:
        table.add_row(*(Text(cell) for cell in station_cells(one, found)))
    out.print(table)
    for sentence in found.sentences():
        out.print(sentence, markup=False)
    if not found.flagged:
        out.print("no station is flagged", markup=False)
    if output is not None:
        out.print(f"wrote {output}", markup=False)
