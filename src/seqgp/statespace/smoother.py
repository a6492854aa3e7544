"""The past revised: a draw of the whole path of a filter's state given all data.

Forward, the filter; backward, each state given the one after it. A pair of states at two times is drawn from the
filter's prediction, and the earlier one corrected by how far the later one is from the draw that is already there
(Matheron's rule), so that no difference of covariances has to be factored.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float, Key

from seqgp.linalg.factor import covariance_root, inverse_root, solve_lower
from seqgp.linalg.types import Array
from seqgp.statespace.dense import DenseFilter, DenseMatrices, DenseState
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.observation import Observation


def draw_path(
    key: Key[Array, ""], filter: DenseFilter, matrices: DenseMatrices, observations: Observation
) -> Float[Array, "T n"]:
    """One draw of the states at all times given all data.

    Args:
        key: a random key.
        filter: the filter.
        matrices: of one value of the parameters.
        observations: of all times, stacked.
    """
    start = filter.start(matrices)

    def forward(state, observation):
        state, _ = filter.update(matrices, filter.predict(matrices, state, observation.dt), observation)
        return state, state

    _, states = jax.lax.scan(forward, start, observations)
    white_last, white = _white(key, *states.mean.shape)
    last = _drawn(white_last, DenseState(states.mean[-1], states.covariance[-1]))

    def backward(later, inputs):
        white, state, dt = inputs
        earlier = _earlier(white, filter, matrices, DenseState(*state), dt, later)
        return earlier, earlier

    before = jax.tree.map(lambda leaf: leaf[:-1], tuple(states))
    _, path = jax.lax.scan(backward, last, (white, before, observations.dt[1:]), reverse=True)
    return jnp.concatenate([path, last[None]])


def draw_at_inputs(
    key: Key[Array, ""],
    filter: DenseFilter,
    matrices: DenseMatrices,
    path: Float[Array, "T n"],
    times: Float[Array, " T"],
    x: Float[Array, "m D"],
) -> Float[Array, "T m"]:
    """One draw of the zero-mean latent at new inputs, jointly over inputs and times, given the states at all sites.

    Of each term of the kernel, with space kernel ``K`` and state ``s`` at the sites, the state at the inputs is
    ``C s + r`` with ``C = K(x, sites) K(sites)⁻¹``. No data have seen ``r``: it moves in time as ``s`` does, with
    ``K(x, x) − C K(sites, x)`` in space.

    Args:
        key: a random key.
        filter: the filter that the path is of, on sites (not on knots, from which everything is interpolated).
        matrices: of one value of the parameters.
        path: the states at some times, each stacked as in ``DenseFilter``.
        times: those times, in increasing order.
        x: inputs, none of them a site.
    """
    ssm, parameters = filter.ssm, matrices.parameters
    sites, m = jnp.asarray(filter.x), x.shape[0]
    fields = path[:, : filter.fields].reshape(path.shape[0], ssm.order, filter.sites)
    cross = [jnp.where(filter.mask, k, 0.0) for k in ssm.space(parameters, ssm.distances(x, sites))]
    own = ssm.space(parameters, ssm.distances(x, x))
    means, roots, first = [], [], 0
    for state, space, between, within in zip(ssm.states, matrices.space, cross, own):
        whiten = inverse_root(space)
        half = whiten @ between.T
        means.append(fields[:, first : first + state.order] @ whiten.T @ half)
        roots.append(covariance_root(within - half.T @ half))
        first += state.order
    white = jax.random.normal(key, (path.shape[0], ssm.order, m), path.dtype)
    unseen = _stationary_path(ssm, parameters, tuple(roots), times, white)
    h = jax.vmap(lambda t: ssm.observe(parameters, t))(times)
    return jnp.einsum("ta,tam->tm", h, jnp.concatenate(means, axis=1) + unseen)


def _stationary_path(ssm: StateSpaceModel, parameters, roots, times, white) -> Float[Array, "T p m"]:
    """States that no data have seen at increasing times, from standard normal numbers and roots in space."""

    def noise(covariances, white):
        parts, first = [], 0
        for covariance, root in zip(covariances, roots):
            last = first + covariance.shape[0]
            parts.append(covariance_root(covariance) @ white[first:last] @ root.T)
            first = last
        return jnp.concatenate(parts)

    def forward(state, inputs):
        dt, white = inputs
        transition = ssm.transition(parameters, dt)
        state = transition.move @ state + noise(transition.noise, white)
        return state, state

    start = noise(ssm.stationary(parameters), white[0])
    _, later = jax.lax.scan(forward, start, (jnp.diff(times), white[1:]))
    return jnp.concatenate([start[None], later])


def _white(key, times: int, size: int) -> tuple[Float[Array, " n"], Float[Array, "T-1 2 n"]]:
    """Standard normal numbers of the last state, and of each earlier one: before the scan, so that paths vectorise."""
    keys = jax.random.split(key, times)
    normal = jax.vmap(lambda key: jax.random.normal(key, (size,)))
    return jax.random.normal(keys[-1], (size,)), jax.vmap(lambda key: normal(jax.random.split(key)))(keys[:-1])


def _earlier(white, filter: DenseFilter, matrices, state: DenseState, dt, later):
    """The state at one time given the data up to it and the state a time ``dt`` later."""
    white_now, white_noise = white
    now = _drawn(white_now, state)
    moved = filter.predict(matrices, DenseState(now, jnp.zeros_like(state.covariance)), dt)
    ahead = _drawn(white_noise, moved)
    predicted = filter.predict(matrices, state, dt)
    cross = filter.moved_rows(matrices, state.covariance, dt)  # of the later state with the earlier one
    root = covariance_root(predicted.covariance)
    return now + cross.T @ solve_lower(root, solve_lower(root, later - ahead), transpose=True)


def _drawn(white: Float[Array, " n"], state: DenseState):
    return state.mean + covariance_root(state.covariance) @ white
