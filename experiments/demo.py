"""The paper's regression in small: the online sampler beside the paper's own algorithm, both against the truth.

python -m experiments.demo [--n 60] [--steps 8] [--particles 128]; at full size: python -m experiments.regression
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import seqgp
from experiments.simulate import Truth, regression_data, regression_model

NAMES = {"online": "online", "paper": "paper's", "known": "exact, parameters known"}
COLOURS = {"online": "C0", "paper": "C3", "known": "0.35"}
SQUARE = [(0, 1), (0, 1)]
QUANTILES = (0.025, 0.5, 0.975)


class Found(NamedTuple):
    """What a sampler found after a snapshot."""

    mean: np.ndarray  # of the latent, at the data
    sd: np.ndarray
    parameters: dict[str, np.ndarray]
    seconds: float


def samplers_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The online sampler, and the paper's algorithm: its updates, ×5, ×5, on the data themselves."""
    model = regression_model()
    knots = seqgp.Knots(nodes=(arguments.nodes,) * 2, domain=SQUARE)
    plain = seqgp.Plain(sweeps=(5, 5, 1), start="prior")
    return {
        "online": seqgp.OnlineSampler(model, particles=arguments.particles, draws=arguments.draws, latent=knots),
        "paper": seqgp.SequentialSampler(
            model,
            draws=arguments.draws,
            latent=seqgp.Dense(),
            updates=plain,
            tau=1,
            chains=4,
            warmup=250,
            thin=5,
        ),
    }


def sequence(name: str, sampler: Any, truth: Truth, seed: int) -> list[Found]:
    """What a sampler finds after each snapshot."""
    found = []
    steps = seqgp.steps(jax.random.key(seed), sampler, truth.snapshots)
    for state, info in track(steps, f"{NAMES[name]:8}", total=len(truth.snapshots)):
        latent = np.asarray(state.latent)
        parameters = {name: np.asarray(values) for name, values in state.parameters.items()}
        found.append(Found(latent.mean(axis=0), latent.std(axis=0), parameters, info.seconds))
    return found


def known(truth: Truth) -> list[Found]:
    """The exact posterior of the latent after each snapshot for one who knows the true parameters."""
    p = truth.parameters
    at = [np.column_stack([s.x / p["space.lengthscale"], np.full(len(s.x), s.t / p["time.lengthscale"])])
          for s in truth.snapshots]  # fmt: skip
    found = []
    for i in range(len(at)):
        points, y = np.concatenate(at[: i + 1]), np.concatenate([s.y for s in truth.snapshots[: i + 1]])
        prior = p["scale"] ** 2 * np.exp(-0.5 * ((points[:, None] - points[None]) ** 2).sum(axis=-1))
        last = prior[-len(at[i]) :]
        gain = np.linalg.solve(prior + p["noise"] ** 2 * np.eye(len(y)), last.T).T
        variance = p["scale"] ** 2 - (gain * last).sum(axis=1)
        found.append(Found(p["mean"] + gain @ (y - p["mean"]), np.sqrt(variance), {}, 0.0))
    return found


def scores(found: list[Found], truth: Truth) -> list[dict[str, float]]:
    """At each time: the error of the mean, the sd that was claimed, and how much of the truth is within 2 sd."""
    rows = []
    for step, f, snapshot in zip(found, truth.f, truth.snapshots):
        error = f - step.mean
        rms, sd = (float(np.sqrt(np.mean(values**2))) for values in (error, step.sd))
        rows.append({"t": snapshot.t, "rms": rms, "sd": sd, "inside": float(np.mean(np.abs(error) <= 2 * step.sd))})
    return rows


def latent_table(rows: dict[str, list[dict[str, float]]]) -> Table:
    """Each method's error and coverage of the latent, time by time and over all."""
    table = Table(title="The latent against the truth: rms error (sd), and truth within 2 sd")
    table.add_column("t", justify="right")
    for name in rows:
        table.add_column(f"{NAMES[name]}\nerror (sd)", justify="right")
        table.add_column("\n2 sd", justify="right")
    for i, one in enumerate(rows["known"]):
        table.add_row(f"{one['t']:.2f}", *(cell for row in rows.values() for cell in _cells(row[i : i + 1])))
    table.add_section()
    table.add_row("all", *(cell for row in rows.values() for cell in _cells(row)))
    return table


def _cells(rows: list[dict[str, float]]) -> tuple[str, str]:
    error, sd = (np.sqrt(np.mean([row[key] ** 2 for row in rows])) for key in ("rms", "sd"))
    return f"{error:.3f} ({sd:.3f})", f"{np.mean([row['inside'] for row in rows]):.0%}"


def entries(truth: Truth) -> list[tuple[str, str, int, float]]:
    """Label, name, position and true value of every parameter."""
    found = []
    for name, value in truth.parameters.items():
        values = np.atleast_1d(value)
        for j, true in enumerate(values):
            found.append((name if len(values) == 1 else f"{name}[{j}]", name, j, float(true)))
    return found


def draws_of(step: Found, name: str, j: int) -> np.ndarray:
    return step.parameters[name].reshape(len(step.parameters[name]), -1)[:, j]


