"""The filters of all particles: compiled once, in groups on all cores, and on all processes of ``jax.distributed``.

A particle's filter depends on its own ``z`` and the data alone, so filters can always be made again from
values of ``z`` and a history. They are run in chunks whose sizes follow from the number of steps, so that they
then come out the same, bit for bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from seqgp.linalg.types import Array
from seqgp.runtime.engine import compiled, cores, in_threads
from seqgp.runtime.parallel import gathered, placed, share, spread
from seqgp.samplers.online.history import Timeline
from seqgp.samplers.online.layout import operator_of
from seqgp.samplers.online.programs import (
    SharedMatrices,
    begin_filters,
    begin_shared,
    convert_filters,
    convert_to_shared,
    matrices_at,
    parameters_of,
    run_snapshots,
    shared_matrices,
    shares,
    space_entries,
    with_room,
)
from seqgp.statespace.dense import DenseFilter
from seqgp.statespace.observation import Observation, stacked
from seqgp.statespace.protocol import Filter
from seqgp.statespace.snapshot_ep import SHORTFALL

SNAPSHOTS_PER_CALL = 8  # snapshots per call where many are run through
LANES = 16  # groups are of whole bundles: what a processor computes at once must not depend on their number


class Filters(NamedTuple):
    """Matrices and states of the filters of this process's particles, in groups of consecutive ones."""

    groups: tuple[tuple[PyTree, PyTree], ...]
    segment: int  # of the history, whose filter they belong to
    keys: Float[np.ndarray, "S J"] | None = None  # the space entries of each z, where eigenvectors may be shared


class Spent(NamedTuple):
    """What running filters cost."""

    filter_steps: int = 0  # per particle
    compile_seconds: float = 0.0

    def __add__(self, other: Any) -> Spent:
        """Costs added up."""
        return Spent(self.filter_steps + other.filter_steps, self.compile_seconds + other.compile_seconds)


def run_filters(history: Timeline, z: Float[np.ndarray, "S d"], steps: int) -> tuple[Filters, np.ndarray, Spent]:
    """Filters for new values of ``z``, run over the first ``steps`` snapshots, and their log evidence increments."""
    return _run_calls(history, started(history, z), _calls(history, 0, steps), len(z))


def run_further(
    history: Timeline, filters: Filters, done: int, most: int, count: int
) -> tuple[Filters, np.ndarray, Spent]:
    """The filters of ``count`` particles after the first ``done`` snapshots, run over at most ``most`` more of them.

    Snapshots are called for in the same runs as by ``run_filters``, which gives the same filters, bit for bit.
    """
    last, end, calls, number = history.segments[-1], len(history.snapshots), [], 0
    for call in _calls(history, done, end):
        size, at = len(call[1]), done + number
        waits = size < SNAPSHOTS_PER_CALL and at >= last.first and end - at < SNAPSHOTS_PER_CALL
        if number + (end - at if waits else size) > most:  # the last few go one by one, all in one step
            break
        calls.append(call)
        number += size
    return _run_calls(history, filters, calls, count)


def started(history: Timeline, z: Float[np.ndarray, "S d"]) -> Filters:
    """Filters for new values of ``z``, before any data."""
    mine, filter = z[share(len(z))], history.segments[0].filter
    parts, entries = particle_slices(len(mine)), space_entries(filter.ssm)
    keys = None if entries is None else mine[:, list(entries)]
    if keys is None or not shares(filter, keys):
        tasks = [compiled(begin_filters, filter, placed(mine[part], len(mine)))[0] for part in parts]
        return Filters(tuple(in_threads(tasks)), 0, keys)
    shared = [
        shared_matrices(filter, compiled(parameters_of, filter.ssm, mine[part])[0](), keys[part]) for part in parts
    ]
    states = in_threads([compiled(begin_shared, filter, one)[0] for one in shared])
    return Filters(tuple(zip(shared, states)), 0, keys)


def _run_calls(
    history: Timeline, filters: Filters, calls: Iterable[tuple[int, tuple[Observation, ...]]], count: int
) -> tuple[Filters, np.ndarray, Spent]:
    increments, spent = [np.zeros((sum(_sizes(filters)), 0))], Spent()
    for number, observations in calls:
        while filters.segment < number:
            filters, seconds = _converted(filters, history, filters.segment + 1)
            spent += Spent(0, seconds)
        filters, found, cost = _advanced(filters, history.segments[number].filter, stacked(list(observations)))
        increments.append(found)
        spent += cost
    return filters, gathered(np.concatenate(increments, axis=1), count), spent


def _calls(history: Timeline, done: int, until: int) -> Iterator[tuple[int, tuple[Observation, ...]]]:
    """Segments and snapshots of each call, from the snapshot after the first ``done`` on."""
    for number, segment in enumerate(history.segments):
        if segment.first >= until:
            return
        for call in _chunks(segment.observations[max(done - segment.first, 0) : until - segment.first]):
            yield number, call


