"""The posterior of the latent at the points of a regular grid: what a map shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from seqgp.base.errors import SeqgpError
from seqgp.base.transforms import Transform, transform_of
from seqgp.evaluate.marginals import marginal_moments
from seqgp.io.store import Store
from seqgp.model import Model
from seqgp.samplers.base import State
from seqgp.samplers.online.state import OnlineState

BLOCK = 96  # points that are drawn together: only their own mean and sd are wanted
SEED = 0
NODES = 20  # of the quadrature that undoes a transform


class LatticeSurface(NamedTuple):
    """Mean and standard deviation of the latent on a grid, rows along the second input."""

    axes: tuple[np.ndarray, np.ndarray]
    mean: Float[np.ndarray, "b a"]
    sd: Float[np.ndarray, "b a"]


def surface_of(
    model: Model,
    state: State,
    box: Sequence[tuple[float, float]],
    cells: int,
    draws: int = 400,
    transform: Transform | None = None,
) -> LatticeSurface:
    """The posterior at the last time of a state, over a box of two inputs.

    Args:
        model: the model.
        state: the draws.
        box: for each input its least and largest value.
        cells: points along each side.
        draws: of the posterior, evenly spread over those there are.
        transform: that of the data; the surface is in the units that they had before.
    """
    axes = (np.linspace(*box[0], cells), np.linspace(*box[1], cells))
    points = np.stack(np.meshgrid(*axes, indexing="xy"), axis=-1).reshape(-1, 2)
    few = state.thinned(draws).ready(model)
    mean, sd = _moments(model, few, points, transform)
    return LatticeSurface(axes, mean.reshape(cells, cells), sd.reshape(cells, cells))


def _moments(
    model: Model, state: State, points: Float[np.ndarray, "n 2"], transform: Transform | None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd over all draws at each point: exact given the parameters where the state is an online sampler's."""
    if isinstance(state, OnlineState):
        mean, variance = marginal_moments(model, state, points, state.t)
        if transform is not None:
            mean, variance = _moments_before(transform, mean, variance)
        return mean.mean(axis=0), np.sqrt(variance.mean(axis=0) + mean.var(axis=0))
    padded = np.concatenate([points, np.repeat(points[-1:], -len(points) % BLOCK, axis=0)])
    key = jax.random.key(SEED)  # the same noise everywhere and at all times: maps that move do not flicker
    blocks = [
        np.asarray(state.predictive(model, block, state.t).draws(jax.random.clone(key), model))
        for block in padded.reshape(-1, BLOCK, 2)
    ]
    f = np.concatenate(blocks, axis=1)[:, : len(points)]
    values = f if transform is None else transform.inverse(f)
    return values.mean(axis=0), values.std(axis=0)


def _moments_before(transform: Transform, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of ``T⁻¹(w)`` for a Gaussian ``w``, by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    values = np.stack([transform.inverse(mean + np.sqrt(variance) * node) for node in nodes])
    first = np.tensordot(weights, values, axes=1)
    return first, np.tensordot(weights, np.square(values - first), axes=1)


def surfaces_of(
    source: Any, numbers: Sequence[int], cells: int, model: Model | None = None, draws: int = 400
) -> dict[int, LatticeSurface]:
    """The surfaces of some steps of a run (counted from 0), where there are two inputs, draws and a model.

    Args:
        source: a ``Run``, or a :class:`Store`.
        numbers: which of its steps.
        cells: points along each side; the box is that of all inputs of the run.
        model: the model; a run has it, and a store where it is made of ready-made parts.
        draws: of the posterior of each step, at most.
    """
    run: Any = source  # Store has neither state nor snapshot
    store = run if isinstance(source, Store) else run.store
    model = model or source.model
    if model is None:
        return {}
    if store is None:
        snapshots, states = [run.snapshot], {0: run.state}
    else:
        steps = store.standing()
        snapshots = [step.snapshot for step in steps]
        states = {i: steps[i].state for i in numbers if steps[i].whole}
    x = np.concatenate([snapshot.x for snapshot in snapshots])
    if x.shape[1] != 2 or unknown_between(model, x):
        return {}
    box = list(zip(x.min(axis=0).tolist(), x.max(axis=0).tolist()))
    transform = None if store is None else transform_of(store.manifest.section("data"))
    return {i: surface_of(model, state, box, cells, draws, transform) for i, state in states.items() if i in numbers}


def unknown_between(model: Model, x: Float[np.ndarray, "n D"]) -> str:
    """Why the latent is not known between the locations, in words; empty where it is."""
    low, high = x.min(axis=0), x.max(axis=0)
    between = (low + 0.37 * (high - low))[None, :]  # no place of its own, such as the middle of two outputs
    try:
        model.kernel.check_inputs(between)
    except SeqgpError:
        return "its kernel takes no inputs between theirs"
    if model.mean_function.from_context:
        return (
            f"covariates of its mean ({', '.join(model.mean_function.from_context)}) are known at the locations alone"
        )
    return ""
