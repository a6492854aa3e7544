"""One stream, as it comes: a parameter's posterior by the online and the sequential sampler, and exactly."""

from __future__ import annotations

import argparse
from typing import Any

import jax
import numpy as np

import seqgp
from experiments.long_run import samplers
from experiments.long_streams import Stream, simulate_stream
from seqgp.reference import online_posterior

SHOWN = "time.lengthscale"


def followed(stream: Stream, who: str, seed: int, particles: int) -> np.ndarray:
    """The 2.5%, 50% and 97.5% quantiles of the parameter after every snapshot: ``(T, 3)``."""
    sampler, _ = samplers(stream.model, who, particles)
    rows = []
    for state, _ in seqgp.steps(jax.random.key(seed), sampler, stream.snapshots, progress=False):
        rows.append(np.quantile(np.asarray(state.parameters[SHOWN]), [0.025, 0.5, 0.975]))
    return np.array(rows)


def exactly(stream: Stream, count: int, points: int) -> np.ndarray:
    """The same quantiles, of the exact posterior after ``count`` snapshots."""
    exact = online_posterior(stream.model, stream.snapshots[:count], points=points, least=0.3)
    values = np.asarray(stream.model.natural(jax.numpy.asarray(exact.z))[SHOWN])
    order = np.argsort(values)
    return np.interp([0.025, 0.5, 0.975], np.cumsum(exact.weights[order]), values[order])


def draw(args: argparse.Namespace) -> None:
    """The figure: a panel for each sampler, the exact posterior in both."""
    from matplotlib.figure import Figure

    stream = simulate_stream(args.kernels[0], args.variants[0], 0, args.n, args.steps)
    checked = np.unique(np.geomspace(min(10, args.steps), args.steps, 6).round().astype(int))
    exact = np.array([exactly(stream, count, args.points) for count in checked])
    print(f"exact {SHOWN} after {checked[-1]} snapshots: " + ", ".join(f"{value:.2f}" for value in exact[-1]))
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels: Any = figure.subplots(1, 2, sharey=True)
    for panel, name in zip(panels, ("online", "sequential")):
        for seed in range(args.seeds):
            low, middle, high = followed(stream, name, seed, args.particles).T
            print(f"{name}, seed {seed}: {low[-1]:.2f}, {middle[-1]:.2f}, {high[-1]:.2f}", flush=True)
            at = np.arange(1, len(middle) + 1)
            panel.fill_between(at, low, high, color=f"C{seed}", alpha=0.25, lw=0)
            panel.plot(at, middle, color=f"C{seed}", lw=1.2, label=f"seed {seed}")
        errors = np.abs(exact[:, [0, 2]] - exact[:, [1]]).T
        panel.errorbar(checked, exact[:, 1], errors, fmt="ko", ms=4, capsize=3, lw=1.2, label="exact")
        title = "OnlineSampler" if name == "online" else "SequentialSampler"
        panel.set(title=title, xlabel="snapshots", ylim=(0, 2.5 * exact[-1, 1]))
        panel.legend(loc="upper right", frameon=False)
    panels[0].set_ylabel(f"{SHOWN}, median and 95%")
    args.figure.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.figure, dpi=150)
