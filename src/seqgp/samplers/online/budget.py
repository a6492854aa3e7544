"""What a snapshot must keep to: the memory that there is, and answers that can be right."""

from __future__ import annotations

import itertools
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.base.errors import SamplerError
from seqgp.runtime.engine import cores
from seqgp.runtime.memory import BYTES_PER_FLOAT, available_bytes, check_fits
from seqgp.samplers.ibis import Particles
from seqgp.samplers.online.filters import LANES, fault_of
from seqgp.samplers.online.history import Timeline
from seqgp.samplers.online.programs import shares_space, space_entries
from seqgp.statespace.dense import DenseFilter
from seqgp.statespace.eigenbasis import RotatedFilter
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.network import NetworkFilter, gap_room
from seqgp.statespace.observation import Query
from seqgp.statespace.protocol import Filter
from seqgp.statespace.rank import most_gaps
from seqgp.statespace.snapshot_ep import FAULTS

FilterKind = Literal["dense", "eigenbasis", "low_rank", "two_level"]
NUMBER = 8  # bytes


class FilterSize(NamedTuple):
    """What the memory of one particle's filter depends on."""

    num_sites: int  # M
    order: int  # p, over all terms
    num_terms: int = 1  # J
    num_coefficients: int = 0  # q
    rank: int = 0  # R
    gaps: int = 0  # k, the compiled size
    leading: int | None = None  # r; all modes where it is None


class FilterBytes(NamedTuple):
    """Bytes of one particle."""

    state: int  # kept from step to step
    parameters: int  # what its parameters decide, without eigenvectors that are shared
    basis: int  # eigenvectors, once for all particles that share space lengthscales
    work: int  # while it is updated


def filter_bytes(kind: FilterKind, size: FilterSize) -> FilterBytes:
    """The bytes of one particle's filter."""
    m, p, q, k = size.num_sites, size.order, size.num_coefficients, size.gaps
    if kind == "dense":
        n = p * m + q
        numbers = n + n**2, size.num_terms * m**2, 0, 2 * n**2 + 3 * n * m + 3 * m**2
    else:
        rank, gaps = (0, 0) if kind == "eigenbasis" else (size.rank, k)
        r = size.leading if kind == "two_level" and size.leading is not None else m
        rows = rank + gaps
        state = m * (p + p**2 + p * q) + rank * p * r + q**2 + q
        work = 4 * rows * p * r + 4 * rows**2 + 4 * gaps * m + 4 * m * (p**2 + p * (1 + q))
        numbers = state, size.num_terms * m, m**2, work
    return FilterBytes(*(NUMBER * each for each in numbers))


COPIES_OF_MATRICES = 3  # of the particles, the best ones proposed and the last ones
COPIES_OF_STATES = 5  # and of these before and after a step
SHARED_BASES = 20  # values of a space lengthscale, half a standard deviation apart, that particles have
EIGEN_MATRICES = 6  # matrices of the sites' number, that an eigendecomposition has in hand
WORKING_MATRICES = 4  # matrices of the state's size, that an update of one filter has in hand at once
LEAST_SLOTS = 16  # for the draws of a particle: a few more or less from step to step are then no new size
EP_MATRICES = 6  # the same, of data that are not Gaussian, and where a network's filter is carried over
NEGLIGIBLE_WEIGHT = 0.01  # of the weight before a snapshot, that particles without an answer may have


