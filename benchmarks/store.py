"""What a step on disk costs, against sampling it: the goal is a twentieth.

`python -m benchmarks.store` prints the time of writing a step (with its syncs) over that of sampling it, at 200
locations and 1000 draws, for the sampler's defaults; and the size of a step of the online sampler at 200 stations.
"""

import statistics
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

import seqgp

Line = tuple[str, float, float | None]


def lines(locations: int = 200, draws: int = 1000, repeats: int = 5) -> list[Line]:
    """Rows of name, value and goal; a row without a goal is for information."""
    sampler, snapshots = _problem(locations, draws)
    key = jax.random.key(0)
    state, info = sampler.init(key, snapshots[0])
    sampling = []
    for i, snapshot in enumerate(snapshots[1:], start=1):
        state, info = sampler.step(jax.random.fold_in(key, i), state, snapshot)
        sampling.append(info.seconds)
    writing = []
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(repeats):
            with seqgp.Store(Path(folder) / str(repeat)).writing(sampler, key) as writer:
                start = time.perf_counter()
                writer.append(state, info, snapshots[-1])
                writing.append(time.perf_counter() - start)
    sample, write = statistics.median(sampling), statistics.median(writing)
    return [
        ("store: writing a step, ratio to sampling it (N = 200, 1000 draws)", write / sample, 0.05),
        ("store: writing a step, ms", 1e3 * write, None),
        ("store: sampling a step, ms", 1e3 * sample, None),
        *online_size(locations, draws),
    ]


def online_size(locations: int = 200, draws: int = 1000) -> list[Line]:
    """The largest step of an online run: what can be recomputed, the filters of all particles, is not kept."""
    x = np.random.default_rng(0).random((locations, 2))
    model = _model(seqgp.kernels.Matern32)
    snapshots = [seqgp.Snapshot(t, x, np.sin(3 * x[:, 0] + t) * x[:, 1]) for t in (0.0, 0.05)]
    with tempfile.TemporaryDirectory() as folder:
        store = seqgp.run(seqgp.OnlineSampler(model, draws=draws), snapshots, jax.random.key(0), store=folder).store
        largest = max(step.path.stat().st_size for step in store or ())
    return [(f"store: the largest step of an online run, MB (N = {locations}, {draws} draws)", largest / 1e6, 20.0)]


def _model(smoothness: type) -> seqgp.Model:
    between = seqgp.ScaledSigmoid(0, 10**0.5)
    kernel = seqgp.Separable(smoothness(between), smoothness([between, between]), seqgp.ScaledSigmoid(0, 2))
    return seqgp.Model(
        kernel, seqgp.likelihoods.Gaussian(noise=seqgp.ScaledSigmoid(0, 1)), mean=seqgp.ScaledSigmoid(0, 1)
    )


def _problem(locations: int, draws: int) -> tuple[seqgp.SequentialSampler, list[seqgp.Snapshot]]:
    model = _model(seqgp.kernels.SquaredExponential)
    rng = np.random.default_rng(0)
    snapshots = []
    for t in (0.0, 0.05, 0.1):
        x = rng.random((locations, 2))
        y = np.sin(3 * x[:, 0] + t) * x[:, 1] + 0.3 * rng.standard_normal(locations)
        snapshots.append(seqgp.Snapshot(t, x, y))
    return seqgp.SequentialSampler(model, draws=draws), snapshots


if __name__ == "__main__":
    seqgp.enable_x64()
    for name, value, goal in lines():
        print(f"{name}: {value:.4g}" + ("" if goal is None else f" (goal: below {goal})"))
