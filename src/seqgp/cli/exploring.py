"""Commands that look at data before a model is chosen: ``new`` and ``explore``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from jaxtyping import Float
from rich.console import Console

from seqgp.base.transforms import Transform
from seqgp.cli.common import Debug, Force, Json, Mistake, check_target, command, show, shown
from seqgp.cli.suggested import configuration_text
from seqgp.cli.template import TEMPLATE
from seqgp.evaluate.explore import DataExploration, as_stations
from seqgp.evaluate.explore import explore as explore_data
from seqgp.evaluate.suggestion import in_words
from seqgp.evaluate.trend import Trend, linear_trend
from seqgp.io.configuration import ConfigurationError, DataSection, read_toml, validated
from seqgp.io.files import write_atomically
from seqgp.io.guess import HEIGHTS, guess_columns
from seqgp.io.spec_entries import Strict
from seqgp.io.tables import Columns, first_date, snapshots_from

Period = Annotated[
    float | None,
    typer.Option(
        "--period",
        min=0,
        help="Of a season that the variance may have, in units of time; of dates it is the year, or the day.",
    ),
]
SEASONS = {"seconds": 86400.0, "minutes": 1440.0, "hours": 24.0, "days": 1.0, "weeks": 1 / 7}  # a day in each unit
YEAR = 365.25
SKEWED = 0.7  # skewness of values of a station that is worth a word


class _DataOnly(Strict):
    data: DataSection


@command
def new(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The file to write.")],
    table: Annotated[
        Path | None,
        typer.Option("--table", metavar="TABLE.csv", help="Explore this table, and write columns and priors for it."),
    ] = None,
    time: Annotated[str | None, typer.Option("--time", help="Its column of times.")] = None,
    inputs: Annotated[str | None, typer.Option("--inputs", help="Its columns of inputs, separated by commas.")] = None,
    value: Annotated[str | None, typer.Option("--value", help="Its column of values.")] = None,
    location: Annotated[str | None, typer.Option("--location", help="Its column of names of locations.")] = None,
    transform: Annotated[
        Literal["log", "sqrt"] | None,
        typer.Option("--transform", help="Explore and fit the logarithm or the root of the values."),
    ] = None,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a commented configuration to begin with; with `--table`, one with priors that suit the data."""
    if config.suffix != ".toml":
        raise Mistake(f"{config}: the name of a configuration ends in .toml")
    check_target(config, force)
    if table is None:
        for name, given in (("time", time), ("inputs", inputs), ("value", value), ("location", location)):
            if given is not None:
                raise Mistake(f"--{name} names a column of a table: give --table too")
        if transform is not None:
            raise Mistake("--transform is of the values of a table: give --table too")
        text, lines = TEMPLATE.format(name=config.name, folder=f"runs/{config.stem}"), []
    else:
        names = tuple(part.strip() for part in inputs.split(",")) if inputs else ()
        columns = guess_columns(table, time, names, value, location)
        columns = columns._replace(transform=None if transform is None else Transform(transform))
        found, _, trend, remarks = _explored(table, columns, None)
        dates = first_date(table, columns.time) is not None
        text = configuration_text(config, table, columns, found, trend, dates)
        lines = [*remarks, *trend.lines(), *in_words(found)]
    write_atomically(config, lambda file: file.write(text.encode()))
    said = f"wrote {shown(config)}: edit it, then `seqgp fit {shown(config)}`"
    show({"written": config} | ({"found": lines} if lines else {}), json, lambda out: _say(out, [*lines, said]))


@command
def explore(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="A configuration; of it, [data] alone is needed.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.")] = Path("explored.html"),
    period: Period = None,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what the data of stations say before you choose a model, and suggest a model."""
    check_target(output, force)
    text, content = read_toml(config)
    if not isinstance(content.get("data"), dict):
        raise ConfigurationError(f"{config}: it has no section [data], which says where the table is")
    data = validated(config, text, {"data": content["data"]}, _DataOnly).data
    table = config.parent / data.file
    found, season, trend, remarks = _explored(table, data.columns(), period)
    from seqgp.report import exploration_report

    exploration_report(found, output, f"What {Path(data.file).name} says")
    lines = [*remarks, *trend.lines(), *in_words(found)]
    said = {"written": output, "found": lines, "period": season, "suggested": _as_json(found)}
    show(said, json, lambda out: _say(out, [*lines, f"wrote {shown(output)}: open it in a browser"]))


def _explored(
    table: Path, columns: Columns, period: float | None
) -> tuple[DataExploration, float | None, Trend, list[str]]:
    """What a table says without the trend in heights, the period that was looked at, the trend, and remarks."""
    snapshots = snapshots_from(table, columns)
    dates = first_date(table, columns.time) is not None
    if period is None and dates:
        period = _season([one.t for one in snapshots], SEASONS[columns.unit])
    trend = linear_trend(snapshots, [name for name in columns.covariates if name in HEIGHTS])
    found = explore_data(trend.snapshots, period)
    remarks = []
    if columns.transform is None and skewed(as_stations(snapshots)[0].y):
        remarks.append("values: positive and skewed, their logarithms are not: consider `seqgp new --transform log`")
    return found, period, trend, remarks


def skewed(y: Float[np.ndarray, "T M"]) -> bool:
    """Whether values are positive, and far more skewed at each station than their logarithms."""
    if not np.nanmin(y) > 0:
        return False
    plain, logs = (_skewness(values) for values in (y, np.log(y)))
    return plain > SKEWED and abs(logs) < plain / 2


def _skewness(y: Float[np.ndarray, "T M"]) -> float:
    """The median over stations."""
    there = y[:, np.sum(~np.isnan(y), axis=0) > 2]
    off = there - np.nanmean(there, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.nanmedian(np.nanmean(off**3, axis=0) / np.nanmean(off**2, axis=0) ** 1.5))


def _season(times: list[float], day: float) -> float | None:
    """The year, or else the day, where dates cover two of them and each has four times or more."""
    span, step = times[-1] - times[0], float(np.median(np.diff(times))) if len(times) > 1 else np.inf
    return next((one for one in (YEAR * day, day) if span >= 2 * one and 4 * step <= one), None)


def _as_json(found: DataExploration) -> dict[str, Any]:
    suggested = found.suggested
    return suggested._asdict() | {"priors": {name: list(prior) for name, prior in suggested.priors.items()}}


def _say(out: Console, lines: list[str]) -> None:
    for line in lines:
        out.print(line, markup=False)
