"""The online sampler over 200 snapshots of data that are not Gaussian, against the exact posterior.

python -m experiments.long_likelihoods [--seeds 3] [--only NAME …] [--quick]

One station, so that a particle filter (which shares no code with the sampler) has the evidence of any value of the
parameters, and a few hundred values drawn around the sampler's, weighted by it, the exact posterior.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy.special import logsumexp

import seqgp

STEPS, APART = 200, 0.1
VALUES, PARTICLES = 512, 2048  # of the parameters, and of the particle filter of each
WIDER = 1.5  # than the sampler's posterior is the distribution that the values are drawn from
FREEDOM = 5.0


class Stream(NamedTuple):
    """A likelihood, and how its data are distributed given the level and its own parameter (NaN where it has none)."""

    likelihood: seqgp.likelihoods.Likelihood
    given: Callable[[Any, Any], dist.Distribution]
    own: float = np.nan  # the true value
    level: float = 0.0


def between(low: float, high: float) -> Any:
    return seqgp.ScaledSigmoid(low, high)


STREAMS = {
    "Poisson, one in four": Stream(seqgp.likelihoods.Poisson(), lambda f, own: dist.Poisson(jnp.exp(f)), level=-1.5),
    "Bernoulli": Stream(seqgp.likelihoods.Bernoulli(), lambda f, own: dist.Bernoulli(logits=f)),
    "NegativeBinomial": Stream(
        seqgp.likelihoods.NegativeBinomial(between(0.2, 5)),
        lambda f, own: dist.NegativeBinomial2(jnp.exp(f), own),
        own=1.0,
        level=0.5,
    ),
    "Gamma": Stream(
        seqgp.likelihoods.Gamma(between(0.2, 5)), lambda f, own: dist.Gamma(own, own / jnp.exp(f)), own=1.5
    ),
    "StudentT, df = 4": Stream(
        seqgp.likelihoods.StudentT(between(0.02, 1), df=4.0), lambda f, own: dist.StudentT(4.0, f, own), own=0.3
    ),
    "Censored, half of them": Stream(
        seqgp.likelihoods.Censored(between(0.02, 1), limit=0.0), lambda f, own: dist.Normal(f, own), own=0.3
    ),
}


def model(stream: Stream) -> seqgp.Model:
    kernel = seqgp.Separable(seqgp.kernels.Matern32(between(0.05, 5)), seqgp.kernels.Matern12(1.0), between(0.05, 3))
    return seqgp.Model(kernel, stream.likelihood, mean=between(-3, 3))


def drawn(stream: Stream, seed: int) -> np.ndarray:
    """Data with a lengthscale and a scale of one."""
    rng = np.random.default_rng(seed)
    r = 3**0.5 * APART * np.abs(np.subtract.outer(np.arange(STEPS), np.arange(STEPS)))
    root = np.linalg.cholesky((1 + r) * np.exp(-r) + 1e-10 * np.eye(STEPS))
    f = jnp.asarray(stream.level + root @ rng.standard_normal(STEPS))
    y = np.asarray(stream.given(f, stream.own).sample(jax.random.key(seed)), dtype=float)
    return np.maximum(y, 0.0) if isinstance(stream.likelihood, seqgp.likelihoods.Censored) else y


def log_density(stream: Stream, y, f, own):
    """Of one datum at many levels."""
    given = stream.given(f, own)
    if isinstance(stream.likelihood, seqgp.likelihoods.Censored):
        return jnp.where(y <= 0, jax.scipy.stats.norm.logcdf(0.0, f, own), given.log_prob(y))
    return given.log_prob(y)


@functools.partial(jax.jit, static_argnames="name")
def log_evidence(name: str, y, key, lengthscale, scale, level, own):
    """``log p(y | parameters)`` by a bootstrap particle filter with systematic resampling."""
    rate = 3**0.5 / lengthscale
    u = rate * APART
    # The latent, and its derivative over the rate.
    transition = jnp.exp(-u) * jnp.array([[1 + u, u], [-u, 1 - u]])
    root = jnp.linalg.cholesky(jnp.eye(2) - transition @ transition.T + 1e-14 * jnp.eye(2))
    key_start, key_steps = jax.random.split(key)
    state = jax.random.normal(key_start, (PARTICLES, 2))

    def step(state, inputs):
        datum, key = inputs
        key_resample, key_move = jax.random.split(key)
        logs = log_density(STREAMS[name], datum, level + scale * state[:, 0], own)
        increment = jax.scipy.special.logsumexp(logs) - jnp.log(PARTICLES)
        share = jnp.cumsum(jax.nn.softmax(logs))
        places = (jnp.arange(PARTICLES) + jax.random.uniform(key_resample)) / PARTICLES
        chosen = state[jnp.minimum(jnp.searchsorted(share, places), PARTICLES - 1)]
        return chosen @ transition.T + jax.random.normal(key_move, (PARTICLES, 2)) @ root.T, increment

    return jnp.sum(jax.lax.scan(step, state, (y, jax.random.split(key_steps, STEPS)))[1])


def exact(name: str, of: seqgp.Model, y: np.ndarray, z: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and sd of each entry of ``z`` by importance sampling around draws, and the effective number of values."""
    rng = np.random.default_rng(seed)
    centre, root = z.mean(0), np.linalg.cholesky(WIDER * np.cov(z.T))
    white = rng.standard_normal((VALUES, z.shape[1])) / np.sqrt(rng.chisquare(FREEDOM, (VALUES, 1)) / FREEDOM)
    values = centre + white @ root.T
    natural = of.natural(jnp.asarray(values))
    own = [name for name in of.inferred if name not in ("time.lengthscale", "scale", "mean")]
    columns = [natural["time.lengthscale"], natural["scale"], natural["mean"], natural[own[0]] if own else None]

    def one(i: int) -> float:
        at = (np.nan if column is None else column[i] for column in columns)
        return float(log_evidence(name, y, jax.random.key(seed * VALUES + i), *at))

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        evidence = list(threads.map(one, range(VALUES)))
    mean, spread = of.prior_of_z()
    logs = np.asarray(evidence) - 0.5 * ((values - mean) ** 2 / np.diag(spread)).sum(1)
    logs += 0.5 * (FREEDOM + z.shape[1]) * np.log1p((white**2).sum(1) / FREEDOM)
    weights = np.exp(logs - logsumexp(logs))
    found = weights @ values
    return found, np.sqrt(weights @ (values - found) ** 2), float(1 / np.sum(weights**2))


