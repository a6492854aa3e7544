"""Mean and variance of the level at points, one by one: no covariance between them is formed where modes serve."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from seqgp.linalg.types import Array
from seqgp.statespace.eigenbasis import RotatedEnvironment, RotatedFilter, RotatedState
from seqgp.statespace.low_rank import LowRankState
from seqgp.statespace.map_prediction import MapParticles, map_batch
from seqgp.statespace.modes import Modes
from seqgp.statespace.network import NetworkFilter
from seqgp.statespace.observation import Where
from seqgp.statespace.protocol import Filter


def level_moments(
    filter: Filter, environment: Any, state: Any, where: Where
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Of the level given one value of the parameters, with the coefficients of the mean integrated out."""
    if where.places is None and isinstance(filter, NetworkFilter):
        after = filter.predict(environment, state, where.dt).low_rank
        return _by_modes(filter, environment.parameters, environment.modes, after, where)
    if where.places is None and isinstance(filter, RotatedFilter):
        after = filter.predict(environment, state, where.dt)
        return _by_modes(filter, environment.parameters, *_rotated(filter, environment, after), where)
    found, q = filter.level(environment, state, where), len(filter.system.in_state)
    return found.mean[q:], jnp.maximum(jnp.diagonal(found.covariance)[q:], 0.0)


def _by_modes(filter: NetworkFilter | RotatedFilter, parameters, modes: Modes, state: LowRankState, where: Where):
    system, x, sites = filter.system, jnp.asarray(where.x), jnp.asarray(filter.x)
    mask = jnp.asarray(filter.mask) if isinstance(filter, NetworkFilter) else jnp.ones(filter.sites, bool)
    crosses = system.space(parameters, system.distances(x, sites))
    crosses = tuple(jnp.where(mask[None, :], cross, 0.0) for cross in crosses)

    def at_itself(point):
        spaces = system.space(parameters, system.distances(point[None, :], point[None, :]))
        return jnp.stack([space[0, 0] for space in spaces])

    own = jax.vmap(at_itself)(x).T
    ones = jnp.ones((1, len(system.states)))  # crosses and modes have the scale already
    one = MapParticles(
        jax.tree.map(lambda leaf: leaf[None], state),
        ones,
        system.observe(parameters)[None],
        system.term_variances(parameters)[None],
    )
    orders = tuple(part.order for part in system.states)
    columns = jnp.asarray(where.columns)
    found = map_batch(one, modes, orders, crosses, own, system.design(columns), system.coefficient_scales())
    return found.mean[0] + system.offset(parameters, columns), jnp.maximum(found.variance[0], 0.0)


def _rotated(filter: RotatedFilter, environment: RotatedEnvironment, state: RotatedState) -> tuple[Modes, LowRankState]:
    """The state of complete data as one of low rank: the rank is zero."""
    vectors = filter.rotate_back(environment, jnp.eye(filter.sites))
    factor = jnp.zeros((0, filter.system.order, filter.sites))
    same = LowRankState(state.mean, state.covariance, factor, state.response, state.precision, state.information)
    return Modes(vectors, environment.values[None, :]), same
