"""The experiments of the paper: each a function of the sizes that saves its numbers and figures as it goes on."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import seqgp
from experiments import full_vs_sequential, option_prices, regression
from experiments.dax import finite
from experiments.paper.sizes import Sizes
from experiments.simulate import Truth, regression_data, regression_model

START = time.perf_counter()
SQUARE = [(0, 1), (0, 1)]


def say(text: str) -> None:
    """A line of progress, also where the output is no terminal."""
    print(f"[{time.perf_counter() - START:6.0f} s] {text}", flush=True)


def save(path: Path, value: dict[str, Any]) -> None:
    """Strict JSON, whole or not at all; with how busy the machine is."""
    value = value | {"load": os.getloadavg()[1], "cores": os.cpu_count()}
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(finite(value), indent=1, allow_nan=False))
    beside.replace(path)


def _sequence(truth: Truth, sampler: seqgp.Sampler, seed: int, label: str) -> dict[str, Any]:
    """All that the page says of one sampler on one data set; figures 2 and 4 go along."""
    steps, before = regression.run_sequence(sampler, truth, seed, lambda line: say(f"{label}, {line}"))
    halves = regression.predict_half(sampler, before, truth.snapshots[-1], seed)
    first, last = (
        {name: [np.mean(v, axis=0).tolist(), np.std(v, axis=0).tolist()] for name, v in step.parameters.items()}
        for step in (steps[0], steps[-1])
    )
    return {
        "rows": regression.table_of(steps, truth)[1],
        "first": first,
        "last": last,
        "half": {name: {"mean": half.mean, "log_score": half.log_score} for name, half in halves.items()},
        "poor": regression.poor_mixing(steps),
        "lost": regression.lost_by_the_step(steps, truth),
        "figures": (regression.figure_2(steps, truth), regression.figure_4(halves)),
    }


def regressions(sizes: Sizes, out: Path) -> None:
    """Figures 2 and 4: the paper's algorithm on the data themselves for the first data set, on knots for the others.

    The online sampler runs on the first data set.
    """
    found: dict[str, Any] = {"sizes": sizes._asdict(), "data_sets": []}
    for seed in range(1, sizes.data_sets + 1):
        truth = regression_data(seed, sizes.n, sizes.steps)
        latent = "dense" if seed == 1 or sizes.name == "quick" else "knots"
        options = regression.parse(["--latent", latent, "--draws", str(sizes.draws)])
        label = f"figures 2 and 4, data set {seed} of {sizes.data_sets}, paper's algorithm"
        entry = _sequence(truth, regression.sampler_of(options), seed, label)
        _keep_figures(entry, out, "" if seed == 1 else None)
        entry |= {
            "seed": seed,
            "latent": latent,
            "truth": {k: np.asarray(v).tolist() for k, v in truth.parameters.items()},
        }
        found["data_sets"].append(entry)
        save(out / "regression.json", found)


def online_regression(sizes: Sizes, out: Path) -> None:
    """The online sampler on the data of figure 2."""
    knots = seqgp.Knots(nodes=(sizes.nodes,) * 2, domain=SQUARE)
    sampler = seqgp.OnlineSampler(regression_model(), particles=sizes.particles, draws=sizes.draws, latent=knots)
    truth = regression_data(1, sizes.n, sizes.steps)
    entry = _sequence(truth, sampler, 1, "figures 2 and 4, online sampler")
    _keep_figures(entry, out, "_online")
    save(out / "regression_online.json", entry | {"particles": sizes.particles})


def _keep_figures(entry: dict[str, Any], out: Path, ending: str | None) -> None:
    figures = entry.pop("figures")
    if ending is not None:
        figures[0].savefig(out / f"paper_figure2{ending}.png", dpi=120)
        figures[1].savefig(out / f"paper_figure4{ending}.png", dpi=120)


def full(sizes: Sizes, out: Path) -> None:
    """Figure 9, the cost of sampling all times, and inequality 12."""
    options = full_vs_sequential.arguments(["--online", str(sizes.particles), "--nodes", str(sizes.nodes)])
    (
        options.n,
        options.steps,
        options.draws,
        options.exact_draws,
        options.exact_warmup,
        options.full_draws,
    ) = sizes.full
    say("figure 9: the sequential and the online sampler first, then the exact posterior at each t")

    def after(rows: list[dict[str, Any]], drawn: dict[str, Any]) -> None:
        save(out / "full.json", {"settings": vars(options), "rows": rows})
        full_vs_sequential.figure_nine(drawn, out / "paper_figure9.png")
        say(f"figure 9, t = {rows[-1]['t']} of {options.steps}")

    full_vs_sequential.one_data_set(0, options, after)


def options(sizes: Sizes, out: Path, sampler: str = "paper") -> None:
    """Figures 5 and 6 with the paper's algorithm, or with the online sampler."""
    folder = out / "options"
    common = ["--steps", str(sizes.option_steps), "--out", str(folder)]
    say(f"figures 5 and 6, {sampler}")
    if sampler == "paper":
        plain = ["--warmup", str(sizes.option_warmup), "--thin", str(sizes.option_thin)]
        option_prices.main([*common, "--updates", "plain", *plain, "--draws", str(sizes.option_draws)])
    else:
        particles = ["--sampler", "online", "--particles", str(sizes.particles)]
        option_prices.main([*common, *particles, "--draws", str(sizes.option_draws)])
    name = {"paper": "plain", "online": "online"}[sampler]
    kept = json.loads((folder / f"{name}.json").read_text())
    save(out / f"options_{sampler}.json", kept | {"settings": sizes._asdict()})
    for number in (5, 6):
        shutil.copy(folder / f"figure{number}_{name}.png", out / f"paper_figure{number}_{sampler}.png")


PARTS: dict[str, Callable[[Sizes, Path], None]] = {
    "regression": regressions,
    "options-paper": lambda sizes, out: options(sizes, out, "paper"),
    "full": full,
    "regression-online": online_regression,
    "options-online": lambda sizes, out: options(sizes, out, "online"),
}


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.paper", description="Everything that the paper shows.")
    parser.add_argument("--quick", action="store_true", help="small sizes, about two minutes")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS), help="these; none: only the page")
    parser.add_argument("--out", type=Path, help="where numbers and figures go: out/paper, or out/paper-quick")
    parser.add_argument("--page", type=Path, help="the page: docs/paper.md, or paper.md beside the numbers if quick")
    arguments = parser.parse_args(argv)
    arguments.out = arguments.out or Path("out/paper-quick" if arguments.quick else "out/paper")
    arguments.page = arguments.page or (arguments.out if arguments.quick else Path("docs")) / "paper.md"
    return arguments
