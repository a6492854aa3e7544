"""The gradient of the log evidence by the parameters, through the filters of the history.

For Gaussian data it is that of the filter. For other pointwise data it is that of EP's evidence at sites which all
values of the parameters share: EP's fixed point is stationary in its sites, so that they add nothing to first order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from seqgp.runtime.engine import compiled, in_threads
from seqgp.runtime.parallel import gathered, share
from seqgp.samplers.online.exact import SharedHistory
from seqgp.samplers.online.filters import particle_slices
from seqgp.samplers.online.history import Timeline
from seqgp.samplers.online.programs import over_particles
from seqgp.samplers.online.quadratics import Memory, QuadraticFit
from seqgp.statespace.dense import DenseFilter
from seqgp.statespace.eigenbasis import RotatedFilter
from seqgp.statespace.ep import ep_evaluate, likelihood_flanks
from seqgp.statespace.filter_history import observed_history
from seqgp.statespace.observation import Observation, padded, stacked
from seqgp.statespace.protocol import Filter

MIN_PARAMETERS = 10  # from which moves by gradients serve better than a random walk
NOTHING = 1e-300  # the weight of data that filters see and that do not count
STEP = 1e-4  # of the particles' scale, between the values of a quadratic that its slope is taken from


def gradient_of(
    history: Timeline, memory: Memory | None, dropped: int, forget: float, sites: Callable[[], SharedHistory]
) -> Callable[[Float[np.ndarray, "M d"], float], Float[np.ndarray, "M d"]] | None:
    """From ``z`` and a power of the last snapshot to the gradient, about; ``None`` where a random walk serves.

    Args:
        history: the data.
        memory: what data that are no longer kept said.
        dropped: how many those are.
        forget: the discount of the past.
        sites: all data with the sites of EP at one value of ``z``, where they are not Gaussian.
    """
    if len(history.ssm.in_particles) < MIN_PARAMETERS or not has_gradient(history, memory):
        return None
    if history.ssm.model.likelihood.conjugate:
        return lambda z, power: remembered_gradients(history, memory, dropped, forget, power, z)
    return lambda z, power: ep_gradients(sites(), z)


def has_gradient(history: Timeline, memory: Memory | None) -> bool:
    """Whether one filter takes all data of a history, and JAX differentiates it."""
    likelihood = history.ssm.model.likelihood
    if not likelihood.pointwise or not (likelihood.conjugate or memory is None):
        return False
    if history.ssm.model.kernel.advected and not likelihood.conjugate:
        return False  # EP over the history has no prior of modes that move
    one_segment = isinstance(history.filter, RotatedFilter) and len(history.segments) == 1
    return one_segment or isinstance(history.filter, DenseFilter)


def remembered_gradients(
    history: Timeline, memory: Memory | None, dropped: int, forget: float, power: float, z: Float[np.ndarray, "M d"]
) -> Float[np.ndarray, "M d"]:
    """Of the log evidence of Gaussian data, at a power of the last snapshot.

    Each step further back counts less by ``forget``; what a memory has is taken from there.
    """
    ages = np.arange(len(history.snapshots) - 1, -1, -1)
    weights = np.where(ages > 0, forget ** ages.astype(float), max(power, NOTHING))
    if memory is None:
        return evidence_gradients(history, weights, z)
    first = memory.anchor - dropped
    weights[:first] = NOTHING
    past = forget ** float(len(ages) - 1 - first) * quadratic_slope(memory.log_evidence, z)
    return evidence_gradients(history, weights, z) + past


def evidence_gradients(
    history: Timeline, weights: Float[np.ndarray, " T"], z: Float[np.ndarray, "M d"]
) -> Float[np.ndarray, "M d"]:
    """Of the increments of Gaussian data, each times a positive weight, at values of ``z``."""
    each = [one for segment in history.segments for one in segment.observations]
    size, length = max(len(one.y) for one in each), power_of_two(len(each))
    if isinstance(history.filter, DenseFilter):
        each = [padded(one, size) for one in each]
    every = stacked(each + [each[-1]] * (length - len(each)))
    return _by_groups(_filter_gradients, z, history.filter, every, np.pad(weights, (0, length - len(each))))


def ep_gradients(shared: SharedHistory, z: Float[np.ndarray, "M d"]) -> Float[np.ndarray, "M d"]:
    """Of EP's evidence of all data at shared sites; a bounded history has no gradient (:func:`has_gradient`)."""
    assert shared.first is None
    size = power_of_two(int(shared.length))  # a gradient passes over all times, padding too
    observations, sites = jax.tree.map(lambda leaf: leaf[:size], (shared.observations, shared.sites))
    return _by_groups(_ep_gradients, z, shared.filter, observations, shared.length, sites)


def power_of_two(length: int) -> int:
    """16, 32, 64, …: each is a compilation."""
    return 2 ** max(4, int(np.ceil(np.log2(length))))


def quadratic_slope(quadratic: QuadraticFit, z: Float[np.ndarray, "M d"]) -> Float[np.ndarray, "M d"]:
    """Of a quadratic: central differences are exact."""
    steps = np.diag(STEP * quadratic.scale)
    rises = [quadratic.at(z + step) - quadratic.at(z - step) for step in steps]
    return np.stack(rises, axis=1) / (2 * STEP * quadratic.scale)


def _by_groups(function: Any, z: np.ndarray, *args: PyTree) -> np.ndarray:
    mine = z[share(len(z))]
    runs = [compiled(function, *args, mine[part])[0] for part in particle_slices(len(mine))]
    return gathered(np.concatenate([np.asarray(part) for part in in_threads(runs)]), len(z))


def _filter_gradients(filter: Filter, observations: Observation, weights, z):
    def log_evidence(z):
        matrices = filter.matrices(z)

        @jax.checkpoint
        def body(state, inputs):
            observation, weight = inputs
            new, increment = filter.update(matrices, filter.predict(matrices, state, observation.dt), observation)
            return jax.tree.map(lambda a, b: jnp.where(weight > 0, a, b), new, state), weight * increment

        return jnp.sum(jax.lax.scan(body, filter.start(matrices), (observations, weights))[1])

    return over_particles(filter, jax.grad(log_evidence))(z)


def _ep_gradients(filter: DenseFilter, observations: Observation, length, sites, z):
    def log_evidence(z):
        # On panels, whose ends are found at the same z without derivatives: the search for a bell's mode has none.
        fixed = observed_history(filter, filter.matrices(jax.lax.stop_gradient(z)), observations, length)
        history, log_prob = observed_history(filter, filter.matrices(z), observations, length)
        return ep_evaluate(history, log_prob, sites, likelihood_flanks(*fixed, sites)).log_evidence

    return over_particles(filter, jax.grad(log_evidence))(z)
