"""The command ``support``: what a report of a wrong posterior needs."""

from __future__ import annotations

import json as codec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from seqgp.cli.common import Debug, Force, Json, _plain, check_target, command, open_run, show
from seqgp.io.files import write_atomically
from seqgp.io.support import ROWS, collect


@command
def support(
    folder: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="The folder of a run.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The file to write, JSON.")] = None,
    rows: Annotated[int, typer.Option("--rows", min=0, help="Rows of the last snapshot; 0: no data.")] = ROWS,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Collect versions, model and last step of a run, for a report that something is wrong."""
    if output is not None:
        check_target(output, force)
    found = collect(None if folder is None else open_run(folder), rows)
    text = codec.dumps(_plain(found), indent=1, allow_nan=False, ensure_ascii=False)
    if output is not None:
        write_atomically(output, lambda file: file.write(text.encode()))

    def said(out: Console) -> None:
        out.print(
            text if output is None else f"{output}: attach it to your report; it holds {_held(found)}", markup=False
        )

    show(found, json, said)


def _held(found: dict[str, Any]) -> str:
    data = len(found.get("snapshot", {}).get("y", ()))
    return f"{data} rows of data" if data else "no data"
