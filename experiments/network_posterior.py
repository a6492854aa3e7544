"""The posterior of the parameters of a network with gaps, against the exact one.

python -m experiments.network_posterior [--sites 100] [--steps 100] [--missing 0.1] [--particles 256] [--runs 1]
    [--points 512] [--write] [--quick]

The data are drawn from the model. The exact posterior comes from importance points and the dense filter, which is
checked against the textbook filter in NumPy at a few of them. Two distances, in exact posterior standard deviations:
of the mean and the sd of each run, and of the filter of low rank alone: the particles of a run, weighted by their log
evidences and by those of the dense filter, so that no Monte Carlo error is in the difference.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import jax
import numpy as np
import numpyro.distributions as dist

import seqgp
from experiments import networks
from experiments.comparison import markdown
from experiments.network_accuracy import DT, PAGE, SECTION, with_section
from seqgp.samplers.ibis import Particles
from seqgp.samplers.online.filters import run_filters
from seqgp.samplers.online.history import build_timeline
from seqgp.samplers.online.network import FIRST_PLAN
from seqgp.samplers.proposals import StudentProposal, log_normal

CHECKED = 4  # points at which the dense filter is compared with NumPy
TRUTH = {"time.lengthscale": 1.0, "space.lengthscale": 0.3, "scale": 1.0, "noise": 0.3}
HEADS = ["parameter", "exact mean", "exact sd", "run − exact", "run sd over exact", "low rank − dense"]


class Problem(NamedTuple):
    """Data, and the model that they are of."""

    net: networks.Network
    y: np.ndarray  # (T, M)
    seen: np.ndarray  # (T, M)
    model: seqgp.Model

    @property
    def snapshots(self) -> list[seqgp.Snapshot]:
        rows = enumerate(zip(self.y, self.seen))
        return [seqgp.Snapshot(DT * t, self.net.x, np.where(seen, y, np.nan)) for t, (y, seen) in rows]


class Moments(NamedTuple):
    """Of the logarithms of the parameters."""

    mean: np.ndarray
    sd: np.ndarray
    ess: float


class Distances(NamedTuple):
    """Of one run, in exact standard deviations."""

    mean: np.ndarray
    sd: np.ndarray  # ratio to the exact one
    filter: np.ndarray  # of the mean, by the filter alone
    rank: int


def problem(num_sites: int, steps: int, missing: float) -> Problem:
    """Matern32 in time and space, all four parameters unknown."""
    net = networks.network(num_sites, dt=DT)
    y = networks.simulate(net, steps)
    seen = np.random.default_rng(3).random(y.shape) >= missing
    prior = {name: dist.LogNormal(np.log(value), 0.5) for name, value in TRUTH.items()}
    kernel = seqgp.Separable(
        seqgp.kernels.Matern32(prior["time.lengthscale"]),
        seqgp.kernels.Matern32(prior["space.lengthscale"]),
        prior["scale"],
    )
    return Problem(net, y, seen, seqgp.Model(kernel, seqgp.likelihoods.Gaussian(prior["noise"])))


def moments(z: np.ndarray, log_weights: np.ndarray) -> Moments:
    """Of weighted points."""
    weights = np.exp(log_weights - log_weights.max())
    weights = weights / weights.sum()
    mean = weights @ z
    return Moments(mean, np.sqrt(weights @ (z - mean) ** 2), float(1 / np.sum(weights**2)))


def dense_log_evidence(given: Problem, sampler: seqgp.OnlineSampler, z: np.ndarray) -> np.ndarray:
    """By the dense filter."""
    snapshots = given.snapshots
    history = build_timeline(sampler.ssm, "auto", snapshots, [None] * len(snapshots), plan=FIRST_PLAN._replace(rank=0))
    return run_filters(history, z, len(snapshots))[1].sum(axis=1)


def textbook_log_evidence(given: Problem, values: dict[str, float]) -> float:
    """The same in NumPy, at one value of the parameters."""
    x, scale = given.net.x, values["scale"]
    space = networks.space_covariance(x, x.copy(), "Matern32", values["space.lengthscale"], scale)
    term = networks.time_term("Matern32", DT / values["time.lengthscale"])
    dense, total = networks.DenseKalman(networks.Network(x, (space,), (term,), values["noise"])), 0.0
    for t, (y, seen) in enumerate(zip(given.y, given.seen)):
        if t:
            dense.predict()
        total += dense.update(y, seen)
    return total


def run_of(given: Problem, sampler: seqgp.OnlineSampler, seed: int) -> tuple[Particles, int]:
    """The particles at the end, and the rank."""
    run = seqgp.run(sampler, given.snapshots, key=jax.random.key(seed))
    assert isinstance(run.state, seqgp.OnlineState)
    return run.state.particles, int(run.infos[-1].extras["low_rank"])


def exact_posterior(
    given: Problem, sampler: seqgp.OnlineSampler, particles: Particles, count: int
) -> tuple[Moments, float]:
    """From points of a distribution that is fitted to the particles, and the dense filter's error against NumPy."""
    fit = StudentProposal.fitted(particles.z, particles.weights(), np.zeros(particles.z.shape[1]))
    z = fit.points(np.random.default_rng(7), count)
    log_evidence = dense_log_evidence(given, sampler, z)
    logs = log_normal(z, *sampler.ssm.particle_prior()) + log_evidence - fit.log_density(z)
    off = 0.0
    for i in range(CHECKED):
        values = {name: float(value) for name, value in sampler.ssm.parameters(z[i]).items() if np.ndim(value) == 0}
        off = max(off, abs(textbook_log_evidence(given, values) - log_evidence[i]))
    return moments(z, logs), off


