"""How accurate the filters of networks with gaps are, against the dense filter.

python -m experiments.network_accuracy [--sites 60 200 400 800] [--steps 100] [--particles 3] [--quick]

For each case: what the log evidence of the first particle is off by, at worst over all times; the standard deviation
between particles of what it is off by at the end; the largest error of a mean in exact standard deviations and of a
variance, at the last time. Particles differ in lengthscale and noise. From 800 sites on the filter has two levels.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

import seqgp
from experiments import gap_filters, networks
from experiments.comparison import markdown
from seqgp.statespace.low_rank_draws import low_rank_moments
from seqgp.statespace.modes import space_modes
from seqgp.statespace.rank import choose_filter
from seqgp.statespace.two_level import choose_leading_modes

RANKS = {60: 40, 200: 48, 400: 64, 800: 96}


class Case(NamedTuple):
    """A kind of network and of gaps."""

    name: str
    time: str = "Matern32"
    space: str = "Matern32"
    lengthscale: float = 0.3
    noise: float = 0.3
    missing: float = 0.1
    off: float = 0.0  # the share of stations that are silent for 30 steps


CASES = [
    Case("10% missing"),
    Case("1% missing", missing=0.01),
    Case("30% missing", missing=0.3),
    Case("5% of the stations off for 30 steps", missing=0.02, off=0.05),
    Case("Matern12 × Matern12, noise 1", "Matern12", "Matern12", noise=1.0),
    Case("Matern52 × Matern52, noise .05", "Matern52", "Matern52", noise=0.05),
    Case("Matern32 × squared exponential, noise .1", space="SquaredExponential", noise=0.1),
    Case("squared exponential × Matern52", "SquaredExponential", "Matern52"),
    Case("short lengthscale, noise .1", lengthscale=0.15, noise=0.1),
]


class Errors(NamedTuple):
    """Of one case."""

    leading: int
    worst: float
    spread: float
    mean: float
    variance: float


def errors(case: Case, num_sites: int, steps: int, particles: int, rank: int) -> Errors:
    """Of the filter that a network of this size has, at a rank."""
    rng = np.random.default_rng(11)
    known = networks.network(num_sites, case.time, case.space, case.lengthscale, noise=case.noise)
    y = networks.simulate(known, steps)
    seen = rng.random(y.shape) >= case.missing
    seen[steps // 4 : steps // 4 + 30, : int(case.off * num_sites)] = False
    off, end, leading = np.zeros((particles, steps)), (0.0, 0.0), num_sites
    for i in range(particles):
        factors = np.exp(0.05 * rng.normal(size=2)) if i else np.ones(2)
        net = networks.network(
            num_sites, case.time, case.space, case.lengthscale * factors[0], noise=case.noise * factors[1]
        )
        if i == 0 and choose_filter(num_sites, 1) == "two_level":
            leading = choose_leading_modes(space_modes(net.spaces).values, np.asarray(net.noise)).num_modes
        found = gap_filters.low_rank(net, y, seen, rank, leading=leading if leading < num_sites else None)
        dense, increments = gap_filters.dense(net, y, seen)
        off[i] = np.cumsum(np.asarray(found.increments) - increments)
        if i == 0:
            mean, variance = low_rank_moments(found.last, found.modes, net.observe, np.zeros(0))
            exact_mean, exact = dense.latent()
            end = float(np.max(np.abs(mean - exact_mean) / np.sqrt(exact))), float(np.max(np.abs(variance / exact - 1)))
    spread = float(np.std(off[:, -1], ddof=1)) if particles > 1 else float("nan")
    return Errors(leading, float(np.max(np.abs(off[0]))), spread, *end)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", nargs="+", type=int, default=[60, 200])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--particles", type=int, default=3)
    parser.add_argument("--rank", type=int, help="by default one that depends on the number of sites")
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    args = parser.parse_args()
    seqgp.enable_x64()
    cases = CASES[:2] if args.quick else CASES
    sites, steps, particles = ([60], 4, 2) if args.quick else (args.sites, args.steps, args.particles)
    body = []
    for num_sites in sites:
        rank = args.rank or RANKS[max((n for n in RANKS if n <= num_sites), default=min(RANKS))]
        for case in cases:
            e = errors(case, num_sites, steps, particles, rank)
            numbers = f"{e.worst:.4f}", f"{e.spread:.4f}", f"{e.mean:.4f}", f"{100 * e.variance:.2f}%"
            body.append([str(num_sites), case.name, str(rank), str(e.leading), *numbers])
            print(" ".join(body[-1]), flush=True)
    print()
    heads = ["N", "case", "rank", "leading modes", "log evidence, worst", "spread", "mean, sd", "variance"]
    print(markdown(heads, body))


if __name__ == "__main__":
    main()
