"""The command that leaves out one fold of a table after the other: ``crossvalidate``."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from seqgp.cli.clusters import Scheduler, Workers, client_of
from seqgp.cli.common import Debug, Force, Json, Seed, check_output, command, show
from seqgp.cli.scoring import TABLES, Ahead, plain_scores, show_score
from seqgp.evaluate.folds import LeaveOut
from seqgp.evaluate.score import DRAWS
from seqgp.fleets.crossvalidate import crossvalidate as cross_validate
from seqgp.io.configuration import read_configuration
from seqgp.io.configured import chosen_sampler, read_snapshots, resolved
from seqgp.io.export import write_table

STOPPED = "with --runs every finished step is kept, and the same command goes on"


@command(stopped=STOPPED)
def crossvalidate(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="A configuration, as for `seqgp fit`.")],
    leave_out: Annotated[
        LeaveOut, typer.Option("--leave-out", help="Groups of stations, or blocks of time.")
    ] = "station",
    folds: Annotated[
        int, typer.Option(min=2, max=100_000, help="How many; as many as stations leaves out one at a time.")
    ] = 5,
    block: Annotated[
        int | None,
        typer.Option(min=1, help="Times in a block, for --leave-out time: a fold has several. One by default."),
    ] = None,
    ahead: Ahead = None,
    smoothed: Annotated[bool, typer.Option(help="Whether smoothed predictions are scored.")] = True,
    runs: Annotated[
        Path | None, typer.Option("--runs", metavar="FOLDER", help="Keep the runs of the folds here, to go on later.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the scores of each datum: .csv or .parquet.")
    ] = None,
    draws: Annotated[int, typer.Option(min=10, max=1_000_000, help="Draws of smoothed data.")] = DRAWS,
    scheduler: Scheduler = None,
    workers: Workers = None,
    seed: Seed = None,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Leave out stations or blocks of time in turn, and score predictions of them, beside simple forecasts.

    Each datum is left out once. The run of the configuration is not touched.
    """
    if output is not None:
        check_output(output, TABLES, force)
    with _folder(runs) as folder:
        given = read_configuration(config)
        section = given.run.model_copy(update={"folder": str(folder.resolve() / "none")})
        configuration = resolved(config, given.model_copy(update={"run": section}), seed)
        snapshots = read_snapshots(configuration)
        sampler, _ = chosen_sampler(config, configuration, snapshots)
        with client_of(scheduler, workers) as client:
            found = cross_validate(
                sampler,
                snapshots,
                folder,
                leave_out,
                folds,
                block,
                client,
                tuple(ahead or (0,)),
                smoothed,
                draws,
                configuration.run.seed,
                configuration.model_dump(mode="json"),
            )
    if output is not None:
        write_table(output, found.frame())
    said: dict[str, Any] = plain_scores(found) | {"runs": runs, "written": output}
    show(said, json, lambda out: show_score(out, found, output))


@contextlib.contextmanager
def _folder(runs: Path | None) -> Iterator[Path]:
    """Where the runs of the folds are: the folder given, or one that is gone afterwards."""
    if runs is not None:
        yield runs
        return
    with tempfile.TemporaryDirectory(prefix="seqgp-folds-") as folder:
        yield Path(folder)
