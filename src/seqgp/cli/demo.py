"""Embedded examples: made up, sampled and reported on in one command."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import pandas as pd
import typer

from seqgp.cli.common import Debug, Json, Mistake, Seed, command, show
from seqgp.cli.localvol import localvol
from seqgp.cli.template import TEMPLATE
from seqgp.io.configuration import read_configuration
from seqgp.io.configured import resolved
from seqgp.io.files import write_atomically, write_csv
from seqgp.io.run import run
from seqgp.io.tables import snapshots_from
from seqgp.io.title import with_source


class Example(StrEnum):
    """The examples there are."""

    regression = "regression"
    line = "line"
    localvol = "localvol"


Only = Annotated[Example, typer.Argument(help="Which example: a map that moves, a line, or option quotes.")]


def _after(example: Example = Example.regression, folder: Path = Path("seqgp-demo"), **_: object) -> str:
    """What is true of a demo that was stopped."""
    if example is Example.localvol:
        return f"`seqgp localvol {folder}/quotes.csv -o {folder}/surfaces` goes on with it, given the same settings"
    return f"`seqgp fit {folder / 'demo.toml'}` goes on with it"


@command(stopped=_after)
def demo(
    example: Only = Example.regression,
    folder: Annotated[Path, typer.Option("-o", "--output", help="The folder to write to.")] = Path("seqgp-demo"),
    steps: Annotated[int, typer.Option(min=2, max=100, help="How many times.")] = 10,
    draws: Annotated[int, typer.Option(min=20, help="Draws at each time.")] = 400,
    seed: Seed = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run an example, from a table to a finished report: the quickest way to see what seqgp does."""
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise Mistake(f"{folder}: is there already; choose another folder with -o")
    folder.mkdir(parents=True, exist_ok=True)
    if example is Example.localvol:
        _option_quotes(folder, min(steps, 3), draws, seed, json, debug)
        return
    frame, changes = EXAMPLES[example](np.random.default_rng(seed or 0), steps)
    table, config = folder / "measurements.csv", folder / "demo.toml"
    write_csv(table, frame)
    text = TEMPLATE.format(name=config.name, folder="run").replace("draws = 1000", f"draws = {draws}")
    text = text.replace("seed = 0", f"seed = {seed or 0}")
    for old, new in changes.items():
        text = text.replace(old, new)
    write_atomically(config, lambda file: file.write(text.encode()))
    configuration = resolved(config, read_configuration(config), seed)
    snapshots = snapshots_from(table, configuration.data.columns())
    result = run(
        configuration.build(snapshots[0]),
        snapshots,
        key=jax.random.key(seed or 0),
        store=folder / "run",
        configuration=with_source(configuration.model_dump(mode="json"), config),
    )
    from seqgp.report import report

    report(result.store, folder / "report.html")
    said = {"run": folder / "run", "report": folder / "report.html", "config": config, "table": table}
    show(said, json, lambda out: out.print(f"done: open {folder / 'report.html'} in a browser", markup=False))


def _option_quotes(folder: Path, days: int, draws: int, seed: int | None, json: bool, debug: bool) -> None:
    """Quotes of a made-up market, and the command that reads them."""
    from seqgp.apps.localvol import simulated_quotes

    table = folder / "quotes.csv"
    write_csv(table, simulated_quotes(days, seed=seed or 0))
    surfaces = folder / "surfaces"
    localvol(table, surfaces, knots=(5, 9), deviations=2.5, draws=draws, seed=seed, json=json, debug=debug)


def _regression(rng: np.random.Generator, steps: int) -> tuple[pd.DataFrame, dict[str, str]]:
    """A bump that wanders over the square, seen at 40 stations, some of which are silent now and then."""
    x = rng.random((40, 2))
    frames = []
    for i in range(steps):
        t = 0.1 * i
        centre = np.array([0.5 + 0.3 * np.cos(2 * t), 0.5 + 0.3 * np.sin(2 * t)])
        f = np.exp(-8 * ((x - centre) ** 2).sum(axis=1))
        y = f + 0.1 * rng.normal(size=len(x))
        y[rng.random(len(x)) < 0.05] = np.nan
        names = [f"S{k:02d}" for k in range(len(x))]
        frames.append(pd.DataFrame({"t": round(t, 6), "x1": x[:, 0], "x2": x[:, 1], "y": y, "station": names}))
    return pd.concat(frames, ignore_index=True), {
        '# location = "station"  ': 'location = "station"  ',
        '# title = "My measurements" ': 'title = "A bump that wanders" ',
    }


def _line(rng: np.random.Generator, steps: int) -> tuple[pd.DataFrame, dict[str, str]]:
    """A wave that travels along a line, seen at other places each time."""
    frames = []
    for i in range(steps):
        t = 0.1 * i
        x = np.sort(rng.random(30) * 3)
        y = np.sin(2 * x - 2 * t) + 0.15 * rng.normal(size=len(x))
        frames.append(pd.DataFrame({"t": round(t, 6), "x1": x, "y": y}))
    changes = {
        '# title = "My measurements" ': 'title = "A wave that travels" ',
        'inputs = ["x1", "x2"] ': 'inputs = ["x1"]       ',
        "lengthscale = [{ low = 0, high = 3 }, { low = 0, high = 3 }]": "lengthscale = { low = 0, high = 3 }",
    }
    return pd.concat(frames, ignore_index=True), changes


EXAMPLES: dict[str, Callable[[np.random.Generator, int], tuple[pd.DataFrame, dict[str, str]]]] = {
    "regression": _regression,
    "line": _line,
}


__all__: list[Any] = ["Example", "demo"]
