"""The online sampler over 200 snapshots of data that are not Gaussian, against the exact posterior.

python -m experiments.long_likelihoods [--only NAME …] [--stations 1] [--datasets 3] [--seeds 2] [--paths auto 0]

The exact posterior is importance sampling: values of the parameters around the sampler's, each with an estimate of its
evidence that shares no code with the sampler (``experiments.dense_importance``). Two halves of the values tell how well
it is known, and for one station a bootstrap particle filter estimates some evidences again.

Rows are kept in ``out/long_likelihoods``: what has been done is not done again. ``--page`` writes
``docs/long_likelihoods.md`` from them.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln, logsumexp
from threadpoolctl import threadpool_limits

import seqgp
from experiments import dense_importance as dense
from experiments.likelihood_streams import (
    APART,
    STEPS,
    STREAMS,
    Stream,
    drawn,
    log_density,
    model,
    places,
    space_root,
    time_correlation,
)
from experiments.long_likelihoods_page import page
from seqgp.base.info import OnlineInfo

VALUES = {1: 512, 10: 128}  # of the parameters, by the number of stations
DRAWS = {1: 2048, 10: 512}  # of the latent function, for each value
PARTICLES = 2048  # of the particle filter
CHECKED = 16  # values whose evidence the particle filter estimates too
WIDER = 1.5  # than the sampler's posterior is the distribution that the values are drawn from
FREEDOM = 5.0
OUT = Path("out/long_likelihoods")


@functools.partial(jax.jit, static_argnames=("name", "particles"))
def log_evidence(name: str, y, key, lengthscale, scale, level, own, particles: int = PARTICLES):
    """``log p(y | parameters)`` of data ``(T, N)`` by a bootstrap particle filter with systematic resampling."""
    u = 3**0.5 / lengthscale * APART
    # The latent, and its derivative over the rate, at each station.
    transition = jnp.exp(-u) * jnp.array([[1 + u, u], [-u, 1 - u]])
    root = jnp.linalg.cholesky(jnp.eye(2) - transition @ transition.T + 1e-14 * jnp.eye(2))
    space = jnp.asarray(space_root(y.shape[1]))
    key_start, key_steps = jax.random.split(key)

    def noise(key):
        return jnp.einsum("pan,mn->pam", jax.random.normal(key, (particles, 2, y.shape[1])), space)

    def step(state, inputs):
        data, key = inputs
        key_resample, key_move = jax.random.split(key)
        logs = jnp.sum(log_density(STREAMS[name], data, level + scale * state[:, 0], own), axis=1)
        increment = jax.scipy.special.logsumexp(logs) - jnp.log(particles)
        share = jnp.cumsum(jax.nn.softmax(logs))
        places = (jnp.arange(particles) + jax.random.uniform(key_resample)) / particles
        chosen = state[jnp.minimum(jnp.searchsorted(share, places), particles - 1)]
        moved = jnp.einsum("ab,pbn->pan", transition, chosen) + jnp.einsum("ab,pbn->pan", root, noise(key_move))
        return moved, increment

    return jnp.sum(jax.lax.scan(step, noise(key_start), (y, jax.random.split(key_steps, len(y))))[1])


class Exact(NamedTuple):
    """The exact posterior of ``z`` by importance sampling."""

    mean: np.ndarray
    sd: np.ndarray
    log_evidence: float
    error: float  # of the log evidence
    effective: float  # number of values
    apart: float  # the largest difference of the means of two halves of the values, in sds
    noise: float  # sd of the evidence of one value
    filter_gap: float  # of a particle filter's evidences from these, on average; NaN with several stations
    filter_error: float


def exact(name: str, of: seqgp.Model, y: np.ndarray, z: np.ndarray, seed: int, sizes: tuple[int, int]) -> Exact:
    """From values around draws ``z``; ``sizes``: how many, and the draws of the latent for each."""
    rng, count = np.random.default_rng(seed), sizes[0]
    centre, root = z.mean(0), np.linalg.cholesky(WIDER * np.cov(z.T))
    white = rng.standard_normal((count, z.shape[1])) / np.sqrt(rng.chisquare(FREEDOM, (count, 1)) / FREEDOM)
    values = centre + white @ root.T
    natural = of.natural(jnp.asarray(np.concatenate([values, centre[None]])))
    own = [name for name in of.inferred if name not in ("time.lengthscale", "scale", "mean")]
    columns = [natural["time.lengthscale"], natural["scale"], natural["mean"], natural[own[0]] if own else None]
    rows = np.stack([np.full(count + 1, np.nan) if one is None else np.asarray(one) for one in columns], axis=1)
    with threadpool_limits(1, user_api="blas"):
        found = dense_evidences(name, y, rows[:-1], rows[-1], seed, sizes[1])
    evidence = np.array([one.log_evidence for one in found])
    logs = evidence + log_prior_over_proposal(of, values, white, root)
    weights = np.exp(logs - logsumexp(logs))
    mean = weights @ values
    sd = np.sqrt(weights @ (values - mean) ** 2)
    halves = [weights[part] @ values[part] / weights[part].sum() for part in (slice(0, None, 2), slice(1, None, 2))]
    gaps = np.array([])
    if y.shape[1] == 1:
        checked = np.argsort(weights)[::-1][:CHECKED]
        again = [float(log_evidence(name, y, jax.random.key(int(i)), *rows[i])) for i in checked]
        gaps = np.array(again) - evidence[checked]
    return Exact(
        mean,
        sd,
        float(logsumexp(logs) - np.log(count)),
        float(np.sqrt((weights**2).sum() - 1 / count)),
        float(1 / (weights**2).sum()),
        float(np.abs((halves[0] - halves[1]) / sd).max()),
        float(np.sqrt(weights @ [one.variance for one in found])),
        float(gaps.mean()) if len(gaps) else float("nan"),
        float(gaps.std() / np.sqrt(len(gaps))) if len(gaps) else float("nan"),
    )


def dense_evidences(
    name: str, y: np.ndarray, rows: np.ndarray, centre: np.ndarray, seed: int, draws: int
) -> list[dense.Estimate]:
    """Of values of ``(lengthscale, scale, level, own)``; all begin EP with the sites of a central one."""
    stream, root = STREAMS[name], space_root(y.shape[1])
    run = jax.jit(lambda f, level, own: log_density(stream, jnp.asarray(y), level + f, own))

    def parts(row):
        space = row[1] ** 2 * root @ root.T
        return time_correlation(len(y), row[0]), space, lambda f: np.asarray(run(f, row[2], row[3]))

    time_, space, density = parts(centre)
    none = dense.Sites(np.full(y.size, 0.1), np.zeros(y.size))
    shared = dense.expectation_propagation(np.kron(time_, space), density, y.shape, none, 12)

    def one(i: int) -> dense.Estimate:
        time_, space, density = parts(rows[i])
        sites = dense.expectation_propagation(np.kron(time_, space), density, y.shape, shared, 3)
        return dense.estimate(np.random.default_rng([seed, i]), time_, space, density, sites, draws)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        return list(threads.map(one, range(len(rows))))


def log_prior_over_proposal(of: seqgp.Model, values: np.ndarray, white: np.ndarray, root: np.ndarray) -> np.ndarray:
    """A Gaussian over a Student's t."""
    (mean, spread), d = of.prior_of_z(), values.shape[1]
    variance = np.diag(spread)
    prior = -0.5 * ((values - mean) ** 2 / variance).sum(1) - 0.5 * np.log(2 * np.pi * variance).sum()
    proposal = gammaln((FREEDOM + d) / 2) - gammaln(FREEDOM / 2) - 0.5 * d * np.log(FREEDOM * np.pi)
    proposal = proposal - 0.5 * (FREEDOM + d) * np.log1p((white**2).sum(1) / FREEDOM) - np.log(np.diag(root)).sum()
    return prior - proposal


