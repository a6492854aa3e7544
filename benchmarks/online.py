"""The online sampler against the sequential one, NUTS on the same filter, its own linear algebra, and time itself."""

from __future__ import annotations

import resource
import time
from typing import Any, NamedTuple

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from experiments.long_streams import Stream, simulate_stream
from numpyro.infer import MCMC, NUTS
from scipy.linalg import get_blas_funcs, get_lapack_funcs

import seqgp
from benchmarks.lines import Line, in_own_process, main, on_one_core, seconds_of, smallest_ess
from seqgp.reference.conditional import conditional
from seqgp.samplers.online.filters import advanced, run_filters
from seqgp.samplers.online.history import build_timeline
from seqgp.statespace.model import StateSpaceModel

KERNEL = "Matern32"


class Sizes(NamedTuple):
    """Stations, times, particles and draws of each line."""

    few: tuple[int, int] = (10, 200)  # stations and times of the whole run
    many: tuple[int, int] = (200, 100)  # of complete data
    gaps: tuple[int, int] = (200, 15)  # of data with gaps
    refit: tuple[int, int, int] = (20, 50, 10)  # stations, times, and how often NUTS is run again
    long: tuple[int, int] = (100, 1000)  # times over which rejuvenations are counted
    memory: tuple[int, int, int] = (20, 2000, 100)  # early step, late step, history
    particles: int = 256
    draws: int = 1000
    nuts: int = 300
    turns: int = 3


QUICK = Sizes((4, 6), (6, 5), (6, 4), (3, 6, 3), (10, 20), (12, 40, 10), particles=32, draws=40, nuts=20, turns=1)


def lines(quick: bool = False) -> list[Line]:
    """Rows of the table."""
    sizes = QUICK if quick else Sizes()
    return [
        whole_run(sizes),
        in_own_process(a_step, sizes, sizes.many, "complete", 10.0),
        in_own_process(a_step, sizes, sizes.gaps, "missing", 1.0),
        on_one_core(refitted, sizes),
        on_one_core(floor, sizes),
        two_cores(sizes),
        in_own_process(rejuvenations, sizes),
        in_own_process(memory, sizes),
    ]


def online(stream: Stream, sizes: Sizes, **settings: Any) -> seqgp.OnlineSampler:
    """The sampler of a stream."""
    return seqgp.OnlineSampler(stream.model, particles=sizes.particles, draws=sizes.draws, **settings)


def infos_of(sampler: Any, snapshots: list[seqgp.Snapshot]) -> list[seqgp.Info]:
    """Of a whole run."""
    return seqgp.run(sampler, snapshots, key=jax.random.key(0), progress=False, forecast=False).infos


def whole_run(sizes: Sizes) -> Line:
    """Both samplers over a whole stream, each in a fresh process, compiling included."""
    n, steps = sizes.few
    seconds = {who: in_own_process(_whole, who, sizes) for who in ("sequential", "online")}
    detail = f"{seconds['sequential']:.1f} s against {seconds['online']:.1f} s"
    ratio = seconds["sequential"] / seconds["online"]
    return Line(f"N={n}, T={steps}, compiling included: sequential over online", ratio, 5, ">=", detail)


def _whole(who: str, sizes: Sizes) -> float:
    stream = simulate_stream(KERNEL, "complete", 0, *sizes.few)
    start = time.perf_counter()
    infos_of(
        online(stream, sizes) if who == "online" else seqgp.SequentialSampler(stream.model, draws=sizes.draws),
        stream.snapshots,
    )
    return time.perf_counter() - start


def a_step(sizes: Sizes, size: tuple[int, int], variant: str, goal: float) -> Line:
    """Seconds of a dense step of the sequential sampler, over those of ours, rejuvenations included."""
    stream = simulate_stream(KERNEL, variant, 0, *size)
    dense = seqgp.SequentialSampler(stream.model, draws=sizes.draws, latent=seqgp.Dense())
    theirs = float(np.median([info.seconds for info in infos_of(dense, stream.snapshots[:4])[1:]]))
    infos = infos_of(online(stream, sizes), stream.snapshots)
    ours = float(np.mean([info.seconds for info in infos]))
    again = sum(info.extras["filter_steps"] for info in infos) / len(infos)
    detail = (
        f"{theirs:.2f} s against {ours:.2f} s, {again:.0f} filter steps a step; {infos[-1].settings['filter']} filter"
    )
    name = f"N={size[0]}, T={size[1]}, {variant} data: a dense sequential step over an online one"
    return Line(name, theirs / ours, goal, ">=", detail)


