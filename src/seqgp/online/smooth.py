"""The latent at past times given all data so far: a draw of the whole path for each draw of the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Key

from seqgp.filtering.dense import DenseFilter
from seqgp.filtering.observation import Observation, padded, stacked
from seqgp.filtering.smoother import draw_path
from seqgp.linalg.types import Array
from seqgp.models.errors import DataError, SamplerError
from seqgp.models.snapshot import Snapshot, as_floats
from seqgp.online.history import Timeline, dense_filter, laid_out, observation_of, places_of
from seqgp.online.sampler import OnlineSampler
from seqgp.online.state import OnlineState
from seqgp.online.surrogate import SnapshotSurrogate
from seqgp.runtime.engine import compiled, cores, in_threads
from seqgp.samplers.checks import check_key, check_state, positive, require_x64


class Smoothed(NamedTuple):
    """Draws of the level at past times given all data, jointly over times."""

    times: tuple[float, ...]
    x: tuple[np.ndarray, ...]  # where, one array per time
    latent: tuple[Float[np.ndarray, "draws N"], ...]  # f + mean, one array per time


def smooth(
    key: Key[Array, ""],
    sampler: OnlineSampler,
    state: OnlineState,
    times: Sequence[float],
    draws: int | None = None,
) -> Smoothed:
    """Draws of the latent at past times given all data so far.

    Each draw is of a whole path, at its own value of the parameters, so differences between times can be taken.

    Args:
        key: a random key.
        sampler: the online sampler.
        state: its state after the last snapshot.
        times: of snapshots that were seen, or between them; at a time between, the level is given at the inputs of the
            snapshot before it.
        draws: how many, at most those of the state; 200 by default.
    """
    if not isinstance(sampler, OnlineSampler) or not isinstance(state, OnlineState):
        raise SamplerError("smooth: expected an OnlineSampler and its state; other samplers keep no past")
    require_x64()
    check_state(sampler.model, state, "smooth")
    check_key(key)
    found = as_floats(times, "smooth: times")
    if found.ndim != 1 or not found.size:
        raise DataError(f"smooth: times = {times} is not a list of times; for one time give [t]")
    wanted = tuple(found.tolist())
    snapshots, surrogates = _with_times(state, wanted)
    few = state.thinned(min(state.draws, 200 if draws is None else positive("draws", draws)))
    system = sampler.system
    history = laid_out(system, sampler.latent, snapshots, surrogates)
    filter, observations = _one_filter(history)
    z = np.asarray(few.z)[:, list(system.in_cloud)]
    keys = jax.random.split(key, few.draws)
    pieces = np.array_split(np.arange(few.draws), min(cores(), few.draws))
    tasks = [compiled(_paths, filter, observations, keys[piece], z[piece])[0] for piece in pieces]
    paths = np.concatenate([np.asarray(part) for part in in_threads(tasks)])  # (draws, T, sites + coefficients)
    levels, places = [], {snapshot.t: i for i, snapshot in enumerate(snapshots)}
    for t in wanted:
        i = places[t]
        levels.append(_level(history, snapshots[i], paths[:, i], z))
    return Smoothed(wanted, tuple(snapshots[places[t]].x for t in wanted), tuple(levels))


def _with_times(state: OnlineState, wanted: tuple[float, ...]) -> tuple[list[Snapshot], list[SnapshotSurrogate | None]]:
    """All snapshots and their surrogates, with empty ones at times between."""
    seen = {snapshot.t: (snapshot, surrogate) for snapshot, surrogate in zip(state.snapshots, state.surrogates)}
    if state.surrogates[0] is not None and len({one.y.shape for one in state.snapshots}) > 1:
        raise SamplerError(
            "smooth: the number of data changes from time to time, and the likelihood sees all of the latent; pad y "
            "with NaN to one size"
        )
    first, last = state.snapshots[0].t, state.snapshots[-1].t
    for t in wanted:
        if not first <= t <= last:
            raise DataError(f"smooth: t = {t:g} is not between the first and the last time, {first:g} and {last:g}")
        if t not in seen:
            before, surrogate = seen[max(time for time in seen if time < t)]
            seen[t] = Snapshot(t, before.x, np.full_like(before.y, np.nan), before.context), surrogate
    snapshots, surrogates = zip(*(seen[t] for t in sorted(seen)))
    return list(snapshots), list(surrogates)


def _one_filter(history: Timeline) -> tuple[DenseFilter, Observation]:
    """All snapshots for one dense filter, on the sites of the last one."""
    layout, system = history.layout, history.system
    filter = dense_filter(system, layout, len(layout.x))
    times = [snapshot.t for snapshot in history.snapshots]
    each = [
        observation_of(system, layout, s, s.t - t, surrogate)
        for s, t, surrogate in zip(history.snapshots, [times[0], *times], history.surrogates)
    ]
    size = max(len(one.y) for one in each)
    return filter, stacked([padded(one, size) for one in each])


def _paths(filter: DenseFilter, observations: Observation, keys, z):
    def one(inputs):
        key, z = inputs
        environment = filter.environment(z)
        path = draw_path(key, filter, environment, observations)
        return filter.shown(environment, path)

    return jax.lax.map(one, (keys, z))


def _level(history: Timeline, snapshot: Snapshot, rows: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The level at the inputs of a snapshot, from the latent at the sites and the coefficients of the mean."""
    system, layout = history.system, history.layout
    places = places_of(layout, snapshot.x)
    sites = rows.shape[1] - len(system.in_state)
    columns = system.columns(snapshot.t, snapshot.x, snapshot.context)
    run, _ = compiled(_offsets, system, columns, z)
    fixed = np.asarray(run())
    return np.asarray(places.of(rows[:, :sites])) + fixed + rows[:, sites:] @ np.asarray(system.design(columns)).T


def _offsets(system, columns, z):
    return jax.vmap(lambda one: system.offset(system.parameters(one), columns))(z)
