"""The command that scores a run on data it has not seen: ``score``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from seqgp.cli.common import Debug, Force, Json, Mistake, RunFolder, Seed, check_output, command, open_run, show
from seqgp.cli.fitting import configuration_of
from seqgp.evaluate.score import DRAWS
from seqgp.evaluate.score import score as score_run
from seqgp.evaluate.score_table import LEVELS, MODEL, Score
from seqgp.io.export import write_table
from seqgp.io.tables import snapshots_from

TABLES = (".csv", ".parquet")
Ahead = Annotated[
    list[int] | None, typer.Option("--ahead", min=0, max=10_000, help="Steps ahead, 0 for filtered; may be repeated.")
]


@command
def score(
    folder: RunFolder,
    table: Annotated[
        Path, typer.Argument(metavar="HELD_OUT.csv", help="A table with the columns of the run's, and data it lacks.")
    ],
    ahead: Annotated[
        list[int] | None,
        typer.Option("--ahead", min=0, max=10_000, help="Steps ahead, 0 for filtered; may be repeated. 0 and 1."),
    ] = None,
    smoothed: Annotated[bool, typer.Option(help="Whether smoothed predictions are scored.")] = True,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the scores of each datum: .csv or .parquet.")
    ] = None,
    draws: Annotated[int, typer.Option(min=10, max=1_000_000, help="Draws of smoothed data.")] = DRAWS,
    seed: Seed = None,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Score predictions of held-out data, filtered, ahead and smoothed, beside persistence, AR(1) and kriging."""
    store = open_run(folder)
    if output is not None:
        check_output(output, TABLES, force)
    if store.model is None:
        raise Mistake(f"{folder}: the model has code of its own; use seqgp.score in Python")
    data = configuration_of(store).data
    held_out = snapshots_from(table, data.columns()._replace(dates=data.origin is not None))
    found = score_run(store, held_out, tuple(ahead or (0, 1)), smoothed, draws=draws, seed=seed or 0)
    if output is not None:
        write_table(output, found.frame())
    show(plain_scores(found) | {"run": folder, "written": output}, json, lambda out: show_score(out, found, output))


def plain_scores(found: Score) -> dict[str, Any]:
    """The scores as plain numbers, for machines."""
    rows = []
    for row in found.rows:
        pairs = {"crps_difference": row.crps_difference, "log_score_difference": row.log_score_difference}
        paired = {name: mean.value for name, mean in pairs.items()} | {f"{name}_se": m.se for name, m in pairs.items()}
        shares = {f"coverage_{level * 100:.0f}": share for level, share in row.coverage.items()}
        plain = {name: getattr(row, name) for name in ("way", "forecaster", "data", "rmse", "mae", "crps", "log_score")}
        rows.append(plain | shares | paired)
    ways = dict.fromkeys(row.way for row in found.rows)
    return {"scores": rows, "pit": {way: found.pit_histogram(way) for way in ways}, "notes": list(found.notes)}


def show_score(out: Console, found: Score, output: Path | None) -> None:
    """Two tables for people, the histogram of PIT, and what was not scored; narrow enough for 80 columns."""
    ways = list(dict.fromkeys(row.way for row in found.rows))
    shares = (f"{level:.0%}" for level in LEVELS)
    numbers = [Column(name, justify="right", no_wrap=True) for name in ("data", "RMSE", "MAE", "CRPS", "log", *shares)]
    scores = Table(Column("forecaster", no_wrap=True), *numbers, box=SIMPLE, pad_edge=False, collapse_padding=True)
    heads = (Column(name, no_wrap=True) for name in ("minus the model", "CRPS", "log score"))
    pairs = Table(*heads, box=SIMPLE, pad_edge=False)
    for way in ways:
        for table in (scores, pairs):
            table.add_section()
            table.add_row(f"[bold]{way}[/bold]")
        for row in (row for row in found.rows if row.way == way):
            _, name, *cells, crps, log_score = row.cells()
            cells[-len(LEVELS) :] = [f"{share:.0%}" for share in row.coverage.values()]
            scores.add_row(f"  {name}", *cells)
            if name != MODEL:
                pairs.add_row(f"  {name}", crps, log_score)
    out.print(scores)
    if any(row.forecaster != MODEL for row in found.rows):
        out.print(pairs)
    for way in ways:
        counts = " ".join(str(count) for count in found.pit_histogram(way))
        out.print(f"PIT of the model, {way}, in tenths: {counts}", markup=False)
    for note in found.notes:
        out.print(f"note: {note}", markup=False)
    if output is not None:
        out.print(f"wrote {output}", markup=False)
