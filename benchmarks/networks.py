"""Networks of many stations with gaps, and the longest step of a long stream."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from experiments.large_networks import network_model, predict_map, simulated_network
from experiments.long_streams import simulate_stream

import seqgp
from benchmarks.lines import Line, in_own_process, main, seconds_of
from benchmarks.stream_peers.driver import PEERS, peer
from benchmarks.stream_peers.problem import Stream
from seqgp.samplers.online.filters import advanced, run_filters
from seqgp.samplers.online.history import build_timeline
from seqgp.samplers.online.network import FIRST_PLAN


class NetworkSizes(NamedTuple):
    """Stations of each line, steps, and points of the map."""

    few: int = 200
    more: int = 800
    many: int = 1000
    most: int = 5000
    steps: int = 20
    particles: int = 128
    stream: int = 10_000
    points: int = 100_000
    turns: int = 2


SMALL_NETWORKS = NetworkSizes(64, 66, 68, 70, 2, 16, 70, 25, 1)


def lines(quick: bool = False) -> Iterator[Line]:
    """Rows of the table."""
    sizes = SMALL_NETWORKS if quick else NetworkSizes()
    yield in_own_process(dense_over_low_rank, sizes.few, sizes, 6.0)
    yield in_own_process(dense_over_low_rank, sizes.more, sizes, 30.0)
    yield in_own_process(gaps_over_complete, sizes)
    yield from in_own_process(many_stations, sizes)
    yield from in_own_process(most_stations, sizes, 0.0)
    yield from in_own_process(most_stations, sizes, 0.1)
    yield in_own_process(longest_step, sizes)


def dense_over_low_rank(num_sites: int, sizes: NetworkSizes, goal: float) -> Line:
    """One filter step of 16 particles after two others, 10% missing."""
    data = simulated_network(num_sites, 3, 0.1)
    seconds = [_filter_step(data, rank, sizes) for rank in (0, FIRST_PLAN.rank)]
    detail = f"{seconds[0]:.3g} s against {seconds[1]:.3g} s"
    name = f"N={num_sites}, 10% missing, filters alone: dense over low rank"
    return Line(name, seconds[0] / seconds[1], goal, ">=", detail)


def gaps_over_complete(sizes: NetworkSizes) -> Line:
    """The same with gaps and without."""
    gaps, complete = (
        _filter_step(simulated_network(sizes.few, 3, share), FIRST_PLAN.rank, sizes) for share in (0.1, 0)
    )
    name = f"N={sizes.few}, filters alone: a step with 10% missing over a complete one"
    return Line(name, gaps / complete, 4, "<=", f"{gaps:.3g} s against {complete:.3g} s")


def _filter_step(data: list[seqgp.Snapshot], rank: int, sizes: NetworkSizes) -> float:
    ssm = seqgp.OnlineSampler(network_model()).ssm
    mean, sd = ssm.particle_prior()
    z = mean + 0.1 * sd * np.random.default_rng(0).standard_normal((16, len(mean)))
    plan, none = FIRST_PLAN._replace(rank=rank), [None] * len(data)
    before, after = (build_timeline(ssm, "auto", data[:n], none[:n], plan=plan) for n in (2, 3))
    filters = run_filters(before, z, 2)[0]
    return seconds_of(lambda: advanced(after, filters)[1], sizes.turns)


def many_stations(sizes: NetworkSizes) -> list[Line]:
    """Seconds a step, peak memory, a map, and a fit of the same data by GPBoost."""
    data = simulated_network(sizes.many, sizes.steps, 0.1)
    state, seconds = _followed(data, sizes.particles)
    name = f"N={sizes.many}, 10% missing, T={sizes.steps}, {sizes.particles} particles"
    return [
        Line(f"{name}: seconds a step", float(np.mean(seconds)), 6, "<="),
        Line(f"{name}: peak memory, GB", _peak(), 8, "<="),
        Line(f"map of {sizes.points} points, N={sizes.many}, 200 draws: seconds",
             predict_map(network_model(), state, sizes.points), 30, "<="),
        *gpboost_over_step(data, float(np.mean(seconds))),
    ]  # fmt: skip


def most_stations(sizes: NetworkSizes, missing: float) -> list[Line]:
    """Two snapshots, with half of the particles: most of the time goes into eigenvectors."""
    state, seconds = _followed(simulated_network(sizes.most, 2, missing), max(sizes.particles // 2, 16))
    gaps = f"{missing:.0%} missing" if missing else "complete"
    name = f"N={sizes.most}, {gaps}, T=2, {len(state.particles.z)} particles"
    return [Line(f"{name}: seconds a step", float(np.mean(seconds))), Line(f"{name}: peak memory, GB", _peak())]


def _followed(data: list[seqgp.Snapshot], particles: int) -> tuple[seqgp.OnlineState, list[float]]:
    sampler, seconds = seqgp.OnlineSampler(network_model(), particles=particles, draws=200), []
    state, info = sampler.init(jax.random.fold_in(jax.random.key(0), 0), data[0])
    seconds.append(info.seconds)
    for i, snapshot in enumerate(data[1:], 1):
        state, info = sampler.step(jax.random.fold_in(jax.random.key(0), i), state, snapshot)
        seconds.append(info.seconds)
    return state, seconds


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def gpboost_over_step(data: list[seqgp.Snapshot], step: float, python: Path = PEERS) -> list[Line]:
    """One maximum-likelihood fit of all data (Vecchia's approximation) over one step; after ``make peers`` alone."""
    if not python.exists():
        return []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "network.npz"
        Stream(data[0].x, np.stack([one.y for one in data])).save(file)
        found = peer(python, "gpboost_network", file)
    name = f"N={len(data[0].x)}, T={len(data)}: GPBoost's one maximum-likelihood fit over one step"
    if "error" in found:
        return [Line(name, float("nan"), detail=found["error"])]
    return [Line(name, found["seconds"] / step, detail=f"{found['seconds']:.3g} s against {step:.3g} s")]


def longest_step(sizes: NetworkSizes) -> Line:
    """Of a stream of five stations, once everything is compiled; in seconds, and in filter steps of a particle."""
    stream = simulate_stream("Matern32", "complete", 0, 5, sizes.stream)
    sampler, state, seconds, steps = seqgp.OnlineSampler(stream.model, draws=200), None, [], []
    for i, snapshot in enumerate(stream.snapshots):
        key, start = jax.random.fold_in(jax.random.key(0), i), time.perf_counter()
        state, info = sampler.init(key, snapshot) if state is None else sampler.step(key, state, snapshot)
        seconds.append(time.perf_counter() - start - info.compile_seconds)
        steps.append(info.extras["filter_steps"])
    warm = len(seconds) // 100 + 1
    detail = f"filter steps: at most {max(steps[warm:])}, median {np.median(steps):.0f}"
    ratio = max(seconds[warm:]) / float(np.median(seconds))
    return Line(f"N=5, T={sizes.stream}: the longest step over the median one", ratio, 10, "<=", detail)


if __name__ == "__main__":
    main(lines, "networks")
