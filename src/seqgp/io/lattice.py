"""The posterior of the latent at the points of a regular grid: what a map shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from seqgp.base.errors import SeqgpError
from seqgp.base.transforms import Transform, transform_of
from seqgp.evaluate.few_particles import with_few_particles
from seqgp.evaluate.marginals import marginal_moments
from seqgp.evaluate.replay import made_ready
from seqgp.io.ground import Ground, box_ground
from seqgp.io.store import Store
from seqgp.model import Model
from seqgp.samplers.base import State
from seqgp.samplers.online.state import OnlineState

BLOCK = 96  # points that are drawn together: only their own mean and sd are wanted
SEED = 0
PARTICLES = 32  # of each of several maps, whose filters are run anew
NODES = 20  # of the quadrature that undoes a transform


class LatticeSurface(NamedTuple):
    """Mean and standard deviation of the latent on a grid, rows along the second input; NaN where it has no point."""

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
    return surface_on(model, state, box_ground(box, cells), draws, transform)


def surface_on(
    model: Model, state: State, ground: Ground, draws: int = 400, transform: Transform | None = None
) -> LatticeSurface:
    """The posterior at the last time of a state, over a grid with covariates; NaN in cells without a point."""
    return _surface(model, state.thinned(draws).ready(model), ground, transform)


def _surface(model: Model, ready: State, ground: Ground, transform: Transform | None) -> LatticeSurface:
    mean, sd = _moments(model, ready, ground, transform)
    return LatticeSurface(ground.axes, ground.spread(mean), ground.spread(sd))


def _moments(model: Model, state: State, ground: Ground, transform: Transform | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd over all draws at each point: exact given the parameters where the state is an online sampler's."""
    points = ground.x
    if isinstance(state, OnlineState):
        mean, variance = marginal_moments(model, state, points, state.t, ground.context)
        if transform is not None:
            mean, variance = _moments_before(transform, mean, variance)
        return mean.mean(axis=0), np.sqrt(variance.mean(axis=0) + mean.var(axis=0))
    padded = np.minimum(np.arange(-(-len(points) // BLOCK) * BLOCK), len(points) - 1).reshape(-1, BLOCK)
    key = jax.random.key(SEED)  # the same noise everywhere and at all times: maps that move do not flicker
    blocks = []
    for rows in padded:
        context = None if ground.context is None else {name: column[rows] for name, column in ground.context.items()}
        predictive = state.predictive(model, points[rows], state.t, context)
        blocks.append(np.asarray(predictive.draws(jax.random.clone(key), model)))
    f = np.concatenate(blocks, axis=1)[:, : len(points)]
    values = f if transform is None else transform.inverse(f)
    return values.mean(axis=0), values.std(axis=0)


def _moments_before(transform: Transform, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of ``T⁻¹(w)`` for a Gaussian ``w``: those of the log-normal distribution, or by quadrature."""
    if transform.logarithm:
        middle = np.exp(mean + 0.5 * variance)
        return middle - transform.offset, np.expm1(variance) * middle**2
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    values = np.stack([transform.inverse(mean + np.sqrt(variance) * node) for node in nodes])
    first = np.tensordot(weights, values, axes=1)
    return first, np.tensordot(weights, np.square(values - first), axes=1)


def surfaces_of(
    source: Any,
    numbers: Sequence[int],
    cells: int,
    model: Model | None = None,
    draws: int = 400,
    ground: Ground | None = None,
) -> dict[int, LatticeSurface]:
    """The surfaces of some steps of a run (counted from 0), where there are two inputs, draws and a model.

    Args:
        source: a ``Run``, or a ``Store``.
        numbers: which of its steps.
        cells: points along each side, at most; without a ground the box is that of all inputs of the run.
        model: the model; a run has it, and a store where it is made of ready-made parts.
        draws: of the posterior of each step, at most.
        ground: a grid, with the covariates of the mean.
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
    if x.shape[1] != 2 or (ground is None and unknown_between(model, x)):
        return {}
    box = list(zip(x.min(axis=0).tolist(), x.max(axis=0).tolist()))
    under = box_ground(box, cells) if ground is None else ground.thinned(cells)
    transform = None if store is None else transform_of(store.manifest.section("data"))
    surfaces: dict[int, LatticeSurface] = {}
    ready: State | None = None
    for i, state in _fewer(states, draws):  # in order: between rejuvenations, filters go on where they were
        ready = made_ready(model, state, ready)
        surfaces[i] = _surface(model, ready, under, transform)
    return surfaces


def _fewer(states: Mapping[int, State], draws: int) -> list[tuple[int, State]]:
    """States that are as good for a map and cost less, in order of time."""
    numbers = sorted(states)
    ordered = [states[i] for i in numbers]
    online = [state for state in ordered if isinstance(state, OnlineState)]
    if len(online) < len(ordered):
        return [(i, states[i].thinned(draws)) for i in numbers]
    return list(zip(numbers, with_few_particles(online, PARTICLES, draws)))


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
