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
from seqgp.statespace.dense import DenseFilter, DenseState
from seqgp.statespace.ep import LogProb, ObservedHistory, ep_refine
from seqgp.statespace.filter_history import in_order, last_states, likelihood_is_known, observed_history, shared_sites
from seqgp.statespace.gauss_markov import observe
from seqgp.statespace.observation import Observation, padded, stacked
from seqgp.statespace.paths import MAX_PATHS, MAX_VARIANCE, PATHS, segments_for, smc_paths
from seqgp.statespace.site_filter import GaussianSites

GROWTH = 1.15  # of the number of steps, after which particles are evaluated anew
ITERATIONS = 2  # of EP for each particle, from the shared sites
MORE_ITERATIONS = 3  # where its likelihood may be another one


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
    if not np.isfinite(variance):
        return MAX_PATHS
    wanted = max(paths * variance / MAX_VARIANCE, 1.0)
    return min(max(paths, 2 ** int(np.ceil(np.log2(wanted)))), MAX_PATHS)


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
    """64, 256, 1024, …: each is a compilation of long programs, which pass over times that are padding."""
    return 4 ** max(3, int(np.ceil(np.log2(length) / 2)))


def exact_filters(history: Timeline, shared: SharedHistory, z: Float[np.ndarray, "S d"], paths: int = PATHS) -> Filters:
    """Filters given EP over the whole history.

    They follow from data, ``z`` and the shared sites alone, so that a state from disk has the same, bit for bit: by
    the program that evaluates values of ``z``, whose number of paths is given.
    """
    results, _ = _results(history, shared, z, paths, np.zeros((len(z), 2), np.uint32))
    return _filters(history, results)


def _filters(history: Timeline, results: list[_Found]) -> Filters:
    return Filters(tuple((one.matrices, one.state) for one in results), len(history.segments) - 1)


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
    results, seconds = _results(history, shared, z, paths, seeds)
    filters, count = _filters(history, results), len(z)
    n = len(history.ssm.in_state) + len(history.snapshots[-1].x)

    def joined(*leaves):
        return gathered(np.concatenate([np.asarray(leaf) for leaf in leaves]), count)

    found = jax.tree.map(joined, *(one.estimate for one in results))
    increment = _last_increments(history, filters, [one.before for one in results])
    possible = np.isfinite(found.log_total)
    increment = np.where(possible, np.where(np.isfinite(increment), increment, 0.0), -np.inf)
    before = np.where(possible, found.log_total, -np.inf) - np.where(possible, increment, 0.0)
    draws = PathDraws(found.log_weights, found.drawn[:, :, :n], found.variance)
    return ExactEvaluation(ExactFilters(filters, draws), before, increment, Spent(len(history.snapshots), seconds))


class _Estimate(NamedTuple):
    """By the paths of one particle."""

    log_total: Array
    variance: Array
    log_weights: Array
    drawn: Array


class _Found(NamedTuple):
    """Of one particle, or of a group."""

    matrices: PyTree
    state: PyTree  # of the filter to go on with
    before: PyTree  # the same before the last data
    estimate: _Estimate


def _results(
    history: Timeline, shared: SharedHistory, z: Float[np.ndarray, "S d"], paths: int, seeds: np.ndarray
) -> tuple[list[_Found], float]:
    """Of the groups of this process's particles, and the seconds that compilation took."""
    mine = share(len(z))
    own_z, own_seeds = z[mine], seeds[mine]
    size = shared.filter.fields + len(history.ssm.in_state)
    lanes = LANES if shared.filter.together() else 1
    segments = segments_for(len(shared.observations.dt), int(np.ceil(size * np.sqrt(lanes))))
    # Where snapshots come further apart than delays spread, another filter goes on from the sites; and a window has the
    # ages of its snapshots beside the Gaussian that paths begin with.
    same = history.filter is shared.filter and not isinstance(shared.filter, DelayedWindowFilter)
    onward = None if same else history.filter
    parts = particle_slices(len(own_z))
    runs = [
        compiled(_evaluated, *shared, _whole(own_z[part]), _whole(own_seeds[part]), onward, paths, segments)
        for part in parts
    ]
    found = in_threads([run for run, _ in runs])
    sizes = [len(own_z[part]) for part in parts]
    kept = [jax.tree.map(lambda leaf: leaf[:size], one) for one, size in zip(found, sizes)]  # noqa: B023
    return kept, sum(seconds for _, seconds in runs)


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
    history: ObservedHistory,
    log_prob: LogProb,
    sites: GaussianSites,
    known: bool,
    length: Int[Array, ""] | None,
    first: Int[Array, ""] | None = None,
) -> GaussianSites:
    """The sites of EP of one particle, from shared ones; whether its likelihoods are ``known`` to be about theirs."""
    count = ITERATIONS if known else MORE_ITERATIONS

    def revised(history, sites, free):
        return ep_refine(history, log_prob, sites, known=known, iterations=count, length=length, free=free)[0]

    return in_order(history, sites, revised, first)


def _evaluated(
    filter: DenseFilter,
    observations: Observation,
    length,
    sites: GaussianSites,
    first,
    z,
    keys,
    onward: DenseFilter | None,
    paths: int,
    segments: int,
) -> _Found:
    """Refined sites, the filters to go on with, and estimates by paths."""

    def one(z, key):
        matrices = filter.matrices(z)
        history, log_prob = observed_history(filter, matrices, observations, length)
        refined = refined_sites(history, log_prob, sites, likelihood_is_known(filter.ssm.model), length, first)
        key = jax.random.wrap_key_data(key, impl="threefry2x32")
        found = smc_paths(
            key,
            history,
            log_prob,
            refined,
            paths=paths,
            segments=segments,
            length=length,
            first=0 if first is None else first,
        )
        operator = jax.tree.map(lambda leaf: jnp.asarray(leaf)[length - 1], history.operator)
        latent = observe(operator, found.last_states) + operator.offset[None, :]
        drawn = jnp.concatenate([found.last_states[:, filter.fields :], latent], axis=1)
        estimate = _Estimate(found.log_evidence, found.variance, found.log_weights, drawn)
        if onward is None:
            state, before = DenseState(*found.filtered), DenseState(*found.before)
            return _Found(matrices, state, before, estimate)
        own = onward.matrices(z)
        states = last_states(onward, own, observations, refined, length)
        return _Found(own, states.filtered, states.before, estimate)

    return _over_bundles(filter, one, z, keys)
