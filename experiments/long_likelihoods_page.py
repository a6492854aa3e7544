"""The page ``docs/long_likelihoods.md``, from the rows of ``experiments.long_likelihoods``."""

from __future__ import annotations

from typing import Any

import numpy as np

HEAD = """# Data that are not Gaussian, over 200 snapshots

The online sampler with 256 particles against the exact posterior, for streams from `experiments/likelihood_streams.py`
with three to four unknown parameters. Generated; do not edit it:

```bash
python -m experiments.long_likelihoods --stations 1 --paths auto 0
python -m experiments.long_likelihoods --stations 10
python -m experiments.long_likelihoods --page
```

The exact posterior shares no code with the sampler. Values of the parameters are drawn around the posterior. The
evidence of each is estimated without bias by importance sampling of the whole latent function from a dense Gaussian.
The means of two halves of the values tell how well the exact posterior is known, in its standard deviations (median
over data sets in the last column but one). With one station, a bootstrap particle filter with 2048 particles
estimates 16 of the evidences again; the last column is how far it is from them on average, in nats, over all data sets.

Bias is that of the posterior mean of a parameter in exact standard deviations, over parameters, data sets and seeds.
The log evidence is off by at most so many nats.
"""


def page(rows: list[dict[str, Any]]) -> str:
    """A table for each number of stations and kind of correction, and the goals."""
    parts = [HEAD]
    for stations in sorted({row["stations"] for row in rows}):
        for paths in sorted({str(row["paths"]) for row in rows if row["stations"] == stations}, reverse=True):
            its = [row for row in rows if row["stations"] == stations and str(row["paths"]) == paths]
            shown = '"auto"' if paths == "auto" else paths
            title = f"{stations} station{'s' if stations > 1 else ''}, `paths={shown}`"
            parts += [f"## {title}\n", table(its)]
            if paths == "auto":
                parts.append(goals(its))
    return "\n".join(parts)


def table(rows: list[dict[str, Any]]) -> str:
    """A row a stream."""
    lines = [
        "| data | runs | bias: largest | median | sd ratios | log evidence | error | halves apart | particle filter |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["stream"] for row in rows):
        its = [row for row in rows if row["stream"] == name]
        bias, ratio = values(its, "bias"), values(its, "ratio")
        off = max((row["off"] for row in its), key=abs)
        gaps = {row["dataset"]: (row["filter gap"], row["filter error"]) for row in its}
        gap, error = np.array(list(gaps.values())).T
        again = "–" if np.isnan(gap).any() else f"{gap.mean():+.2f} ± {np.sqrt((error**2).mean() / len(error)):.2f}"
        apart = np.median([row["apart"] for row in its])
        lines.append(
            f"| {name} | {len(its)} | {np.abs(bias).max():.2f} | {np.median(np.abs(bias)):.2f} | {ratio.min():.2f}–"
            f"{ratio.max():.2f} | {off:+.2f} | {np.median([row['se'] for row in its]):.2f} | {apart:.2f} | {again} |"
        )
    return "\n".join(lines) + "\n"


def goals(rows: list[dict[str, Any]]) -> str:
    """What was aimed at, over all streams of a table."""
    bias, ratio = np.abs(values(rows, "bias")), values(rows, "ratio")
    off, se = (np.array([row[key] for row in rows]) for key in ("off", "se"))
    total = np.hypot(se, [row["exact error"] for row in rows])
    near, covered = np.abs(off) < np.maximum(0.5, 3 * se), np.abs(off) < 1.96 * total
    narrow = (ratio > 0.85) & (ratio < 1.15)
    checks = [
        (
            "bias of a parameter, 95% of all cases: at most 0.15 sd",
            f"{np.quantile(bias, 0.95):.2f}",
            np.quantile(bias, 0.95) <= 0.15,
        ),
        ("bias of a parameter, median: at most 0.07 sd", f"{np.median(bias):.2f}", np.median(bias) <= 0.07),
        ("sd ratios .85–1.15", f"{np.mean(narrow):.0%} of them", bool(narrow.all())),
        ("log evidence within 0.5 or three standard errors", f"{np.mean(near):.0%} of the runs", bool(near.all())),
        (
            "95% intervals of the log evidence cover the exact one in 90–99%",
            f"{np.mean(covered):.0%}",
            0.9 <= np.mean(covered) <= 0.99,
        ),
    ]
    lines = ["| goal | found | |", "|---|---|---|"]
    lines += [f"| {goal} | {found} | {'met' if met else '**not met**'} |" for goal, found, met in checks]
    return "\n".join(lines) + "\n"


def values(rows: list[dict[str, Any]], key: str) -> np.ndarray:
    """Of all parameters of all runs."""
    return np.array([value for row in rows for value in row[key].values()])
