"""Real DAX options, day after day: held-out quotes, the next day before its update, and what others do.

python -m experiments.dax --data dax_quotes.csv [--days 4] [--knots 6 24] [--scratch] [--sampler laplace|online]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import ScalarFormatter
from rich.console import Console
from rich.table import Table

import seqgp
from experiments.andreasen_huge import held_out_errors
from experiments.sticky import sticky_error, svi_error
from seqgp.apps.localvol import DAX_COLUMNS, Laplace, LocalVolatility, LocalVolFit, Quotes, figures

HELD_OUT = 0.2
DEVIATIONS, VOLATILITY, SHORTEST = 2.0, 0.25, 0.05  # |log K/F| < 2 · 0.25 √T, T > 0.05
COLUMNS = {
    "rmse": "held out, bp",
    "coverage": "coverage",
    "scratch": "from scratch, bp",
    "forecast": "next day, bp",
    "forecast_coverage": "its coverage",
    "sticky_strike": "sticky strike, bp",
    "sticky_moneyness": "sticky moneyness, bp",
    "svi": "SVI, bp",
    "andreasen_huge": "Andreasen–Huge, bp",
    "lowest": "lowest σ",
    "highest": "highest σ",
    "ess": "min ESS",
    "seconds": "seconds",
    "compiling": "compiling",
}


def chosen_quotes(path: Path) -> Quotes:
    """The quotes of the experiment; what violates no arbitrage is left to whoever learns from them."""
    quotes = Quotes.from_csv(path, DAX_COLUMNS, min_maturity=SHORTEST, drop_arbitrage=False)
    return quotes.select(max_deviations=DEVIATIONS, volatility=VOLATILITY)


def split(day: Quotes, seed: int) -> tuple[Quotes, Quotes]:
    """Four fifths to learn from, without arbitrage among themselves; one fifth to score, as it is."""
    train, test = day.split(HELD_OUT, seed)
    return train.without_arbitrage(), test


def quoted_range(fit: LocalVolFit) -> tuple[float, float]:
    """The lowest and the highest local volatility of any draw at the quoted expirations and strikes."""
    lows, highs = [], []
    for _, quotes in fit.last.quotes.table.groupby("expiration"):
        y = np.linspace(quotes["log_moneyness"].min(), quotes["log_moneyness"].max(), 31)
        draws = fit.surface().on_grid([quotes["maturity"].iloc[0]], log_moneyness=y).draws
        lows.append(draws.min())
        highs.append(draws.max())
    return float(min(lows)), float(max(highs))


def score_day(
    fit: LocalVolFit, model: LocalVolatility, day: Quotes, before: Quotes | None, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Everything about one day: predicted, updated, scored on what was held out, beside others."""
    train, test = split(day, arguments.seed)
    ahead = fit.forecast(day).by_expiration().loc["all"] if fit.days else {}
    updated = fit.update(train)
    found = fit.table(test).loc["all"]
    lowest, highest = quoted_range(fit)
    row: dict[str, Any] = {
        "date": f"{updated.date:%Y-%m-%d}",
        "quotes": len(train.table),
        "held_out": len(test.table),
        "rmse": found["rmse_bp"],
        "coverage": found["coverage"],
        "forecast": ahead.get("rmse_bp", np.nan),
        "forecast_coverage": ahead.get("coverage", np.nan),
        "lowest": lowest,
        "highest": highest,
        "ess": _effective(updated.info),
        "seconds": updated.info.seconds,
        "compiling": getattr(updated.info, "compile_seconds", np.nan),
        "flagged": [f"{date:%Y-%m-%d}" for date in updated.flagged],
        "warnings": list(updated.info.warnings),
    }
    if before is not None:  # yesterday as it was learnt from, and all of today, as for the forecast
        seen = split(before, arguments.seed)[0]
        row["sticky_strike"] = sticky_error(seen, day, "strike")
        row["sticky_moneyness"] = sticky_error(seen, day, "moneyness")
    row["svi"] = svi_error(train, test)
    variants = held_out_errors(train, test)
    row["variants"], row["andreasen_huge"] = variants, min(variants.values(), default=np.nan)
    if arguments.scratch and len(fit.days) > 1:
        alone = sampled(model, arguments)
        alone.update(train)
        row["scratch"] = alone.table(test).loc["all", "rmse_bp"]
    return row


def sampled(model: LocalVolatility, arguments: argparse.Namespace) -> LocalVolFit:
    """A fit that has seen nothing yet."""
    if arguments.sampler == "laplace":
        return LocalVolFit(model, seed=arguments.seed, sampler=Laplace(model.model, arguments.draws))
    return LocalVolFit(model, arguments.draws, arguments.seed, particles=arguments.particles)


def _effective(info: seqgp.Info) -> float:
    """The smallest effective sample size over the parameters, or the effective number of particles."""
    if isinstance(info, seqgp.OnlineInfo):
        return info.ess
    if not hasattr(info, "ess"):  # of a mode there is none
        return float("nan")
    return min(value for name, value in info.ess.items() if name != "latent")


