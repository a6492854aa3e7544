"""The page ``docs/paper.md``: what the paper reports beside what the parts saved, with verdicts that follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import seqgp
from experiments.comparison import markdown
from experiments.paper.full_page import figure_9, inequality
from experiments.paper.options_page import LABELS, figures_5_and_6
from experiments.paper.regression_page import figure_2, figure_4
from experiments.paper.sizes import Sizes

HEAD = """# The paper, figure by figure

```bash
make paper          # everything below at the size of the paper; progress is printed line by line
make paper-quick    # the same in small, in about two minutes: it writes out/paper-quick/paper.md
```

*Sequential sampling of Gaussian process latent variable models* (Tegnér, Bloem-Reddy and Roberts, 2018) shows a
regression (figures 2, 4 and 9) and option prices (figures 5 and 6). This page has what its text reports beside what
this library finds with the paper's algorithm (`SequentialSampler` with plain updates, a fresh draw from the conditional
prior as the start of each update, the factorised carry and a window of one), and where the online sampler lands on the
same data. The paper's data are not published, so ours are other draws from the same model: agreement means agreement in
kind.
"""


def page(out: Path, sizes: Sizes) -> str:
    """The whole page, from the files in ``out``."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(out.glob("*.json"))}
    sections = [HEAD, size_of(found, sizes)]
    regression, online = found.get("regression"), found.get("regression_online")
    options = {name: found.get(f"options_{name}") for name in ("paper", "online")}
    sections += [figure_2(regression, online), figure_4(regression, online)]
    sections += [figure_9(found.get("full")), inequality(found.get("full"))]
    sections += [figures_5_and_6(options), times(found, options)]
    return "\n".join(sections)


def size_of(found: dict[str, Any], sizes: Sizes) -> str:
    """How large the run was, and how busy the machine."""
    load = max((part["load"] for part in found.values() if "load" in part), default=0.0)
    cores = next((part["cores"] for part in found.values() if "cores" in part), 1)
    size = "Size: as in the paper." if sizes.name == "paper" else "Size: small. These numbers only show that all runs."
    text = f"{size} seqgp {seqgp.__version__}, {cores} cores."
    if load > cores + 0.5:
        text += (
            f" Other programs ran at the same time (load average up to {load:.0f} on {cores} cores), so seconds below"
            " are upper bounds; [Performance](performance.md) has times of a quiet machine."
        )
    return text + "\n"


def times(found: dict[str, Any], options: dict[str, dict[str, Any] | None]) -> str:
    """Minutes reported, and seconds here."""
    body = []
    if regression := found.get("regression"):
        seconds = [row["seconds"] for row in regression["data_sets"][0]["rows"]]
        body.append(["regression, t = 1", "under 4 min", f"{seconds[0]:.0f} s"])
        body.append(["regression, all later t", "35 min", f"{sum(seconds[1:]):.0f} s"])
    if online := found.get("regression_online"):
        body.append(["regression, online sampler, all t", "–", f"{sum(r['seconds'] for r in online['rows']):.0f} s"])
    if whole := found.get("full"):
        last = whole["rows"][-1]
        body.append([f"6000 sweeps of the full sampler at t = {last['t']}", "11 h at t = 10",
                     f"{6000 * last['full seconds per sweep'] / 60:.0f} min"])  # fmt: skip
        body.append(["sequential, its comparison", "3 min", f"{sum(row['seconds'] for row in whole['rows']):.0f} s"])
    for name, part in options.items():
        if part:
            ours = f"{part['summary']['first']:.0f} s + {part['summary']['rest']:.0f} s"
            body.append([f"option prices, {LABELS[name]}", "18 min + 24 min" if name == "paper" else "–", ours])
    header = ["", "paper, 2.8 GHz quad-core i7", "here, without compilation"]
    return "## Running times\n\n" + markdown(header, body) + "\n"
