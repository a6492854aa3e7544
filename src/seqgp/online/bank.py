"""The filters of all particles: compiled once, in groups on all cores, and on all processes of ``jax.distributed``.

A particle's filter depends on its own ``z`` and the data alone, so a bank can always be made again from values of ``z``
and a history. It is run in chunks whose sizes follow from the number of steps, so that it then comes out the same, bit
for bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from seqgp.filtering.dense import DenseFilter
from seqgp.filtering.observation import Observation, Where, stacked
from seqgp.filtering.protocol import Filter
from seqgp.online.history import Segment, Timeline
from seqgp.runtime.devices import on_each, placed, spread
from seqgp.runtime.engine import compiled, cores, in_threads
from seqgp.runtime.processes import gathered, share

CHUNK = 16  # snapshots per call where many are run through
LANES = 16  # groups are of whole bundles: what a processor computes at once must not depend on their number


class Bank(NamedTuple):
    """Environments and states of the filters of this process's particles, in groups of consecutive ones."""

    groups: tuple[tuple[Any, Any], ...]
    segment: int  # of the history, whose filter they belong to


class Spent(NamedTuple):
    """What running filters cost."""

    filter_steps: int = 0  # per particle
    compile_seconds: float = 0.0

    def __add__(self, other: Any) -> Spent:
        """Costs added up."""
        return Spent(self.filter_steps + other.filter_steps, self.compile_seconds + other.compile_seconds)


def born(history: Timeline, z: Float[np.ndarray, "S d"], steps: int) -> tuple[Bank, np.ndarray, Spent]:
    """Filters for new values of ``z``, run over the first ``steps`` snapshots, and their log evidence increments."""
    mine = z[share(len(z))]
    bank, spent = _started(history.segments[0], mine), Spent()
    increments = [np.zeros((len(mine), 0))]
    for number, segment in enumerate(history.segments):
        if segment.first >= steps:
            break
        if number:
            bank, seconds = _converted(bank, history, number)
            spent += Spent(0, seconds)
        observations = segment.observations[: steps - segment.first]
        for chunk in _chunks(observations):
            bank, found, cost = _advanced(bank, segment.filter, stacked(list(chunk)))
            increments.append(found)
            spent += cost
    return bank, gathered(np.concatenate(increments, axis=1), len(z)), spent


def advanced(history: Timeline, bank: Bank) -> tuple[Bank, Float[np.ndarray, " S"], Spent]:
    """The filters given the last snapshot of the history, and its log density for each particle."""
    last, seconds = len(history.segments) - 1, 0.0
    while bank.segment < last:
        bank, more = _converted(bank, history, bank.segment + 1)
        seconds += more
    segment = history.segments[last]
    bank, increments, cost = _advanced(bank, segment.filter, stacked([segment.observations[-1]]))
    return bank, gathered(increments[:, 0], particle_count(bank)), cost + Spent(0, seconds)


def chosen(bank: Bank, index: np.ndarray) -> Bank:
    """The filters of other particles: those of an index."""
    whole, mine = gathered(_joined(bank), particle_count(bank)), index[share(len(index))]
    return _split(jax.tree.map(lambda leaf: leaf[mine], whole), len(mine), bank.segment)


def either(take: np.ndarray, new: Bank, old: Bank) -> Bank:
    """The new filter of each particle where ``take`` says so, otherwise the old one."""
    groups, mine = [], take[share(len(take))]
    for part, one, other in zip(_slices(len(mine)), new.groups, old.groups):
        mask = mine[part]
        groups.append(
            jax.tree.map(lambda a, b: np.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b), one, other)  # noqa: B023
        )
    return Bank(tuple(placed(group, len(mine)) for group in groups), new.segment)


def particle_count(bank: Bank) -> int:
    """The number of particles, of all processes."""
    return int(np.sum(_sizes(bank))) * jax.process_count()


def group_bounds(bank: Bank) -> np.ndarray:
    """The first particle of each group of this process, and the one after the last."""
    return share(particle_count(bank)).start + np.cumsum([0, *_sizes(bank)])


