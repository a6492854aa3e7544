"""Full against sequential sampling: the paper's third comparison (``N = 100``, ``T = 10``; figure 9 and section 3).

python -m experiments.full_vs_sequential [--replicates K] [--tau 1] [--full plain] [--quick]

Writes to ``out/full_vs_sequential``: figure 9 (of the first data set), the tables as Markdown, all numbers as JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
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
from experiments.dax import finite

OUT = Path("out/full_vs_sequential")


def full_cost(data: DataSet, t: int, key: Any, draws: int, updates: str) -> tuple[float, float]:
    """Seconds per sweep and per effective draw of the latent, of the paper's full sampler."""
    sampler = seqgp.FullSampler(data.model, draws=draws, warmup=draws // 4, thin=1, updates=updates)
    _, info = sampler.sample(key, data.snapshots[:t])
    sweeps = draws + sampler_warmup(draws, info.chains)
    return info.seconds / sweeps, info.seconds / info.ess["latent"]


def sampler_warmup(draws: int, chains: int) -> int:
    return chains * (draws // 4)


def section_three(exact: Summary, found: Summary, spent: float, per_draw: float) -> dict[str, float]:
    """The mean square errors of ``E[f_t]`` at equal computing time, and inequality 12.

    ``spent`` is the time that the sequential sampler took to come to this snapshot, ``per_draw`` the unbiased
    sampler's seconds per effective draw. Below ``budget`` seconds the sequential estimate has the smaller error.
    """
    variance, sequential = np.mean(exact.sd**2), np.mean(found.sd**2)
    # Both means are estimates: what their Monte Carlo errors add to the squared difference is taken off.
    noise = np.mean(exact.sd**2) / exact.ess + np.mean(found.sd**2) / found.ess
    bias = max(np.mean((found.mean - exact.mean) ** 2) - noise, 0.0)
    gain = variance * per_draw - sequential * spent / found.ess
    budget = gain / bias if bias > 0 else np.copysign(np.inf, gain)
    return {
        "mse": float(bias + sequential / found.ess),
        "exact mse": float(variance * per_draw / spent),
        "budget": float(budget),
        "cumulative seconds": spent,
    }


def one_data_set(
    seed: int, args: argparse.Namespace, after: Callable[..., None] | None = None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of one data set, and what the figure needs; ``after`` is called with both after each time."""
    data = simulate(seed, args.n, args.steps)
    times = range(1, args.steps + 1)
    key_run, key_exact, key_full = jax.random.split(jax.random.key(seed), 3)
    sampler = seqgp.SequentialSampler(data.model, draws=args.draws, tau=args.tau, updates=args.updates)
    found = sequential_posteriors(data, times, key_run, sampler)
    online = online_posteriors(data, times, jax.random.fold_in(key_run, 1), args)
    rows, exacts = [], {}
    for t in times:
        exact = exacts[t] = exact_posterior(
            data, t, jax.random.fold_in(key_exact, t), args.exact_draws, args.exact_warmup
        )
        row = {"seed": seed, "t": t, "exact sd": float(np.mean(exact.sd)), "sd": float(np.mean(found[t].sd))}
        row |= compare(data, t, exact, found[t])
        if t in online:
            row |= {f"online {name}": value for name, value in compare(data, t, exact, online[t]).items()}
        spent = sum(found[s].seconds for s in range(1, t + 1))
        row |= section_three(exact, found[t], spent, exact.seconds / exact.ess)
        if args.full != "none":
            per_sweep, per_draw = full_cost(data, t, jax.random.fold_in(key_full, t), args.full_draws, args.full)
            row |= {f"full {k}": v for k, v in section_three(exact, found[t], spent, per_draw).items()}
            row["full seconds per sweep"] = per_sweep
        rows.append(row)
        print(
            f"data set {seed}, t = {t:2d}: R_t {row['R']:.2f}, bias {row['bias']:.2f} sd, "
            f"step {row['seconds']:.1f} s, exact {row['exact seconds']:.1f} s",
            flush=True,
        )
        if after is not None:
            after(rows, {"data": data, "exact": exacts, "found": found, "online": online})
    return rows, {"data": data, "exact": exacts, "found": found, "online": online}


def online_posteriors(data: DataSet, times: Any, key: Any, args: argparse.Namespace) -> dict[int, Summary]:
    """The online sampler on the same data, if it is asked for."""
    if not args.online:
        return {}
    knots = seqgp.Knots(nodes=(args.nodes,) * 2, domain=[(0, 1), (0, 1)])
    sampler = seqgp.OnlineSampler(data.model, particles=args.online, draws=args.draws, latent=knots)
    return sequential_posteriors(data, times, key, sampler)


def figure_nine(drawn: dict[str, Any], path: Path, shown: int = 12) -> None:
    """Bands of ±2 sd of both posteriors at some inputs of each time, with the truth; the exact mean taken off."""
    from matplotlib.figure import Figure

    data, exacts, founds = drawn["data"], drawn["exact"], drawn["found"]
    figure = Figure(figsize=(11, 6), layout="constrained")
    top, below = figure.subplots(2, 1, height_ratios=[3, 2])
    for t, exact in exacts.items():
        found, chosen = founds[t], np.arange(min(shown, len(exact.mean)))
        at = (t - 1) * (shown + 2) + chosen
        for summary, colour, name in ((found, "tab:orange", "sequential"), (exact, "tab:blue", "exact")):
            middle = summary.mean[chosen] - exact.mean[chosen]
            spread = 2 * summary.sd[chosen]
            label = f"{name}, ±2 sd" if t == 1 else None
            top.fill_between(at, middle - spread, middle + spread, color=colour, alpha=0.35, lw=0, label=label)
        truth = data.f[t - 1][chosen] - exact.mean[chosen]
        top.plot(at, truth, "k*", ms=4, label="truth" if t == 1 else None)
    top.set(xticks=[(t - 0.5) * (shown + 2) - 1.5 for t in exacts], xticklabels=[f"t = {t}" for t in exacts])
    top.set_ylabel("f + mean, exact mean taken off")
    top.legend(loc="upper right", ncols=3)
    times = list(exacts)
    below.plot(times, [np.mean(exacts[t].sd) for t in times], "o-", color="tab:blue", label="exact")
    below.plot(times, [np.mean(founds[t].sd) for t in times], "o-", color="tab:orange", label="sequential")
    if drawn["online"]:
        below.plot(times, [np.mean(drawn["online"][t].sd) for t in times], "x--", color="tab:green", label="online")
    below.set(xlabel="t", ylabel="mean posterior sd", ylim=(0, None))
    below.legend()
    figure.savefig(path, dpi=150)


def tables(rows: list[dict[str, Any]], names: list[str], full: str) -> str:
    """The tables of the experiment, with means and standard errors over the data sets."""
    times = sorted({row["t"] for row in rows})

    def cell(t: int, column: str, digits: int = 2) -> str:
        return mean_and_error(gather(rows, column, t=t), digits)

    first = [[str(t), cell(t, "R"), cell(t, "bias"), cell(t, "seconds", 1), cell(t, "exact seconds", 1)] for t in times]
    text = "### Latent\n\n" + markdown(
        ["t", "R_t", "bias of E[f_t], exact sds", "s, sequential step", "s, exact"], first
    )
    for what, title in (("bias", "Bias in z, exact sds"), ("sd", "Sd in z against exact")):
        body = [[str(t), *(cell(t, f"{what} {name}") for name in names)] for t in times]
        text += f"\n\n### {title}\n\n" + markdown(["t", *names], body)
    for prefix, who in (("", "collapsed"), ("full ", f"full sampler, {full} updates")):
        if f"{prefix}mse" not in rows[0]:
            continue
        body = [
            [
                str(t),
                cell(t, f"{prefix}cumulative seconds", 1),
                cell(t, f"{prefix}mse", 5),
                cell(t, f"{prefix}exact mse", 5),
                f"{np.mean(gather(rows, f'{prefix}mse', t=t) < gather(rows, f'{prefix}exact mse', t=t)):.0%}",
                budget_in_words(float(np.median(gather(rows, f"{prefix}budget", t=t)))),
            ]
            for t in times
        ]
        header = ["t", "s", "MSE sequential", "MSE unbiased", "sequential wins", "wins below (median s)"]
        text += f"\n\n### Section 3: equal computing time, against the {who}\n\n" + markdown(header, body)
        text += f"\n\n{verdict(rows, times, prefix)}"
    return text


def budget_in_words(seconds: float) -> str:
    """Below how many seconds the sequential estimate has the smaller error."""
    if seconds <= 0:
        return "never"
    return f"{seconds:.1f}" if np.isfinite(seconds) else "always"


def verdict(rows: list[dict[str, Any]], times: list[int], prefix: str) -> str:
    """From which time on the sequential estimate has the smaller error, in most data sets, to the end."""
    wins = [np.mean(gather(rows, f"{prefix}mse", t=t) < gather(rows, f"{prefix}exact mse", t=t)) > 0.5 for t in times]
    since = next((t for i, t in enumerate(times) if all(wins[i:])), None)
    if since is None:
        return "At this computing time the sequential estimate does not have the smaller error at the end."
    return f"At this computing time the sequential estimate has the smaller error from t = {since} on."


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=1, help="simulated data sets")
    parser.add_argument("--tau", type=int, default=1)
    parser.add_argument("--updates", default="plain")
    parser.add_argument("--full", default="plain", choices=["plain", "informed", "none"])
    parser.add_argument("--online", type=int, default=0, help="particles of the online sampler beside it; 0 for none")
    parser.add_argument("--nodes", type=int, default=8, help="of the online sampler's knots, along each side")
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    args = parser.parse_args(argv)
    sizes = (20, 3, 200, 200, 100, 40) if args.quick else (100, 10, 1000, 1000, 400, 400)
    args.n, args.steps, args.draws, args.exact_draws, args.exact_warmup, args.full_draws = sizes
    return args


def main() -> None:
    seqgp.enable_x64()
    args = arguments()
    OUT.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    names: list[str] = []
    for seed in range(args.replicates):
        found, drawn = one_data_set(seed, args)
        rows += found
        names = drawn["data"].model.names
        if seed == 0:
            figure_nine(drawn, OUT / "figure9.png")
        (OUT / "rows.json").write_text(
            json.dumps(finite({"settings": vars(args), "rows": rows}), indent=1, allow_nan=False)
        )
    title = f"## tau = {args.tau}, {args.replicates} data set(s)\n\n"
    text = title + tables(rows, names, args.full)
    (OUT / "tables.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