def refitted(sizes: Sizes) -> Line:
    """NUTS on the parameters, the latent integrated out by a filter, run again now and then; per effective draw.

    New data are a new posterior, to which the step size and the metric are adapted anew: warming up is part of a refit.
    """
    n, steps, every = sizes.refit
    stream = simulate_stream(KERNEL, "complete", 0, n, steps)
    mean, spread = stream.model.prior_of_z()
    seconds, warming, effective = 0.0, 0.0, 0.0
    for t in range(every, steps + 1, every):
        given = conditional(stream.model, stream.snapshots[:t]).given

        def joint(given: Any = given) -> None:
            z = numpyro.sample("z", dist.Normal(mean, np.sqrt(np.diag(spread))).to_event(1))
            numpyro.factor("y", given(z).log_likelihood)

        sampler = MCMC(NUTS(joint), num_warmup=sizes.nuts, num_samples=sizes.nuts, progress_bar=False)
        for turn in (t, t + 1):  # the first compiles
            start = time.perf_counter()
            sampler.warmup(jax.random.key(turn), collect_warmup=False)
            warm = time.perf_counter()
            sampler.run(jax.random.key(turn))
        seconds += time.perf_counter() - start
        warming += warm - start
        effective += smallest_ess(1, sampler.get_samples()["z"])
    infos_of(online(stream, sizes), stream.snapshots)
    infos = infos_of(online(stream, sizes), stream.snapshots)
    ours = sum(info.seconds for info in infos)
    found = sum(info.min_ess for info in infos[every - 1 :: every])
    detail = (
        f"{seconds:.1f} s ({warming:.1f} s of it warming up) for {effective:.0f} effective draws, against {ours:.1f} s "
        f"for {found:.0f} at the same times, and all others"
    )
    name = f"NUTS refitted at t = {every}, {2 * every}, …, {steps}, N={n}, over ours, per effective draw"
    return Line(name, (seconds / effective) / (ours / found), 50, ">=", detail)


def floor(sizes: Sizes) -> Line:
    """A step of the dense filter over the calls of BLAS and LAPACK that it cannot do without."""
    n = sizes.gaps[0]
    stream = simulate_stream(KERNEL, "missing", 0, n, 3)
    ssm, particles = StateSpaceModel(stream.model), 8
    history = build_timeline(ssm, "auto", stream.snapshots, [None] * 3)
    mean, sd = ssm.particle_prior()
    z = mean + sd * np.random.default_rng(0).standard_normal((particles, len(mean)))
    before = build_timeline(ssm, "auto", stream.snapshots[:2], [None] * 2)
    filters = run_filters(before, z, 2)[0]
    ours = seconds_of(lambda: advanced(history, filters)[1], sizes.turns) / particles
    state = ssm.order * n + len(ssm.in_state)
    rng = np.random.default_rng(0)
    covariance, cross = np.asfortranarray(rng.random((n, n)) + n * np.eye(n)), np.asfortranarray(rng.random((n, state)))
    whole = np.asfortranarray(rng.random((state, state)))
    (potrf,) = get_lapack_funcs(("potrf",), (covariance,))
    gemm, trsm = get_blas_funcs(("gemm", "trsm"), (covariance,))
    least = (
        seconds_of(lambda: potrf(covariance, lower=1), 20)
        + seconds_of(lambda: trsm(1.0, covariance, cross, lower=1), 20)
        + seconds_of(lambda: gemm(-1.0, cross, cross, beta=1.0, c=whole, trans_a=1), 20)
    )
    detail = f"{1e3 * ours:.1f} ms a particle against {1e3 * least:.1f} ms: dpotrf({n}), dtrsm and dgemm({state}, {n})"
    return Line(f"dense filter step, N={n}, order {ssm.order}, over BLAS and LAPACK", ours / least, 1.5, "<=", detail)


def two_cores(sizes: Sizes) -> Line:
    """Filters of all particles over a stream with gaps, in a process that has one core, and in one that has all."""
    alone, both = on_one_core(_filters, sizes), in_own_process(_filters, sizes)
    detail = f"{alone:.2f} s against {both:.2f} s"
    return Line("particles in batches: two cores over one", alone / both, 1.7, ">=", detail)


def _filters(sizes: Sizes) -> float:
    stream = simulate_stream(KERNEL, "missing", 0, sizes.gaps[0] // 2, 3)
    ssm = StateSpaceModel(stream.model)
    history = build_timeline(ssm, "auto", stream.snapshots, [None] * 3)
    mean, sd = ssm.particle_prior()
    z = mean + sd * np.random.default_rng(0).standard_normal((sizes.particles, len(mean)))
    return seconds_of(lambda: run_filters(history, z, 3)[1], 3 * sizes.turns)


def rejuvenations(sizes: Sizes) -> Line:
    """Filter steps that are run again, per step and particle: rejuvenations come ever more rarely."""
    early, late = sizes.long
    stream = simulate_stream(KERNEL, "complete", 0, 5, late)
    steps = np.cumsum([info.extras["filter_steps"] for info in infos_of(online(stream, sizes), stream.snapshots)])
    first, last = steps[early - 1] / early, steps[-1] / late
    detail = f"{last:.1f} against {first:.1f}"
    return Line(f"filter steps a step and particle: T={late} over T={early}", last / first, 1.3, "<=", detail)


def memory(sizes: Sizes) -> Line:
    """Peak memory of a stream with a bounded history."""
    early, late, history = sizes.memory
    stream = simulate_stream(KERNEL, "complete", 0, 5, late)
    sampler = seqgp.OnlineSampler(stream.model, particles=64, draws=100, history=history)
    peaks, state = {}, None
    key = jax.random.key(0)
    for number, snapshot in enumerate(stream.snapshots, start=1):
        turn = jax.random.fold_in(key, number)
        state, _ = sampler.init(turn, snapshot) if state is None else sampler.step(turn, state, snapshot)
        if number in (early, late):
            peaks[number] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    detail = f"{peaks[late]:.0f} MB, {peaks[early]:.0f} MB"
    name = f"peak memory at step {late} over step {early}, history={history}"
    return Line(name, peaks[late] / peaks[early], 1.1, "<=", detail)


if __name__ == "__main__":
    main(lines, "online")
