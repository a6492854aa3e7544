"""What the correction by paths costs: over EP of each snapshot, between likelihoods, beside particle filters."""

from __future__ import annotations

import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from experiments.long_likelihoods import APART, STREAMS, drawn, log_evidence, model, places

import seqgp
from benchmarks.lines import Line, in_own_process, main
from seqgp.samplers.online.exact import evaluate, shared_history
from seqgp.samplers.online.history import build_timeline
from seqgp.statespace.model import StateSpaceModel

COUNTS = "Poisson, one in four"


class Sizes(NamedTuple):
    """Stations and times of each line, particles, and paths."""

    few: tuple[int, int] = (10, 200)
    many: tuple[int, int] = (50, 200)
    one: tuple[int, int] = (1, 200)
    filter: tuple[int, int] = (10, 100)
    particles: int = 256
    paths: int = 16
    bootstrap: tuple[int, ...] = (1024, 4096, 16384)  # particles of the filter, from which its noise is extrapolated
    repeats: int = 32


QUICK = Sizes((2, 4), (3, 4), (1, 4), (2, 4), particles=16, paths=4, bootstrap=(64, 256), repeats=4)


def lines(quick: bool = False) -> list[Line]:
    """Rows of the table."""
    sizes = QUICK if quick else Sizes()
    return [
        exact_over_ep(sizes, sizes.few, 1.5),
        exact_over_ep(sizes, sizes.many, 3.0),
        *(over_counts(sizes, name) for name in ("StudentT, df = 4", "Censored, half of them")),
        in_own_process(particle_filter, sizes),
    ]


def snapshots_of(name: str, stations: int, steps: int) -> list[seqgp.Snapshot]:
    """A stream of the experiment on long likelihoods."""
    rows = drawn(STREAMS[name], 0, steps, stations)
    return [seqgp.Snapshot(APART * i, places(stations), row) for i, row in enumerate(rows)]


def run_seconds(name: str, size: tuple[int, int], particles: int, paths: int | str) -> float:
    """Seconds of a whole run, the second of two: compiled before."""
    snapshots, seconds = snapshots_of(name, *size), 0.0
    sampler = seqgp.OnlineSampler(model(STREAMS[name]), particles=particles, paths=paths)
    for _ in range(2):
        start = time.perf_counter()
        seqgp.run(sampler, snapshots, key=jax.random.key(0), progress=False, forecast=False)
        seconds = time.perf_counter() - start
    return seconds


def exact_over_ep(sizes: Sizes, size: tuple[int, int], goal: float) -> Line:
    """Counts, whole run: corrected by paths over EP of each snapshot alone."""
    exact, alone = (in_own_process(run_seconds, COUNTS, size, sizes.particles, paths) for paths in ("auto", 0))
    name = f"Poisson, N={size[0]}, T={size[1]}, whole run: paths='auto' over paths=0"
    return Line(name, exact / alone, goal, "<=", f"{exact:.1f} s against {alone:.1f} s")


def over_counts(sizes: Sizes, name: str) -> Line:
    """A likelihood that is not bell-shaped over counts, whole runs corrected by paths."""
    own, counts = (in_own_process(run_seconds, one, sizes.one, sizes.particles, "auto") for one in (name, COUNTS))
    title = f"{name}, one station, T={sizes.one[1]}, whole run, over Poisson"
    return Line(title, own / counts, 2.0, "<=", f"{own:.1f} s against {counts:.1f} s")


def particle_filter(sizes: Sizes) -> Line:
    """How many particles a bootstrap filter needs for the noise that ours has with its paths, over those paths."""
    n, steps = sizes.filter
    snapshots, of = snapshots_of(COUNTS, n, steps), model(STREAMS[COUNTS])
    history = build_timeline(StateSpaceModel(of), "auto", snapshots, (None,) * steps)
    z = np.zeros(len(of.names))
    shared, _ = shared_history(history, z)
    found = evaluate(history, shared, np.tile(z, (sizes.repeats, 1)), sizes.paths, np.random.default_rng(0))
    ours = float(np.var(found.log_evidence + found.log_increment))
    natural = {name: values[0] for name, values in of.natural(jnp.asarray(z[None])).items()}
    at = (natural["time.lengthscale"], natural["scale"], natural["mean"], np.nan)
    y, noise = np.stack([one.y for one in snapshots]), []
    for particles in sizes.bootstrap:
        keys = jax.random.split(jax.random.key(particles), sizes.repeats)
        noise.append(np.var([float(log_evidence(COUNTS, y, key, *at, particles=particles)) for key in keys]))
    # The variance falls as one over the number: from the largest one.
    needed = sizes.bootstrap[-1] * noise[-1] / ours
    detail = f"variance {ours:.2g} with {sizes.paths} paths; of the filter " + ", ".join(
        f"{variance:.2g} with {particles}" for particles, variance in zip(sizes.bootstrap, noise)
    )
    name = f"N={n}, T={steps}: particles of a bootstrap filter for the same noise, over our paths"
    return Line(name, needed / sizes.paths, 1000.0, ">=", detail)


if __name__ == "__main__":
    main(lines, "exact")