def ran(of: seqgp.Model, y: np.ndarray, seed: int, paths: int | str, particles: int) -> tuple[seqgp.Run, float]:
    """A whole run, and the seconds of all threads that it took."""
    snapshots, start = (
        [seqgp.Snapshot(APART * i, places(y.shape[1]), row) for i, row in enumerate(y)],
        time.process_time(),
    )
    sampler = seqgp.OnlineSampler(of, particles=particles, draws=2000, paths=paths)
    run = seqgp.run(sampler, snapshots, key=jax.random.key(seed), progress=False, forecast=False)
    return run, time.process_time() - start


def compare(name: str, dataset: int, settings: list[tuple[int | str, int]], args: argparse.Namespace) -> list[dict]:
    """Runs of one data set, by number of paths and seed, against the exact posterior around the first."""
    stream: Stream = STREAMS[name]
    of, y, truth, rows = model(stream), drawn(stream, dataset, args.steps, args.stations), None, []
    few = min(VALUES, key=lambda n: abs(n - args.stations))
    for paths, seed in settings:
        run, seconds = ran(of, y, seed, paths, args.particles)
        info, z = run.infos[-1], np.asarray(run.state.z)
        assert isinstance(info, OnlineInfo)
        if truth is None:
            sizes = (args.values or VALUES[few], args.latents or DRAWS[few])
            truth = exact(name, of, y, z, dataset, sizes)
        bias, ratio = (z.mean(0) - truth.mean) / truth.sd, z.std(0) / truth.sd
        row = {
            "stream": name, "stations": args.stations, "steps": args.steps, "particles": args.particles,
            "dataset": dataset, "paths": paths, "seed": seed,
            "bias": dict(zip(of.names, bias.tolist())), "ratio": dict(zip(of.names, ratio.tolist())),
            "off": info.log_evidence - truth.log_evidence, "se": info.log_evidence_se, "exact error": truth.error,
            "effective": truth.effective, "values": args.values or VALUES[few], "apart": truth.apart,
            "noise": truth.noise, "filter gap": truth.filter_gap, "filter error": truth.filter_error,
            "seconds": seconds,
        }  # fmt: skip
        rows.append(row)
        print(told(row), flush=True)
    return rows


