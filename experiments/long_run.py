"""A long stream against the exact posterior at its end: the online sampler, and the sequential one beside it.

python -m experiments.long_run [--datasets 5] [--seeds 2] [--steps 200] [--kernels Matern32 …]
    [--variants complete missing stations irregular] [--sequential-datasets 0] [--figure PATH] [--quick]

Ten stations, five unknown parameters, Gaussian noise. The exact posterior is ``seqgp.reference.online_posterior``,
which shares no code with the sampler. Writes the tables as Markdown and all numbers as JSON to ``out/long_run``.
``--figure`` draws one stream in place of the tables.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import seqgp
from experiments.comparison import markdown
from experiments.long_streams import KERNELS, VARIANTS, Stream, simulate_stream
from seqgp.reference import OnlinePosterior, online_posterior

OUT = Path("out/long_run")
MANY = 20_000  # draws after the last snapshot: what is compared is the posterior, not the draws for people
SHORT = {"time.lengthscale": "time", "space.lengthscale": "space"}
DENSE = ("missing", "stations")  # variants whose likelihood is dense where time is no exact state


def sampled(sampler: Any, last: Any, snapshots: list[seqgp.Snapshot], seed: int) -> tuple[Any, Any, float]:
    """State and info after all snapshots, the last step by another sampler of the same kind; seconds of everything."""
    key, start = jax.random.key(seed), time.perf_counter()
    state, info = sampler.init(jax.random.fold_in(key, 0), snapshots[0])
    for i, snapshot in enumerate(snapshots[1:], start=1):
        turn = last if i == len(snapshots) - 1 else sampler
        state, info = turn.step(jax.random.fold_in(key, i), state, snapshot)
    return state, info, time.perf_counter() - start


def samplers(model: seqgp.Model, who: str, particles: int) -> tuple[Any, Any]:
    """The sampler of all steps, and of the last one."""
    if who == "online":
        first, last = (seqgp.OnlineSampler(model, particles=particles, draws=draws) for draws in (1000, MANY))
        return first, last
    sequential = seqgp.SequentialSampler(model, draws=1000)
    return sequential, sequential


def row_of(stream: Stream, exact: OnlinePosterior, state: Any, info: Any) -> dict[str, Any]:
    """How far the draws after the last snapshot are from the exact posterior, and whether they hold the truth."""
    z, f = np.asarray(state.z), np.asarray(state.latent)
    row: dict[str, Any] = {}
    for i, name in enumerate(exact.names):
        row[f"bias {name}"] = float((z[:, i].mean() - exact.mean[i]) / exact.sd[i])
        row[f"sd {name}"] = float(z[:, i].std() / exact.sd[i])
    low, high = np.quantile(np.column_stack([z, f]), [0.025, 0.975], axis=0)
    truth = np.concatenate([stream.z, stream.last_f])
    apart = (f.mean(axis=0) - exact.f_mean) ** 2 / exact.f_variance
    evidence = getattr(info, "log_evidence", None)
    return row | {
        "R": float(np.mean(f.var(axis=0) / exact.f_variance)),
        "bias of f": float(np.sqrt(np.mean(apart))),
        "coverage": float(np.mean((low <= truth) & (truth <= high))),
        "log evidence": float("nan") if evidence is None else float(evidence - exact.log_evidence),
        "log evidence se": float(getattr(info, "log_evidence_se", None) or float("nan")),
    }


def cases(args: argparse.Namespace) -> list[dict[str, Any]]:
    """All rows, each said when it is there."""
    rows = []
    who = ["online", "sequential"]
    for kernel, variant, data in itertools.product(args.kernels, args.variants, range(args.datasets)):
        if kernel == "SquaredExponential" and variant in DENSE and args.steps > 50:
            continue  # the exact posterior would take hours
        stream = simulate_stream(kernel, variant, data, args.n, args.steps)
        exact = online_posterior(stream.model, stream.snapshots, seed=data, points=args.points)
        for name, seed in itertools.product(who if data < args.sequential_datasets else who[:1], range(args.seeds)):
            state, info, seconds = sampled(*samplers(stream.model, name, args.particles), stream.snapshots, seed)
            row = {"kernel": kernel, "variant": variant, "data": data, "sampler": name, "seed": seed}
            rows.append(row | row_of(stream, exact, state, info) | {"seconds": seconds, "names": exact.names})
            worst = max(abs(rows[-1][f"bias {parameter}"]) for parameter in exact.names)
            print(
                f"{kernel}, {variant}, data {data}, {name}, seed {seed}: largest bias {worst:.2f} sd, latent "
                f"{rows[-1]['R']:.2f}, {seconds:.0f} s",
                flush=True,
            )
            save(rows)
    return rows


def save(rows: list[dict[str, Any]]) -> None:
    """All numbers so far."""
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "rows.json").write_text(json.dumps(rows, indent=1) + "\n")


def chosen(rows: list[dict[str, Any]], what: str, **where: Any) -> np.ndarray:
    """A column, or all columns that begin with ``what`` and a parameter's name, of the rows that match."""
    fitting = [row for row in rows if all(row[name] == value for name, value in where.items())]
    if fitting and what in fitting[0]:
        return np.array([row[what] for row in fitting])
    return np.array([[row[f"{what} {name}"] for name in row["names"]] for row in fitting])


