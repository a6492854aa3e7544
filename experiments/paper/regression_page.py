"""Figures 2 and 4: the regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from experiments.comparison import markdown
from experiments.paper.words import heading, not_run, pm

SCORES = """Half of the last snapshot is predicted from the other half, with and without the earlier snapshots. The
paper plots the mean over draws of the log predictive density, and finds it higher with the past. That mean is no proper
score: it punishes draws that differ, however good their mixture is. The log score is the log of the mean density.

"""


def _coverage(rows: list[dict[str, Any]], n: int) -> list[str]:
    ends = (rows[0], rows[-1])
    return [cell for row in ends for cell in (f"{row['inside']:.1%}", f"{row['outside']:.0f} of {n}")]


def figure_2(found: dict[str, Any] | None, online: dict[str, Any] | None) -> str:
    """Coverage of the first and the last latent, and the parameters."""
    if found is None:
        return not_run("Figure 2: the regression", "regression")
    sets, n, last = found["data_sets"], found["sizes"]["n"], found["sizes"]["steps"]
    means = [
        f"{np.mean([s['rows'][i]['inside'] for s in sets]):.1%}"
        if key == "inside"
        else f"{np.mean([s['rows'][i]['outside'] for s in sets]):.1f} of {n}"
        for i in (0, -1)
        for key in ("inside", "outside")
    ]
    rows = [["the paper reports", "85%", "8 of 200", "all", "9 of 200"]]
    rows.append(["paper's algorithm, data set 1", *_coverage(sets[0]["rows"], n)])
    rows.append([f"paper's algorithm, mean of {len(sets)} data sets", *means])
    if online:
        rows.append([f"online sampler ({online['particles']} particles), data set 1", *_coverage(online["rows"], n)])
    header = ["", "true f at t = 1 within ±2 sd", "data outside", f"true f at t = {last}", "data outside"]
    text = heading("Figure 2: the regression", "regression regression-online")
    text += markdown(header, rows) + "\n\n![Posterior bands of the first and the last latent](paper_figure2.png)\n\n"
    text += f"**Verdict.** {verdict_2(sets, online)}\n\n" + parameters(sets[0], online, last)
    return text + mixing(sets[0], online)


def verdict_2(sets: list[dict[str, Any]], online: dict[str, Any] | None) -> str:
    """Whether the last latent is covered as the paper says."""
    inside = [s["rows"][-1]["inside"] for s in sets]
    good = sum(value >= 0.95 for value in inside)
    words = "as in the paper" if good == len(sets) else "not on all data sets what the paper shows"
    text = f"The last latent is covered to at least 95% on {good} of {len(sets)} data sets"
    text += f" ({min(inside):.0%} at worst): {words}."
    if online:
        text += f" The online sampler covers {online['rows'][-1]['inside']:.0%} of it on data set 1."
    return text


def parameters(entry: dict[str, Any], online: dict[str, Any] | None, last: int) -> str:
    """Posterior mean ± sd at the last time."""
    rows = []
    for name, true in entry["truth"].items():
        for j, value in enumerate(np.atleast_1d(true)):
            label = name if np.ndim(true) == 0 else f"{name}[{j}]"
            cells = [pm(np.atleast_2d(np.array(one["last"][name]).T)[j]) for one in (entry, online) if one]
            rows.append([label, f"{value:.2f}", *cells])
    header = [
        f"parameter at t = {last}, data set 1",
        "truth",
        "paper's algorithm",
        *(["online sampler"] if online else []),
    ]
    return markdown(header, rows) + "\n\n"


def mixing(entry: dict[str, Any], online: dict[str, Any] | None) -> str:
    """Steps whose draws cannot be trusted, and what the factorised carry loses."""
    lines = [f"- {line}" for line in entry["poor"]]
    text = "All steps of the paper's algorithm mix well enough (ESS at least 100, R-hat at most 1.05)."
    if lines:
        text = f"{len(lines)} of {len(entry['rows'])} steps of the paper's algorithm mix poorly:\n\n" + "\n".join(lines)
    if entry["lost"]:
        text += "\n\nParameters that the paper's algorithm loses:\n\n" + "\n".join(
            f"- {line}" for line in entry["lost"]
        )
        where = ", where the online sampler above covers the truth" if online else ""
        text += f"\n\nThat is the algorithm's, not an accident of this run{where}: see [Accuracy](accuracy.md)."
    return text + "\n"


def figure_4(found: dict[str, Any] | None, online: dict[str, Any] | None) -> str:
    """Both scores of the held-out half, over all data sets."""
    if found is None:
        return not_run("Figure 4: the past helps to predict", "regression")
    rows, differences = [], []
    for entry in [*found["data_sets"], *([online] if online else [])]:
        half = entry["half"]
        pair = [(half["sequential"][k], half["without the past"][k]) for k in ("mean", "log_score")]
        if entry is not online:
            differences.append([a - b for a, b in pair])
        label = "1, online" if entry is online else str(entry["seed"])
        rows.append([label, *(f"{v:.2f}" for a, b in pair for v in (a, b, a - b))])
    header = [
        "data set",
        "mean log density: with the past",
        "without",
        "difference",
        "log score: with",
        "without",
        "difference",
    ]
    text = heading("Figure 4: the past helps to predict", "regression")
    text += SCORES
    text += (
        markdown(header, rows)
        + "\n\n![Cumulative mean of the predictive log likelihood, data set 1](paper_figure4.png)\n\n"
    )
    return text + f"**Verdict.** {verdict_4(np.array(differences))}\n"


def verdict_4(differences: np.ndarray) -> str:
    """What the data sets say about each score, in words: by signed ranks, since differences have long tails."""
    texts = []
    for name, values in zip(("mean log density", "log score"), differences.T):
        _, p = np.asarray(wilcoxon(values)) if values.any() else (0.0, 1.0)
        middle = float(np.median(values))
        direction = "the past helps" if middle > 0 else "the past hurts"
        words = direction if p < 0.05 else "no difference beyond the noise of the data sets"
        counts = f"higher on {int((values > 0).sum())} of {len(values)}"
        error = f" ± {values.std(ddof=1) / len(values) ** 0.5:.2f}" if len(values) > 1 else ""
        found = f"median {middle:+.2f}, mean {values.mean():+.2f}{error}, {counts}, p = {p:.2g} by signed ranks"
        texts.append(f"By the {name}, {words}: {found}.")
    return " ".join(texts)