def cells_of(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Headings, then one row a day."""
    body = [
        [row["date"], f"{row['quotes']} + {row['held_out']}", *(f"{row.get(name, np.nan):.3g}" for name in COLUMNS)]
        for row in rows
    ]
    return [["day", "quotes", *COLUMNS.values()], *body]


def table_of(rows: list[dict[str, Any]]) -> Table:
    """For the terminal."""
    headings, *body = cells_of(rows)
    table = Table(title="DAX: errors in basis points of implied volatility")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=heading == "day")
    for cells in body:
        table.add_row(*cells)
    return table


def markdown_of(rows: list[dict[str, Any]]) -> str:
    """For the docs."""
    return markdown(cells_of(rows))


def markdown(lines: list[list[str]]) -> str:
    """A table from its headings and rows."""
    headings, *body = lines
    every = [headings, ["---:"] * len(headings), *body]
    return "".join("| " + " | ".join(line) + " |\n" for line in every).replace("nan", "–")


def finite(value: Any) -> Any:
    """The same for strict JSON: numbers that are none become null."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value


def verdicts(rows: list[dict[str, Any]]) -> list[str]:
    """The goals, each with what was found."""
    frame = pd.DataFrame(rows)
    found = []
    ahead = frame.dropna(subset=["forecast"])
    if len(ahead):
        below = int(np.sum(np.asarray(ahead["forecast"]) < np.asarray(ahead["sticky_strike"])))
        means = f"{ahead['forecast'].mean():.1f} against {ahead['sticky_strike'].mean():.1f} bp"
        found.append(f"Next day below sticky strike on {below} of {len(ahead)} days; in the mean {means}.")
        share = float(np.average(ahead["forecast_coverage"], weights=ahead["quotes"] + ahead["held_out"]))
        covered = np.asarray(ahead["forecast_coverage"])
        inside = int(np.sum((covered >= 0.85) & (covered <= 0.99)))
        found.append(f"Coverage of 95% forecasts: {share:.3f} of all quotes; between .85 and .99 on {inside} days.")
    others = {"svi": "SVI", "andreasen_huge": "Andreasen–Huge (best variant)", "scratch": "from scratch"}
    means = [f"{name} {frame[key].mean():.1f}" for key, name in others.items() if key in frame]
    found.append(f"Held out in the mean: {frame['rmse'].mean():.1f} bp; {', '.join(means)}.")
    return found


def save_figures(fit: LocalVolFit, test: Quotes, rows: list[dict[str, Any]], out: Path) -> None:
    """Smiles and surface of the last day, parameters and errors over days."""
    figures.smiles(fit, held_out=test).savefig(out / "smiles.png", dpi=150)
    figures.surface(fit).savefig(out / "surface.png", dpi=150)
    figures.parameters(fit).savefig(out / "parameters.png", dpi=150)
    frame = pd.DataFrame(rows)
    figure, axis = plt.subplots(figsize=(7, 3.4), layout="constrained")
    at = np.arange(len(frame))
    named = {
        "rmse": "held out",
        "scratch": "held out, from scratch",
        "forecast": "next day, before its update",
        "sticky_strike": "next day, sticky strike",
    }
    for (name, label), marker in zip((named | {"andreasen_huge": "Andreasen–Huge, best variant"}).items(), "osvx^"):
        if name in frame:
            axis.plot(at, frame[name], marker=marker, label=label, lw=1, ms=5)
    axis.set_xticks(at, frame["date"], rotation=45, fontsize=8)
    axis.set(ylabel="RMSE, bp of implied volatility", yscale="log")
    axis.yaxis.set_major_formatter(ScalarFormatter())
    axis.legend(frameon=False, fontsize=8)
    figure.savefig(out / "errors.png", dpi=150)


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.dax", description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the table of quotes: date, T, type, strike, price")
    parser.add_argument("--first", default=None, help="the first date")
    parser.add_argument("--days", type=int, default=None, help="how many days")
    parser.add_argument("--knots", type=int, nargs=2, default=(6, 24), help="in maturity and in log-moneyness")
    parser.add_argument("--sampler", choices=("laplace", "online"), default="laplace")
    parser.add_argument("--particles", type=int, default=256, help="of the online sampler")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--noise", choices=("volatility", "price"), default="volatility")
    parser.add_argument("--surface", choices=("separable", "sticky"), default="separable", help="the prior")
    parser.add_argument("--robust", action="store_true", help="Student-t noise")
    parser.add_argument("--scratch", action=argparse.BooleanOptionalAction, default=True, help="also refit each day")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/dax"))
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    arguments = parse(argv)
    seqgp.enable_x64()
    matplotlib.use("agg")
    console = Console(width=150)
    arguments.out.mkdir(parents=True, exist_ok=True)
    quotes = chosen_quotes(arguments.data)
    dates = [date for date in quotes.dates if arguments.first is None or date >= pd.Timestamp(arguments.first)]
    dates = dates[: arguments.days]
    model = LocalVolatility.for_quotes(
        quotes.without_arbitrage(),
        tuple(arguments.knots),
        surface=arguments.surface,
        noise=arguments.noise,
        robust=arguments.robust,
    )
    fit, rows, before = sampled(model, arguments), [], None
    for date in dates:
        start = time.perf_counter()
        rows.append(score_day(fit, model, quotes.day(date), before, arguments))
        before = quotes.day(date)
        row = rows[-1]
        console.print(
            f"{row['date']}: {row['rmse']:.1f} bp held out, coverage {row['coverage']:.0%}; Andreasen–Huge "
            f"{row['andreasen_huge']:.1f} bp; {time.perf_counter() - start:.0f} s in all"
        )
        (arguments.out / "table.json").write_text(json.dumps(finite(rows), indent=1, allow_nan=False))
    console.print(table_of(rows))
    (arguments.out / "table.md").write_text(markdown_of(rows))
    for verdict in verdicts(rows):
        console.print(verdict)
    (arguments.out / "verdicts.md").write_text("\n".join(f"- {verdict}" for verdict in verdicts(rows)) + "\n")
    save_figures(fit, split(quotes.day(dates[-1]), arguments.seed)[1], rows, arguments.out)
    console.print(f"Figures and table: {arguments.out}")


if __name__ == "__main__":
    main()
