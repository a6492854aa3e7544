"""What ``localvol`` says of a day, and the files that it writes."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.box import SIMPLE
from rich.table import Table

from seqgp.io.files import write_atomically, write_csv

FIGURES = ("smiles", "total_variance", "residuals", "surface", "density", "parameters")


def when(date: Any) -> str:
    """A date, with its time of day where it has one."""
    moment: Any = pd.Timestamp(date)
    return f"{moment:%Y-%m-%d}" if moment == moment.normalize() else f"{moment:%Y-%m-%d %H:%M:%S}"


def day_row(fit: Any, held_out: Any) -> dict[str, Any]:
    """The figures of the last day."""
    day, found = fit.last, fit.table().loc["all"]
    row = {
        "date": when(day.date),
        "quotes": int(found["quotes"]),
        "rmse_bp": float(found["rmse_bp"]),
        "forecast_bp": None if day.forecast is None else float(day.forecast.loc["all", "rmse_bp"]),
        "coverage": float(found["coverage"]),
        "flagged": [when(date) for date in day.flagged],
        "min_ess": float(day.info.min_ess),
        "seconds": day.info.seconds,
        "warnings": list(day.info.warnings),
    }
    if held_out is not None and len(held_out.table):
        scored = fit.table(held_out).loc["all"]
        row["held_out"] = {
            "quotes": int(scored["quotes"]),
            "rmse_bp": float(scored["rmse_bp"]),
            "coverage": float(scored["coverage"]),
        }
    return row


def day_lines(row: dict[str, Any]) -> list[str]:
    """A line for a day, and one for each of its warnings."""
    ahead = "" if row["forecast_bp"] is None else f", {row['forecast_bp']:.1f} bp before its update"
    out = row.get("held_out")
    scored = (
        "" if out is None else f", {out['rmse_bp']:.1f} bp on {out['quotes']} held out ({out['coverage']:.0%} covered)"
    )
    mixing = "" if np.isnan(row["min_ess"]) else f", ESS {row['min_ess']:.0f}"
    flagged = f"; does not fit: {', '.join(row['flagged'])}" if row["flagged"] else ""
    first = f"{row['date']}: {row['quotes']} quotes, {row['rmse_bp']:.1f} bp{ahead}{scored}{mixing}{flagged}"
    return [first, *(f"  warning: {text}" for text in row["warnings"])]


def write_excluded(folder: Path, excluded: object) -> None:
    """The log of quotes that were left out."""
    write_csv(folder / "excluded.csv", excluded, index=True)


def write_results(fit: Any, folder: Path, held_out: Any = None) -> None:
    """Tables of the last day and of all parameters; figures where Matplotlib is there."""
    write_csv(folder / "expirations.csv", fit.table(), index=True)
    write_csv(folder / "quotes.csv", fit.quote_draws().to_frame(), index=True)
    write_csv(folder / "smiles.csv", fit.smiles())
    write_csv(folder / "parameters.csv", fit.parameters())
    model = fit.model
    T = np.linspace(model.maturities[0], model.maturities[-1], 25)
    y = np.linspace(model.log_moneyness[0], model.log_moneyness[-1], 41)
    write_csv(folder / "surface.csv", fit.surface().on_grid(T, log_moneyness=y).to_frame())
    if held_out is not None and len(held_out.table):
        write_csv(folder / "held_out.csv", fit.quote_draws(held_out).to_frame(), index=True)
    try:
        import matplotlib as mpl
    except ImportError:
        return
    from seqgp.apps.localvol import figures

    mpl.use("agg")
    for name in FIGURES:
        shown = {"held_out": held_out} if name == "smiles" else {}
        figure = getattr(figures, name)(fit, **shown)
        write_atomically(folder / f"{name}.png", functools.partial(figure.savefig, format="png", dpi=150))
        figures.pyplot().close(figure)


def write_quantlib(fit: Any, path: Path) -> None:
    """The mean surface of the last day at its quoted strikes, as JSON that `from_json` makes QuantLib's surface of."""
    from seqgp.apps.localvol import to_json

    surface, strikes = fit.surface(), sorted(fit.last.quotes.table["strike"].unique())
    text = to_json(surface.mean(), surface.curve, fit.last.date, strikes)
    write_atomically(path, lambda file: file.write(text.encode()))


def last_table(fit: Any, folder: Path) -> Table:
    """The last day by expiration."""
    table = Table(title=f"{when(fit.last.date)}; more in {folder}", box=SIMPLE)
    for heading in ("expiration", "quotes", "RMSE, bp", "inside bid-ask", "coverage"):
        table.add_column(heading, justify="right")
    for name, row in fit.table().iterrows():
        label = when(name) if isinstance(name, pd.Timestamp) else str(name)
        inside = "" if np.isnan(row["inside_bid_ask"]) else f"{row['inside_bid_ask']:.0%}"
        table.add_row(label, str(row["quotes"]), f"{row['rmse_bp']:.1f}", inside, f"{row['coverage']:.0%}")
    return table
