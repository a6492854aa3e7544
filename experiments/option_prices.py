"""The paper's option prices (section 4.2): 15 strikes × 5 maturities at T = 12 times, figures 5 and 6, and a table.

python -m experiments.option_prices [--updates plain|informed]
python -m experiments.option_prices --sampler online
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
from rich.table import Table

import seqgp
from experiments.dax import finite
from experiments.option_market import Market, market_model, simulate_market
from seqgp.apps.localvol.density import log_densities
from seqgp.apps.localvol.posterior import central, price_draws

PAPER = "paper, 2.8 GHz i7 of 2018: 18 min for t = 1, then 24 min"
NEAR = 0.025  # |K/S − 1| up to which an option counts as at the money


class Step(NamedTuple):
    """What the table needs of a step."""

    t: float
    volatility_inside: float
    price_inside: float
    data_inside: float
    parameters: dict[str, tuple[float, float]]
    forecast: dict[str, float]  # how the prices of this time were predicted before they were used
    ess: float
    ess_latent: float
    rhat: float
    seconds: float
    compile_seconds: float


def sampler_of(model: seqgp.Model, arguments: argparse.Namespace) -> seqgp.OnlineSampler | seqgp.SequentialSampler:
    """A cloud of filters, or chains: the paper's 20,000 states with a tenth of warm-up, or the informed updates."""
    if arguments.sampler == "online":
        return seqgp.OnlineSampler(model, particles=arguments.particles, draws=arguments.draws or 2200)
    if arguments.updates == "informed":
        updates = seqgp.Informed(sweeps=4, adapt=80)
        return seqgp.SequentialSampler(model, draws=arguments.draws or 2200, chains=4, warmup=300, updates=updates)
    return seqgp.SequentialSampler(
        model,
        draws=arguments.draws or 1000,
        chains=4,
        warmup=arguments.warmup,
        thin=arguments.thin,
        updates=seqgp.Plain(sweeps=(5, 5, 1), start="prior"),
    )


def observable(key: Any, state: seqgp.State, prices: np.ndarray) -> np.ndarray:
    """Draws of new observations: model price and noise."""
    noise = np.asarray(state.parameters["noise"])[:, None]
    return prices + noise * np.asarray(jax.random.normal(key, prices.shape))


def step_of(key: Any, market: Market, i: int, state: seqgp.State, info: seqgp.Info) -> Step:
    """How well a step covers the truth, and what it cost."""
    model = market.model
    values = model.values(state.latent)
    prices = price_draws(market.plans[i], values)
    sigma = np.asarray(values).reshape(state.draws, -1)
    y = market.snapshots[i].y

    def inside(draws: np.ndarray, truth: np.ndarray) -> float:
        low, high = central(draws, 0.95)
        return float(np.mean((truth >= low) & (truth <= high)))

    parameters = {
        name: (float(np.mean(v)), float(np.std(v)))
        for name, values in state.parameters.items()
        for name, v in _entries(name, np.asarray(values))
    }
    return Step(
        state.t,
        inside(sigma, market.volatility[i].ravel()),
        inside(prices, market.prices[i]),
        inside(observable(key, state, prices), y),
        parameters,
        info.scores,
        *_mixing(info),
        info.seconds,
        info.compile_seconds,
    )


def _mixing(info: seqgp.Info) -> tuple[float, float, float]:
    """The smallest ESS of the parameters, that of the latent function, the largest R-hat; of particles their ESS."""
    if isinstance(info, seqgp.OnlineInfo):
        return info.ess, info.ess, float("nan")
    return min(v for n, v in info.ess.items() if n != "latent"), info.ess["latent"], info.max_rhat


