"""What the correction by paths costs: over EP of each snapshot, between likelihoods, beside particle filters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from experiments.likelihood_streams import APART, STREAMS, drawn, model, places
from experiments.long_likelihoods import log_evidence

import seqgp
from benchmarks.lines import Line, in_own_process, main
from benchmarks.peers import nuts
from seqgp.samplers.online.exact import evaluate, shared_history
from seqgp.samplers.online.history import build_timeline
from seqgp.statespace.model import StateSpaceModel

COUNTS = "Poisson, mean 0.3"


class Sizes(NamedTuple):
    """Stations and times of each line, particles, and paths."""

    few: tuple[int, int] = (10, 200)
    many: tuple[int, int] = (50, 200)
    one: tuple[int, int] = (1, 200)
    filter: tuple[int, int] = (10, 100)
    refit: tuple[int, int, int] = (20, 50, 10)  # stations, times, and how many between two fits from scratch
    nuts: int = 60  # draws, and as many of warm-up
    long: tuple[int, int] = (100, 1000)
    particles: int = 256
    paths: int = 16
    bootstrap: tuple[int, ...] = (1024, 4096, 16384)  # particles of the filter, from which its noise is extrapolated
    repeats: int = 32


QUICK = Sizes(
    (2, 4), (3, 4), (1, 4), (2, 4), (2, 4, 2), 15, (4, 8), particles=16, paths=4, bootstrap=(64, 256), repeats=4
)


def lines(quick: bool = False) -> Iterator[Line]:
    """Rows of the table."""
    sizes = QUICK if quick else Sizes()
    yield exact_over_ep(sizes, sizes.few, 1.5)
    yield exact_over_ep(sizes, sizes.many, 3.0)
    for name in ("StudentT, df = 4", "Censored, half of them"):
        yield over_counts(sizes, name)
    for measure in (particle_filter, refitted, filter_steps):
        yield in_own_process(measure, sizes)


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


def refitted(sizes: Sizes) -> Line:
    """NUTS on parameters and latent, fitted again now and then, warming up included; over a run corrected by paths."""
    n, steps, every = sizes.refit
    snapshots, of = snapshots_of(COUNTS, n, steps), model(STREAMS[COUNTS])
    theirs, effective = 0.0, 0.0
    for t in range(every, steps + 1, every):
        found = nuts(of, snapshots[:t], sizes.nuts, seed=t)
        theirs, effective = theirs + found.seconds + found.warmup_seconds, effective + found.ess
    sampler, ours, infos = seqgp.OnlineSampler(of, particles=sizes.particles, paths="auto"), 0.0, ()
    for _ in range(2):  # the first compiles
        start = time.perf_counter()
        infos = seqgp.run(sampler, snapshots, key=jax.random.key(0), progress=False, forecast=False).infos
        ours = time.perf_counter() - start
    own = sum(info.min_ess for info in infos[every - 1 :: every])
    detail = f"{theirs:.1f} s for {effective:.0f} effective draws, against {ours:.1f} s for {own:.0f} at the same times"
    name = f"Poisson, N={n}: NUTS refitted at t = {every}, {2 * every}, …, {steps} over ours, per effective draw"
    return Line(name, (theirs / effective) / (ours / own), 50.0, ">=", detail)


def filter_steps(sizes: Sizes) -> Line:
    """Filter steps of a particle in a run corrected by paths, each evaluation over the whole history included."""
    early, late = sizes.long
    sampler = seqgp.OnlineSampler(model(STREAMS[COUNTS]), particles=max(sizes.particles // 4, 16), paths="auto")
    snapshots = snapshots_of(COUNTS, 1, late)
    infos = seqgp.run(sampler, snapshots, key=jax.random.key(0), progress=False, forecast=False).infos
    steps = np.cumsum([info.extras["filter_steps"] for info in infos if isinstance(info, seqgp.OnlineInfo)])
    first, last = steps[early - 1] / early, steps[-1] / late
    detail = f"{last:.1f} against {first:.1f}"
    return Line(f"Poisson, filter steps a step and particle: T={late} over T={early}", last / first, 1.3, "<=", detail)


if __name__ == "__main__":
    main(lines, "exact")
