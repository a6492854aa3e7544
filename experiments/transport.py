"""A delay between stations, simulated: is its velocity found, and does the evidence tell a delay from none?

python -m experiments.transport [--cases 20] [--n 8] [--steps 40] [--particles 64]

Weather crosses stations in the unit square at a known speed, in a direction that differs from case to case, or it does
not move. A model with a delay and one without run over each stream; all other parameters are drawn from their priors.
Writes the table to ``out/transport``.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import numpyro.distributions as dist
from scipy.stats import binom

import seqgp
from experiments.comparison import markdown
from seqgp import kernels, likelihoods

OUT = Path("out/transport")
SLOW = 0.45  # time steps per unit of distance
BOUND = 0.5  # of each component of the slowness; two stations are at most one time step apart


class Case(NamedTuple):
    """One stream, as both models saw it."""

    slowness: np.ndarray  # the true one; zeros without a delay
    interval: np.ndarray  # of each component, 95%: (2, 2)
    inside: dict[str, bool]  # whether the interval holds the truth
    gained: float  # log evidence of the model with a delay over that of the model without

    @property
    def moves(self) -> bool:
        """Whether the data have a delay."""
        return bool(self.slowness.any())

    @property
    def found(self) -> bool:
        """Whether the evidence names the model that the data are from."""
        return (self.gained > 0) == self.moves


@functools.cache
def model(delayed: bool) -> seqgp.Model:
    """Weather that changes within a few steps, with a delay or without."""
    return weather([seqgp.ScaledSigmoid(-BOUND, BOUND)] * 2 if delayed else None)


def weather(slowness: Any) -> seqgp.Model:
    """All parameters but the slowness have priors."""
    field = seqgp.Separable(
        kernels.Matern32(dist.LogNormal(0.0, 0.3)),
        kernels.Matern12(dist.LogNormal(np.log(4.0), 0.3)),
        dist.LogNormal(0.0, 0.3),
    )
    kernel = field if slowness is None else seqgp.Delayed(field, slowness)
    return seqgp.Model(kernel, likelihoods.Gaussian(dist.LogNormal(np.log(0.1), 0.3)), mean=dist.Normal(0.0, 1.0))


def stream(slowness: np.ndarray, seed: int, n: int, steps: int) -> tuple[seqgp.Snapshot, ...]:
    """Parameters, field and data, at stations of their own."""
    x = np.random.default_rng(seed).random((n, 2))
    design = [seqgp.Snapshot(float(t), x, np.zeros(n)) for t in range(steps)]
    moving = weather([float(s) for s in slowness] if slowness.any() else None)
    return seqgp.simulate(jax.random.key(seed), moving, design).snapshots


def case(seed: int, moves: bool, args: argparse.Namespace) -> Case:
    """One stream by both models."""
    angle = np.random.default_rng([seed, 1]).uniform(0, 2 * np.pi)
    slowness = SLOW * np.array([np.sin(angle), np.cos(angle)]) * moves
    snapshots, runs = stream(slowness, seed, args.n, args.steps), {}
    for delayed in (True, False):
        sampler = seqgp.OnlineSampler(model(delayed), particles=args.particles, draws=400)
        key = jax.random.fold_in(jax.random.key(seed), delayed)
        runs[delayed] = seqgp.run(sampler, snapshots, key, forecast=False, progress=False)
    gained = runs[True].infos[-1].log_evidence - runs[False].infos[-1].log_evidence
    draws = np.asarray(runs[True].state.parameters["slowness"])
    interval = np.quantile(draws, [0.025, 0.975], axis=0)
    (motion,) = runs[True].summary().motions
    inside = {f"slowness[{i}]": bool(interval[0, i] <= slowness[i] <= interval[1, i]) for i in range(2)}
    if moves:
        first, last = motion.bearing_interval
        inside["speed"] = bool(motion.speed_interval[0] <= 1 / SLOW <= motion.speed_interval[1])
        inside["direction"] = bool((np.degrees(angle) - first) % 360 <= last - first)
    return Case(slowness, interval, inside, float(gained))


def verdicts(cases: list[Case]) -> list[list[str]]:
    """How often each interval holds the truth, and how often the evidence names the true model."""
    moving, still = [c for c in cases if c.moves], [c for c in cases if not c.moves]
    rows = [
        [f"95% interval of {name} holds the truth", *_count([c.inside[name] for c in moving])]
        for name in (moving[0].inside if moving else ())
    ]
    for name, some in (("with a delay", moving), ("without", still)):
        if some:
            gained = np.array([c.gained for c in some])
            found = _count([c.found for c in some])
            spread = f"{np.median(gained):+.1f} ({gained.min():+.1f} to {gained.max():+.1f})"
            rows.append([f"the evidence names the model, data {name}; median log Bayes factor {spread}", *found])
    return rows


def _count(hits: list[bool]) -> list[str]:
    """Hits, and the probability of as few or fewer if each had a chance of 95%."""
    return [f"{sum(hits)} of {len(hits)}", f"{binom.cdf(sum(hits), len(hits), 0.95):.2g}"]


def table_of(cases: list[Case]) -> str:
    """The verdicts, for the docs."""
    return markdown(["", "cases", "P(as few at 95%)"], verdicts(cases))


def main(argv: list[str] | None = None) -> list[Case]:
    parser = argparse.ArgumentParser(prog="python -m experiments.transport", description=str(__doc__).splitlines()[0])
    parser.add_argument("--cases", type=int, default=20, help="streams with a delay, and as many without")
    parser.add_argument("--n", type=int, default=8, help="stations")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--particles", type=int, default=64)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args(argv)
    seqgp.enable_x64()
    args.out.mkdir(parents=True, exist_ok=True)
    cases = []
    for seed in range(args.cases):
        for moves in (True, False):
            cases.append(case(seed, moves, args))
            one = cases[-1]
            what = f"slowness {np.round(one.slowness, 3)}, 95% {np.round(one.interval.T, 3).tolist()}"
            missed = ", ".join(name for name, hit in one.inside.items() if not hit)
            print(f"{seed}: {what}, log Bayes factor of a delay {one.gained:+.1f}; missed: {missed or '–'}", flush=True)
        (args.out / "table.md").write_text(table_of(cases) + "\n")  # after each pair, for whoever stops it
    print(table_of(cases))
    return cases


if __name__ == "__main__":
    main()
