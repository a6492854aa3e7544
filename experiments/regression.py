"""The paper's regression (section 4.1): N = 200 points at each of T = 20 times, figures 2 and 4, and a table.

python -m experiments.regression [--latent dense|knots] [--updates plain|informed]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

import seqgp
from experiments.dax import finite
from experiments.simulate import Truth, regression_data, regression_model

POOR_ESS, POOR_RHAT = 100, 1.05  # beyond these a step is named below the table
PAPER = "paper, 2.8 GHz i7 of 2018: under 4 min for t = 1, then 35 min"


class Step(NamedTuple):
    """What the table and the figures need of a step."""

    mean: np.ndarray
    sd: np.ndarray
    data_sd: np.ndarray
    parameters: dict[str, np.ndarray]
    seconds: float
    compile_seconds: float
    min_ess: float
    max_rhat: float


def sampler_of(arguments: argparse.Namespace) -> seqgp.SequentialSampler:
    """The paper's settings: 6000 states at t = 1 (1000 dropped, every 5th kept), then ×5, ×5, tau = 1."""
    latent: Any = seqgp.Dense()
    if arguments.latent == "knots":
        latent = seqgp.Knots(nodes=(12, 12), domain=[(0, 1), (0, 1)])
    chains = 4 if arguments.latent == "dense" else None
    plain = arguments.updates == "plain"
    return seqgp.SequentialSampler(
        regression_model(),
        draws=arguments.draws,
        tau=1,
        chains=chains,
        warmup=250 if plain and chains == 4 else None,
        thin=5 if plain else None,
        latent=latent,
        updates=seqgp.Plain(sweeps=(5, 5, 1), start=arguments.start) if plain else "informed",
    )


def run_sequence(
    sampler: seqgp.Sampler, truth: Truth, seed: int, say: Callable[[str], None] = print
) -> tuple[list[Step], seqgp.State]:
    """All steps, one line of progress each; the state before the last is returned too, for figure 4."""
    steps: list[Step] = []
    before: list[seqgp.State] = []
    for state, info in seqgp.steps(jax.random.key(seed), sampler, truth.snapshots, progress=False):
        steps.append(step_of(state, info))
        say(f"t = {len(steps)} of {len(truth.snapshots)}: {info.seconds:.1f} s, {info.health}")
        before.append(state)
        del before[:-2]
    return steps, before[0]


def step_of(state: seqgp.State, info: seqgp.Info) -> Step:
    """Moments of the draws, and what they cost."""
    latent, noise = np.asarray(state.latent), np.asarray(state.parameters["noise"])
    return Step(
        latent.mean(axis=0),
        latent.std(axis=0),
        np.sqrt(latent.var(axis=0) + np.mean(noise**2)),
        {name: np.asarray(values) for name, values in state.parameters.items()},
        info.seconds,
        info.compile_seconds,
        info.min_ess,
        info.max_rhat if isinstance(info, seqgp.ChainInfo) else float("nan"),
    )


def table_of(steps: list[Step], truth: Truth) -> tuple[Table, list[dict[str, float]]]:
    """Coverage of latent and data at ±2 sd for each t, and what the step cost."""
    table = Table(title="Coverage at ±2 sd, and cost")
    for heading in ("t", "latent inside", "data outside", "seconds", "compiling", "min ESS", "max R-hat"):
        table.add_column(heading, justify="right")
    rows = []
    for i, (step, snapshot) in enumerate(zip(steps, truth.snapshots)):
        inside = float(np.mean(np.abs(truth.f[i] - step.mean) <= 2 * step.sd))
        outside = int(np.sum(np.abs(snapshot.y - step.mean) > 2 * step.data_sd))
        row = {"t": float(snapshot.t), "inside": inside, "outside": outside, "seconds": step.seconds}
        rows.append(row | {"min_ess": float(step.min_ess), "max_rhat": float(step.max_rhat)})
        table.add_row(
            f"{snapshot.t:.3f}",
            f"{inside:.1%}",
            f"{outside} of {len(snapshot.y)}",
            f"{step.seconds:.2f}",
            f"{step.compile_seconds:.1f}",
            f"{step.min_ess:.0f}",
            f"{step.max_rhat:.3f}",
        )
    return table, rows