def advanced(history: Timeline, filters: Filters) -> tuple[Filters, Float[np.ndarray, " S"], Spent]:
    """The filters given the last snapshot of the history, and its log density for each particle."""
    last, seconds = len(history.segments) - 1, 0.0
    while filters.segment < last:
        filters, more = _converted(filters, history, filters.segment + 1)
        seconds += more
    segment = history.segments[last]
    filters, increments, cost = _advanced(filters, segment.filter, stacked([segment.observations[-1]]))
    return filters, gathered(increments[:, 0], particle_count(filters)), cost + Spent(0, seconds)


class Fault(NamedTuple):
    """Why a filter has no answer to a snapshot."""

    kind: int  # an index of FAULTS
    row: int | None  # of the snapshot; ``None`` where rows are summed up before the filter sees them


def fault_of(history: Timeline, z: Float[np.ndarray, "1 d"]) -> Fault | None:
    """What is wrong with the last snapshot for one particle; ``None`` where nothing is found, or looked for."""
    filter, observation = history.filter, history.segments[-1].observations[-1]
    if observation.line is not None:
        return None
    filters, _, _ = run_filters(history, z, len(history.snapshots) - 1)
    while filters.segment < len(history.segments) - 1:
        filters, _ = _converted(filters, history, filters.segment + 1)
    found = np.asarray(compiled(_faults, filter, observation, *filter_of(filters, 0, filter))[0]())
    if not found.any():
        return None
    x = history.snapshots[-1].x
    if not isinstance(filter, DenseFilter):  # rows are in the order of the sites
        found = found[operator_of(history.layout, x).index]
    elif observation.left_over > 0:
        return Fault(int(found.max()), None)
    return Fault(int(found[np.argmax(found > 0)]), int(np.argmax(found > 0)))


def _faults(filter: Filter, observation: Observation, matrices, state):
    state = filter.predict(matrices, state, observation.dt)
    dense, dense_matrices, dense_state = filter.as_dense(matrices, state)
    found = dense.faults(dense_matrices, dense_state, observation)
    assert found is not None
    if isinstance(filter, DenseFilter):
        return found
    # What is wrong with all modes together is laid at the datum that is predicted with the least variance.
    _, increment = filter.update(matrices, state, observation)
    wrong = jnp.isnan(increment) & jnp.all(jnp.isfinite(dense_state.covariance)) & ~jnp.any(found > 0)
    design = jnp.asarray(observation.design)
    f = dense.at_data(dense_matrices, dense_state, observation.operator, design, jnp.zeros(len(design)), observation.t)
    variance = jnp.where(observation.seen, jnp.diagonal(f.covariance)[design.shape[1] :], jnp.inf)
    return jnp.where(wrong & (jnp.arange(len(variance)) == jnp.argmin(variance)), SHORTFALL, found)


def chosen(filters: Filters, index: np.ndarray) -> Filters:
    """The filters of other particles: those of an index."""
    mine = index[share(len(index))]

    def of_index(leaf):
        return leaf[mine]

    keys = None if filters.keys is None else filters.keys[mine]
    if _shared(filters):
        plain, place, bases = _laid_open(filters)
        return _assembled(jax.tree.map(of_index, plain), place[mine], bases, filters.segment, keys)
    whole = gathered(_joined(filters.groups), particle_count(filters))
    return _split(jax.tree.map(of_index, whole), len(mine), filters.segment, keys)


def either(take: np.ndarray, new: Filters, old: Filters) -> Filters:
    """The new filter of each particle where ``take`` says so, otherwise the old one."""
    mine = take[share(len(take))]

    def mixed(a, b):
        return np.where(mine.reshape(-1, *[1] * (np.ndim(a) - 1)), a, b)

    keys = None if new.keys is None or old.keys is None else mixed(new.keys, old.keys)
    if _shared(new):
        (one, place, bases), (other, old_place, old_bases) = _laid_open(new), _laid_open(old)
        places = mixed(place, old_place + len(bases))
        return _assembled(jax.tree.map(mixed, one, other), places, bases + old_bases, new.segment, keys)
    return _split(jax.tree.map(mixed, _joined(new.groups), _joined(old.groups)), len(mine), new.segment, keys)


def _shared(filters: Filters) -> bool:
    return isinstance(filters.groups[0][0], SharedMatrices)


def _laid_open(filters: Filters) -> tuple[PyTree, np.ndarray, list[Array]]:
    """Parameters and states of all particles, and the place of each among the bases of all groups."""
    plain, places, bases = [], [], []
    for matrices, state in filters.groups:
        plain.append((matrices.parameters, state))
        places.append(np.asarray(matrices.place) + len(bases))
        bases += matrices.bases
    return _joined(tuple(plain)), np.concatenate(places), bases


