"""Pointwise likelihoods without derivatives: which are tabulated, over which values of the latent, and how well.

A likelihood without inferred parameters is the same for every particle, so a table of its values serves all of them,
and the black box is called for no other purpose.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.base.priors import Prior
from seqgp.base.snapshot import Context
from seqgp.likelihoods.base import Likelihood
from seqgp.runtime.engine import cached_by_shape, compiled, compiled_function
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.observation import Observation
from seqgp.statespace.tabulated import tabulate
from seqgp.statespace.update import PointwiseData, pointwise_log_probs
from seqgp.statespace.value_quadrature import has_derivatives

REACH = 10.0  # standard deviations of the latent that tables cover
PRIOR_SDS = 3.0  # of each parameter, in either direction, at which the latent is looked at


def by_values(ssm: StateSpaceModel, y: np.ndarray, context: Context) -> bool:
    """Whether the likelihood is pointwise and JAX cannot differentiate it."""
    return ssm.model.likelihood.pointwise and not cached_by_shape(_differentiable, ssm, y, context)


def without_parameters(likelihood: Likelihood) -> bool:
    """Whether none of its parameters is inferred."""
    slots = [slot if isinstance(slot, tuple) else (slot,) for slot in likelihood.priors.values()]
    return not any(isinstance(entry, Prior) for slot in slots for entry in slot)


def with_table(ssm: StateSpaceModel, observation: Observation) -> Observation:
    """The observation with the table of its data, where the likelihood is a black box that has one."""
    likelihood = ssm.model.likelihood
    if observation.line is not None or not without_parameters(likelihood):
        return observation
    y, context, seen = np.asarray(observation.y), observation.context, np.asarray(observation.seen)
    if not by_values(ssm, y, context):
        return observation
    mean, sd = ssm.particle_prior()
    steps = np.concatenate([np.zeros((1, len(mean))), np.eye(len(mean)), -np.eye(len(mean))])
    run, _ = compiled(
        _reach, ssm, mean + PRIOR_SDS * steps * sd, observation.columns, observation.design, np.asarray(observation.t)
    )
    low, high = (np.asarray(end) for end in run())
    values, _ = compiled_function(_at_prior, (ssm, PointwiseData(y, context), mean), (low,))

    def log_prob(f: Float[np.ndarray, " N"]) -> np.ndarray:
        return np.where(seen, np.asarray(values(np.ascontiguousarray(f))), 0.0)

    return observation._replace(table=tabulate(log_prob, low, high))


def worst_table_error(observation: Observation) -> float | None:
    """The largest error of the tables of a snapshot's data; ``None`` where there are none."""
    if observation.table is None:
        return None
    return float(np.max(np.where(observation.seen, observation.table.error, 0.0)))


def _differentiable(ssm: StateSpaceModel, y: np.ndarray, context: Context) -> bool:
    parameters = ssm.parameters(jnp.asarray(ssm.particle_prior()[0]))
    data = PointwiseData(jnp.asarray(y), context)
    return has_derivatives(lambda f: pointwise_log_probs(ssm.model.likelihood, parameters, data, f), jnp.asarray(y))


def _at_prior(ssm: StateSpaceModel, data: PointwiseData, z, f):
    return pointwise_log_probs(ssm.model.likelihood, ssm.parameters(z), data, f)


def _reach(ssm: StateSpaceModel, z, columns, design, t):
    """The lowest and the highest value of the latent at each datum that counts, over values of the parameters."""

    def one(z):
        parameters = ssm.parameters(z)
        scales = jnp.stack([own["scale"] for own in ssm.own(parameters)])
        variance = scales**2 @ ssm.term_variances(parameters, t)
        sd = jnp.sqrt(variance + (design * ssm.coefficient_scales()) ** 2 @ jnp.ones(design.shape[1]))
        offset = ssm.offset(parameters, columns)
        return offset - REACH * sd, offset + REACH * sd

    low, high = jax.vmap(one)(z)
    return jnp.min(low, axis=0), jnp.max(high, axis=0)
