"""The command ``localvol``: from a table of option quotes to surfaces with bands."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.box import SIMPLE
from rich.table import Table

from seqgp.cli.common import Debug, Json, Mistake, Seed, command, show
from seqgp.io.files import write_atomically, write_csv
from seqgp.io.frames import READERS, read_numbered
from seqgp.io.store import Store

RUN = "run"  # in the folder of the results

KnotsOption = Annotated[
    tuple[int, int], typer.Option(help="Knots in maturity and in log-moneyness, at least two each.")
]


@command(stopped="every finished day is kept, and the same command goes on")
def localvol(
    quotes: Annotated[
        Path,
        typer.Argument(
            metavar="QUOTES.csv",
            help="One row a quote: quote_date, expiration, strike, option_type, bid, ask or price.",
        ),
    ],
    folder: Annotated[Path, typer.Option("-o", "--output", help="The folder to write to.")] = Path("localvol"),
    column: Annotated[
        list[str] | None, typer.Option(metavar="OURS=THEIRS", help="A column of another name; may be repeated.")
    ] = None,
    noise: Annotated[
        str, typer.Option(help="What the noise is constant in: volatility, spread or price.")
    ] = "volatility",
    robust: Annotated[bool, typer.Option("--robust", help="Student-t noise, against outliers.")] = False,
    knots: KnotsOption = (6, 24),
    min_maturity: Annotated[float, typer.Option(help="Leave out shorter maturities, in years.")] = 0.05,
    deviations: Annotated[
        float,
        typer.Option(
            help="Leave out strikes further from the money than so many deviations, of a volatility of 25 % a year."
        ),
    ] = 2.0,
    draws: Annotated[int, typer.Option(min=20, help="Draws of each day.")] = 1000,
    seed: Seed = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Infer local volatility from option quotes, day after day: surfaces, smiles and errors, as tables and figures.

    Every day is on disk before the next one begins: the same command goes on where it was interrupted, and takes in
    days that were added since.
    """
    from seqgp.apps.localvol import LocalVolFit, Quotes

    store = _store(folder)
    mapping, known = _mapping(column), quotes.suffix.lower() in READERS or not quotes.is_file()
    try:  # what pandas reads besides, a table that is compressed, say, it reads by itself
        table = Quotes.from_frame(read_numbered(quotes), mapping) if known else Quotes.from_csv(quotes, mapping)
        chosen = table.select(min_maturity=min_maturity, max_deviations=deviations)
        model = _model(store, chosen, knots, noise=noise, robust=robust)
        days = [chosen.day(date) for date in chosen.dates]
        for day in days:
            model.snapshot(day)
    except ValueError as error:
        raise Mistake(f"{quotes}: {error}") from error
    fit = LocalVolFit(model, draws, seed or 0, store=store.path)
    rows = []
    for day in days:
        fit.update(day)
        rows.append(_row(fit))
        if not json:
            show({}, False, lambda out: out.print(_line(rows[-1]), markup=False))
    write_csv(folder / "excluded.csv", chosen.excluded, index=True)
    write_results(fit, folder)
    said = {"folder": folder, "days": rows, "excluded": len(chosen.excluded)}
    show(said, json, lambda out: out.print(_table(fit, folder)))


def write_results(fit: Any, folder: Path) -> None:
    """Tables of the last day and of all parameters; figures where Matplotlib is there."""
    write_csv(folder / "expirations.csv", fit.table(), index=True)
    write_csv(folder / "quotes.csv", fit.quote_draws().to_frame(), index=True)
    write_csv(folder / "smiles.csv", fit.smiles())
    write_csv(folder / "parameters.csv", fit.parameters())
    model = fit.model
    T = np.linspace(model.maturities[0], model.maturities[-1], 25)
    y = np.linspace(model.log_moneyness[0], model.log_moneyness[-1], 41)
    write_csv(folder / "surface.csv", fit.surface().on_grid(T, log_moneyness=y).to_frame())
    try:
        import matplotlib as mpl
    except ImportError:
        return
    from seqgp.apps.localvol import figures

    mpl.use("agg")
    for name in ("smiles", "surface", "parameters"):
        figure = getattr(figures, name)(fit)
        write_atomically(folder / f"{name}.png", functools.partial(figure.savefig, format="png", dpi=150))


def _store(folder: Path) -> Store:
    """Where the run is kept: in a new folder, or in one that holds such a run."""
    store = Store(folder / RUN)
    if not store.exists and folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise Mistake(f"{folder}: is there already, and holds no run to go on with; choose another folder with -o")
    return store


def _model(store: Store, quotes: Any, shape: tuple[int, int], **options: Any) -> Any:
    """The model of the quotes; that of the run, where there is one: days that are added keep its knots."""
    from seqgp.apps.localvol import LocalVolatility

    if not (store.exists and len(store)):
        return LocalVolatility.for_quotes(quotes, shape, **options)
    knots = (store.manifest.configuration or {}).get("localvol")
    if knots is None:
        raise Mistake(f"{store.path}: holds another run, not one of `seqgp localvol`; choose another folder with -o")
    held = (len(knots["maturities"]), len(knots["log_moneyness"]))
    if held != tuple(shape):
        raise Mistake(
            f"{store.path}: the run has --knots {held[0]} {held[1]}, not {shape[0]} {shape[1]}; give the same ones, or "
            "another folder with -o"
        )
    return LocalVolatility.at_knots(**knots, **options)


def _mapping(given: list[str] | None) -> dict[str, str] | None:
    pairs = [entry.partition("=") for entry in given or []]
    bad = [entry for entry, (ours, _, theirs) in zip(given or [], pairs) if not (ours and theirs)]
    if bad:
        raise Mistake(f"--column {bad[0]}: expected OURS=THEIRS, option_type=cp_flag, say")
    return {ours: theirs for ours, _, theirs in pairs} or None


def _row(fit: Any) -> dict[str, Any]:
    day, found = fit.last, fit.table().loc["all"]
    return {
        "date": f"{day.date:%Y-%m-%d}",
        "quotes": int(found["quotes"]),
        "rmse_bp": float(found["rmse_bp"]),
        "forecast_bp": None if day.forecast is None else float(day.forecast.loc["all", "rmse_bp"]),
        "coverage": float(found["coverage"]),
        "flagged": [f"{date:%Y-%m-%d}" for date in day.flagged],
        "min_ess": day.info.min_ess,
        "seconds": day.info.seconds,
        "warnings": list(day.info.warnings),
    }


def _line(row: dict[str, Any]) -> str:
    ahead = "" if row["forecast_bp"] is None else f", {row['forecast_bp']:.1f} bp before its update"
    flagged = f"; does not fit: {', '.join(row['flagged'])}" if row["flagged"] else ""
    return f"{row['date']}: {row['quotes']} quotes, {row['rmse_bp']:.1f} bp{ahead}, ESS {row['min_ess']:.0f}{flagged}"


def _table(fit: Any, folder: Path) -> Table:
    table = Table(title=f"{fit.last.date:%Y-%m-%d}; more in {folder}", box=SIMPLE)
    for heading in ("expiration", "quotes", "RMSE, bp", "inside bid-ask", "coverage"):
        table.add_column(heading, justify="right")
    for name, row in fit.table().iterrows():
        when = f"{name:%Y-%m-%d}" if isinstance(name, pd.Timestamp) else str(name)
        inside = "" if np.isnan(row["inside_bid_ask"]) else f"{row['inside_bid_ask']:.0%}"
        table.add_row(when, str(row["quotes"]), f"{row['rmse_bp']:.1f}", inside, f"{row['coverage']:.0%}")
    return table
