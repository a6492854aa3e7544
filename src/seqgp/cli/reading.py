"""Commands that read a run, or write something beside it: ``predict``, ``summary``, …"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from seqgp.base.info import ChainInfo
from seqgp.base.remarks import add_up
from seqgp.base.transforms import transform_of
from seqgp.cli.common import (
    DAMAGED,
    Debug,
    Force,
    Json,
    Mistake,
    RunFolder,
    Seed,
    check_output,
    command,
    moment,
    open_run,
    show,
    shown,
)
from seqgp.cli.comparing import averaged_runs, columns_of, weights_in_words
from seqgp.cli.fitting import configuration_of, flagged_words
from seqgp.evaluate.motion import motions
from seqgp.evaluate.past import predict_past
from seqgp.evaluate.predict import predict as predict_at
from seqgp.evaluate.transformed import in_units
from seqgp.io.configuration import DataSection
from seqgp.io.dates import time_from
from seqgp.io.export import write_table
from seqgp.io.store import Store
from seqgp.io.summary import STATISTICS, flat_parameters
from seqgp.io.tables import points_from
from seqgp.io.timestamps import date_of
from seqgp.io.unused_rows import left_out
from seqgp.plots.history import history_of, missing_of
from seqgp.samplers.keys import stream
from seqgp.samplers.online.state import OnlineState
from seqgp.samplers.online.stations import StationNoise

TABLES = (".csv", ".parquet", ".geoparquet")
NOISE_COLUMNS = ("station", "median", "2.5%", "97.5%")
RESULTS = tuple(f"{name}_{what}" for name in "fy" for what in ("mean", "sd", "q2.5", "q50", "q97.5"))  # of a prediction


@command
def predict(
    folder: RunFolder,
    output: Annotated[Path, typer.Option("-o", "--output", help="The table to write: .csv, .parquet or .geoparquet.")],
    points: Annotated[
        Path | None,
        typer.Argument(
            metavar="POINTS.csv", help="A table with the columns of inputs and covariates; others are passed on."
        ),
    ] = None,
    given: Annotated[Path | None, typer.Option("--points", metavar="POINTS.csv", help="The same table.")] = None,
    grid: Annotated[
        Path | None,
        typer.Option(
            "--grid", metavar="GRID.nc", help="Points from a grid instead: NetCDF (or a table), with the covariates."
        ),
    ] = None,
    t: Annotated[
        str | None,
        typer.Option(
            "--time",
            metavar="TIME",
            help="The time, a number or a date; the last one by default. A past one is smoothed: given all data.",
        ),
    ] = None,
    others: Annotated[
        list[Path] | None,
        typer.Option(
            "--average", metavar="RUN2", help="Another run over the same data to average with; may be repeated."
        ),
    ] = None,
    by: Annotated[
        str, typer.Option("--by", help="Where the weights of averaged runs are from: forecasts or evidence.")
    ] = "forecasts",
    seed: Seed = None,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Predict the latent function and new data at any place, now, later or in the past.

    The output has the mean, the standard deviation and quantiles of both at each point.
    """
    points = _one_of(points, given, grid)
    store = open_run(folder)
    check_output(output, TABLES, force)
    model = store.model
    if model is None:
        raise Mistake(f"{folder}: the model has code of its own; use seqgp.predict in Python")
    data = configuration_of(store).data
    when = None if t is None else _time(t, data)
    averaged = averaged_runs([store, *map(open_run, others)], by) if others else None
    columns = data.columns() if averaged is None else columns_of(averaged)
    x, context, frame = points_from(points, columns)
    taken = [name for name in frame.columns if name in RESULTS]
    if taken:
        raise Mistake(f"{points}: column {taken[0]!r} is what a result is called; rename it")
    state = store.latest().state
    key = stream(seed or 0, "predict")
    if when is not None and when < state.t:
        _check_past(t, store, state, averaged)
        prediction = predict_past(key, model, state, x, when, context, data.columns().transform)
    elif averaged is None:
        prediction = in_units(predict_at(key, model, state, x, when, context), data.columns().transform)
    else:
        prediction = averaged.predict(key, x, when, context)
    values = (*_statistics(prediction.f), *_statistics(prediction.y))
    frame = _with_time(frame, data, prediction.t).assign(**dict(zip(RESULTS, values)))
    write_table(output, frame, columns.inputs)
    said = {"written": output, "points": len(frame), "t": prediction.t, "draws": len(prediction.f)}
    said |= {} if averaged is None else {"weights": averaged.weights, "by": averaged.by}
    at, mixed = moment(store, prediction.t), "" if averaged is None else f"; {weights_in_words(averaged)}"
    show(said, json, lambda out: out.print(f"wrote {output}: {len(frame)} points at {at}{mixed}", markup=False))


@command
def summary(folder: RunFolder, json: Json = False, debug: Debug = False) -> None:
    """Show what a run holds: times, parameters now, diagnostics."""
    store = open_run(folder)
    steps = list(store)
    last = steps[-1]
    info, noise = last.info, _station_noise(store)
    parameters = {
        name: dict(zip(STATISTICS, values.tolist()))
        for name, values in flat_parameters(last.summary.parameters).items()
    }
    said = {
        "run": folder,
        "steps": len(steps),
        "whole": sum(step.whole for step in steps),
        "first": steps[0].t,
        "last": last.t,
        "missing": dict(zip(("values", "of"), missing_of(history_of(store)))),
        "transform": _transform_words(store),
        "parameters": parameters,
        "motions": _motions(store),
        "station_noise": [] if noise is None else [dict(zip(NOISE_COLUMNS, row)) for row in noise.table()],
        "ess": info.ess,
        "rhat": getattr(info, "rhat", None),
        "settings": info.settings,
        "flagged": flagged_words(info, store),
        "warnings": list(info.warnings),
        "warnings_of_all_steps": [total.among(len(steps)) for total in add_up(step.info.warnings for step in steps)],
        "versions": store.manifest.versions,
        "left_out": [note._asdict() for note in left_out(folder)],
    }
    times = f"{moment(store, steps[0].t)} to {moment(store, last.t)}"
    lines = [*said["motions"], *([] if noise is None else noise.lines())]
    show(said, json, lambda out: _show_summary(out, said, info, times, lines))


