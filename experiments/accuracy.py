"""The accuracy of each carry against the exact posterior, over simulated data sets, as a Markdown table and JSON.

python -m experiments.accuracy [--datasets 10] [--carry paper joint] [--tau 1 2] [--quick]

Resumable: rows and exact posteriors that are in ``out/accuracy`` are not computed again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

import seqgp
from experiments.comparison import (
    DataSet,
    Summary,
    compare,
    exact_posterior,
    gather,
    markdown,
    mean_and_error,
    sequential_posteriors,
    simulate,
)


def cached_exact(data: DataSet, seed: int, t: int, args: argparse.Namespace) -> Summary:
    """The exact posterior, from the store where it is there."""
    path = args.out / f"exact_{seed}_{t}.npz"
    if not path.exists():
        key = jax.random.fold_in(jax.random.key(10_000 + seed), t)
        np.savez(path, **exact_posterior(data, t, key, args.exact_draws)._asdict())
    with np.load(path) as stored:
        return Summary(*(stored[name][()] for name in Summary._fields))


def rows_of(data: DataSet, seed: int, carry: str, tau: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """One run of the sequential sampler, compared at all times."""
    sampler = seqgp.SequentialSampler(data.model, draws=args.draws, tau=tau, carry=carry, updates=args.updates)
    found = sequential_posteriors(data, args.times, jax.random.key(20_000 + seed), sampler)
    return [
        {"seed": seed, "carry": carry, "tau": tau, "t": t}
        | compare(data, t, cached_exact(data, seed, t, args), found[t])
        for t in args.times
    ]


def table(rows: list[dict[str, Any]], names: list[str]) -> str:
    """Per carry, tau and t: means with standard errors over the data sets, and the medians that the goals are about."""
    columns = {
        "R_t": ("R", 2),
        "bias, sds": ("bias", 2),
        "RMSE / exact": ("rmse ratio", 2),
        "coverage": ("coverage", 3),
        "exact coverage": ("exact coverage", 3),
        "log score − exact": ("score gap", 1),
        "s": ("seconds", 1),
    }
    rows = [row | {"score gap": row["log score"] - row["exact log score"]} for row in rows]
    keys = sorted({(row["carry"], row["tau"], row["t"]) for row in rows}, key=str)
    latent, parameters = [], []
    for carry, tau, t in sorted(keys):
        where = {"carry": carry, "tau": tau, "t": t}

        def cell(column: str, digits: int, where=where) -> str:
            values = gather(rows, column, **where)
            return f"{mean_and_error(values, digits)} ({np.median(values):.{digits}f})"

        start = [carry, str(tau), str(t)]
        latent.append(start + [cell(*spec) for spec in columns.values()])
        parameters.append(start + [f"{cell(f'bias {n}', 2)}; {cell(f'sd {n}', 2)}" for n in names])
    head = ["carry", "tau", "t"]
    return (
        "Mean ± standard error over data sets (median).\n\n"
        + markdown([*head, *columns], latent)
        + "\n\nEach parameter on the Gaussian scale: bias in exact sds; sd against exact.\n\n"
        + markdown([*head, *names], parameters)
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=10)
    parser.add_argument("--carry", nargs="+", default=["paper", "level", "joint"])
    parser.add_argument("--tau", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--times", nargs="+", type=int, default=[2, 3, 5, 7, 10])
    parser.add_argument("--updates", default="plain")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    parser.add_argument("--out", type=Path, default=Path("out/accuracy"))
    args = parser.parse_args()
    args.n, args.exact_draws = 100, 1000
    if args.quick:
        args.n, args.exact_draws, args.draws, args.times = 20, 200, 200, [2, 3]
        args.out = args.out / "quick"
    return args


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    store = args.out / "rows.json"
    rows: list[dict[str, Any]] = json.loads(store.read_text()) if store.exists() else []
    names: list[str] = []
    for seed in range(args.datasets):
        data = simulate(seed, args.n, max(args.times))
        names = data.model.names
        for carry in args.carry:
            for tau in args.tau:
                if len(gather(rows, "t", seed=seed, carry=carry, tau=tau)):
                    continue
                rows += rows_of(data, seed, carry, tau, args)
                store.write_text(json.dumps(rows, indent=1))
                last = rows[-1]
                print(f"data set {seed}, {carry}, tau = {tau}: R {last['R']:.2f}, bias {last['bias']:.2f}", flush=True)
    text = table(rows, names)
    (args.out / "table.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
