"""Bias of a lengthscale while counts arrive, with and without paths: ``docs/exact_bias.png``.

python -m experiments.long_likelihoods_figure [--seeds 2] [--dataset 0] [--stream "Poisson, mean 0.3"]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import jax
import matplotlib.pyplot as plt
import numpy as np

import seqgp
from experiments.likelihood_streams import APART, STREAMS, drawn, model, places
from experiments.long_likelihoods import Exact, exact

TIMES = (10, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200)
PARAMETER = "time.lengthscale"
SIZES = (384, 2048)  # values of the parameters, and draws of the latent for each, at each time
GOAL = 0.15
NAMES: dict[Any, str] = {0: "EP of each snapshot (paths=0)", "auto": 'corrected (paths="auto")'}
COLOURS: dict[Any, str] = {0: "#d95f02", "auto": "#1b6ca8"}


class Track(NamedTuple):
    """Of one run: the draws of all parameters at some times."""

    paths: int | str
    seed: int
    z: dict[int, np.ndarray]


def tracked(of: seqgp.Model, y: np.ndarray, paths: int | str, seed: int) -> Track:
    """Corrected at the times asked for, as a run is at its end."""
    sampler = seqgp.OnlineSampler(of, particles=256, draws=2000, paths=paths)
    snapshots, kept = [seqgp.Snapshot(APART * i, places(1), row) for i, row in enumerate(y)], {}
    for number, (state, _) in enumerate(seqgp.steps(jax.random.key(seed), sampler, snapshots, progress=False), 1):
        if number in TIMES:
            assert isinstance(state, seqgp.OnlineState)
            corrected, _ = sampler.refresh(jax.random.fold_in(jax.random.key(seed), number), state)
            kept[number] = np.asarray(corrected.z)
    return Track(paths, seed, kept)


def draw(tracks: list[Track], truth: dict[int, Exact], column: int, path: Path) -> None:
    """A line a run."""
    figure, axes = plt.subplots(figsize=(7.0, 3.7), constrained_layout=True)
    axes.axhspan(-GOAL, GOAL, color="0.92", label=f"±{GOAL} exact sd")
    axes.axhline(0.0, color="0.5", linewidth=0.8)
    for track in tracks:
        bias = [(z.mean(0) - truth[t].mean)[column] / truth[t].sd[column] for t, z in track.z.items()]
        label = NAMES[track.paths] if track.seed == 0 else None
        axes.plot(list(track.z), bias, "o-", color=COLOURS[track.paths], markersize=3.5, label=label)
    axes.set(xlabel="snapshot", ylabel="bias in exact sds", title="Posterior mean of the log lengthscale in time")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--dataset", type=int, default=0)
    parser.add_argument("--stream", default="Poisson, mean 0.3")
    parser.add_argument("--out", type=Path, default=Path("docs/exact_bias.png"))
    args = parser.parse_args()
    seqgp.enable_x64()
    of, y = model(STREAMS[args.stream]), drawn(STREAMS[args.stream], args.dataset)
    tracks = [tracked(of, y, paths, seed) for paths in ("auto", 0) for seed in range(args.seeds)]
    column = list(of.names).index(PARAMETER)
    truth = {t: exact(args.stream, of, y[:t], tracks[0].z[t], t, SIZES) for t in TIMES}
    for track in tracks:
        for t, z in track.z.items():
            found = truth[t]
            bias, ratio = (z.mean(0) - found.mean) / found.sd, z.std(0) / found.sd
            told = f"bias {np.round(bias, 2)}, sd ratios {np.round(ratio, 2)}"
            print(f"paths {track.paths}, seed {track.seed}, t = {t}: {told}")
    for t, found in truth.items():
        print(f"t = {t}: {found.effective:.0f} values count, halves {found.apart:.2f} sd apart")
    draw(tracks, truth, column, args.out)
    print(f"written to {args.out}")


if __name__ == "__main__":
    main()