def sampling_error(rows: list[dict[str, Any]]) -> float:
    """Of a coverage: values of one data set go together, and the seeds of one data set even more so."""
    keys = ("kernel", "variant", "data")
    sets = {tuple(row[key] for key in keys) for row in rows}
    means = [chosen(rows, "coverage", **dict(zip(keys, one))).mean() for one in sets]
    least = np.sqrt(0.05 * 0.95 / (5 * len(means)))  # as if a data set were five independent values
    return float(max(np.std(means, ddof=1) / np.sqrt(len(means)), least)) if len(means) > 1 else float(least)


def table(rows: list[dict[str, Any]]) -> str:
    """One line per kernel, variant and sampler."""
    names = rows[0]["names"]
    header = ["time kernel", "data", "sampler", *(SHORT.get(name, name) for name in names)]
    header += ["sd ratios", "latent variance over exact", "bias of f", "coverage", "log evidence", "s"]
    body = []
    for kernel, variant, who in dict.fromkeys((r["kernel"], r["variant"], r["sampler"]) for r in rows):
        where = {"kernel": kernel, "variant": variant, "sampler": who}
        bias = np.abs(chosen(rows, "bias", **where))
        cells = [f"{np.median(column):.2f}, {np.quantile(column, 0.95):.2f}" for column in bias.T]
        cells += [spread(chosen(rows, what, **where)) for what in ("sd", "R")]
        cells.append(f"{np.median(chosen(rows, 'bias of f', **where)):.2f}")
        cells.append(f"{chosen(rows, 'coverage', **where).mean():.2f}")
        evidence = chosen(rows, "log evidence", **where)
        cells.append(f"{np.abs(evidence).max():.2f}" if np.isfinite(evidence).all() else "–")
        cells.append(f"{np.median(chosen(rows, 'seconds', **where)):.0f}")
        body.append([kernel, variant, who, *cells])
    return markdown(header, body)


def spread(values: np.ndarray) -> str:
    """From the least to the largest."""
    return f"{values.min():.2f}–{values.max():.2f}"


def goals(rows: list[dict[str, Any]]) -> str:
    """Each goal of the online sampler, what was found, and whether it is met."""
    online = [row for row in rows if row["sampler"] == "online"]
    matern = [row for row in online if row["kernel"] != "SquaredExponential"]
    smooth = [row for row in online if row["kernel"] == "SquaredExponential"]
    body = []

    def line(of: str, what: str, found: str, met: Any) -> None:
        body.append([of, what, found, "met" if met else "**not met**"])

    for of, group, limit in (("Matérn", matern, 0.15), ("squared exponential", smooth, 0.5)):
        if not group:
            continue
        bias, sd = np.abs(chosen(group, "bias")), chosen(group, "sd")
        high = float(np.quantile(bias, 0.95))
        line(of, f"bias of a parameter, 95% of all cases: at most {limit} sd", f"{high:.3f}", high <= limit)
        if of == "Matérn":
            middle = float(np.median(bias))
            line(of, "bias of a parameter, median: at most 0.07 sd", f"{middle:.3f}", middle <= 0.07)
            line(of, "sd ratios .85–1.15", spread(sd), sd.min() >= 0.85 and sd.max() <= 1.15)
        ratio = chosen(group, "R")
        line(
            of, "variance of the latent over exact .97–1.03", spread(ratio), ratio.min() >= 0.97 and ratio.max() <= 1.03
        )
        coverage, error = chosen(group, "coverage").mean(), sampling_error(group)
        met = abs(coverage - 0.95) <= 2 * error
        line(of, "coverage of 95% intervals within two sampling errors", f"{coverage:.3f} ± {error:.3f}", met)
        if of == "Matérn":
            evidence = np.abs(chosen(group, "log evidence")).max()
            line(of, "log evidence within 0.5", f"{evidence:.2f}", evidence <= 0.5)
    return markdown(["time kernel", "goal", "found", ""], body)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=2, help="runs of each sampler on each data set")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--n", type=int, default=10, help="stations")
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument(
        "--sequential-datasets", type=int, default=0, help="data sets that SequentialSampler runs on too"
    )
    parser.add_argument("--particles", type=int, default=256)
    parser.add_argument("--points", type=int, default=4000, help="of the exact posterior")
    parser.add_argument("--figure", type=Path, help="draw one stream to this file, in place of the tables")
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    args = parser.parse_args()
    if args.quick:
        args.datasets, args.seeds, args.steps, args.n, args.points = 1, 1, 6, 4, 400
        args.kernels, args.variants, args.particles = ["Matern12"], ["complete"], 32
    return args


def main() -> None:
    seqgp.enable_x64()
    args = arguments()
    if args.figure is not None:
        from experiments.long_run_figure import draw

        draw(args)
        return
    rows = cases(args)
    what = (
        f"N = {args.n}, T = {args.steps}, {args.datasets} data sets, {args.seeds} seeds; biases in exact sds: median "
        "and 95% quantile of their size"
    )
    text = f"{what}\n\n{table(rows)}\n\n{goals(rows)}\n"
    (OUT / "tables.md").write_text(text)
    print("\n" + text)


if __name__ == "__main__":
    main()
