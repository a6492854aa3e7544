"""Networks of many stations with gaps, and the longest step of a long stream.

Each line is printed as it is measured. The last ones, of 5,000 stations, take as long as all others together.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from experiments import networks
from experiments.large_networks import network_model, predict_map, simulated_network
from experiments.long_streams import stream_model
from experiments.network_accuracy import chosen_history

import seqgp
from benchmarks.lines import Line, in_own_process, main, seconds_of
from benchmarks.stream_peers.driver import PEERS, peer
from benchmarks.stream_peers.problem import Stream
from seqgp.samplers.online import network
from seqgp.samplers.online.filters import advanced, run_filters
from seqgp.samplers.online.history import build_timeline
from seqgp.samplers.online.network import NetworkPlan


class NetworkSizes(NamedTuple):
    """Stations of each line, steps, and points of the map."""

    few: int = 200
    more: int = 800
    many: int = 1000
    most: int = 5000
    steps: int = 20
    particles: int = 128
    usual: int = 256  # particles, where they are compared with the dense filter's
    stream: int = 10_000
    points: int = 100_000
    turns: int = 2


SMALL_NETWORKS = NetworkSizes(64, 66, 68, 70, 2, 16, 16, 70, 25, 1)


def lines(quick: bool = False) -> Iterator[Line]:
    """Rows of the table."""
    sizes = SMALL_NETWORKS if quick else NetworkSizes()
    gaps = in_own_process(amortised_step, sizes, 0.1, False)
    yield dense_over_ours(sizes, in_own_process(amortised_step, sizes, 0.1, True), gaps)
    yield in_own_process(filters_alone, sizes)
    yield gaps_over_complete(sizes, gaps, in_own_process(amortised_step, sizes, 0.0, False))
    yield from in_own_process(many_stations, sizes)
    yield in_own_process(longest_step, sizes)
    yield from in_own_process(most_stations, sizes)


class Amortised(NamedTuple):
    """A stream from the first step to the last."""

    seconds: float  # a step, without compilation
    filter: str  # of the last step
    steps: float  # of a particle's filter, a step


def amortised_step(sizes: NetworkSizes, missing: float, dense: bool) -> Amortised:
    """Rejuvenations and draws included."""
    if dense:
        network.DENSE_BELOW = sizes.few + 1  # of this process alone
    _, infos = _followed(simulated_network(sizes.few, sizes.steps, missing), sizes.usual)
    steps = float(np.mean([info.extras["filter_steps"] for info in infos]))
    return Amortised(float(np.mean([info.seconds for info in infos])), infos[-1].settings["filter"], steps)


def dense_over_ours(sizes: NetworkSizes, dense: Amortised, ours: Amortised) -> Line:
    """Whole steps."""
    name = f"N={sizes.few}, 10% missing, T={sizes.steps}, {sizes.usual} particles, amortised step: dense over ours"
    return Line(name, dense.seconds / ours.seconds, 6, ">=", _against(dense, ours))


def gaps_over_complete(sizes: NetworkSizes, gaps: Amortised, complete: Amortised) -> Line:
    """Whole steps."""
    name = f"N={sizes.few}, T={sizes.steps}: an amortised step with 10% missing over a complete one"
    return Line(name, gaps.seconds / complete.seconds, 4, "<=", _against(gaps, complete))


def _against(*steps: Amortised) -> str:
    return " against ".join(f"{one.seconds:.3g} s ({one.filter}, {one.steps:.1f} filter steps)" for one in steps)


def filters_alone(sizes: NetworkSizes) -> Line:
    """One filter step of 16 particles after two others, at the rank that is accurate over all steps."""
    data, ssm = simulated_network(sizes.more, sizes.steps, 0.1), seqgp.OnlineSampler(network_model()).ssm
    mean, sd = ssm.particle_prior()
    z = mean + 0.1 * sd * np.random.default_rng(0).standard_normal((16, len(mean)))
    plan = chosen_history(ssm, data, z).plan
    dense, ours = (_filter_step(ssm, data, z, one, sizes.turns) for one in (plan._replace(rank=0), plan))
    name = f"N={sizes.more}, 10% missing, filters alone: dense over ours"
    leading = "" if plan.leading is None else f", {plan.leading} leading modes"
    return Line(name, dense / ours, 30, ">=", f"{dense:.3g} s against {ours:.3g} s: rank {plan.rank}{leading}")


def _filter_step(ssm, data: list[seqgp.Snapshot], z: np.ndarray, plan: NetworkPlan, turns: int) -> float:
    before, after = (build_timeline(ssm, "auto", data[:n], [None] * n, plan=plan) for n in (2, 3))
    filters = run_filters(before, z, 2)[0]
    return seconds_of(lambda: advanced(after, filters)[1], turns)


def many_stations(sizes: NetworkSizes) -> list[Line]:
    """Seconds a step, peak memory, a map, and a fit of the same data by GPBoost."""
    data = simulated_network(sizes.many, sizes.steps, 0.1)
    state, infos = _followed(data, sizes.particles)
    seconds = float(np.mean([info.seconds for info in infos]))
    name = f"N={sizes.many}, 10% missing, T={sizes.steps}, {sizes.particles} particles"
    detail = f"the longest {max(info.seconds for info in infos):.3g} s, median {_median(infos):.3g} s"
    return [
        Line(f"{name}: seconds a step", seconds, 6, "<=", detail),
        Line(f"{name}: peak memory, GB", _peak(), 8, "<="),
        Line(f"map of {sizes.points} points, N={sizes.many}, 200 draws: seconds",
             predict_map(network_model(), state, sizes.points), 30, "<="),
        *gpboost_over_step(data, seconds),
    ]  # fmt: skip


def most_stations(sizes: NetworkSizes) -> list[Line]:
    """A complete snapshot and two with gaps, with half of the particles: most of the time goes into eigenvectors."""
    first, gaps = (simulated_network(sizes.most, 3, missing) for missing in (0.0, 0.1))
    _, infos = _followed([first[0], *gaps[1:]], max(sizes.particles // 2, 16))
    name = f"N={sizes.most}, {max(sizes.particles // 2, 16)} particles"
    said = "complete, the first step", "10% missing, the second step", "10% missing, the third step"
    lines = [
        Line(f"{name}, {what}: seconds", info.seconds, detail=f"{info.extras['filter_steps']} filter steps")
        for what, info in zip(said, infos)
    ]
    return [*lines, Line(f"{name}: peak memory, GB", _peak())]


def _followed(data: list[seqgp.Snapshot], particles: int) -> tuple[seqgp.OnlineState, list[seqgp.OnlineInfo]]:
    sampler, infos = seqgp.OnlineSampler(network_model(), particles=particles, draws=200), []
    state, info = sampler.init(jax.random.fold_in(jax.random.key(0), 0), data[0])
    infos.append(info)
    for i, snapshot in enumerate(data[1:], 1):
        state, info = sampler.step(jax.random.fold_in(jax.random.key(0), i), state, snapshot)
        infos.append(info)
    return state, infos


def _median(infos: list[seqgp.OnlineInfo]) -> float:
    return float(np.median([info.seconds for info in infos]))


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
    net = networks.network(5, lengthscale=0.5)
    sampler, state, seconds, steps = seqgp.OnlineSampler(stream_model("Matern32"), draws=200), None, [], []
    for i, y in enumerate(networks.simulate(net, sizes.stream)):
        snapshot, key = seqgp.Snapshot(float(i), net.x, y), jax.random.fold_in(jax.random.key(0), i)
        start = time.perf_counter()
        state, info = sampler.init(key, snapshot) if state is None else sampler.step(key, state, snapshot)
        seconds.append(time.perf_counter() - start - info.compile_seconds)
        steps.append(info.extras["filter_steps"])
    warm, median = len(seconds) // 100 + 1, float(np.median(seconds))
    detail = (
        f"median {median:.3g} s; before step {warm}: {max(seconds[:warm]) / median:.3g} times; filter steps: at most "
        f"{max(steps[warm:])}, median {np.median(steps):.0f}"
    )
    ratio = max(seconds[warm:]) / median
    return Line(f"N=5, T={sizes.stream}: the longest step over the median one", ratio, 10, "<=", detail)


if __name__ == "__main__":
    main(lines, "networks")
