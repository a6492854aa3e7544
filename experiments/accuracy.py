"""How far the sequential and the online sampler are from the exact posterior, over data sets, as ``docs/accuracy.md``.

python -m experiments.accuracy [regression counts long] [--datasets 10] [--samplers sequential online] [--tau 1 2]
    [--quick]

``regression`` is the paper's comparison (N = 100, T = 10), ``counts`` the same with Poisson data (N = 50, T = 8)
against the full sampler, ``long`` a run of 200 steps. Resumable: what is in ``out/accuracy`` is not computed again.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import seqgp
from experiments.accuracy_page import document, section
from experiments.comparison import (
    DataSet,
    Summary,
    compare,
    counts_model,
    exact_posterior,
    gather,
    sequential_posteriors,
    simulate,
)
from experiments.simulate import regression_model


class Problem(NamedTuple):
    """What is simulated, and when it is compared with the exact posterior."""

    n: int
    times: tuple[int, ...]
    draws: int
    exact_draws: int
    exact_warmup: int
    counts: bool = False
    spacing: float | None = None
    window: int | None = None  # the exact posterior is given the last snapshots only
    whole: int | None = None  # at this time the exact posterior of the parameters is given all of them

    def simulate(self, seed: int) -> DataSet:
        """A data set."""
        return simulate(seed, self.n, max(self.times), self.counts, self.spacing)


SAMPLERS = ("sequential", "online")
FULL = {
    "regression": Problem(100, (2, 3, 5, 7, 10), 1000, 400, 250),
    "counts": Problem(50, (2, 4, 6, 8), 1000, 1000, 300, counts=True),
    "long": Problem(10, (20, 50, 100, 150, 200), 1000, 1000, 300, spacing=1 / 9, window=10, whole=50),
}
QUICK = {
    "regression": Problem(20, (2, 3), 200, 200, 100),
    "counts": Problem(12, (2, 3), 200, 200, 100, counts=True),
    "long": Problem(5, (6, 9), 200, 200, 100, spacing=1 / 9, window=4, whole=6),
}


def stored(path: Path, compute: Callable[[], Summary]) -> Summary:
    """A posterior, from the store where it is there."""
    if not path.exists():
        np.savez(path, **compute()._asdict())
    with np.load(path) as found:
        return Summary(*(found[name][()] for name in Summary._fields))


def exact(data: DataSet, problem: Problem, seed: int, t: int, out: Path, window: int | None) -> Summary:
    """The exact posterior at a time."""

    def compute() -> Summary:
        key = jax.random.fold_in(jax.random.key(10_000 + seed), t)
        return exact_posterior(data, t, key, problem.exact_draws, problem.exact_warmup, 2, window)

    return stored(out / f"exact_{seed}_{t}_{window or 'all'}.npz", compute)


def rows_of(data: DataSet, problem: Problem, seed: int, who: str, tau: int, args, out: Path) -> list[dict[str, Any]]:
    """One run of a sampler, compared at all times."""
    if who == "online":
        sampler: seqgp.Sampler = seqgp.OnlineSampler(data.model, draws=problem.draws, paths=0)
    else:
        sampler = seqgp.SequentialSampler(data.model, problem.draws, tau, updates=args.updates)
    every = range(1, max(problem.times) + 1)
    found = sequential_posteriors(data, every, jax.random.key(20_000 + seed), sampler)
    rows, since = [], 0
    for t in problem.times:
        block = [found[s] for s in range(since + 1, t + 1)]
        row = compare(data, t, exact(data, problem, seed, t, out, problem.window), found[t])
        row["coverage since"] = float(np.mean([one.coverage for one in block]))
        row["score since"] = float(np.mean([one.log_score for one in block])) / problem.n
        row["seconds since"] = float(np.mean([one.seconds for one in block]))
        if t == problem.whole:
            whole = compare(data, t, exact(data, problem, seed, t, out, None), found[t])
            row |= {f"whole {name}": value for name, value in whole.items() if name.startswith(("bias", "sd"))}
        rows.append({"seed": seed, "sampler": who, "tau": tau, "t": t} | row)
        since = t
    return rows


def rows_file(name: str, args: argparse.Namespace) -> Path:
    """Where the rows of a problem are kept."""
    return args.out / name / args.updates / "rows.json"


def compute(name: str, problem: Problem, args: argparse.Namespace) -> None:
    """The rows of a problem that are missing."""
    store = rows_file(name, args)
    store.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = json.loads(store.read_text()) if store.exists() else []
    runs: Iterable[tuple[int, str, int]] = itertools.product(range(args.datasets), args.samplers, args.tau)
    for seed, who, tau in runs:
        if who == "online" and tau != args.tau[0]:
            continue  # it has no window
        if len(gather(rows, "t", seed=seed, sampler=who, tau=tau)):
            continue
        rows += rows_of(problem.simulate(seed), problem, seed, who, tau, args, store.parent.parent)
        store.write_text(json.dumps(rows, indent=1))
        found = f"R {rows[-1]['R']:.2f}, bias {rows[-1]['bias']:.2f}"
        print(f"{name}, data set {seed}, {who}, tau = {tau}: {found}", flush=True)


def written(name: str, problem: Problem, args: argparse.Namespace) -> str:
    """The section of a problem, from all rows that there are."""
    rows = json.loads(rows_file(name, args).read_text())
    return section(name, rows, (counts_model() if problem.counts else regression_model()).names)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", help="of regression, counts, long; all by default")
    parser.add_argument("--datasets", type=int, default=10)
    parser.add_argument("--samplers", nargs="+", default=[*SAMPLERS], choices=SAMPLERS)
    parser.add_argument("--tau", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--updates", default="informed", choices=["informed", "plain"])
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    parser.add_argument("--out", type=Path, default=Path("out/accuracy"))
    args = parser.parse_args()
    args.problems = args.problems or list(FULL)
    unknown = set(args.problems) - set(FULL)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(FULL)}")
    return args


def main() -> None:
    seqgp.enable_x64()
    args = arguments()
    if args.quick:
        args.out = args.out / "quick"
    path = args.out / "accuracy.md" if args.quick else Path("docs/accuracy.md")
    problems = QUICK if args.quick else FULL
    for name in args.problems:
        compute(name, problems[name], args)
        known = [one for one in problems if rows_file(one, args).exists()]
        path.write_text(document({one: written(one, problems[one], args) for one in known}, args.updates))
    print(path.read_text())


if __name__ == "__main__":
    main()