def _assembled(plain: PyTree, place: np.ndarray, bases: list[Array], segment: int, keys: np.ndarray | None) -> Filters:
    groups = []
    for part in particle_slices(len(place)):
        parameters, state = jax.tree.map(lambda leaf: leaf[part], plain)  # noqa: B023
        groups.append((with_room(parameters, place[part], bases), state))
    return Filters(tuple(groups), segment, keys)


def particle_count(filters: Filters) -> int:
    """The number of particles, of all processes."""
    return int(np.sum(_sizes(filters))) * jax.process_count()


def group_bounds(filters: Filters) -> np.ndarray:
    """The first particle of each group of this process, and the one after the last."""
    return share(particle_count(filters)).start + np.cumsum([0, *_sizes(filters)])


def filter_of(filters: Filters, particle: int, filter: Filter | None = None) -> tuple[PyTree, PyTree]:
    """Matrices and state of one particle; the filter is needed where particles share eigenvectors."""
    ends = np.cumsum(_sizes(filters))
    process, place = divmod(particle, int(ends[-1]))
    group = int(np.searchsorted(ends, place, side="right"))
    matrices, state = filters.groups[group]
    if isinstance(matrices, SharedMatrices):
        at = place - int(ends[group])
        return matrices_at(filter, matrices, at), jax.tree.map(lambda leaf: np.asarray(leaf)[at], state)
    # Each process offers the filter in that place; the one that is asked for is taken.
    offered = jax.tree.map(lambda leaf: np.asarray(leaf)[place - ends[group]][None], (matrices, state))
    return jax.tree.map(lambda leaf: leaf[process], gathered(offered, jax.process_count()))


def _sizes(filters: Filters) -> list[int]:
    return [len(jax.tree.leaves(state)[0]) for _, state in filters.groups]


def _converted(filters: Filters, history: Timeline, number: int) -> tuple[Filters, float]:
    before, after = history.segments[number - 1].filter, history.segments[number].filter
    keys = filters.keys
    if keys is None or not shares(after, keys):
        runs = [compiled(convert_filters, before, after, *group) for group in filters.groups]
        groups = tuple(in_threads([run for run, _ in runs]))
        return Filters(groups, number, keys), sum(seconds for _, seconds in runs)
    parts, runs, shared = particle_slices(len(keys)), [], []
    for part, (matrices, states) in zip(parts, filters.groups):
        shared.append(shared_matrices(after, matrices.parameters, keys[part]))
        runs.append(compiled(convert_to_shared, before, after, matrices, states, shared[-1]))
    found = in_threads([run for run, _ in runs])
    return Filters(tuple(zip(shared, found)), number, keys), sum(seconds for _, seconds in runs)


def _advanced(filters: Filters, filter: Filter, observations: Observation) -> tuple[Filters, np.ndarray, Spent]:
    runs = [compiled(run_snapshots, filter, observations, *group) for group in filters.groups]
    results = in_threads([run for run, _ in runs])
    groups = tuple((matrices, state) for (matrices, _), (state, _) in zip(filters.groups, results))
    found = np.concatenate([np.asarray(increments) for _, increments in results])
    spent = Spent(found.shape[1], sum(seconds for _, seconds in runs))
    return filters._replace(groups=groups), np.where(np.isnan(found), -np.inf, found), spent


def _chunks(observations: tuple[Observation, ...]):
    """Runs of ``SNAPSHOTS_PER_CALL`` snapshots of one shape, and single ones."""
    i = 0
    while i < len(observations):
        run = observations[i : i + SNAPSHOTS_PER_CALL]
        size = SNAPSHOTS_PER_CALL if len(run) == SNAPSHOTS_PER_CALL and len({_shape(one) for one in run}) == 1 else 1
        yield observations[i : i + size]
        i += size


def _shape(observation: Observation) -> tuple:
    return tuple(np.shape(leaf) for leaf in jax.tree.leaves(observation))


def particle_slices(count: int) -> list[slice]:
    """A group a core, or one over all devices. Draws are the same, bit for bit, however many cores there are."""
    if spread(count):
        return [slice(0, count)]
    bundles = -(-count // LANES)
    bounds = np.linspace(0, bundles, min(cores(), bundles) + 1).round().astype(int) * LANES
    bounds[-1] = count
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(bounds)]


def _joined(groups: tuple[PyTree, ...]) -> PyTree:
    # By NumPy: JAX would compile each slice and concatenation of its own.
    return jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *groups)


def _split(whole: object, count: int, segment: int, keys: np.ndarray | None) -> Filters:
    groups = (jax.tree.map(lambda leaf: leaf[part], whole) for part in particle_slices(count))  # noqa: B023
    return Filters(tuple(placed(group, count) for group in groups), segment, keys)