def compare(name: str, seed: int) -> list[dict[str, Any]]:
    stream = STREAMS[name]
    of, y, start = model(stream), drawn(stream, seed), time.perf_counter()
    snapshots = [seqgp.Snapshot(APART * i, np.zeros((1, 1)), y[i : i + 1]) for i in range(len(y))]
    run = seqgp.run(seqgp.OnlineSampler(of, draws=2000), snapshots, key=jax.random.key(seed), progress=False)
    seconds = time.perf_counter() - start
    z = np.asarray(run.state.z)
    mean, sd, effective = exact(name, of, y, z, seed)
    rows = [
        {"stream": name, "seed": seed, "parameter": parameter, "bias": bias, "ratio": ratio, "effective": effective}
        for parameter, bias, ratio in zip(of.names, (z.mean(0) - mean) / sd, z.std(0) / sd)
    ]
    print(
        f"{name}, seed {seed}: "
        + ", ".join(f"{row['parameter']} {row['bias']:+.2f} sd (x {row['ratio']:.2f})" for row in rows)
        + f"; {effective:.0f} of {VALUES} values count; {seconds:.0f} s",
        flush=True,
    )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| data | largest bias of a parameter, sds | median | sd ratios |", "|---|---|---|---|"]
    for name in dict.fromkeys(row["stream"] for row in rows):
        bias = np.abs([row["bias"] for row in rows if row["stream"] == name])
        ratio = [row["ratio"] for row in rows if row["stream"] == name]
        lines.append(f"| {name} | {max(bias):.2f} | {np.median(bias):.2f} | {min(ratio):.2f}–{max(ratio):.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="parts of the names of streams")
    parser.add_argument("--quick", action="store_true", help="one seed of the first stream")
    args = parser.parse_args()
    seqgp.enable_x64()
    names = [name for name in STREAMS if args.only is None or any(part in name for part in args.only)]
    seeds = range(1 if args.quick else args.seeds)
    rows = [row for name in (names[:1] if args.quick else names) for seed in seeds for row in compare(name, seed)]
    path = Path("out/long_likelihoods/table.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(table(rows) + "\n")
    print(f"\n{table(rows)}\n\nwritten to {path}")


if __name__ == "__main__":
    main()
