"""The dense step against the LAPACK floor, against itself on two cores, and against a researcher's NumPy."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from scipy.linalg import get_lapack_funcs

import seqgp
from benchmarks import algorithm2
from benchmarks.lines import Line, best_of_turns, main, on_one_core, seconds_of, timed
from benchmarks.problems import Start, paper_start, step_of


class Sizes(NamedTuple):
    """How much to sample."""

    n: int = 200
    draws: int = 400
    written: int = 100  # draws of the NumPy version
    turns: int = 3


QUICK = Sizes(n=20, draws=24, written=8, turns=1)


def lines(quick: bool = False) -> list[Line]:
    """Rows of the table."""
    sizes = QUICK if quick else Sizes()
    pinned = on_one_core(floor, sizes)
    start = paper_start(sizes.n, sizes.draws)
    return [pinned, two_cores(sizes, start), written_in_numpy(sizes, start)]


def floor(sizes: Sizes) -> Line:
    """A step's time over what LAPACK and the exponential alone would take for its factorisations."""
    start = paper_start(sizes.n, sizes.draws)
    step = step_of(start, chains=1, warmup=0)
    step()
    infos = [step() for _ in range(sizes.turns)]
    best = min(infos, key=lambda info: info.seconds)
    factored = best.updates["kernel"].evaluations
    rows = 2 * sizes.n
    distances = np.linspace(0, 3, rows)
    squared = (distances[:, None] - distances) ** 2
    matrix = np.asfortranarray(np.exp(-0.5 * squared) + 1e-6 * np.eye(rows))
    (dpotrf,) = get_lapack_funcs(("potrf",), (matrix,))
    potrf = seconds_of(lambda: dpotrf(matrix, lower=1, clean=0), 100)
    exp = seconds_of(lambda: np.exp(-squared, out=np.empty_like(squared)), 100)
    least = factored * (potrf + exp)
    detail = (
        f"{best.seconds:.2f} s for {sizes.draws} draws, {factored} factorisations; "
        f"dpotrf({rows}) {1e3 * potrf:.2f} ms, exp {1e3 * exp:.2f} ms"
    )
    return Line(
        f"dense step, N={sizes.n}, one core: time over the LAPACK floor", best.seconds / least, 1.5, "<=", detail
    )


def two_cores(sizes: Sizes, start: Start) -> Line:
    """The same number of draws in two chains on two cores, and in one."""
    steps = {chains: step_of(start, chains=chains, warmup=0) for chains in (1, 2)}
    seconds = best_of_turns({str(c): lambda c=c: steps[c]().seconds for c in steps}, sizes.turns)
    detail = f"{seconds['1']:.2f} s against {seconds['2']:.2f} s"
    return Line(
        f"dense step, N={sizes.n}: two chains on two cores over one", seconds["1"] / seconds["2"], 1.7, ">=", detail
    )


def written_in_numpy(sizes: Sizes, start: Start) -> Line:
    """Algorithm 2 in NumPy with all threads, against ours on all cores, per draw."""
    state, snapshot = start.state, start.following[0]
    window = state.window
    inputs = algorithm2.Inputs.of(state.t, window.x[-1], snapshot.t, snapshot.x)
    f_old, z_old = np.asarray(window.f)[: sizes.written, -1], np.asarray(state.z)
    rng = np.random.default_rng(0)
    (f, _), theirs = timed(lambda: algorithm2.step(rng, inputs, snapshot.y, f_old, z_old))
    settings = {"updates": seqgp.Plain(start="prior"), "latent": seqgp.Dense()}
    sampler = seqgp.SequentialSampler(start.model, draws=state.draws, tau=1, **settings)
    sampler.step(jax.random.key(0), state, snapshot)
    after = [sampler.step(jax.random.key(1), state, snapshot) for _ in range(sizes.turns)]
    ours = min(info.seconds for _, info in after) / state.draws
    latent = np.asarray(after[0][0].latent)
    apart = np.sqrt(np.mean(((f.mean(0) - latent.mean(0)) / latent.std(0)) ** 2))
    per_draw = theirs / sizes.written
    detail = f"{1e3 * per_draw:.1f} ms a draw against {1e3 * ours:.1f} ms; means of f apart by {apart:.2f} sd"
    return Line(f"dense step, N={sizes.n}: Algorithm 2 in NumPy over ours, all cores", per_draw / ours, 4, ">=", detail)


if __name__ == "__main__":
    main(lines, "dense")
