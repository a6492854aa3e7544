"""The posterior of the latent at the points of a regular grid: what a map shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from seqgp.models.model import Model
from seqgp.samplers.protocol import State

DRAWS = 100  # of the posterior, evenly spread over those there are
BLOCK = 96  # points that are drawn together: only their own mean and sd are wanted
SEED = 0


class Surface(NamedTuple):
    """Mean and standard deviation of the latent on a grid, rows along the second input."""

    axes: tuple[np.ndarray, np.ndarray]
    mean: Float[np.ndarray, "b a"]
    sd: Float[np.ndarray, "b a"]


def surface_of(model: Model, state: State, box: Sequence[tuple[float, float]], cells: int) -> Surface:
    """The posterior at the last time of a state, over a box of two inputs.

    Args:
        model: the model.
        state: the draws.
        box: for each input its least and largest value.
        cells: points along each side.
    """
    axes = (np.linspace(*box[0], cells), np.linspace(*box[1], cells))
    points = np.stack(np.meshgrid(*axes, indexing="xy"), axis=-1).reshape(-1, 2)
    padded = np.concatenate([points, np.repeat(points[-1:], -len(points) % BLOCK, axis=0)])
    few = state.thinned(DRAWS)
    key = jax.random.key(SEED)  # the same noise everywhere and at all times: maps that move do not flicker
    levels = [
        np.asarray(few.predictive(model, block, few.t).draws(key, model)) for block in padded.reshape(-1, BLOCK, 2)
    ]
    level = np.concatenate(levels, axis=1)[:, : len(points)]
    shape = (cells, cells)
    return Surface(axes, level.mean(axis=0).reshape(shape), level.std(axis=0).reshape(shape))