def filter_of(bank: Bank, particle: int) -> tuple[Any, Any]:
    """Environment and state of one particle."""
    ends = np.cumsum(_sizes(bank))
    process, place = divmod(particle, int(ends[-1]))
    group = int(np.searchsorted(ends, place, side="right"))
    # Each process offers the filter in that place; the one that is asked for is taken.
    offered = jax.tree.map(lambda leaf: np.asarray(leaf)[place - ends[group]][None], bank.groups[group])
    return jax.tree.map(lambda leaf: leaf[process], gathered(offered, jax.process_count()))


def _sizes(bank: Bank) -> list[int]:
    return [len(jax.tree.leaves(state)[0]) for _, state in bank.groups]


def over_particles(filter: Filter, function: Callable, where: Where | None = None) -> Callable:
    """A function of one particle for many: all at once where they are small, else one after the other."""
    small = filter.together(where)
    many = jax.vmap(function) if small else lambda *args: jax.lax.map(lambda one: function(*one), args)
    return lambda *args: on_each(many, len(jax.tree.leaves(args)[0]))(*args)


def _begin(filter: Filter, z):
    def one(z):
        environment = filter.environment(z)
        return environment, filter.start(environment)

    return over_particles(filter, one)(z)


def _run(filter: Filter, observations: Observation, environments, states):
    def one(environment, state):
        def body(state, observation):
            state = filter.predict(environment, state, observation.dt)
            return filter.absorb(environment, state, observation)

        return jax.lax.scan(body, state, observations)

    return over_particles(filter, one)(environments, states)


def _convert(before: Filter, after: DenseFilter, environments, states):
    def one(environment, state):
        dense, environment, state = before.as_dense(environment, state)
        return dense.extended(after, environment, state)  # exact, for stations that join as well

    return over_particles(after, one)(environments, states)


def _started(segment: Segment, z: np.ndarray) -> Bank:
    tasks = [compiled(_begin, segment.filter, placed(z[part], len(z)))[0] for part in _slices(len(z))]
    return Bank(tuple(in_threads(tasks)), 0)


def _converted(bank: Bank, history: Timeline, number: int) -> tuple[Bank, float]:
    before, after = history.segments[number - 1].filter, history.segments[number].filter
    runs = [compiled(_convert, before, after, *group) for group in bank.groups]
    return Bank(tuple(in_threads([run for run, _ in runs])), number), sum(seconds for _, seconds in runs)


def _advanced(bank: Bank, filter: Filter, observations: Observation) -> tuple[Bank, np.ndarray, Spent]:
    runs = [compiled(_run, filter, observations, *group) for group in bank.groups]
    results = in_threads([run for run, _ in runs])
    groups = tuple((environment, state) for (environment, _), (state, _) in zip(bank.groups, results))
    found = np.concatenate([np.asarray(increments) for _, increments in results])
    spent = Spent(found.shape[1], sum(seconds for _, seconds in runs))
    return bank._replace(groups=groups), np.where(np.isnan(found), -np.inf, found), spent


def _chunks(observations: tuple[Observation, ...]):
    """Runs of ``CHUNK`` snapshots of one shape, and single ones."""
    i = 0
    while i < len(observations):
        run = observations[i : i + CHUNK]
        size = CHUNK if len(run) == CHUNK and len({_shape(one) for one in run}) == 1 else 1
        yield observations[i : i + size]
        i += size


def _shape(observation: Observation) -> tuple:
    return tuple(np.shape(leaf) for leaf in jax.tree.leaves(observation))


def _slices(count: int) -> list[slice]:
    """A group a core, or one over all devices. Draws are the same, bit for bit, however many cores there are."""
    if spread(count):
        return [slice(0, count)]
    bundles = -(-count // LANES)
    bounds = np.linspace(0, bundles, min(cores(), bundles) + 1).round().astype(int) * LANES
    bounds[-1] = count
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(bounds)]


def _joined(bank: Bank) -> Any:
    # By NumPy: JAX would compile each slice and concatenation of its own.
    return jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *bank.groups)


def _split(whole: Any, count: int, segment: int) -> Bank:
    groups = (jax.tree.map(lambda leaf: leaf[part], whole) for part in _slices(count))  # noqa: B023
    return Bank(tuple(placed(group, count) for group in groups), segment)
