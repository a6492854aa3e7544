"""The latent function at past times given all data so far: one draw of its whole path per draw of the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key

from seqgp.base.errors import DataError, SamplerError
from seqgp.base.snapshot import Context, Snapshot, as_context, as_floats, as_inputs
from seqgp.base.validation import positive, require_x64
from seqgp.kernels.spatial import check_globe
from seqgp.linalg.types import Array
from seqgp.runtime.engine import compiled, cores, in_threads
from seqgp.samplers.online.black_box import with_table
from seqgp.samplers.online.budget import check_paths
from seqgp.samplers.online.history import Timeline, build_timeline
from seqgp.samplers.online.layout import dense_filter, new_rows, observation_of, operator_of
from seqgp.samplers.online.network import network_filter
from seqgp.samplers.online.quadratics import LinearisedSnapshot
from seqgp.samplers.online.sampler import OnlineSampler
from seqgp.samplers.online.smooth_delayed import draws_of_the_past
from seqgp.samplers.online.smooth_exact import paths_of_the_past
from seqgp.samplers.online.state import OnlineState
from seqgp.samplers.validation import check_key, check_state
from seqgp.statespace.dense import DenseFilter
from seqgp.statespace.network import NetworkFilter, draw_network_path
from seqgp.statespace.observation import Observation, padded, stacked
from seqgp.statespace.smoother import draw_at_inputs, draw_path

DRAWS = 200  # of paths, by default


class Smoothed(NamedTuple):
    """Draws of the latent function at past times given all data, jointly over times and inputs."""

    times: tuple[float, ...]
    x: tuple[np.ndarray, ...]  # the inputs, one array per time
    latent: tuple[Float[np.ndarray, "draws N"], ...]  # f with its mean, one array per time

    def __repr__(self) -> str:
        times = ", ".join(f"{t:g}" for t in self.times)
        return f"Smoothed(times=({times}): {len(self.latent[0])} draws of f at each)"


def smooth(
    key: Key[Array, ""],
    sampler: OnlineSampler,
    state: OnlineState,
    times: Sequence[float],
    x: object = None,
    draws: int | None = None,
    context: Context = None,
) -> Smoothed:
    """Draws of the latent function at past times given all data so far.

    Each draw is one path of the latent function at one value of the parameters, so you can take differences between
    times or places draw by draw. With ``paths=`` the draws are weighted paths, without the error of EP (not for
    ``seqgp.Delayed``).

    Args:
        key: a random key.
        sampler: the online sampler.
        state: its state after the last snapshot.
        times: any times from the first snapshot to the last one.
        x: inputs anywhere in space, ``(n, D)``; by default those of the snapshot at each time (at a time between
            snapshots, those of the snapshot before it).
        draws: the number of draws, at most that of the state; 200 by default.
        context: with ``x``, the covariates that the mean takes from the context, at ``x``; a function of ``t`` where
            they change in time.
    """
    if not isinstance(sampler, OnlineSampler) or not isinstance(state, OnlineState):
        raise SamplerError("smooth: expected an OnlineSampler and its state; other samplers keep no past")
    require_x64()
    check_state(sampler.model, state, "smooth")
    check_key(key)
    wanted = _checked_times(times)
    inputs = None if x is None else _checked_inputs(sampler, state, x)
    if inputs is None and context is not None:
        raise DataError("smooth: context is given without x; at the data, each snapshot has its own")
    snapshots, linearised_snapshots = _with_times(state, wanted)
    few = state.thinned(min(state.draws, DRAWS if draws is None else positive("draws", draws)))
    z, moments = np.asarray(few.z)[:, list(sampler.ssm.in_particles)], np.unique(wanted)
    if sampler.model.kernel.delayed:
        asked = _asked(snapshots, moments, inputs, context)
        found = dict(zip(asked, draws_of_the_past(key, sampler.ssm, snapshots, z, list(asked.values()))))
        return Smoothed(wanted, tuple(asked[t].x for t in wanted), tuple(found[t] for t in wanted))
    history = build_timeline(sampler.ssm, sampler.latent, snapshots, linearised_snapshots, plan=state.plan)
    if sampler.model.likelihood.by_station:  # with the ratios of stations
        z = np.asarray(few.particles.z)[few.particle]
    asked = _asked(history.snapshots, moments, inputs, context)
    fresh = None if inputs is None or history.layout.knots is not None else new_rows(history.layout.x, inputs)
    fresh = fresh if fresh is not None and len(fresh) else None
    if state.correction is None:
        paths = _paths(key, history, z, moments, fresh)
    else:
        index = np.searchsorted([snapshot.t for snapshot in history.snapshots], moments)
        z, paths = paths_of_the_past(key, history, state, index, moments, fresh, len(z))
    found = {t: _latent(history, at, fresh, paths[:, i], z) for i, (t, at) in enumerate(asked.items())}
    return Smoothed(wanted, tuple(asked[t].x for t in wanted), tuple(found[t] for t in wanted))


def _checked_times(times: object) -> tuple[float, ...]:
    found = as_floats(times, "smooth: times")
    if found.ndim != 1 or not found.size:
        raise DataError(f"smooth: times = {times} is not a list of times; for one time give [t]")
    return tuple(found.tolist())


def _checked_inputs(sampler: OnlineSampler, state: OnlineState, x: object) -> Float[np.ndarray, "n D"]:
    found = as_inputs(x, "smooth: x")
    if found.ndim != 2 or 0 in found.shape:
        raise DataError(f"smooth: x has shape {found.shape}, expected (n, D)")
    if not np.isfinite(found).all():
        raise DataError("smooth: x has values that are not finite")
    if found.shape[1] != state.dimension:
        raise DataError(f"smooth: x has {found.shape[1]} columns, but the data have {state.dimension}")
    sampler.model.kernel.check_inputs(found)
    check_globe(sampler.model.kernel, found)
    return found


class _Asked(NamedTuple):
    """What is asked for at one time."""

    t: float
    x: np.ndarray
    context: Context


def _asked(
    snapshots: Sequence[Snapshot], times: np.ndarray, x: np.ndarray | None, context: Context
) -> dict[float, _Asked]:
    if x is not None:
        every = {t: as_context(context(t) if callable(context) else context) for t in times.tolist()}
        return {t: _Asked(t, x, own) for t, own in every.items()}
    seen = {snapshot.t: snapshot for snapshot in snapshots}
    return {t: _Asked(t, seen[t].x, seen[t].context) for t in times.tolist()}


def _with_times(
    state: OnlineState, wanted: tuple[float, ...]
) -> tuple[list[Snapshot], list[LinearisedSnapshot | None]]:
    """All snapshots and their linearisations, with empty ones at times between."""
    seen = {
        snapshot.t: (snapshot, linearised) for snapshot, linearised in zip(state.snapshots, state.linearised_snapshots)
    }
    if state.linearised_snapshots[0] is not None and len({one.y.shape for one in state.snapshots}) > 1:
        raise SamplerError(
            "smooth: the number of data changes from time to time, and the likelihood sees all of the latent; pad y "
            "with NaN to one size"
        )
    first, last = state.snapshots[0].t, state.snapshots[-1].t
    for t in wanted:
        if not first <= t <= last:
            raise DataError(f"smooth: t = {t:g} is not between the first and the last time, {first:g} and {last:g}")
        if t not in seen:
            before, linearised = seen[max(time for time in seen if time < t)]
            seen[t] = Snapshot(t, before.x, np.full_like(before.y, np.nan), before.context), linearised
    snapshots, linearised_snapshots = zip(*(seen[t] for t in sorted(seen)))
    return list(snapshots), list(linearised_snapshots)


def _one_filter(history: Timeline) -> tuple[DenseFilter | NetworkFilter, Observation]:
    """All snapshots for one filter on the sites of the last one: dense, or of low rank as that of the last one."""
    layout, ssm = history.layout, history.ssm
    times = [snapshot.t for snapshot in history.snapshots]
    each = [
        observation_of(ssm, layout, s, s.t - t, linearised)
        for s, t, linearised in zip(history.snapshots, [times[0], *times], history.linearised_snapshots)
    ]
    if isinstance(history.filter, NetworkFilter):
        network = network_filter(ssm, layout.x, len(layout.x), history.plan, (), None)
        laid = [network.sized(one) for one in each]
        room = max(np.size(np.asarray(one.gaps)) for one in laid)
        return network, stacked([one._replace(gaps=np.zeros(room, bool)) for one in laid])
    size = max(len(one.y) for one in each)
    return dense_filter(ssm, layout, len(layout.x)), stacked([with_table(ssm, padded(one, size)) for one in each])


def _paths(
    key: Key[Array, ""], history: Timeline, z: np.ndarray, times: np.ndarray, fresh: np.ndarray | None
) -> Float[np.ndarray, "draws T k"]:
    """For each draw and time the latent at sites, at fresh inputs, and the coefficients of the mean, side by side."""
    filter, observations = _one_filter(history)
    check_paths(filter, len(history.snapshots), 0 if fresh is None else len(fresh))
    index = np.searchsorted([snapshot.t for snapshot in history.snapshots], times)
    keys = jax.random.split(key, len(z))
    pieces = np.array_split(np.arange(len(z)), min(cores(), len(z)))
    tasks = [
        compiled(_draw_paths, filter, observations, index, times, fresh, keys[piece], z[piece])[0] for piece in pieces
    ]
    return np.concatenate([np.asarray(part) for part in in_threads(tasks)])


def _draw_paths(filter: DenseFilter | NetworkFilter, observations: Observation, index, times, fresh, keys, z):
    dense = filter.dense if isinstance(filter, NetworkFilter) else filter

    def one(inputs):
        key, z = inputs
        key_path, key_fresh = jax.random.split(key)
        matrices = dense.matrices(z)
        if isinstance(filter, NetworkFilter):
            path = draw_network_path(key_path, filter, filter.matrices(z), observations)[index]
        else:
            path = draw_path(key_path, filter, matrices, observations)[index]
        shown = dense.shown(matrices, path, times)
        if fresh is None:
            return shown
        more = draw_at_inputs(key_fresh, dense, matrices, path, times, fresh)
        return jnp.concatenate([shown[:, : dense.sites], more, shown[:, dense.sites :]], axis=1)

    return jax.lax.map(one, (keys, z))


def _latent(history: Timeline, at: _Asked, fresh: np.ndarray | None, rows: np.ndarray, z: np.ndarray) -> np.ndarray:
    """``f`` at the inputs asked for, from its zero-mean part at sites and fresh inputs, and from the mean."""
    ssm, layout = history.ssm, history.layout
    if fresh is not None:
        layout = layout._replace(x=np.concatenate([layout.x, fresh]))
    operator = operator_of(layout, at.x)
    known = rows.shape[1] - len(ssm.in_state)
    columns = ssm.columns(at.t, at.x, at.context)
    run, _ = compiled(_offsets, ssm, columns, z)
    fixed = np.asarray(run())
    return np.asarray(operator.of(rows[:, :known])) + fixed + rows[:, known:] @ np.asarray(ssm.design(columns)).T


def _offsets(ssm, columns, z):
    return jax.vmap(lambda one: ssm.offset(ssm.parameters(one), columns))(z)
