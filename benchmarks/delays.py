"""A filter step with a delay between stations (`seqgp.Delayed`) against the dense one of the same kernel without."""

from __future__ import annotations

import numpy as np
from experiments.large_networks import network_model, simulated_network

import seqgp
from benchmarks.lines import Line, in_own_process, main, seconds_of
from seqgp.samplers.online.filters import advanced, run_filters
from seqgp.samplers.online.history import build_timeline
from seqgp.samplers.online.network import FIRST_PLAN


def lines(quick: bool = False) -> list[Line]:
    """Rows of the table."""
    stations, turns = (16, 1) if quick else (200, 7)
    return [in_own_process(delayed_over_dense, stations, turns)]


def delayed_over_dense(stations: int, turns: int) -> Line:
    """A step of 16 particles after two others; delays spread over at most half the time between snapshots."""
    data, dense = simulated_network(stations, 3, 0.1), network_model()
    moving = seqgp.Delayed(dense.kernel, slowness=[seqgp.ScaledSigmoid(-0.25, 0.25)] * 2)
    delayed = seqgp.Model(moving, dense.likelihood, mean=dense.mean)
    seconds = [_filter_step(model, data, turns) for model in (delayed, dense)]
    detail = f"{seconds[0]:.3g} s against {seconds[1]:.3g} s"
    name = f"N={stations}, 10% missing, filters alone: a step with a delay over a dense one"
    return Line(name, seconds[0] / seconds[1], 1.8, "<=", detail)


def _filter_step(model: seqgp.Model, data: list[seqgp.Snapshot], turns: int) -> float:
    ssm = seqgp.OnlineSampler(model).ssm
    mean, sd = ssm.particle_prior()
    z = mean + 0.1 * sd * np.random.default_rng(0).standard_normal((16, len(mean)))
    plan, none = FIRST_PLAN._replace(rank=0), [None] * len(data)
    before, after = (build_timeline(ssm, "auto", data[:n], none[:n], plan=plan) for n in (2, 3))
    filters = run_filters(before, z, 2)[0]
    return seconds_of(lambda: advanced(after, filters)[1], turns)


if __name__ == "__main__":
    main(lines, "delays")