def _entries(name: str, values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    return [(name, values)] if values.ndim == 1 else [(f"{name}[{i}]", column) for i, column in enumerate(values.T)]


def table_of(steps: list[Step]) -> Table:
    """Coverage of 95 % intervals for each t, and cost."""
    table = Table(title="Coverage of 95 % intervals, and cost")
    for heading in ("t", "true σ", "true prices", "data", "forecast", "ESS, parameters", "ESS, σ", "R-hat", "seconds"):
        table.add_column(heading, justify="right")
    for step in steps:
        shares = (f"{share:.0%}" for share in (step.volatility_inside, step.price_inside, step.data_inside))
        cost = (f"{step.ess:.0f}", f"{step.ess_latent:.0f}", f"{step.rhat:.3f}", f"{step.seconds:.1f}")
        ahead = f"{step.forecast['coverage_95']:.0%}" if step.forecast else "–"
        table.add_row(f"{step.t:.2f}", *shares, ahead, *cost)
    return table


def parameter_table(steps: list[Step], truth: dict[str, float]) -> Table:
    """Posterior mean ± sd after the first and the last snapshot."""
    table = Table(title="Parameters: posterior mean ± sd")
    for heading in ("parameter", "truth", "t = 1", f"t = {len(steps)}"):
        table.add_column(heading, justify="left" if heading == "parameter" else "right")
    for name, value in truth.items():
        found = (steps[0].parameters[name], steps[-1].parameters[name])
        table.add_row(name, f"{value:.3f}", *(f"{mean:.3f} ± {sd:.3f}" for mean, sd in found))
    return table


HEADINGS = {
    "first": "seconds, t = 1",
    "rest": "seconds, rest",
    "ess": "least ESS",
    "rate": "ESS a second",
    "coverage": "coverage of σ",
    "prices": "of prices",
    "forecast": "of forecasts",
    "crps": "their CRPS",
}


def summary_of(steps: list[Step]) -> dict[str, float]:
    """One row of the comparison."""
    seconds = [step.seconds for step in steps]
    effective = [min(step.ess, step.ess_latent) for step in steps]
    ahead = [step.forecast for step in steps if step.forecast]
    return {
        "first": seconds[0],
        "rest": sum(seconds[1:]),
        "ess": min(effective),
        "rate": sum(effective) / sum(seconds),
        "coverage": float(np.mean([step.volatility_inside for step in steps])),
        "prices": float(np.mean([step.price_inside for step in steps])),
        "forecast": float(np.mean([scores["coverage_95"] for scores in ahead])) if ahead else float("nan"),
        "crps": float(np.mean([scores["crps"] for scores in ahead])) if ahead else float("nan"),
    }


def comparison(out: Path) -> Table:
    """Updates and samplers side by side, as far as they have been run."""
    table = Table(title="Side by side (what was run before is read from its file)")
    for heading in ("updates", *HEADINGS.values()):
        table.add_column(heading, justify="right")
    for path in sorted(out.glob("*.json")):
        row = json.loads(path.read_text())["summary"]
        cells = ("–" if row[key] is None else f"{row[key]:.3g}" for key in HEADINGS)
        table.add_row(path.stem.replace("-", ", "), *cells)
    return table


def order_of(market: Market) -> np.ndarray:
    """Inputs in groups of five maturities with a common strike, strikes descending: as in the paper's figures."""
    a, b = market.volatility.shape[1:]
    return np.arange(a * b).reshape(a, b)[:, ::-1].T.ravel()


def figure_5(market: Market, state: seqgp.State, best: int):
    """The posterior of the last volatilities, the most probable draw, and the truth."""
    order = order_of(market)
    draws = np.asarray(market.model.values(state.latent)).reshape(state.draws, -1)[:, order]
    figure, axis = plt.subplots(figsize=(9, 3.8), layout="constrained")
    at = np.arange(1, len(order) + 1)
    axis.plot(at, draws[:: max(1, len(draws) // 300)].T, color="0.78", lw=0.4)
    axis.plot(at, draws[best], color="0.3", lw=1.3, label="MAP draw")
    axis.plot(at, market.volatility[-1].ravel()[order], "o", mfc="none", color="C0", ms=4, label="truth")
    axis.plot([], [], color="0.78", label="posterior sample")
    axis.set(xlabel="# input: five maturities a strike, strikes descending", ylabel="local volatility")
    axis.set(ylim=(0, 1.15 * np.quantile(draws, 0.999)), xlim=(0, len(order) + 1))
    axis.legend(frameon=False, ncols=3, fontsize=8)
    return figure


def figure_6(key: Any, market: Market, state: seqgp.State, best: int):
    """The posterior of the last prices in log scale, intervals of observable prices, and the data."""
    order = order_of(market)
    prices = price_draws(market.plans[-1], market.model.values(state.latent))
    low, high = (end[order] for end in central(observable(key, state, prices), 0.95))
    floor = 1e-2
    figure, axis = plt.subplots(figsize=(9, 3.8), layout="constrained")
    at = np.arange(1, len(order) + 1)
    axis.fill_between(at, *np.maximum(central(prices, 0.999), floor)[:, order], color="0.78", lw=0, label="model price")
    for end, name in ((low, "95 % of observable prices"), (high, None)):
        axis.plot(at, np.maximum(end, floor), "k--", lw=1.0, label=name)
    axis.plot(at, prices[best][order], color="0.3", lw=0.9, label="MAP draw")
    axis.plot(at, market.snapshots[-1].y[order], ".", color="C3", ms=4.5, label="observed")
    near = np.abs(market.moneyness - 1) < NEAR
    levels = market.prices[-1].reshape(market.volatility.shape[1:])[:, near]
    for level in (levels.min(), levels.max()):
        axis.axhline(level, color="C0", lw=0.8)
    axis.set(yscale="log", xlabel="# input: five maturities a strike, strikes descending", ylabel="price")
    axis.set(ylim=(0.05, None), xlim=(0, len(order) + 1))
    axis.legend(frameon=False, fontsize=8, loc="lower right", title="lines: prices at the money", title_fontsize=8)
    return figure


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.option_prices", description=str(__doc__).splitlines()[0]
    )
    parser.add_argument("--sampler", choices=("sequential", "online"), default="sequential")
    parser.add_argument("--particles", type=int, default=256, help="of the online sampler")
    parser.add_argument("--updates", choices=("informed", "plain"), default="informed")
    parser.add_argument("--steps", type=int, default=12, help="times")
    parser.add_argument("--draws", type=int, default=None, help="2200 with informed updates, 1000 with plain")
    parser.add_argument("--warmup", type=int, default=500, help="states dropped at t = 1, with plain updates")
    parser.add_argument("--thin", type=int, default=18, help="states a draw at t = 1, with plain updates")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/option_prices"))
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    arguments = parse(argv)
    seqgp.enable_x64()
    matplotlib.use("agg")
    console = Console(width=120)
    arguments.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    market = simulate_market(arguments.seed, arguments.steps, market_model())
    sampler = sampler_of(market.model.model, arguments)
    name = "online" if arguments.sampler == "online" else arguments.updates
    console.print(f"Sampling {sampler.draws} draws at each of {arguments.steps} times ({name}) …")
    steps: list[Step] = []
    key_run, key_data = jax.random.split(jax.random.key(arguments.seed))

    def note(state: seqgp.State, info: seqgp.Info) -> None:
        steps.append(step_of(jax.random.fold_in(key_data, len(steps)), market, len(steps), state, info))
        print(f"t = {len(steps)} of {arguments.steps}: {info.seconds:.1f} s, {info.health}", flush=True)

    state = seqgp.run(sampler, market.snapshots, key=key_run, callbacks=note, progress=False).state
    console.print(table_of(steps))
    console.print(parameter_table(steps, market.truth))
    summary = summary_of(steps)
    kept = {"summary": summary, "steps": [step._asdict() for step in steps]}
    (arguments.out / f"{name}.json").write_text(json.dumps(finite(kept), indent=1, allow_nan=False))
    best = int(np.argmax(log_densities(market.model.model, market.snapshots[-1], state)))
    figure_5(market, state, best).savefig(arguments.out / f"figure5_{name}.png", dpi=160)
    figure_6(key_data, market, state, best).savefig(arguments.out / f"figure6_{name}.png", dpi=160)
    console.print(comparison(arguments.out))
    console.print(f"Sampling took {summary['first']:.0f} s for t = 1, {summary['rest']:.0f} s for the rest ({PAPER});")
    console.print(f"{time.perf_counter() - start:.0f} s with compilation. Figures and tables: {arguments.out}")


if __name__ == "__main__":
    main()