def told(row: dict[str, Any]) -> str:
    """One run in a line."""
    named = ", ".join(f"{name} {bias:+.2f} sd (x {row['ratio'][name]:.2f})" for name, bias in row["bias"].items())
    return (
        f"{row['stream']}, N = {row['stations']}, data {row['dataset']}, paths {row['paths']}, seed {row['seed']}: "
        f"{named}; log evidence {row['off']:+.2f} (se {row['se']:.2f}, of the exact one {row['exact error']:.2f}); "
        f"{row['effective']:.0f} of {row['values']} values count, halves {row['apart']:.2f} sd apart, noise of a "
        f"value {row['noise']:.2f}; particle filter {row['filter gap']:+.2f} (se {row['filter error']:.2f}); "
        f"{row['seconds']:.0f} s"
    )


def kept_rows() -> list[dict[str, Any]]:
    """Of all runs so far."""
    return [json.loads(line) for path in sorted(OUT.glob("*.jsonl")) for line in path.read_text().splitlines()]


def done(rows: list[dict[str, Any]], name: str, dataset: int, args: argparse.Namespace) -> set[tuple[int | str, int]]:
    """The paths and seeds that a data set has been run with."""
    where = (name, dataset, args.stations, args.steps, args.particles)
    keys = ("stream", "dataset", "stations", "steps", "particles")
    return {(row["paths"], row["seed"]) for row in rows if tuple(row[key] for key in keys) == where}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="+", help="parts of the names of streams")
    parser.add_argument("--paths", nargs="+", default=["auto"], type=lambda one: one if one == "auto" else int(one))
    parser.add_argument("--stations", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--particles", type=int, default=256, help="of the sampler")
    parser.add_argument("--values", type=int, help="of the parameters, for the exact posterior")
    parser.add_argument("--latents", type=int, help="draws of the latent function for each of them")
    parser.add_argument("--page", action="store_true", help="write docs/long_likelihoods.md from what has been run")
    parser.add_argument("--quick", action="store_true", help="ten snapshots of the first stream")
    args = parser.parse_args()
    seqgp.enable_x64()
    if args.page:
        Path("docs/long_likelihoods.md").write_text(page(kept_rows()))
        return
    names = [name for name in STREAMS if args.only is None or any(part in name for part in args.only)]
    if args.quick:
        names, args.datasets, args.seeds, args.steps, args.values = names[:1], 1, 1, 10, 16
    OUT.mkdir(parents=True, exist_ok=True)
    for dataset in range(args.datasets):
        for name in names:
            ready = done(kept_rows(), name, dataset, args)
            settings = [(paths, seed) for paths in args.paths for seed in range(args.seeds)]
            settings = [one for one in settings if one not in ready]
            rows = compare(name, dataset, settings, args) if settings else []
            with (OUT / f"{args.stations}_{args.steps}_{name.replace(' ', '_')}.jsonl").open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
