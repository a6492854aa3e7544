"""Values of ``z`` evaluated without bias, for pointwise data that are not Gaussian.

EP over the whole history gives each particle a Gaussian of all states, and paths drawn from it correct what is left
(:mod:`seqgp.statespace.paths`). Particles begin EP with the sites of a central value of ``z``, so that two iterations
serve. The estimates ``Ẑ`` of ``p(y | z)`` are unbiased and independent: particles weighted by them have the exact
posterior in the limit of particles, however few the paths.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from seqgp.linalg.types import Array
from seqgp.runtime.engine import compiled, in_threads
from seqgp.runtime.parallel import gathered, share
from seqgp.samplers.online.filters import LANES, Filters, Spent, advanced, chosen, either, particle_slices
from seqgp.samplers.online.history import Timeline
from seqgp.statespace.delayed import DelayedFilter
from seqgp.statespace.delayed_window import DelayedWindowFilter
from seqgp.statespace.dense import DenseFilter
from seqgp.statespace.ep import LogProb, ObservedHistory, ep_refine
from seqgp.statespace.filter_history import in_order, last_states, observed_history, shared_sites
from seqgp.statespace.gauss_markov import observe
from seqgp.statespace.observation import Observation, padded, stacked
from seqgp.statespace.paths import MAX_PATHS, PATHS, paths_needed, segments_for, smc_paths
from seqgp.statespace.site_filter import GaussianSites

GROWTH = 1.15  # of the number of steps, after which particles are evaluated anew
ITERATIONS = 2  # of EP for each particle, from the shared sites


class Correction(NamedTuple):
    """The last evaluation of all particles by paths."""

    step: int
    paths: int  # K, of each particle
    variance: float  # of the log evidence of a particle, estimated, on average
    central: Float[np.ndarray, " d"]  # the value of z whose sites EP began with

    def due(self, step: int, kept: int) -> bool:
        """Whether there is so much more data by now, of those that are kept, that particles are evaluated anew."""
        return step - self.step >= (GROWTH - 1) * min(self.step, kept)


class PathDraws(NamedTuple):
    """Weighted draws of each particle at the last time, and the noise of its evidence."""

    log_weights: Float[np.ndarray, "S K"]  # normalised
    drawn: Float[np.ndarray, "S K q+N"]  # coefficients of the mean, and the latent at the data
    variance: Float[np.ndarray, " S"]

    def draws(self, rng: np.random.Generator, particle: Int[np.ndarray, " draws"]) -> Float[np.ndarray, "draws q+N"]:
        """One draw for each of given particles, in proportion to the weights of its paths."""
        total = np.exp(self.log_weights).cumsum(axis=1)[particle]
        slot = (total < rng.random((len(particle), 1)) * total[:, -1:]).sum(axis=1)
        return self.drawn[particle, np.minimum(slot, total.shape[1] - 1)]

    def mean_variance(self, weights: Float[np.ndarray, " S"]) -> float:
        """Over the particles; infinite where it is not known of one that counts."""
        known = np.where(np.isfinite(self.variance), self.variance, np.inf)
        return float(np.sum(weights[weights > 0] * known[weights > 0]))


class ExactFilters(NamedTuple):
    """Filters with the draws of their paths."""

    filters: Filters
    draws: PathDraws


class ExactEvaluation(NamedTuple):
    """Of values of ``z``: the filters to go on with, and the log evidence of all data in two parts."""

    found: ExactFilters
    log_evidence: Float[np.ndarray, " S"]  # log Ẑ, without the increment
    log_increment: Float[np.ndarray, " S"]  # of the last snapshot, by EP of that snapshot alone
    spent: Spent


class SharedHistory(NamedTuple):
    """All data for the last filter, padded to one of a few lengths, and the sites that particles share."""

    filter: DenseFilter
    observations: Observation  # stacked
    length: Int[np.ndarray, ""]
    sites: GaussianSites
    first: Int[np.ndarray, ""] | None = None  # before which sites stand for the data; None where data are all kept


def whole_numbers_of_paths(variance: float, paths: int) -> int:
    """``K`` that keeps the variance at a quarter, a power of two and at least as many as before."""
    wanted, _ = paths_needed(variance * paths / PATHS)
    return min(max(paths, PATHS * 2 ** int(np.ceil(np.log2(wanted / PATHS)))), MAX_PATHS)


def shared_history(history: Timeline, central: Float[np.ndarray, " d"], first: int = 0) -> tuple[SharedHistory, float]:
    """With the sites at a value of ``z``, and the seconds that compilation took.

    Data before ``first`` are those that a bounded history keeps for the state alone: what they say of the parameters
    is remembered otherwise, and EP makes a Gaussian of what they say of the state.
    """
    filter = path_filter(history)
    each = [one for segment in history.segments for one in segment.observations]
    size = max(len(one.y) for one in each)
    each = [padded(one, size) for one in each]
    length = len(each)
    nothing = each[-1]._replace(dt=np.zeros(()), seen=np.zeros(size, bool))
    observations = stacked(each + [nothing] * (padded_length(length) - length))
    count = np.asarray(length)
    start = np.asarray(first) if first else None
    run, seconds = compiled(shared_sites, filter, np.asarray(central, float), observations, count, start)
    return SharedHistory(filter, observations, count, jax.tree.map(np.asarray, run()), start), seconds


def path_filter(history: Timeline) -> DenseFilter:
    """A filter of all sites whose states, one a time, are Gauss–Markov.

    Where snapshots come further apart than delays spread, the states of two of them reach back far enough.
    """
    filter = history.filter
    assert isinstance(filter, DenseFilter)
    if isinstance(filter, DelayedFilter):
        return DelayedWindowFilter(filter.ssm, filter.x, filter.mask, filter.mask, 2)
    return filter


def padded_length(length: int) -> int:
    """16, 32, 64, …: each is a compilation of long programs, and times that are padding cost little beside it."""
    return 2 ** max(4, int(np.ceil(np.log2(length))))


def exact_filters(
    history: Timeline, shared: SharedHistory, z: Float[np.ndarray, "S d"]
) -> tuple[Filters, PyTree, float]:
    """Filters given EP over the whole history; each group's sites and last states but one; seconds of compilation.

    They follow from data, ``z`` and the shared sites alone, so that a state from disk has the same, bit for bit.
    """
    mine = z[share(len(z))]
    runs = [compiled(_refine, *shared, _whole(mine[part]), history.filter) for part in particle_slices(len(mine))]
    found = in_threads([run for run, _ in runs])
    sizes = [len(mine[part]) for part in particle_slices(len(mine))]
    kept = [jax.tree.map(lambda leaf: leaf[:size], one) for one, size in zip(found, sizes)]  # noqa: B023
    filters = Filters(tuple((matrices, state) for matrices, state, _, _ in kept), len(history.segments) - 1)
    refined = [(whole[2], real[3]) for whole, real in zip(found, kept)]
    return filters, refined, sum(seconds for _, seconds in runs)


def evaluate(
    history: Timeline, shared: SharedHistory, z: Float[np.ndarray, "S d"], paths: int, rng: np.random.Generator
) -> ExactEvaluation:
    """``log Ẑ`` of values of ``z``, with random numbers of its own for each."""
    return evaluate_with(history, shared, z, paths, path_seeds(rng, len(z)))


def path_seeds(rng: np.random.Generator, count: int) -> np.ndarray:
    """Random keys of the paths of many values of ``z``, as numbers."""
    return rng.integers(0, 2**32, (count, 2), dtype=np.uint32)


def evaluate_with(
    history: Timeline, shared: SharedHistory, z: Float[np.ndarray, "S d"], paths: int, seeds: np.ndarray
) -> ExactEvaluation:
    """The same with given keys of the paths."""
    filters, refined, seconds = exact_filters(history, shared, z)
    snapshot, count = history.snapshots[-1], len(z)
    n = len(history.ssm.in_state) + len(snapshot.x)
    mine = share(count)
    own_z, own_keys = z[mine], seeds[mine]
    size = shared.filter.fields + len(history.ssm.in_state)
    lanes = LANES if shared.filter.together() else 1
    segments = segments_for(len(shared.observations.dt), int(np.ceil(size * np.sqrt(lanes))))
    parts = particle_slices(len(own_z))
    runs = [
        compiled(_paths, *shared[:3], shared.first, _whole(own_z[part]), _whole(own_keys[part]), sites, paths, segments)
        for part, (sites, _) in zip(parts, refined)
    ]
    results = in_threads([run for run, _ in runs])
    sizes = [len(own_z[part]) for part in parts]

    def joined(leaves):
        return gathered(np.concatenate([np.asarray(leaf)[:size] for leaf, size in zip(leaves, sizes)]), count)

    log_total, variance, log_weights, drawn = (joined(leaves) for leaves in zip(*results))
    increment = _last_increments(history, filters, [state for _, state in refined])
    possible = np.isfinite(log_total)
    increment = np.where(possible, np.where(np.isfinite(increment), increment, 0.0), -np.inf)
    before = np.where(possible, log_total, -np.inf) - np.where(possible, increment, 0.0)
    draws = PathDraws(log_weights, drawn[:, :, :n], variance)
    spent = Spent(len(history.snapshots), seconds + sum(more for _, more in runs))
    return ExactEvaluation(ExactFilters(filters, draws), before, increment, spent)


def _last_increments(history: Timeline, filters: Filters, states: list[PyTree]) -> Float[np.ndarray, " S"]:
    """Of the last snapshot by EP of it alone, from the states before it: by the program that takes new snapshots."""
    segment = history.segments[-1]
    alone = segment._replace(observations=segment.observations[-1:])
    before = Filters(tuple((matrices, state) for (matrices, _), state in zip(filters.groups, states)), 0)
    return advanced(history._replace(segments=(alone,)), before)[1]


def choose_exact(found: ExactFilters, index: np.ndarray) -> ExactFilters:
    """The filters and draws of other particles: those of an index."""
    return ExactFilters(chosen(found.filters, index), PathDraws(*(part[index] for part in found.draws)))


def either_exact(take: np.ndarray, new: ExactFilters, old: ExactFilters) -> ExactFilters:
    """The new ones of each particle where ``take`` says so, otherwise the old ones."""
    parts = (np.where(take.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in zip(new.draws, old.draws))
    return ExactFilters(either(take, new.filters, old.filters), PathDraws(*parts))


def _whole(rows: np.ndarray) -> np.ndarray:
    """Rows of whole bundles: what a processor computes at once is the same for every particle."""
    return np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % LANES, axis=0)])


def _over_bundles(filter: DenseFilter, function, *args):
    if not filter.together():
        return jax.lax.map(lambda one: function(*one), args)
    count = len(args[0])  # of whole bundles; sizes are given, because some leaves are empty
    bundles = jax.tree.map(lambda leaf: leaf.reshape(count // LANES, LANES, *leaf.shape[1:]), args)
    found = jax.lax.map(lambda some: jax.vmap(function)(*some), bundles)
    return jax.tree.map(lambda leaf: leaf.reshape(count, *leaf.shape[2:]), found)


def refined_sites(
    filter: DenseFilter,
    history: ObservedHistory,
    log_prob: LogProb,
    sites: GaussianSites,
    first: Int[Array, ""] | None = None,
) -> GaussianSites:
    """The sites of EP at one value of ``z``, from shared ones."""
    bell_shaped = filter.ssm.model.likelihood.bell_shaped

    def revised(history, sites, free):
        return ep_refine(history, log_prob, sites, bell_shaped=bell_shaped, iterations=ITERATIONS, free=free)[0]

    return in_order(history, sites, revised, first)


def _refine(
    filter: DenseFilter, observations: Observation, length, sites: GaussianSites, first, z, onward: DenseFilter
):
    """Matrices and last states of the filter to go on with, refined sites, and the states before."""

    def one(z):
        matrices = filter.matrices(z)
        history, log_prob = observed_history(filter, matrices, observations, length)
        refined = refined_sites(filter, history, log_prob, sites, first)
        own = onward.matrices(z)
        states = last_states(onward, own, observations, refined, length)
        return own, states.filtered, refined, states.before

    return _over_bundles(filter, one, z)


def _paths(filter: DenseFilter, observations: Observation, length, first, z, keys, sites, paths: int, segments: int):
    """Log evidence, its variance, and weighted draws of coefficients and latent at the last data."""

    def one(z, key, sites):
        matrices = filter.matrices(z)
        history, log_prob = observed_history(filter, matrices, observations, length)
        key = jax.random.wrap_key_data(key, impl="threefry2x32")
        found = smc_paths(
            key,
            history,
            log_prob,
            sites,
            paths=paths,
            segments=segments,
            length=length,
            first=0 if first is None else first,
        )
        operator = jax.tree.map(lambda leaf: jnp.asarray(leaf)[length - 1], history.operator)
        latent = observe(operator, found.last_states) + operator.offset[None, :]
        drawn = jnp.concatenate([found.last_states[:, filter.fields :], latent], axis=1)
        return found.log_evidence, found.variance, found.log_weights, drawn

    return _over_bundles(filter, one, z, keys, sites)
