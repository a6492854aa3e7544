"""The page ``docs/accuracy.md``, from the rows of ``experiments.accuracy``: figures in sight, tables folded away.

The figures are drawn from the tables of the page when the documentation is built (``experiments.accuracy_figure``).
"""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from experiments.comparison import gather, markdown, mean_and_error

LATENT = {
    "R_t": ("R", 2),
    "bias, sds": ("bias", 2),
    "RMSE / exact": ("rmse ratio", 2),
    "coverage": ("coverage", 3),
    "exact coverage": ("exact coverage", 3),
    "log score − exact": ("score gap", 1),
    "s": ("seconds", 1),
}
COUNTS = {name: spec for name, spec in LATENT.items() if "score" not in name} | {"log score": ("log score", 1)}
LONG = {
    "R_t": ("R", 2),
    "bias, sds": ("bias", 2),
    "coverage since the row above": ("coverage since", 3),
    "log score a datum since": ("score since", 3),
    "s a step since": ("seconds since", 2),
}


def tables(name: str, rows: list[dict[str, Any]], names: list[str]) -> str:
    """Per sampler, tau and t: means with standard errors over the data sets, and medians."""
    columns = {"regression": LATENT, "counts": COUNTS, "long": LONG}[name]
    rows = [row | {"score gap": row["log score"] - row["exact log score"]} for row in rows]
    keys = sorted({(row["sampler"], row["tau"], row["t"]) for row in rows})
    head = ["sampler", "tau", "t"]

    def cell(column: str, digits: int, where: dict[str, Any]) -> str:
        values = gather([row for row in rows if column in row], column, **where)
        return f"{mean_and_error(values, digits)} ({np.median(values):.{digits}f})" if len(values) else "–"

    def body(cells: Callable[[dict[str, Any]], list[str]], keys=keys) -> list[list[str]]:
        return [[str(k) for k in key] + cells(dict(zip(head, key))) for key in keys]

    def count(where: dict[str, Any]) -> str:
        return str(len(gather(rows, "seed", **where)))

    latent = body(lambda where: [count(where), *(cell(*spec, where) for spec in columns.values())])
    prefix = "whole " if any("whole" in column for row in rows for column in row) else ""
    chosen = [key for key in keys if not prefix or any(f"{prefix}sd {names[0]}" in r for r in rows if r["t"] == key[2])]
    parameters = {
        what: body(lambda where, what=what: [cell(f"{prefix}{what} {n}", 2, where) for n in names], chosen)
        for what in ("bias", "sd")
    }
    return "\n\n".join(
        [
            folded(
                "The latent function, mean ± standard error over data sets (median)",
                [*head, "data sets", *columns],
                latent,
            ),
            folded("Bias of each parameter, on the Gaussian scale, in exact sds", [*head, *names], parameters["bias"]),
            folded("Sd of each parameter, against the exact one", [*head, *names], parameters["sd"]),
        ]
    )


def folded(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that shows its title until it is opened."""
    return f"<details markdown>\n<summary>{title}</summary>\n\n{markdown(header, rows)}\n\n</details>"


def section(name: str, rows: list[dict[str, Any]], names: list[str]) -> str:
    """Figure and tables of a problem."""
    shown = f"![R_t and bias against t, for each sampler and window](accuracy_{name}.png)"
    return "\n\n".join([shown, tables(name, rows, names)])


TITLES = {
    "regression": "The paper's comparison: N = 100, T = 10, Gaussian noise",
    "counts": "Poisson counts: N = 50, T = 8, against the full sampler",
    "long": "A long run: N = 10, T = 200",
}
NOTES = {
    "regression": "A step conditions on the draws of the window as they are, and takes the parameters for independent\n"
    "of them. A longer window repeats that for more of the past, so it is no remedy.",
    "counts": "The full sampler does not score the next snapshot, so the log score is that of the sampler alone.",
    "long": "The exact posterior for `R_t` and bias conditions on the last 10 snapshots only, with the prior of the\n"
    "parameters. The parameters at t = 50 are compared with the posterior given all 50 snapshots.",
}


ABOUT = """\
This page measures how far the posterior of the `SequentialSampler` is from the exact one.
The lengthscales of each simulated data set are uniform on (0, √10), as in the paper; scale, mean
and noise are the paper's. `R_t` is the variance of the latent function over the exact one, averaged over
inputs. The bias is the root mean square of the difference of means, in exact standard deviations. RMSE
is that to the true latent function. The exact posterior is a sample of a few hundred effective draws,
which adds about 0.06 sds to every bias and 5% to every ratio of sds. In the figures, bars are standard
errors over data sets."""


def document(sections: dict[str, str], updates: str) -> str:
    """The whole page."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("seqgp", "jax", "numpyro"))
    lines = [
        "# Accuracy of the sequential sampler",
        "",
        ABOUT,
        "",
        "`make accuracy` generates this page; do not edit it.",
        "",
        f"{datetime.date.today().isoformat()}, {versions}, Python {platform.python_version()}; {updates} updates, "
        "1000 draws per step, seconds on two cores without compilation.",
    ]
    for name, text in sections.items():
        lines += ["", f"## {TITLES[name]}", ""]
        lines += [NOTES[name], ""] if name in NOTES else []
        lines += [text]
    return "\n".join(lines) + "\n"
