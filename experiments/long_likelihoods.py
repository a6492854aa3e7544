"""The online sampler over 200 snapshots of data that are not Gaussian, against the exact posterior.

python -m experiments.long_likelihoods [--seeds 3] [--only NAME …] [--paths auto] [--stations 1] [--steps 200] [--quick]

A bootstrap particle filter, which shares no code with the sampler, estimates the evidence of a value of the parameters
without bias. A few hundred values drawn around the sampler's, weighted by it, are the exact posterior; two halves of
them tell how well it is known.
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
from scipy.special import gammaln, logsumexp

import seqgp
from seqgp.base.info import OnlineInfo

STEPS, APART = 200, 0.1
VALUES, PARTICLES = 512, 2048  # of the parameters, and of the particle filter of each
EXTENT = 3.0  # of the line on which several stations are
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


def black_box(f, context):
    """Counts whose rate NumPy computes: no derivatives."""
    rate = jax.pure_callback(lambda f: np.exp(f), jax.ShapeDtypeStruct(f.shape, f.dtype), f, vmap_method="expand_dims")
    return dist.Poisson(rate)


STREAMS = {
    "Black box": Stream(
        seqgp.likelihoods.Likelihood(black_box, pointwise=True), lambda f, own: dist.Poisson(jnp.exp(f)), level=0.0
    ),
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


def places(stations: int) -> np.ndarray:
    return np.linspace(0.0, EXTENT, stations)[:, None] if stations > 1 else np.zeros((1, 1))


def space_root(stations: int) -> np.ndarray:
    x = places(stations)
    return np.linalg.cholesky(np.exp(-np.abs(x - x.T)))


def drawn(stream: Stream, seed: int, steps: int = STEPS, stations: int = 1) -> np.ndarray:
    """Data ``(steps, stations)`` with a lengthscale and a scale of one."""
    rng = np.random.default_rng(seed)
    r = 3**0.5 * APART * np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    root = np.linalg.cholesky((1 + r) * np.exp(-r) + 1e-10 * np.eye(steps))
    f = jnp.asarray(stream.level + root @ rng.standard_normal((steps, stations)) @ space_root(stations).T)
    y = np.asarray(stream.given(f, stream.own).sample(jax.random.key(seed)), dtype=float)
    return np.maximum(y, 0.0) if isinstance(stream.likelihood, seqgp.likelihoods.Censored) else y


def log_density(stream: Stream, y, f, own):
    """Of one datum at many levels."""
    given = stream.given(f, own)
    if isinstance(stream.likelihood, seqgp.likelihoods.Censored):
        return jnp.where(y <= 0, jax.scipy.stats.norm.logcdf(0.0, f, own), given.log_prob(y))
    return given.log_prob(y)


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
    effective: float  # number of values
    apart: float  # the largest difference of the means of two halves of the values, in sds
    log_evidence: float


def exact(name: str, of: seqgp.Model, y: np.ndarray, z: np.ndarray, seed: int, sizes: tuple[int, int]) -> Exact:
    """From values around draws ``z``; ``sizes``: how many, and the particles of the filter of each."""
    rng, count = np.random.default_rng(seed), sizes[0]
    centre, root = z.mean(0), np.linalg.cholesky(WIDER * np.cov(z.T))
    white = rng.standard_normal((count, z.shape[1])) / np.sqrt(rng.chisquare(FREEDOM, (count, 1)) / FREEDOM)
    values = centre + white @ root.T
    natural = of.natural(jnp.asarray(values))
    own = [name for name in of.inferred if name not in ("time.lengthscale", "scale", "mean")]
    columns = [natural["time.lengthscale"], natural["scale"], natural["mean"], natural[own[0]] if own else None]

    def one(i: int) -> float:
        at = (np.nan if column is None else column[i] for column in columns)
        return float(log_evidence(name, y, jax.random.key(seed * count + i), *at, particles=sizes[1]))

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        evidence = list(threads.map(one, range(count)))
    mean, spread = of.prior_of_z()
    d = z.shape[1]
    logs = np.asarray(evidence) - 0.5 * ((values - mean) ** 2 / np.diag(spread)).sum(1)
    logs -= 0.5 * d * np.log(2 * np.pi) + 0.5 * np.log(np.diag(spread)).sum()
    logs += 0.5 * (FREEDOM + d) * np.log1p((white**2).sum(1) / FREEDOM) + np.log(np.diag(root)).sum()
    logs -= gammaln((FREEDOM + d) / 2) - gammaln(FREEDOM / 2) - 0.5 * d * np.log(FREEDOM * np.pi)
    weights = np.exp(logs - logsumexp(logs))
    found = weights @ values
    sd = np.sqrt(weights @ (values - found) ** 2)
    halves = [weights[part] @ values[part] / weights[part].sum() for part in (slice(0, None, 2), slice(1, None, 2))]
    apart = float(np.abs((halves[0] - halves[1]) / sd).max())
    return Exact(found, sd, float(1 / np.sum(weights**2)), apart, float(logsumexp(logs) - np.log(count)))


def compare(name: str, seed: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    stream = STREAMS[name]
    of, y, start = model(stream), drawn(stream, seed, args.steps, args.stations), time.perf_counter()
    x = places(args.stations)
    snapshots = [seqgp.Snapshot(APART * i, x, row) for i, row in enumerate(y)]
    sampler = seqgp.OnlineSampler(of, particles=args.particles, draws=2000, paths=args.paths)
    run = seqgp.run(sampler, snapshots, key=jax.random.key(seed), progress=False, forecast=False)
    seconds, info = time.perf_counter() - start, run.infos[-1]
    assert isinstance(info, OnlineInfo)
    assert info.exact is not None
    z = np.asarray(run.state.z)
    truth = exact(name, of, y, z, seed, (args.values, args.filter))
    off = info.log_evidence - truth.log_evidence
    rows = [
        {"stream": name, "seed": seed, "parameter": parameter, "bias": bias, "ratio": ratio, "off": off}
        for parameter, bias, ratio in zip(of.names, (z.mean(0) - truth.mean) / truth.sd, z.std(0) / truth.sd)
    ]
    print(
        f"{name}, seed {seed}: "
        + ", ".join(f"{row['parameter']} {row['bias']:+.2f} sd (x {row['ratio']:.2f})" for row in rows)
        + f"; log evidence {off:+.2f} (se {info.log_evidence_se:.2f}); {truth.effective:.0f} of {args.values} values "
        f"count, halves {truth.apart:.2f} sd apart; {info.exact.why}; {seconds:.0f} s",
        flush=True,
    )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| data | largest bias of a parameter, sds | median | sd ratios | log evidence |",
        "|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["stream"] for row in rows):
        its = [row for row in rows if row["stream"] == name]
        bias, ratio = np.abs([row["bias"] for row in its]), [row["ratio"] for row in its]
        off = max((row["off"] for row in its), key=abs)
        bounds = f"{max(bias):.2f} | {np.median(bias):.2f} | {min(ratio):.2f}–{max(ratio):.2f}"
        lines.append(f"| {name} | {bounds} | {off:+.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="parts of the names of streams")
    parser.add_argument("--paths", default=0, type=lambda text: text if text == "auto" else int(text))
    parser.add_argument("--stations", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--particles", type=int, default=256, help="of the sampler")
    parser.add_argument("--values", type=int, default=VALUES, help="of the parameters, for the exact posterior")
    parser.add_argument("--filter", type=int, default=PARTICLES, help="particles of the filter of each value")
    parser.add_argument("--quick", action="store_true", help="one seed of the first stream")
    args = parser.parse_args()
    seqgp.enable_x64()
    names = [name for name in STREAMS if args.only is None or any(part in name for part in args.only)]
    seeds = range(1 if args.quick else args.seeds)
    rows = [row for name in (names[:1] if args.quick else names) for seed in seeds for row in compare(name, seed, args)]
    path = Path("out/long_likelihoods/table.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(table(rows) + "\n")
    print(f"\n{table(rows)}\n\nwritten to {path}")


if __name__ == "__main__":
    main()