def poor_mixing(steps: list[Step]) -> list[str]:
    """A sentence for each step whose draws cannot be trusted."""
    return [
        f"t = {i}: mixes poorly (least ESS {step.min_ess:.0f}, R-hat {step.max_rhat:.3f}); do not trust its draws"
        for i, step in enumerate(steps, 1)
        if step.min_ess < POOR_ESS or step.max_rhat > POOR_RHAT
    ]


def lost_by_the_step(steps: list[Step], truth: Truth) -> list[str]:
    """Parameters whose truth lies more than four sd from the last posterior, with the reason."""
    found = []
    for name, value in truth.parameters.items():
        draws = steps[-1].parameters[name].reshape(len(steps[-1].parameters[name]), -1)
        for j, true in enumerate(np.atleast_1d(value)):
            mean, sd = float(draws[:, j].mean()), float(draws[:, j].std())
            if abs(mean - true) > 4 * sd:
                found.append(
                    f"{name}: {mean:.3f} ± {sd:.3f}, truth {true:.3f}: the factorised carry counts what a step says of "
                    "it anew, as if the latent of the step before were known, so its posterior is too narrow"
                )
    return found


def parameter_table(steps: list[Step], truth: Truth) -> Table:
    """The posterior of each parameter against the truth, after the first and the last snapshot."""
    table = Table(title="Parameters: posterior mean ± sd")
    for heading in ("parameter", "truth", "t = 1", f"t = {len(steps)}"):
        table.add_column(heading, justify="left" if heading == "parameter" else "right")
    for name, value in truth.parameters.items():
        entries = np.atleast_1d(value)
        for j, true in enumerate(entries):
            row = [name if len(entries) == 1 else f"{name}[{j}]", f"{true:.3f}"]
            for step in (steps[0], steps[-1]):
                draws = step.parameters[name].reshape(len(step.parameters[name]), -1)[:, j]
                row.append(f"{draws.mean():.3f} ± {draws.std():.3f}")
            table.add_row(*row)
    return table


def figure_2(steps: list[Step], truth: Truth):
    """Posterior bands of the first and the last latent, data and truth, centred at the posterior mean."""
    figure, axis = plt.subplots(figsize=(11, 3.6), constrained_layout=True)
    n = len(steps[0].mean)
    for offset, i in ((0, 0), (n, len(steps) - 1)):
        step, snapshot = steps[i], truth.snapshots[i]
        order = np.argsort(step.sd)
        at = offset + np.arange(1, n + 1)
        axis.fill_between(at, -2 * step.data_sd[order], 2 * step.data_sd[order], color="0.88", lw=0)
        axis.fill_between(at, -2 * step.sd[order], 2 * step.sd[order], color="0.6", lw=0)
        axis.plot(at, (snapshot.y - step.mean)[order], ".", color="C3", ms=3.5)
        axis.plot(at, (truth.f[i] - step.mean)[order], "*", color="C0", ms=3.5)
    axis.axvline(n + 0.5, color="k", lw=0.8)
    top = axis.get_ylim()[1]
    axis.text(n / 2, top * 0.97, "t = 1", ha="center", va="top")
    axis.text(n * 1.5, top * 0.97, f"t = {len(steps)}", ha="center", va="top")
    axis.set(xlabel="input, in order of posterior sd", ylabel="minus posterior mean", xlim=(0, 2 * n + 1))
    handles = [
        plt.Rectangle((0, 0), 1, 1, fc="0.6"),
        plt.Rectangle((0, 0), 1, 1, fc="0.88"),
        plt.Line2D([], [], color="C0", marker="*", ls=""),
        plt.Line2D([], [], color="C3", marker=".", ls=""),
    ]
    labels = ["latent ±2 sd", "data ±2 sd", "true latent", "data"]
    figure.legend(handles, labels, ncols=4, loc="outside upper center", fontsize=9, frameon=False)
    return figure


def half_plane(snapshot: seqgp.Snapshot) -> tuple[seqgp.Snapshot, np.ndarray, np.ndarray]:
    """Training data in the left half of the square; inputs and data of the right half."""
    left = snapshot.x[:, 0] <= 0.5
    return seqgp.Snapshot(snapshot.t, snapshot.x[left], snapshot.y[left]), snapshot.x[~left], snapshot.y[~left]


