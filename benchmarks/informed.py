"""Informed updates against plain ones and NUTS: effective draws per second on problems that are not Gaussian.

The same for the paper's regression at its first time is in ``benchmarks.initial``. Ours count everything but
compilation; of NUTS only the draws kept are timed, not its warm-up. One core each; the informed updates have
the default number of chains, for their ellipse is found from the warm-up of all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
import numpyro.distributions as dist
from experiments import diffusion
from experiments.simulate import regression_data, regression_model

import seqgp
from benchmarks.lines import Line, main, on_one_core, smallest_ess
from benchmarks.peers import nuts
from benchmarks.problems import SEED, initial_rate, knots


class Sizes(NamedTuple):
    """How much to sample."""

    grid: tuple[int, int] = (20, 10)
    informed: int = 2000
    plain: int = 500
    nuts: int = 120
    turns: int = 2
    n: int = 200
    steps: int = 20
    draws: int = 1000


QUICK = Sizes(grid=(4, 3), informed=40, plain=40, nuts=15, turns=1, n=20, steps=3, draws=40)


def lines(quick: bool = False) -> list[Line]:
    """Rows of the table."""
    sizes = QUICK if quick else Sizes()
    return [*on_one_core(counts, sizes), *on_one_core(inverse_problem, sizes), *side_by_side(sizes)]


def counts(sizes: Sizes) -> list[Line]:
    """Poisson counts around 10 on a grid."""
    model, snapshot = poisson_problem(sizes.grid)
    name = f"Poisson counts, N={len(snapshot.y)}"
    return compare(name, model, snapshot, sizes, goals=(5, 20))


def inverse_problem(sizes: Sizes) -> list[Line]:
    """The coefficient of a diffusion equation, from concentrations with noise of 1%."""
    snapshot = diffusion.simulate(SEED).snapshots[0]
    name = f"diffusion, {len(snapshot.x)} knots, {len(snapshot.y)} data, noise 1%"
    return compare(name, diffusion.model(), snapshot, sizes, goals=(50, 5))


def poisson_problem(grid: tuple[int, int]) -> tuple[seqgp.Model, seqgp.Snapshot]:
    """A log intensity on a grid of the unit square."""
    model = seqgp.Model(
        kernel=seqgp.Separable(
            time=seqgp.kernels.SquaredExponential(seqgp.ScaledSigmoid(0, 3)),
            space=seqgp.kernels.SquaredExponential([seqgp.ScaledSigmoid(0, 2)] * 2),
            scale=seqgp.ScaledSigmoid(0, 2),
        ),
        mean=dist.Normal(2.0, 1.0),
        likelihood=seqgp.likelihoods.Poisson(),
    )
    axes = np.meshgrid(*(np.linspace(0, 1, n) for n in grid), indexing="ij")
    x = np.stack(axes, axis=-1).reshape(-1, 2)
    rate = np.exp(np.log(10.0) + 0.5 * np.sin(4 * x[:, 0]) * np.cos(3 * x[:, 1]))
    return model, seqgp.Snapshot(0.0, x, np.random.default_rng(SEED).poisson(rate).astype(float))


def compare(
    name: str, model: seqgp.Model, snapshot: seqgp.Snapshot, sizes: Sizes, goals: tuple[float, float]
) -> list[Line]:
    """Effective draws per second of the initial sample: informed over plain, and over NUTS."""
    dense = seqgp.Dense()
    informed = initial_rate(model, snapshot, sizes.turns, draws=sizes.informed, latent=dense, updates="informed")
    plain = initial_rate(model, snapshot, draws=sizes.plain, chains=1, latent=dense, updates="plain")
    peer = nuts(model, [snapshot], sizes.nuts)
    theirs = peer.ess / peer.seconds
    apart = _means_apart(informed.state, peer.f)
    used = "" if informed.updates == "informed" else f"; fell back to {informed.updates} updates"
    ours = f"{informed.per_second:.1f}/s (ESS {informed.ess:.0f} of {sizes.informed}){used}"
    slow = f"{plain.per_second:.2f}/s (ESS {plain.ess:.0f} of {sizes.plain})"
    other = f"{theirs:.2f}/s (ESS {peer.ess:.0f} of {sizes.nuts}, {peer.leapfrogs:.0f} leapfrog steps a draw)"
    return [
        Line(f"{name}: informed over plain", informed.per_second / plain.per_second, goals[0], ">=", f"{ours}, {slow}"),
        Line(
            f"{name}: informed over NUTS",
            informed.per_second / theirs,
            goals[1],
            ">=",
            f"{ours}, {other}; means of the latent apart by {apart:.2f} sd",
        ),
    ]


def _means_apart(state: seqgp.SequentialState, f: np.ndarray) -> float:
    latent = np.asarray(state.latent)
    return float(np.sqrt(np.mean(((latent.mean(0) - f.mean(0)) / latent.std(0)) ** 2)))


def side_by_side(sizes: Sizes) -> list[Line]:
    """The smallest effective sample size of each step of the paper's regression, by both sets of updates."""
    snapshots = regression_data(SEED, sizes.n, sizes.steps).snapshots
    found = []
    for updates in ("informed", "plain"):
        sampler = seqgp.SequentialSampler(regression_model(), sizes.draws, latent=knots(), updates=updates)
        sequence = seqgp.steps(jax.random.key(SEED), sampler, snapshots, progress=False)
        ess, seconds = [], 0.0
        for state, info in sequence:
            assert isinstance(info, seqgp.ChainInfo)
            ess.append(smallest_ess(info.chains, state.z, state.latent))
            seconds += info.seconds
        each = ", ".join(f"{value:.0f}" for value in ess)
        name = f"the paper's regression, knots, {updates}: least min ESS of a step of {sizes.draws} draws"
        found.append(Line(name, min(ess), None, ">=", f"t = 1…{len(ess)}: {each}; {seconds:.1f} s"))
    return found


if __name__ == "__main__":
    main(lines, "informed")
