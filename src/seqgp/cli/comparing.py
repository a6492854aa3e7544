"""Several runs over the same data: ``compare``, and what ``predict`` needs to average them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from seqgp.cli.common import Debug, Json, Mistake, command, open_run, show
from seqgp.cli.fitting import configuration_of
from seqgp.evaluate.average import Average, average
from seqgp.evaluate.compare import compare as compare_runs
from seqgp.io.run import Run
from seqgp.io.store import Store
from seqgp.io.tables import Columns


@command
def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN RUN2 …", help="The folders of two runs or more.")],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare runs over the same data by evidence and forecasts, and say where these disagree."""
    found = compare_runs(_named([open_run(folder) for folder in folders]))
    said = {
        "candidates": [
            one._asdict() | {name: getattr(one, name)._asdict() for name in ("crps_difference", "log_score_difference")}
            for one in found.candidates
        ],
        "steps": found.steps,
        "disagreements": found.disagreements(),
    }
    show(said, json, lambda out: out.print(str(found), markup=False))


def averaged_runs(stores: list[Store], by: str) -> Average:
    """Runs with their weights; raise unless their tables have the same meaning."""
    runs = _named(stores)
    sections = [configuration_of(store).data for store in stores]
    for key in ("inputs", "origin", "unit"):
        values = [getattr(section, key) for section in sections]
        for store, value in zip(stores, values):
            if value != values[0]:
                raise Mistake(f"{store.path}: data.{key} is {value!r}, and {values[0]!r} in {stores[0].path}")
    return average(runs, by)  # pyright: ignore[reportArgumentType]


def columns_of(averaged: Average) -> Columns:
    """The columns of points: inputs, and the covariates of all runs."""
    found = [configuration_of(run.store).data.columns() for run in averaged.runs.values()]
    covariates: dict[str, str] = {}
    for columns in found:
        for name, column in columns.covariates.items():
            if covariates.setdefault(name, column) != column:
                raise Mistake(f"covariate {name!r} is column {covariates[name]!r} in one run and {column!r} in another")
    return found[0]._replace(covariates=covariates)


def weights_in_words(averaged: Average) -> str:
    """Which run has which weight."""
    shares = ", ".join(f"{name} {weight:.3f}" for name, weight in averaged.weights.items())
    return f"weights by {averaged.by}: {shares}"


def _named(stores: list[Store]) -> dict[str, Any]:
    """Runs by the shortest ends of their paths that tell them apart."""
    paths = [store.path.resolve() for store in stores]
    if len(set(paths)) < len(paths):
        raise Mistake("the same run is given twice")
    depth = 1
    while len({path.parts[-depth:] for path in paths}) < len(paths):
        depth += 1
    return {str(Path(*path.parts[-depth:])): _run(store) for path, store in zip(paths, stores)}


def _run(store: Store) -> Run:
    latest = store.latest()
    if store.model is None:
        raise Mistake(f"{store.path}: the model has code of its own; use seqgp.compare and seqgp.average in Python")
    return Run(latest.state, [step.info for step in store], latest.snapshot, store.model, store)
