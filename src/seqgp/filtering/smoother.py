"""The past revised: a draw of the whole path of a filter's state given all data.

Forward, the filter; backward, each state given the one after it. A pair of states at two times is drawn from the
filter's prediction, and the earlier one corrected by how far the later one is from the draw that is already there
(Matheron's rule), so that no difference of covariances has to be factored.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float, Key

from seqgp.filtering.dense import DenseFilter, DenseState
from seqgp.filtering.observation import Observation
from seqgp.linalg.factor import covariance_root, solve_lower
from seqgp.linalg.types import Array


def draw_path(
    key: Key[Array, ""], filter: DenseFilter, environment: Any, observations: Observation
) -> Float[Array, "T n"]:
    """One draw of the states at all times given all data.

    Args:
        key: a random key.
        filter: the filter.
        environment: of one value of the parameters.
        observations: of all times, stacked.
    """
    start = filter.start(environment)

    def forward(state, observation):
        state, _ = filter.absorb(environment, filter.predict(environment, state, observation.dt), observation)
        return state, state

    _, states = jax.lax.scan(forward, start, observations)
    keys = jax.random.split(key, states.mean.shape[0])
    last = _drawn(keys[-1], DenseState(states.mean[-1], states.covariance[-1]))

    def backward(later, inputs):
        key, state, dt = inputs
        earlier = _earlier(key, filter, environment, DenseState(*state), dt, later)
        return earlier, earlier

    before = jax.tree.map(lambda leaf: leaf[:-1], (keys, tuple(states)))
    _, path = jax.lax.scan(backward, last, (*before, observations.dt[1:]), reverse=True)
    return jnp.concatenate([path, last[None]])


def _earlier(key, filter: DenseFilter, environment, state: DenseState, dt, later):
    """The state at one time given the data up to it and the state a time ``dt`` later."""
    key_now, key_noise = jax.random.split(key)
    now = _drawn(key_now, state)
    moved = filter.predict(environment, DenseState(now, jnp.zeros_like(state.covariance)), dt)
    ahead = _drawn(key_noise, moved)
    predicted = filter.predict(environment, state, dt)
    cross = filter.moved_rows(environment, state.covariance, dt)  # of the later state with the earlier one
    root = covariance_root(predicted.covariance)
    return now + cross.T @ solve_lower(root, solve_lower(root, later - ahead), transpose=True)


def _drawn(key, state: DenseState):
    return state.mean + covariance_root(state.covariance) @ jax.random.normal(key, state.mean.shape, state.mean.dtype)
