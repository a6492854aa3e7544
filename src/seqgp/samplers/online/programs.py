"""What is compiled for the filters of many particles: to begin, to run over snapshots, to become other filters.

Particles share eigenvectors of space: one eigendecomposition for all with the same space lengthscales. From
``SHARED_FROM`` sites on eigendecompositions take most of the time, and a matrix of eigenvectors for each particle most
of the memory. New particles therefore have space lengthscales on a grid (:mod:`seqgp.statespace.shared_lengthscales`),
and keep an index into a few *bases*. A basis is one array ``(1 + M, M)``: the eigenvalues of ``K_space`` of variance
one, the largest first, above its eigenvectors. It is known as long as any particle uses it.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from seqgp.kernels.base import Parameters, within
from seqgp.linalg.types import Array, ArrayLike
from seqgp.runtime.engine import compiled, in_threads
from seqgp.runtime.parallel import on_each
from seqgp.statespace.eigenbasis import RotatedFilter
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.modes import space_modes
from seqgp.statespace.network import NetworkFilter
from seqgp.statespace.observation import Observation, Query
from seqgp.statespace.protocol import Filter
from seqgp.statespace.shared_lengthscales import on_grid
from seqgp.statespace.takeover import take_over

SHARED_FROM = 200  # sites from which it pays
MOST_ENTRIES = 2  # space lengthscales; with more of them hardly two particles would share a cell

_KNOWN: weakref.WeakValueDictionary[tuple, Array] = weakref.WeakValueDictionary()


class SharedMatrices(NamedTuple):
    """The matrices of particles, but for the eigenvectors: these are in ``bases``, at the place of each particle."""

    parameters: Parameters  # leaves (S, …)
    place: Int[ArrayLike, " S"]
    bases: tuple[Float[Array, "1+M M"], ...]


def space_entries(ssm: StateSpaceModel) -> tuple[int, ...] | None:
    """The entries of the particles' ``z`` that eigenvectors depend on; ``None`` where they cannot be shared.

    One term on one device and one process, whose scale multiplies a kernel of the space parameters.
    """
    entries = tuple(i for i, name in enumerate(ssm.names) if name.startswith("space."))
    alone = jax.process_count() == 1 and len(jax.local_devices()) == 1
    plain = len(ssm.states) == 1 and not ssm.model.kernel.moving and alone
    few = len(entries) <= MOST_ENTRIES and (not entries or len(entries) < len(ssm.names))
    return entries if plain and few else None


def shares(filter: Filter, keys: Float[np.ndarray, "S J"] | None) -> bool:
    """Whether particles share the eigenvectors of a filter: of many sites, with space parameters on a grid."""
    return keys is not None and shares_space(filter) and on_grid(keys)


def entries_on_grid(filter: Filter) -> tuple[int, ...]:
    """The entries of ``z`` for which new particles should lie on a grid."""
    return (space_entries(filter.ssm) or ()) if shares_space(filter) else ()


def shares_space(filter: Filter) -> bool:
    """Whether it pays to share the eigenvectors of a filter, and its model lets particles do so."""
    whole = isinstance(filter, NetworkFilter) or (isinstance(filter, RotatedFilter) and filter.axes is None)
    return whole and filter.sites >= SHARED_FROM and space_entries(filter.ssm) is not None


def shared_matrices(filter: object, parameters: Parameters, keys: Float[np.ndarray, "S J"]) -> SharedMatrices:
    """Of particles with these parameters, whose space entries of ``z`` are ``keys``."""
    unique, place = np.unique(keys, axis=0, return_inverse=True)
    return with_room(parameters, place.reshape(-1), bases_of(filter, unique))


def with_room(parameters: Parameters, place: Int[np.ndarray, " S"], bases: list[Array]) -> SharedMatrices:
    """Each basis that is used, once; the last one again up to a power of two, so that few numbers of them compile."""
    names = [id(one) for one in bases]
    used = [names[i] for i in place.tolist()]
    kept = {id(one): one for one in bases if id(one) in set(used)}
    order = {name: i for i, name in enumerate(kept)}
    found = list(kept.values())
    found += [found[-1]] * ((1 << (len(found) - 1).bit_length()) - len(found))
    return SharedMatrices(parameters, np.array([order[name] for name in used], np.int32), tuple(found))


def bases_of(filter: Any, keys: Float[np.ndarray, "B J"]) -> list[Array]:
    """The basis of each value of the space parameters: those that are known, and others computed on all cores."""
    ssm, x = filter.ssm, np.asarray(filter.x)
    mask = np.asarray(filter.mask) if isinstance(filter, NetworkFilter) else np.ones(len(x), bool)
    sites = hashlib.sha256(x.tobytes() + mask.tobytes()).hexdigest()
    names = [(id(ssm), sites, key.tobytes()) for key in keys]
    found = [_KNOWN.get(name) for name in names]
    fresh = [i for i, one in enumerate(found) if one is None]
    z = np.tile(ssm.particle_prior()[0], (len(keys), 1))
    z[:, list(space_entries(ssm) or ())] = keys
    for i, basis in zip(fresh, in_threads([compiled(_basis, ssm, x, mask, z[i])[0] for i in fresh])):
        found[i] = _KNOWN[names[i]] = basis
    return [one for one in found if one is not None]


def _basis(ssm: StateSpaceModel, x, mask, z) -> Float[Array, "1+M M"]:
    """A function of sites and parameters alone: whatever filter asks first, all have the same bits."""
    ((_, term),) = ssm.model.kernel.terms()
    (own,) = ssm.own(ssm.parameters(z))
    space = term.space.covariance(term.space.prepare(x, x), within(own, "space"))
    (values,), vectors = space_modes((jnp.where(mask[:, None] & mask[None, :], space, 0.0),))[::-1]
    return jnp.concatenate([values[None, :], vectors])


def matrices_of(filter: Any, parameters: Parameters, basis: Float[Array, "1+M M"]) -> PyTree:
    """The matrices of one particle from its parameters and its basis."""
    (own,) = filter.ssm.own(parameters)
    return filter.from_basis(parameters, own["scale"] ** 2 * basis[0], basis[1:])


def over_shared(filter: object, function: Callable, shared: SharedMatrices, *rest: PyTree) -> PyTree:
    """A function of one particle's matrices (and more) for many, one after the other; other bases are not copied."""

    def one(inputs):
        parameters, place, *others = inputs
        basis = jax.lax.switch(place, [lambda basis=basis: basis for basis in shared.bases])
        return function(matrices_of(filter, parameters, basis), *others)

    return jax.lax.map(one, (shared.parameters, jnp.asarray(shared.place), *rest))


