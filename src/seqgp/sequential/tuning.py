"""What the updates need to have found before they start, and freeze: the precision of surrogate data."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from seqgp.mcmc.curvature import diagonal_curvature, differentiable
from seqgp.mcmc.plain import Plain, PlainTuning
from seqgp.models.model import Model
from seqgp.sequential.chains import Setting
from seqgp.sequential.engine import compiled
from seqgp.sequential.problem import Problem, assemble, target_of


def is_differentiable(setting: Setting, problem: Problem) -> bool:
    """Whether JAX can differentiate the likelihood of this snapshot in the latent."""
    target = target_of(assemble(setting.model, setting.carry, problem), _no_window(problem))
    z = jnp.zeros(target.mean.shape)
    return differentiable(lambda s: target.log_likelihood(s, z), jax.ShapeDtypeStruct((target.size,), float))


def plain_tuning(setting: Setting, problem: Problem, sites: np.ndarray | None, z: np.ndarray) -> PlainTuning:
    """The precision ``1/S`` of surrogate data at each site.

    From the curvature of the log likelihood at a point (``sites``, ``z``), where it can be differentiated; otherwise
    from half the prior's standard deviation. A user's own ``S`` takes precedence.
    """
    size = setting.carry.size(len(problem.times) - len(problem.observed), problem.x.shape[1])
    size += (len(problem.observed) - 1) * problem.x.shape[1]
    updates: Plain = setting.updates
    if updates.surrogate is not None:
        return PlainTuning(np.full(size, updates.surrogate**-2.0))
    if not is_differentiable(setting, problem):
        scale = float(setting.model.parameters(jnp.asarray(z))["scale"])
        return PlainTuning(np.full(size, (0.5 * scale) ** -2.0))
    at = np.zeros(size) if sites is None else np.asarray(sites)
    run, _ = compiled(_curvature, setting, problem, at, np.asarray(z))
    return PlainTuning(np.asarray(run()))


def _curvature(setting: Setting, problem: Problem, sites: Float[Array, "n"], z: Float[Array, "d"]):
    model: Model = setting.model
    target = target_of(assemble(model, setting.carry, problem), _no_window(problem))
    pointwise = model.likelihood.pointwise and all(
        observed.summary is None and observed.observe.weights is None for observed in problem.observed
    )
    return diagonal_curvature(lambda s: target.log_likelihood(s, z), sites, pointwise)


def _no_window(problem: Problem) -> Array:
    tau = len(problem.times) - len(problem.observed)
    return jnp.zeros((tau, problem.x.shape[1]))