def distances(
    given: Problem, sampler: seqgp.OnlineSampler, particles: Particles, rank: int, exact: Moments
) -> Distances:
    """Of the particles of a run."""
    log_weights, own = particles.log_weights(), particles.log_evidences + particles.log_increment
    ours = moments(particles.z, log_weights)
    corrected = moments(particles.z, log_weights - own + dense_log_evidence(given, sampler, particles.z))
    return Distances(
        (ours.mean - exact.mean) / exact.sd, ours.sd / exact.sd, (ours.mean - corrected.mean) / exact.sd, rank
    )


def section(args: argparse.Namespace, exact: Moments, names: list[str], found: list[Distances]) -> str:
    """Of the page."""

    def over_runs(values: np.ndarray, digits: int) -> str:  # (runs,)
        error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}" if len(values) > 1 else ""
        return f"{values.mean():.{digits}f}{error}"

    body = []
    for i, name in enumerate(names):
        apart = over_runs(np.array([one.mean[i] for one in found]), 3)
        ratio = over_runs(np.array([one.sd[i] for one in found]), 3)
        worst = max(abs(one.filter[i]) for one in found)
        body.append([name, f"{exact.mean[i]:.3f}", f"{exact.sd[i]:.3f}", apart, ratio, f"{worst:.4f}"])
    ranks = ", ".join(sorted({str(one.rank) for one in found}))
    runs = "one run" if args.runs == 1 else f"{args.runs} runs (mean and standard error)"
    return "\n".join([
        SECTION,
        "",
        f"`python -m experiments.network_posterior --particles {args.particles} --runs {args.runs}",
        f"--points {args.points} --write`: {args.sites} stations, {args.steps} times, {args.missing:.0%} of the values",
        f"missing, four unknown parameters, {runs} with {args.particles} particles, of rank {ranks}. Exact are",
        f"{args.points} importance points with the dense filter ({exact.ess:.0f} of them effective). Means and sds",
        "are those of logarithms; distances are in exact standard deviations. The last column is the part",
        "of the distance that the filter of low rank has in it: the same particles, weighted",
        "by the log evidences of the filter of low rank and of the dense one. The rest is Monte Carlo error. The bias",
        "should be at most 0.1.",
        "",
        markdown(HEADS, body),
        "",
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=100)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--missing", type=float, default=0.1)
    parser.add_argument("--particles", type=int, default=256)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--points", type=int, default=512)
    parser.add_argument("--write", action="store_true", help=f"write the section into docs/{PAGE.name}")
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    args = parser.parse_args()
    if args.quick:
        args.sites, args.steps, args.particles, args.points = 60, 3, 32, 32
    seqgp.enable_x64()
    given = problem(args.sites, args.steps, args.missing)
    sampler = seqgp.OnlineSampler(given.model, particles=args.particles, draws=100)
    exact, found = None, []
    for seed in range(args.runs):
        particles, rank = run_of(given, sampler, seed)
        if exact is None:
            exact, off = exact_posterior(given, sampler, particles, args.points)
            print(f"dense filter against NumPy: {off:.1e}; effective points: {exact.ess:.0f}", flush=True)
        found.append(distances(given, sampler, particles, rank, exact))
        print(f"run {seed}: rank {rank}, ESS {particles.ess():.0f}", *found[-1][:3], sep="\n", flush=True)
    assert exact is not None
    text = section(args, exact, list(sampler.ssm.names), found)
    print(f"\n{text}")
    if args.write:
        PAGE.write_text(with_section(PAGE.read_text(), text))


if __name__ == "__main__":
    main()