def matrices_at(filter: object, shared: SharedMatrices, particle: int) -> PyTree:
    """The matrices of one of the particles."""
    own = jax.tree.map(lambda leaf: np.asarray(leaf)[particle], shared.parameters)
    return matrices_of(filter, own, shared.bases[int(np.asarray(shared.place)[particle])])


def over_particles(filter: Filter, function: Callable, query: Query | None = None) -> Callable:
    """A function of one particle for many: all at once where they are small, else one after the other."""
    small = filter.together(query)
    many = jax.vmap(function) if small else lambda *args: jax.lax.map(lambda one: function(*one), args)

    def over(first, *rest):
        if isinstance(first, SharedMatrices):
            return over_shared(filter, function, first, *rest)
        return on_each(many, len(jax.tree.leaves(first)[0]))(first, *rest)

    return over


def begin_filters(filter: Filter, z):
    """Matrices and states before any data."""

    def one(z):
        matrices = filter.matrices(z)
        return matrices, filter.start(matrices)

    return over_particles(filter, one)(z)


def parameters_of(ssm: StateSpaceModel, z):
    """Of each particle."""
    return jax.vmap(ssm.parameters)(z)


def begin_shared(filter: Filter, shared: SharedMatrices):
    """States before any data."""
    return over_shared(filter, filter.start, shared)


def run_snapshots(filter: Filter, observations: Observation, all_matrices, states):
    """States after some snapshots, and the log density of each."""

    def one(matrices, state):
        def body(state, observation):
            state = filter.predict(matrices, state, observation.dt)
            return filter.update(matrices, state, observation)

        return jax.lax.scan(body, state, observations)

    return over_particles(filter, one)(all_matrices, states)


def convert_filters(before: Filter, after: Filter, all_matrices, states):
    """Matrices and states of the filter that takes over."""

    def one(matrices, state):
        return take_over(before, after, matrices, state)

    if isinstance(all_matrices, SharedMatrices):
        return over_shared(before, one, all_matrices, states)
    return over_particles(after, one)(all_matrices, states)


def convert_to_shared(before: Filter, after: Filter, all_matrices, states, shared: SharedMatrices):
    """The same where its particles share eigenvectors: the states alone."""

    def one(found, matrices, state):
        return take_over(before, after, matrices, state, found)[1]

    if not isinstance(all_matrices, SharedMatrices):
        return over_shared(after, one, shared, all_matrices, states)

    def from_shared(matrices, inputs):
        parameters, place, state = inputs
        basis = jax.lax.switch(place, [lambda basis=basis: basis for basis in shared.bases])
        return one(matrices_of(after, parameters, basis), matrices, state)

    return over_shared(before, from_shared, all_matrices, (shared.parameters, jnp.asarray(shared.place), states))