def check_memory(history: Timeline, particles: int) -> None:
    """Raise, before anything is compiled, where the filters of all particles do not fit into memory."""
    filter, here = history.filter, max(particles // jax.process_count(), 1)
    each, working = particle_bytes(filter), max(working_bytes(filter), carried_bytes(history))
    bases, available = bases_bytes(filter, here), available_bytes()
    needed = here * each + bases + working
    if available is None or needed <= available:
        return
    fewer = int((available - working - bases) // each) // LANES * LANES
    remedy = f"particles={fewer} fit; or" if fewer >= LANES else "no number of particles fits:"
    instead = "latent=seqgp.Knots(…)" if _takes_knots(history.ssm) else "fewer stations"
    eigenvectors = f", and the eigenvectors that particles share {bases / 1e9:.1f} GB of it" if bases else ""
    raise SamplerError(
        f"OnlineSampler: t = {history.snapshots[-1].t}: the filters ({filter.name}) of {particles} particles on "
        f"{filter.sites} sites (all different inputs so far), with states of order {history.ssm.order} and "
        f"{len(history.ssm.states)} terms, need {needed / 1e9:.1f} GB{eigenvectors}, and {available / 1e9:.1f} GB are "
        f"available; {remedy} take {instead}"
    )


def _takes_knots(ssm: StateSpaceModel) -> bool:
    return not (ssm.model.kernel.delayed or ssm.model.likelihood.by_station)


def check_query(filter: Filter, query: Query, draws: int, particles: int) -> None:
    """Raise, before anything is compiled, where ``f`` at so many inputs jointly does not fit into memory.

    Args:
        filter: that is asked.
        query: the inputs.
        draws: of ``f``.
        particles: of the run.
    """
    n, sites, size = len(query.columns), filter.sites, filter.ssm.order * filter.sites
    if isinstance(filter, NetworkFilter) or (query.at_sites and not isinstance(filter, DenseFilter)):
        joint = 6 * n**2 + 3 * n * sites if query.at_sites else 8 * n**2 + 4 * n * sites
    elif query.operator is not None:
        joint = 2 * size**2 + n * size + 2 * n**2
    else:  # the state at sites and inputs
        joint = 5 * (size + filter.ssm.order * n) ** 2
    slots = max(LEAST_SLOTS * particles, 4 * draws) * (filter.normals(query) + 2 * n)
    check_fits(
        BYTES_PER_FLOAT * (cores() * joint + slots),
        f"predict: f at {n} inputs jointly, from filters ({filter.name}) on {sites} sites,",
        "take joint=False, which predicts each input apart, or fewer inputs at a time",
    )


def check_paths(filter: Filter, times: int, inputs: int) -> None:
    """Raise, before anything is compiled, where paths over all data do not fit into memory: a state for each time."""
    size = filter.ssm.order * filter.sites + len(filter.ssm.in_state)
    if isinstance(filter, NetworkFilter):
        kept = filter_bytes(*_network_size(filter)).state // BYTES_PER_FLOAT * times + 8 * filter.sites**2
    else:
        kept = max(times + 12, 17) * size**2
    check_fits(
        BYTES_PER_FLOAT * cores() * (kept + 4 * inputs**2 + 4 * inputs * filter.sites),
        f"smooth: f at {times} times on {filter.sites} sites ({filter.name}) and at {inputs} other inputs",
        "take fewer inputs at a time, a sampler with history=…, or latent=seqgp.Knots(…)",
    )


def particle_bytes(filter: Filter) -> int:
    """Of one particle: what it holds, as often as a rejuvenation has it at once.

    There are the particles, the best and the last of those proposed, and the states before and after a step; where some
    are chosen or mixed, the same again.
    """
    ssm, sites = filter.ssm, filter.sites
    order, coefficients = ssm.order, len(ssm.in_state)
    shared = shares_space(filter)
    if type(filter) is DenseFilter:
        matrices, state = len(ssm.states) * sites**2, (filter.fields + coefficients) ** 2
    elif isinstance(filter, DenseFilter):
        matrices, state = _traced_sizes(filter)
    elif isinstance(filter, NetworkFilter):
        found = filter_bytes(*_network_size(filter))
        matrices, state = (found.parameters + found.basis) // BYTES_PER_FLOAT, found.state // BYTES_PER_FLOAT
    else:
        axes = getattr(filter, "axes", None) or (np.empty(sites),)
        matrices = sum(len(axis) ** 2 for axis in axes) + sites
        state = (order + order**2 + coefficients * order) * sites
    return BYTES_PER_FLOAT * ((0 if shared else COPIES_OF_MATRICES * matrices) + COPIES_OF_STATES * state)


def _traced_sizes(filter: DenseFilter) -> tuple[int, int]:
    """Numbers in matrices and state of one particle, of filters on knots or with delays; nothing is computed."""

    def begin(z):
        matrices = filter.matrices(z)
        return matrices, filter.start(matrices)

    found = jax.eval_shape(begin, jnp.asarray(filter.ssm.particle_prior()[0]))
    matrices, state = (sum(leaf.size for leaf in jax.tree.leaves(part)) for part in found)
    return matrices, state


def bases_bytes(filter: Filter, particles: int) -> int:
    """Of the eigenvectors that particles share: those in use, and those of two proposals."""
    if not shares_space(filter):
        return 0
    entries = len(space_entries(filter.ssm) or ())
    each = min(particles, SHARED_BASES**entries)
    return BYTES_PER_FLOAT * (COPIES_OF_MATRICES if entries else 1) * each * filter.sites * (filter.sites + 1)


def working_bytes(filter: Filter) -> int:
    """Of what runs at the same time beside states that come and go: updates, and eigendecompositions."""
    square = BYTES_PER_FLOAT * filter.sites**2 * cores()
    if isinstance(filter, NetworkFilter):
        return max(filter_bytes(*_network_size(filter)).work * cores(), EIGEN_MATRICES * square)
    if not isinstance(filter, DenseFilter):
        whole = getattr(filter, "axes", None) is None
        return EIGEN_MATRICES * square if whole else WORKING_MATRICES * BYTES_PER_FLOAT * filter.sites
    size = filter.fields + len(filter.ssm.in_state)
    matrices = WORKING_MATRICES if filter.ssm.model.likelihood.conjugate else EP_MATRICES
    return BYTES_PER_FLOAT * matrices * size**2 * cores()


def carried_bytes(history: Timeline) -> int:
    """Of covariances that are written out where a network's states are carried over to other sites, one a core."""

    def written_out(before: Filter, after: Filter) -> bool:
        turned = isinstance(before, RotatedFilter) and before.sites == after.sites
        return isinstance(after, NetworkFilter) and not turned

    filters = [segment.filter for segment in history.segments]
    sites = max((b.sites for a, b in itertools.pairwise(filters) if written_out(a, b)), default=0)
    size = history.ssm.order * sites
    return BYTES_PER_FLOAT * EP_MATRICES * size**2 * cores()


def _network_size(filter: NetworkFilter) -> tuple[FilterKind, FilterSize]:
    """As :mod:`seqgp.samplers.online.budget` counts, with room for as many gaps as it is used for."""
    ssm, gaps = filter.ssm, gap_room(int(most_gaps(filter.sites) * filter.sites), filter.sites)
    kind: FilterKind = "low_rank" if filter.leading == filter.sites else "two_level"
    return kind, FilterSize(
        filter.sites, ssm.order, len(ssm.states), len(ssm.in_state), filter.compression.rank, gaps,
        filter.leading,
    )  # fmt: skip


def check_faults(history: Timeline, before: Particles, log_increment: Float[np.ndarray, " S"]) -> None:
    """Raise, naming time and station, where the filters of particles that count have no answer to a snapshot.

    Args:
        history: the data, the snapshot last.
        before: the particles before the snapshot.
        log_increment: the log density of the snapshot for each particle, −inf where there is none.
    """
    lost = np.isneginf(log_increment) & ~np.isneginf(before.log_weights())
    if not lost.any():
        return
    weights = np.where(lost, before.weights(), 0.0)
    if weights.sum() < NEGLIGIBLE_WEIGHT:
        return
    particle = int(np.argmax(weights))
    found, snapshot = fault_of(history, before.z[particle : particle + 1]), history.snapshots[-1]
    if found is None:
        return
    where = f"t = {snapshot.t}"
    if found.row is not None:
        y = np.asarray(snapshot.y).reshape(-1)[found.row]
        where += f", station {found.row} (x = {np.asarray(snapshot.x)[found.row].tolist()}, y = {y:g})"
    raise SamplerError(
        f"{where}: {FAULTS[found.kind]}, for {lost.sum()} of {len(lost)} particles; check this datum and the "
        "likelihood there, or take SequentialSampler"
    )
