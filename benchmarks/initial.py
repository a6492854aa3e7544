"""The initial sample of the paper's regression: effective draws per second against peers, one core each.

Of each only the draws kept are timed; warm-up and compilation are apart.
"""

from __future__ import annotations

from typing import NamedTuple

from experiments.simulate import regression_data, regression_model

import seqgp
from benchmarks.lines import Line, main, on_one_core, smallest_ess
from benchmarks.peers import elliptical, nuts
from benchmarks.problems import SEED, Rate, initial_rate


class Sizes(NamedTuple):
    """How much to sample."""

    n: int = 200
    plain: int = 500
    informed: int = 2000
    nuts: int = 150
    slices: int = 1000
    thin: int = 5
    turns: int = 3


QUICK = Sizes(n=20, plain=40, informed=40, nuts=20, slices=40, thin=2, turns=1)


def lines(quick: bool = False) -> list[Line]:
    """Rows of the table."""
    return on_one_core(measure, QUICK if quick else Sizes())


def measure(sizes: Sizes) -> list[Line]:
    """All of it, in a process with one core."""
    snapshot = regression_data(SEED, sizes.n, 1).snapshots[0]
    model, dense = regression_model(), seqgp.Dense()
    plain = initial_rate(model, snapshot, sizes.turns, draws=sizes.plain, chains=1, latent=dense, updates="plain")
    informed = initial_rate(model, snapshot, sizes.turns, draws=sizes.informed, latent=dense, updates="informed")
    peer = nuts(model, [snapshot], sizes.nuts)
    theirs = peer.ess / peer.seconds
    where = f"initial sample, N={sizes.n}"
    against = (
        f"{theirs:.2f}/s ({peer.leapfrogs:.0f} leapfrog steps a draw; {peer.warmup_seconds:.0f} s of warm-up apart)"
    )
    return [
        Line(f"{where}: plain over NUTS", plain.per_second / theirs, 8, ">=", f"{described(plain)}; {against}"),
        Line(f"{where}: informed over NUTS", informed.per_second / theirs, 50, ">=", described(informed)),
        Line(f"{where}: informed over plain", informed.per_second / plain.per_second, 10, ">="),
        latent_alone(sizes, snapshot),
    ]


def described(rate: Rate) -> str:
    """A rate in words."""
    return f"{rate.per_second:.1f}/s ({rate.everything - rate.seconds:.1f} s of tuning, warm-up and diagnostics apart)"


def latent_alone(sizes: Sizes, snapshot: seqgp.Snapshot) -> Line:
    """Elliptical slices of ``f`` alone at known parameters, ours and BlackJAX's."""
    model = seqgp.Model(
        kernel=seqgp.Separable(
            seqgp.kernels.SquaredExponential(1.0), seqgp.kernels.SquaredExponential([1.0, 1.0]), 1.0
        ),
        mean=0.5,
        likelihood=seqgp.likelihoods.Gaussian(noise=0.3),
    )
    settings = {"chains": 1, "warmup": sizes.slices // 10 * sizes.thin, "thin": sizes.thin, "latent": seqgp.Dense()}
    updates = seqgp.Plain(initial=(1, 0, 0))
    ours = initial_rate(model, snapshot, sizes.turns, draws=sizes.slices, updates=updates, **settings)
    f, seconds = elliptical(model, snapshot, sizes.slices, sizes.thin, sizes.turns)
    theirs = smallest_ess(1, f) / seconds
    detail = f"effective draws per second of f: {ours.per_second:.1f} against {theirs:.1f}"
    return Line(
        f"f alone, N={sizes.n}: ours over BlackJAX, covariance rebuilt", ours.per_second / theirs, 2, ">=", detail
    )


if __name__ == "__main__":
    main(lines, "initial")
