"""How accurate the filters of networks with gaps are, against the dense filter in NumPy.

python -m experiments.network_accuracy [--sites 60 200 400] [--cases NAME …] [--steps 100] [--write] [--quick]

Each case is a simulated network. The filters are those that ``OnlineSampler`` runs: it chooses the filter, its rank
and, from 800 stations on, its leading modes, at its default tolerance. Particles differ in space lengthscale and noise,
by 5%. ``--write`` puts each row into ``docs/network_accuracy.md`` as it is measured, and leaves the other rows there.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import numpyro.distributions as dist

import seqgp
from experiments import networks
from experiments.comparison import markdown
from seqgp.samplers.ibis import Particles
from seqgp.samplers.online.filters import filter_of, run_filters
from seqgp.samplers.online.history import Timeline, build_timeline
from seqgp.samplers.online.network import FIRST_PLAN
from seqgp.samplers.online.predictive import predictive_of
from seqgp.samplers.online.rank import CHECKED, with_accurate_rank
from seqgp.statespace.latent_moments import latent_moments
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.network import NetworkFilter

PAGE = Path(__file__).parents[1] / "docs" / "network_accuracy.md"
DT = 0.2  # in units of the time lengthscale
DIFFERENCE = 0.05  # sd of the particles' parameters, on the log scale
PARTICLES = {60: 8, 200: 4, 400: 3}  # compared with the dense filter, which takes most of the time
GOALS = {"spread": 0.03, "mean": 0.02, "variance": 0.02}
SECTION = "## The posterior of the parameters"  # experiments.network_posterior writes it
HEADS = ["N", "case", "filter", "log evidence, largest error", "spread between particles", "mean, sd", "variance"]


class Case(NamedTuple):
    """A kind of network and of gaps."""

    name: str
    time: str = "Matern32"
    space: str = "Matern32"
    lengthscale: float = 0.3
    noise: float = 0.3
    missing: float = 0.1
    off: float = 0.0  # the share of stations that are silent for 30 steps
    joins: float = 0.0  # the share of stations that join halfway


CASES = [
    Case("1% missing", missing=0.01),
    Case("10% missing"),
    Case("30% missing", missing=0.3),
    Case("5% of the stations off for 30 steps", missing=0.02, off=0.05),
    Case("5% of the stations join halfway", missing=0.02, joins=0.05),
    Case("Matern12 × Matern12, noise 1", "Matern12", "Matern12", noise=1.0),
    Case("Matern52 × Matern52, noise .05", "Matern52", "Matern52", noise=0.05),
    Case("Matern32 × squared exponential, noise .1", space="SquaredExponential", noise=0.1),
    Case("squared exponential × Matern52", "SquaredExponential", "Matern52"),
    Case("short lengthscale, noise .1", lengthscale=0.15, noise=0.1),
]


class Data(NamedTuple):
    """Of one case."""

    net: networks.Network
    y: np.ndarray  # (T, M)
    seen: np.ndarray  # (T, M)
    joined: int  # the step from which all stations are there
    early: int  # stations that are there before


class Errors(NamedTuple):
    """Of the filters of all particles."""

    filter: str
    worst: float
    spread: float
    mean: float
    variance: float


def simulated(case: Case, num_sites: int, steps: int) -> Data:
    """Data with gaps; the last stations join."""
    rng = np.random.default_rng(11)
    net = networks.network(num_sites, case.time, case.space, case.lengthscale, DT, case.noise)
    y = networks.simulate(net, steps)
    seen = rng.random(y.shape) >= case.missing
    seen[steps // 4 : steps // 4 + 30, : int(case.off * num_sites)] = False
    joined, early = steps // 2, num_sites - int(case.joins * num_sites)
    seen[:joined, early:] = False
    return Data(net, y, seen, joined, early)


def snapshots_of(data: Data) -> list[seqgp.Snapshot]:
    """NaN where a value is missing; no rows of stations that have not joined."""
    found = []
    for t, (y, seen) in enumerate(zip(data.y, data.seen)):
        there = slice(None) if t >= data.joined else slice(data.early)
        found.append(seqgp.Snapshot(DT * t, data.net.x[there], np.where(seen, y, np.nan)[there]))
    return found


def model_of(case: Case) -> seqgp.Model:
    """Space lengthscale and noise are unknown, and near the true ones."""
    return seqgp.Model(
        seqgp.Separable(
            getattr(seqgp.kernels, case.time)(1.0),
            getattr(seqgp.kernels, case.space)(dist.LogNormal(np.log(case.lengthscale), DIFFERENCE)),
            1.0,
        ),
        seqgp.likelihoods.Gaussian(dist.LogNormal(np.log(case.noise), DIFFERENCE)),
    )


def chosen_history(ssm: StateSpaceModel, snapshots: list[seqgp.Snapshot], z: np.ndarray) -> Timeline:
    """Data as the sampler lays them out, with a rank that it holds to be accurate."""
    history = build_timeline(ssm, "auto", snapshots, [None] * len(snapshots), plan=FIRST_PLAN)
    if not isinstance(history.filter, NetworkFilter):
        return history
    filters, increments, _ = run_filters(history, z, len(snapshots))
    none, log_evidence = np.zeros(len(z)), increments.sum(axis=1)
    particles = Particles(z, none, log_evidence, none, log_evidence, 0.0)  # of equal weights: all of them are compared
    return with_accurate_rank(history, particles, filters, len(snapshots), 1, whole=True)[0]


def errors(case: Case, num_sites: int, steps: int, num_particles: int) -> Errors:
    """Of log evidences at all times, and of moments of the latent at the last one, for the first of the particles."""
    data, ssm = simulated(case, num_sites, steps), seqgp.OnlineSampler(model_of(case)).ssm
    centre, sd = ssm.particle_prior()
    z = centre + sd * np.random.default_rng(5).standard_normal((CHECKED, len(centre)))
    history, z = chosen_history(ssm, snapshots_of(data), z), z[:num_particles]
    filters, increments, _ = run_filters(history, z, steps)
    no_state = np.zeros(0, int)
    query = predictive_of(history, filters, no_state, z, data.net.x, history.snapshots[-1].t, None).query
    log_evidence, ends = np.cumsum(increments, axis=1), []
    for i in range(num_particles):
        values = {name: float(value) for name, value in ssm.parameters(z[i]).items() if np.ndim(value) == 0}
        space = networks.space_covariance(
            data.net.x, data.net.x.copy(), case.space, values["space.lengthscale"]
        )  # a copy, so without jitter, as the sampler has it
        dense = networks.DenseKalman(data.net._replace(spaces=(space,), noise=values["noise"]))
        log_evidence[i] -= np.cumsum(_dense_increments(dense, data))
        exact_mean, exact = dense.latent()
        matrices, state = filter_of(filters, i, history.filter)
        mean, variance = jax.jit(lambda m, s: latent_moments(history.filter, m, s, query))(matrices, state)
        ends.append((np.max(np.abs(mean - exact_mean) / np.sqrt(exact)), np.max(np.abs(variance / exact - 1))))
    mean, variance = np.max(ends, axis=0)
    spread = np.std(log_evidence, axis=0, ddof=1).max()
    return Errors(_named(history), float(np.abs(log_evidence).max()), float(spread), float(mean), float(variance))


def _dense_increments(dense: networks.DenseKalman, data: Data) -> np.ndarray:
    found = []
    for t in range(len(data.y)):
        if t:
            dense.predict()
        found.append(dense.update(data.y[t], data.seen[t]))
    return np.array(found)


def _named(history: Timeline) -> str:
    if not isinstance(history.filter, NetworkFilter):
        return history.filter.name
    leading = "" if history.plan.leading is None else f", {history.plan.leading} modes"
    return f"{history.filter.name} {history.plan.rank}{leading}"


def row(num_sites: int, case: Case, found: Errors) -> list[str]:
    """Of the table."""
    numbers = f"{found.worst:.4f}", f"{found.spread:.4f}", f"{found.mean:.4f}", f"{100 * found.variance:.2f}%"
    return [str(num_sites), case.name, found.filter, *numbers]


def rows_of(text: str) -> list[list[str]]:
    """The rows of a page."""
    table = text.partition(SECTION)[0].splitlines()
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line[:1] == "|"]
    return lines[2:]


def within(line: list[str]) -> bool:
    """Whether a row keeps to the goals."""
    spread, mean, variance = float(line[4]), float(line[5]), float(line[6].strip("%")) / 100
    return spread <= GOALS["spread"] and mean <= GOALS["mean"] and variance <= GOALS["variance"]


def merged(body: list[list[str]], new: list[str]) -> list[list[str]]:
    """The rows with one more, or with one in the place of another; in the order of sites and cases."""
    names = [case.name for case in CASES]
    kept = [line for line in body if line[:2] != new[:2] and line[1] in names]
    return sorted([*kept, new], key=lambda line: (int(line[0]), names.index(line[1])))


def with_section(text: str, section: str) -> str:
    """A page with another section on parameters."""
    return text.partition(SECTION)[0].rstrip() + f"\n\n{section.strip()}\n"


def page(body: list[list[str]], steps: int) -> str:
    """The table, in Markdown."""
    sites = list(dict.fromkeys(int(line[0]) for line in body))
    missed = [f"N={line[0]}, {line[1]}" for line in body if not within(line)]
    said = f"Rows beyond these limits: {'; '.join(missed)}." if missed else "All rows are within these limits."
    particles = ", ".join(f"{PARTICLES[one]} at N={one}" for one in sites)
    return "\n".join([
        "# Networks with gaps against the dense filter",
        "",
        f"`python -m experiments.network_accuracy --sites {' '.join(map(str, sites))} --steps {steps} --write`",
        "writes this page. Each row is a simulated network; the filter is the one that `OnlineSampler` chooses at its",
        "default tolerance, a number after `low rank` its rank. Unless a row says otherwise, kernels are Matern32 ×",
        "Matern32 with a space lengthscale of 0.3 on the unit square, a time lengthscale of 5 steps, noise 0.3 of the",
        "scale and 10% of the values missing. The truth is the textbook Kalman filter in NumPy at the same parameters.",
        "",
        f"The log evidence is compared at all {steps} times, means and variances of the latent at all stations after",
        f"the last snapshot; each number is the largest over particles ({particles}). The spread between",
        f"particles alone changes weights. It should be at most {GOALS['spread']}, errors of the mean at most",
        f"{GOALS['mean']} sd and of the variance at most {GOALS['variance']:.0%}. {said}",
        "",
        markdown(HEADS, body),
        "",
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", nargs="+", type=int, choices=PARTICLES, default=list(PARTICLES))
    parser.add_argument("--cases", nargs="+", choices=[case.name for case in CASES], metavar="NAME")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    args = parser.parse_args()
    seqgp.enable_x64()
    cases = CASES[3:5] if args.quick else [case for case in CASES if not args.cases or case.name in args.cases]
    sites, steps = ([60], 4) if args.quick else (args.sites, args.steps)
    body = []
    for num_sites in sites:
        for case in cases:
            found = errors(case, num_sites, steps, 2 if args.quick else PARTICLES[num_sites])
            body.append(row(num_sites, case, found))
            print(" | ".join(body[-1]), flush=True)
            if args.write:
                before = PAGE.read_text()
                after = page(merged(rows_of(before), body[-1]), steps)
                known = "".join(before.partition(SECTION)[1:])
                PAGE.write_text(with_section(after, known) if known else after)
    print(f"\n{markdown(HEADS, body)}")


if __name__ == "__main__":
    main()
