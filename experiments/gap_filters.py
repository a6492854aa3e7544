"""The filters of a simulated network, run over all its data: diagonal plus low rank, two levels, and dense."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments import networks
from experiments.networks import Network
from seqgp.statespace.low_rank import (
    LowRankState,
    SiteData,
    compress,
    compression_metric,
    low_rank_predict,
    low_rank_start,
    low_rank_update,
)
from seqgp.statespace.low_rank_draws import low_rank_to_dense
from seqgp.statespace.modes import Modes, mode_covariance, space_modes
from seqgp.statespace.two_level import two_level_update


class Filtered(NamedTuple):
    """What a run of a filter gave."""

    modes: Modes
    last: LowRankState
    states: LowRankState  # of all steps, stacked
    increments: jax.Array  # (T,) log densities
    folded: jax.Array  # (T,) traces


def low_rank(
    net: Network,
    y: np.ndarray,
    seen: np.ndarray,
    rank: int,
    gaps: int | None = None,
    design: np.ndarray | None = None,
    scales: tuple[float, ...] | np.ndarray = (),
    leading: int | None = None,
    begun: LowRankState | None = None,
    padding: int = 0,
) -> Filtered:
    """The filter over data ``(T, M)``, with columns ``(T, M, q)`` of the mean.

    ``begun`` is a state to go on from; a number of ``leading`` modes makes it the two-level filter.
    """
    m = len(net.x)
    modes, h = space_modes(net.spaces), net.observe
    noise = mode_covariance(net.noises, modes)
    update = low_rank_update if leading is None else two_level_update
    size = int((~seen).sum(axis=1).max()) if gaps is None else gaps
    columns = np.zeros((len(y), m, len(scales))) if design is None else design
    state = low_rank_start(modes, net.stationaries, rank, len(scales), leading or m) if begun is None else begun

    def step(state, inputs):
        y, seen, design, first = inputs
        moved = low_rank_predict(state, net.transition, noise)
        state = jax.tree.map(lambda before, after: jnp.where(first, before, after), state, moved)
        data = SiteData(y, seen, design, np.asarray(float(padding)))
        sd = np.asarray(net.noise)
        state, increment = update(state, modes, h, sd, data, np.asarray(scales, float), size)
        state, folded = compress(state, compression_metric(state, sd, net.stationaries), rank)
        return state, (state, increment, folded)

    first = (np.arange(len(y)) == 0) & (begun is None)
    last, steps = jax.jit(lambda *inputs: jax.lax.scan(step, *inputs))(state, (np.nan_to_num(y), seen, columns, first))
    return Filtered(modes, last, *steps)


def dense(
    net: Network,
    y: np.ndarray,
    seen: np.ndarray,
    design: np.ndarray | None = None,
    scales: tuple[float, ...] | np.ndarray = (),
) -> tuple[networks.DenseKalman, np.ndarray]:
    """The dense filter after all data, and the log increments."""
    filter, increments = networks.DenseKalman(net, scales), []
    for t in range(len(y)):
        if t:
            filter.predict()
        increments.append(filter.update(y[t], seen[t], None if design is None else design[t]))
    return filter, np.array(increments)


def latent(state: LowRankState, modes: Modes, observe: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of the zero-mean part ``f0`` at the sites, from the covariance written out."""
    mean, cov = low_rank_to_dense(state, modes, np.zeros(0))
    show = np.kron(np.asarray(observe)[None], np.eye(modes.vectors.shape[0]))
    return show @ mean, np.diag(show @ cov @ show.T)