class HalfPlane(NamedTuple):
    """How the held-out half of a snapshot was predicted."""

    log_densities: np.ndarray  # one a draw: the paper averages these
    log_score: float  # the log of the mean density: the proper score

    @property
    def mean(self) -> float:
        return float(self.log_densities.mean())


def predict_half(
    sampler: seqgp.Sampler, before: seqgp.State, snapshot: seqgp.Snapshot, seed: int
) -> dict[str, HalfPlane]:
    """The held-out half of a snapshot given the other half, with and without the snapshots before it."""
    training, x_test, y_test = half_plane(snapshot)
    key_with, key_without, key_predict = jax.random.split(jax.random.key(seed + 1), 3)
    with_past, _ = sampler.step(key_with, before, training)
    without, _ = sampler.init(key_without, training)
    found = {}
    for name, state in (("sequential", with_past), ("without the past", without)):
        prediction = seqgp.predict(key_predict, sampler.model, state, x_test)
        found[name] = HalfPlane(prediction.log_densities(y_test), float(prediction.log_score(y_test)))
    return found


def figure_4(found: dict[str, HalfPlane]):
    """The cumulative mean of the predictive log density of the held-out half, with and without the past."""
    figure, axis = plt.subplots(figsize=(5.5, 3.6), constrained_layout=True)
    for (name, half), style in zip(found.items(), ("-", ":")):
        values = half.log_densities
        axis.plot(np.cumsum(values) / np.arange(1, len(values) + 1), "k" + style, label=name)
        axis.axhline(half.log_score, color="C0", ls=style, lw=1, label=f"{name}: log score")
    axis.set(xlabel="draws", ylabel="cumulative mean of the\npredictive log likelihood")
    axis.legend(frameon=False, fontsize=8)
    return figure


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.regression", description="The regression of the paper."
    )
    parser.add_argument("--latent", choices=("dense", "knots"), default="dense")
    parser.add_argument("--updates", choices=("plain", "informed"), default="plain")
    parser.add_argument(
        "--start",
        choices=("warm", "prior"),
        default="prior",
        help="where plain updates of a draw start: the chain's last coordinates, or a fresh draw (the paper's)",
    )
    parser.add_argument("--n", type=int, default=200, help="points a snapshot")
    parser.add_argument("--steps", type=int, default=20, help="snapshots")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/regression"))
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    arguments = parse(argv)
    seqgp.enable_x64()
    matplotlib.use("agg")
    console = Console()
    arguments.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    console.print(f"Simulating {arguments.steps} snapshots of {arguments.n} points …")
    truth = regression_data(arguments.seed, arguments.n, arguments.steps)
    sampler = sampler_of(arguments)
    console.print(f"Sampling {arguments.draws} draws at each time ({arguments.latent}, {arguments.updates}) …")
    steps, before = run_sequence(sampler, truth, arguments.seed)
    sampled = time.perf_counter() - start
    table, rows = table_of(steps, truth)
    console.print(table)
    for sentence in poor_mixing(steps):
        console.print(sentence, markup=False)
    console.print(parameter_table(steps, truth))
    for sentence in lost_by_the_step(steps, truth):
        console.print(sentence, markup=False)
    figure_2(steps, truth).savefig(arguments.out / "figure2.png", dpi=160)
    halves = predict_half(sampler, before, truth.snapshots[-1], arguments.seed)
    final = {name: {"mean": half.mean, "log_score": half.log_score} for name, half in halves.items()}
    figure_4(halves).savefig(arguments.out / "figure4.png", dpi=160)
    kept = {"rows": rows, "prediction": final, "poor": poor_mixing(steps), "lost": lost_by_the_step(steps, truth)}
    (arguments.out / "table.json").write_text(json.dumps(finite(kept), indent=1, allow_nan=False))
    for name, scores in final.items():
        console.print(f"Last t, {name}: mean log density {scores['mean']:.1f}, log score {scores['log_score']:.4f}")
    first, later = steps[0].seconds, sum(step.seconds for step in steps[1:])
    console.print(f"Sampling took {first:.1f} s for t = 1 and {later:.1f} s for the rest ({PAPER});")
    console.print(f"{sampled:.1f} s with compilation and simulation. Figures and table: {arguments.out}")


if __name__ == "__main__":
    main()
