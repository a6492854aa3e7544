"""What is compiled for the filters of many particles: to begin, to run over snapshots, to become other filters."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from seqgp.runtime.devices import on_each
from seqgp.samplers.online.sharing import SharedMatrices, matrices_of, over_shared
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.observation import Observation, Query
from seqgp.statespace.protocol import Filter
from seqgp.statespace.takeover import take_over


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
