"""The command that writes a run for other tools: ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqgp.cli.common import Debug, Force, Json, Mistake, RunFolder, check_output, command, open_run, show
from seqgp.io.cf import DRAWS
from seqgp.io.export import EXPORTS, export_run


@command
def export(
    folder: RunFolder,
    output: Annotated[Path, typer.Argument(metavar="OUT.nc|.zarr|.parquet|.geoparquet|.csv", help="What to write.")],
    draws: Annotated[
        int | None, typer.Option("--draws", min=0, help="Draws of each step in NetCDF, at most. 200 by default.")
    ] = None,
    arviz: Annotated[
        bool, typer.Option("--arviz", help="NetCDF as a tree for ArviZ, with all draws and replicated data.")
    ] = False,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a run for other tools: NetCDF (CF conventions), Zarr (ArviZ), Parquet or CSV."""
    store = open_run(folder)
    check_output(output, EXPORTS, force)
    if output.suffix != ".nc" and (arviz or draws is not None):
        raise Mistake(f"{output}: --draws and --arviz are of NetCDF; name a file that ends in .nc")
    if arviz and draws is not None:
        raise Mistake("--arviz writes all draws: leave --draws out")
    export_run(store, output, arviz, DRAWS if draws is None else draws)
    show({"written": output}, json, lambda out: out.print(f"wrote {output}", markup=False))