@command
def check(
    folder: RunFolder,
    repair: Annotated[bool, typer.Option("--repair", help="Set broken files aside, into RUN/broken.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Read every file of a run, and name those that are broken."""
    store = Store(folder)
    found = store.check()
    if found and not json:
        for damage in found:
            show({}, False, lambda out, d=damage: out.print(f"broken: {d.path.name}: {d.why}", markup=False))
    mended = store.repair() if repair and found else []
    said = {
        "run": folder,
        "steps": len(store),
        "broken": [{"file": d.path, "why": d.why} for d in found],
        "set_aside": [d.path for d in mended],
    }

    def text(out: Console) -> None:
        if mended:
            last = f"after step {store.latest().number}" if len(store) else "from the beginning"
            out.print(f"mended: {len(mended)} files set aside or restored; the run goes on {last}", markup=False)
        elif found:
            out.print(f"{len(found)} broken files; `seqgp check {folder} --repair` sets them aside", markup=False)
        else:
            out.print(f"{folder}: {len(store)} steps, all whole", markup=False)

    show(said, json, text)
    if found and not mended:
        raise typer.Exit(DAMAGED)


def _one_of(*tables: Path | None) -> Path:
    found = [table for table in tables if table is not None]
    if len(found) != 1:
        raise Mistake("give the points once: POINTS.csv (or --points POINTS.csv), or --grid GRID.nc")
    return found[0]


def _check_past(t: str | None, store: Store, state: Any, averaged: Any) -> None:
    """Raise unless a past time can be predicted from a state."""
    before = f"--time {t}: before the last time of the run, {moment(store, state.t)}"
    if averaged is not None:
        raise Mistake(f"{before}; --average takes the present and the future alone")
    if not isinstance(state, OnlineState):
        raise Mistake(f"{before}, and this sampler keeps no past: only online does")


def _with_time(frame: Any, data: DataSection, t: float) -> Any:
    """The table with the time of its predictions as first column: a date where the run's times are dates."""
    name = data.time if data.time not in frame else f"{data.time} (predicted)"
    return frame.assign(**{name: _date_or_number(t, data)})[[name, *frame.columns]]


def _date_or_number(t: float, data: DataSection) -> Any:
    if data.origin is None:
        return t
    date = date_of(t, data.origin, data.unit)
    return date.removesuffix("T00:00:00")


def _time(text: str, data: DataSection) -> float:
    try:
        return time_from(text, data.origin, data.unit)
    except ValueError as error:
        raise Mistake(f"--time {text}: {error}") from error


def _motions(store: Store) -> list[str]:
    """How patterns move, where the kernel has a delay or a velocity."""
    model = store.model
    if model is None or not model.kernel.moving:
        return []
    return [str(one) for one in motions(model, store.latest().state.parameters, store.manifest.section("data"))]


def _station_noise(store: Store) -> StationNoise | None:
    """Of each station, where the model has one for each."""
    model = store.model
    if model is None or not model.likelihood.by_station:
        return None
    return getattr(store.latest().state, "station_noise", None)


def _transform_words(store: Store) -> str | None:
    data = store.manifest.section("data")
    transform = transform_of(data)
    return None if transform is None else transform.of(str(data.get("value") or "y"))


def _statistics(draws: object) -> list[np.ndarray]:
    values = np.asarray(draws)
    return [values.mean(axis=0), values.std(axis=0), *np.quantile(values, [0.025, 0.5, 0.975], axis=0)]


def _show_summary(out: Console, said: dict[str, Any], info: Any, times: str, lines: list[str]) -> None:
    out.print(f"{said['run']}: {said['steps']} steps ({said['whole']} whole), {times}", markup=False)
    if said["missing"]["values"]:
        out.print(f"{said['missing']['values']:,} of {said['missing']['of']:,} data are missing", markup=False)
    if said["transform"] is not None:
        out.print(f"the model is for {said['transform']}, and so are its parameters", markup=False)
    columns = ("mean", "sd", "2.5%", "97.5%")
    chains = ("ESS", "R-hat") if isinstance(info, ChainInfo) else ()
    table = Table(Column("parameter", no_wrap=True), *columns, *chains, box=SIMPLE)
    for name, values in said["parameters"].items():
        numbers = [f"{values[statistic]:.4g}" for statistic in columns]
        if chains:
            numbers += [f"{info.ess.get(name, np.nan):.0f}", f"{info.rhat.get(name, np.nan):.3f}"]
        table.add_row(Text(name), *numbers)  # brackets in names are no markup
    out.print(table)
    for line in lines:
        out.print(line, markup=False)
    if not chains:
        out.print(info.health, markup=False)
    for sentence in said["flagged"]:
        out.print(f"flagged: {sentence}", markup=False)
    for warning in said["warnings_of_all_steps"]:
        out.print(f"note: {warning}", markup=False)
    for note in said["left_out"]:
        why = note["why"].removeprefix(f"{note['file']}: ")  # of a file that was watched for, it names it itself
        out.print(shown(f"not used: {note['file']}: {why}"), markup=False)
