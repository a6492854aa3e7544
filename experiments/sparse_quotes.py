"""Where a sequence pays: days with few quotes, or without one expiration, after the days before and from scratch.

python -m experiments.sparse_quotes --data dax_quotes.csv [--days 4] [--surface sticky] [--share 0.2]

Each day is fitted twice to a part of its quotes, once going on from the days before (which had all their quotes) and
once alone, and scored on the rest of its quotes. Errors are in basis points of implied volatility.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
from rich.console import Console

import seqgp
from experiments.dax import chosen_quotes, finite, markdown
from seqgp.apps.localvol import Laplace, LocalVolatility, LocalVolFit, Quotes

CASES = {"few": "a part of the quotes", "expiration": "one expiration missing"}


def few_quotes(day: Quotes, share: float, seed: int) -> tuple[Quotes, Quotes]:
    """A share of the quotes to learn from, without arbitrage among themselves; the others to score."""
    train, test = day.split(1 - share, seed)
    return train.without_arbitrage(), test


def without_expiration(day: Quotes) -> tuple[Quotes, Quotes]:
    """All quotes but those of the middle expiration, which are scored."""
    expirations = sorted(day.table["expiration"].unique())
    missing = day.table["expiration"] == expirations[len(expirations) // 2]
    return day.where(~missing).without_arbitrage(), day.where(missing)


def errors(model: LocalVolatility, state: Any, train: Quotes, test: Quotes, seed: int) -> dict[str, float]:
    """RMSE of held-out quotes after the days before, and from scratch."""
    found = {}
    for name, before in {"sequence": state, "scratch": None}.items():
        fit = LocalVolFit(model, seed=seed, sampler=Laplace(model.model))
        snapshot, key = model.snapshot(train), jax.random.key(seed)
        sampler = fit.sampler
        assert isinstance(sampler, Laplace)
        after: Any
        after, _ = sampler.init(key, snapshot) if before is None else sampler.step(key, before, snapshot)
        draws = fit.quote_draws(test, after)
        found[name] = float(draws.by_expiration().loc["all", "rmse_bp"])
    return found


def table_of(rows: list[dict[str, Any]]) -> str:
    """One row a day, with the means below."""
    frame = pd.DataFrame(rows)
    lines = [
        ["day", *(f"{what}: {how}" for what in CASES.values() for how in ("after the days before", "from scratch"))]
    ]
    columns = [f"{case}_{how}" for case in CASES for how in ("sequence", "scratch")]
    for _, row in frame.iterrows():
        lines.append([str(row["date"]), *(f"{row[name]:.3g}" for name in columns)])
    lines.append(["mean", *(f"{frame[name].mean():.3g}" for name in columns)])
    return markdown(lines)


def verdicts(rows: list[dict[str, Any]]) -> list[str]:
    """The error after the days before, relative to the one from scratch: of the means, and how many days gain."""
    frame, found = pd.DataFrame(rows), []
    for case, what in CASES.items():
        after, alone = np.asarray(frame[f"{case}_sequence"]), np.asarray(frame[f"{case}_scratch"])
        ratio, median = after.mean() / alone.mean(), np.median(after / alone)
        gained = f"lower on {int(np.sum(after < alone))} of {len(after)} days"
        found.append(f"{what}: error {ratio:.2f} of from scratch in the mean, {median:.2f} in the median, {gained}")
    return found


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.sparse_quotes", description=str(__doc__))
    parser.add_argument("--data", type=Path, required=True, help="the table of quotes, as for experiments.dax")
    parser.add_argument("--days", type=int, default=None, help="how many days")
    parser.add_argument("--knots", type=int, nargs=2, default=(6, 24), help="in maturity and in log-moneyness")
    parser.add_argument("--surface", choices=("separable", "sticky"), default="sticky", help="the prior")
    parser.add_argument("--share", type=float, default=0.2, help="of the quotes of a day with few")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/sparse_quotes"))
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    arguments = parse(argv)
    seqgp.enable_x64()
    console = Console(width=150)
    arguments.out.mkdir(parents=True, exist_ok=True)
    quotes = chosen_quotes(arguments.data)
    model = LocalVolatility.for_quotes(quotes.without_arbitrage(), tuple(arguments.knots), surface=arguments.surface)
    fit, rows = LocalVolFit(model, seed=arguments.seed, sampler=Laplace(model.model)), []
    for date in quotes.dates[: arguments.days]:
        day = quotes.day(date)
        if fit.days:
            row: dict[str, Any] = {"date": f"{date:%Y-%m-%d}"}
            parts = {"few": few_quotes(day, arguments.share, arguments.seed), "expiration": without_expiration(day)}
            for case, (train, test) in parts.items():
                for how, error in errors(model, fit.state, train, test, arguments.seed).items():
                    row[f"{case}_{how}"] = error
            rows.append(row)
            console.print(", ".join(f"{k} {v:.1f}" if k != "date" else v for k, v in row.items()))
            (arguments.out / "table.json").write_text(json.dumps(finite(rows), indent=1, allow_nan=False))
        fit.update(day.without_arbitrage())
    (arguments.out / "table.md").write_text(table_of(rows))
    console.print(table_of(rows))
    for verdict in verdicts(rows):
        console.print(verdict)


if __name__ == "__main__":
    main()