def parameter_table(found: dict[str, list[Found]], truth: Truth) -> Table:
    """The parameters after the last snapshot: median and the central 95 % of each method, beside the truth."""
    table = Table(title="The parameters after the last snapshot: median (central 95 %)")
    for heading in ("parameter", "truth", *(NAMES[name] for name in found)):
        table.add_column(heading, justify="left" if heading == "parameter" else "right")
    for label, name, j, true in entries(truth):
        row = [label, f"{true:.2f}"]
        for steps in found.values():
            low, middle, high = np.quantile(draws_of(steps[-1], name, j), QUANTILES)
            row.append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
        table.add_row(*row)
    return table


def figure(found: dict[str, list[Found]], exact: list[Found], truth: Truth) -> Any:
    """The latent at the last time, its error over time, and each parameter's band over time."""
    picture, axes = plt.subplots(3, 3, figsize=(11, 8.5), constrained_layout=True)
    times = np.array([snapshot.t for snapshot in truth.snapshots])
    for axis, (name, steps) in zip(axes[0], found.items()):
        _bands(axis, steps[-1], truth.f[-1], name)
    largest = max(np.abs(axis.get_ylim()).max() for axis in axes[0, :2])
    for axis in axes[0, :2]:
        axis.set_ylim(-largest, largest)
    for name, steps in {**found, "known": exact}.items():
        axes[0, 2].plot(times, [row["rms"] for row in scores(steps, truth)], ".-", color=COLOURS[name])
    axes[0, 2].set(title="error of the latent's mean (rms)", xlabel="t", ylim=(0, None))
    for axis, (label, name, j, true) in zip(axes[1:].flat, entries(truth)):
        for method, steps in found.items():
            low, middle, high = np.transpose([np.quantile(draws_of(s, name, j), QUANTILES) for s in steps])
            axis.fill_between(times, low, high, color=COLOURS[method], alpha=0.25, lw=0)
            axis.plot(times, middle, color=COLOURS[method])
        axis.axhline(true, color="k", ls="--", lw=1)
        axis.set(title=label, xlabel="t")
    handles = [plt.Line2D([], [], color=COLOURS[name], lw=2) for name in NAMES]
    handles.append(plt.Line2D([], [], color="k", ls="--", lw=1))
    picture.legend(
        handles,
        [*NAMES.values(), "truth (parameters: median, central 95 %)"],
        ncols=4,
        loc="outside upper center",
        frameon=False,
    )
    return picture


def _bands(axis: Any, step: Found, f: np.ndarray, name: str) -> None:
    """The truth minus the posterior mean within ±2 sd, in order of the sd; what is outside is marked."""
    order = np.argsort(step.sd)
    error, sd = (f - step.mean)[order], step.sd[order]
    outside = np.abs(error) > 2 * sd
    at = np.arange(1, len(sd) + 1)
    axis.fill_between(at, -2 * sd, 2 * sd, color=COLOURS[name], alpha=0.25, lw=0)
    axis.plot(at[~outside], error[~outside], ".", color="k", ms=4)
    axis.plot(at[outside], error[outside], "x", color="k", ms=5)
    axis.axhline(0, color=COLOURS[name], lw=1)
    axis.set(title=f"{NAMES[name]}, last t: {outside.sum()} of {len(sd)} outside ±2 sd")
    axis.set(xlabel="input, in order of posterior sd", ylabel="true latent minus posterior mean")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.demo",
        description="The paper's regression in small: the online sampler beside the paper's algorithm and the truth.",
    )
    parser.add_argument("--n", type=int, default=60, help="points a snapshot")
    parser.add_argument("--steps", type=int, default=8, help="snapshots")
    parser.add_argument("--draws", type=int, default=400, help="at each time")
    parser.add_argument("--particles", type=int, default=128, help="of the online sampler")
    parser.add_argument("--nodes", type=int, default=5, help="of the online sampler's knots, along each side")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/demo"))
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    arguments = parse(argv)
    seqgp.enable_x64()
    matplotlib.use("agg")
    console = Console()
    arguments.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    truth = regression_data(arguments.seed, arguments.n, arguments.steps)
    console.print(f"{arguments.steps} snapshots of {arguments.n} points that move, {arguments.draws} draws after each:")
    samplers = samplers_of(arguments)
    found = {name: sequence(name, sampler, truth, arguments.seed) for name, sampler in samplers.items()}
    exact = known(truth)
    rows = {name: scores(steps, truth) for name, steps in {**found, "known": exact}.items()}
    console.print(latent_table(rows))
    console.print(parameter_table(found, truth))
    figure(found, exact, truth).savefig(arguments.out / "demo.png", dpi=150)
    seconds = {name: sum(step.seconds for step in steps) for name, steps in found.items()}
    (arguments.out / "demo.json").write_text(json.dumps({"rows": rows, "seconds": seconds}, indent=1))
    spent = ", ".join(f"{NAMES[name]} {value:.0f} s" for name, value in seconds.items())
    console.print(f"Sampling: {spent}; with compilation and figure {time.perf_counter() - start:.0f} s.")
    console.print(f"Figure: {arguments.out / 'demo.png'}. The paper at full size: make paper")


if __name__ == "__main__":
    main()
