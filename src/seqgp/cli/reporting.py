"""The command that writes a page about a run: ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqgp.cli.common import Debug, Force, Json, RunFolder, check_target, command, open_run, show
from seqgp.cli.fitting import configuration_of
from seqgp.io.ground import border_lines, ground_from


@command
def report(
    folder: RunFolder,
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.")] = Path("report.html"),
    grid: Annotated[
        Path | None,
        typer.Option("--grid", metavar="GRID.nc", help="Draw maps on this grid: NetCDF or a table, with covariates."),
    ] = None,
    border: Annotated[
        Path | None,
        typer.Option("--border", metavar="LINES.geojson", help="Draw a coastline or borders, in units of the inputs."),
    ] = None,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a page of HTML about a run, with maps, forecasts and diagnostics."""
    store = open_run(folder)
    check_target(output, force)
    ground = None if grid is None else ground_from(grid, configuration_of(store).data.columns())
    lines = [] if border is None else border_lines(border)
    from seqgp.report import MapExtras
    from seqgp.report import report as make_report

    make_report(store, output, extras=MapExtras(ground, lines))
    show({"written": output}, json, lambda out: out.print(f"wrote {output}: open it in a browser", markup=False))
