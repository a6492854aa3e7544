"""The history of a dense filter for EP and for paths: its prior and observation operator at one value of ``z``.

All times have one filter and one number of data. Times after the first ``length`` are padding, at which nothing is seen
and no time passes, so that histories of different lengths share one compilation.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from seqgp.linalg.types import Array
from seqgp.statespace.dense import DenseFilter, DenseMatrices, DenseState
from seqgp.statespace.ep import LogProb, ObservedHistory, ep
from seqgp.statespace.gauss_markov import ObservationOperator, gauss_markov
from seqgp.statespace.observation import Observation
from seqgp.statespace.site_filter import GaussianSites, at_time, predict_state, steps_of, update_with_sites
from seqgp.statespace.update import PointwiseData, pointwise_log_probs

SHARED_ITERATIONS = 20  # of EP at most, for sites that particles share
SHARED_TOLERANCE = 1e-3


class LastStates(NamedTuple):
    """The state at the last time: given the sites before it, and given its own too."""

    predicted: DenseState
    filtered: DenseState


def observed_history(
    filter: DenseFilter, matrices: DenseMatrices, observations: Observation, length: Int[Array, ""]
) -> tuple[ObservedHistory, LogProb]:
    """Prior, operator and data of all times (stacked observations), and the log likelihood of the data of one time."""
    ssm, parameters = filter.ssm, matrices.parameters
    steps = jax.vmap(lambda dt: ssm.transition(parameters, dt))(observations.dt)
    prior = gauss_markov(filter.start(matrices).covariance, steps.move, steps.noise, matrices.space)
    times = jnp.arange(prior.floor.shape[0])
    prior = prior._replace(floor=jnp.where(times < length - 1, prior.floor, 0.0))
    h = jax.vmap(lambda t: ssm.observe(parameters, t))(observations.t)
    index, weights = observations.operator
    if weights is not None and matrices.basis is not None:
        weights = weights @ matrices.basis
    operator = ObservationOperator(
        h,
        index,
        weights,
        observations.design,
        jax.vmap(lambda columns: ssm.offset(parameters, columns))(observations.columns),
        observations.seen,
    )

    def log_prob(f, data):
        return pointwise_log_probs(ssm.model.likelihood, parameters, data, f)

    data = PointwiseData(jnp.asarray(observations.y), observations.context, observations.table)
    return ObservedHistory(prior, operator, data), log_prob


def shared_sites(
    filter: DenseFilter, z: Float[Array, " d"], observations: Observation, length: Int[Array, ""]
) -> GaussianSites:
    """Sites of EP over the history at one ``z``, from those that a filter finds snapshot by snapshot."""
    matrices = filter.matrices(z)

    def forward(state, observation):
        return filter.update_with_sites(matrices, filter.predict(matrices, state, observation.dt), observation)

    _, sites = jax.lax.scan(forward, filter.start(matrices), observations)
    history, log_prob = observed_history(filter, matrices, observations, length)
    found, _ = ep(
        history,
        log_prob,
        sites,
        bell_shaped=filter.ssm.model.likelihood.bell_shaped,
        iterations=SHARED_ITERATIONS,
        tolerance=SHARED_TOLERANCE,
    )
    usable = jnp.isfinite(found.sites.tau) & jnp.isfinite(found.sites.nu)
    return GaussianSites(*(jnp.where(usable, part, old) for part, old in zip(found.sites, sites)))


def last_states(history: ObservedHistory, sites: GaussianSites, length: Int[Array, ""]) -> LastStates:
    """The filter that takes sites for data, at the last real time."""
    prior, seen = history.prior, jnp.asarray(history.operator.seen)

    def forward(carry, inputs):
        index, step, now, site, at_data = inputs
        predicted, last = carry
        site = GaussianSites(*(jnp.where(at_data, part, 0.0) for part in site))
        updated = update_with_sites(predicted.mean, predicted.covariance, now, site)
        here = LastStates(predicted, DenseState(updated.mean, updated.cov))
        last = jax.tree.map(lambda new, old: jnp.where(index < length, new, old), here, last)
        return (DenseState(*predict_state(at_time(prior, step), updated.mean, updated.cov)), last), None

    start = DenseState(prior.mean, prior.cov)
    inputs = (jnp.arange(len(seen)), steps_of(prior), history.operator, sites, seen)
    return jax.lax.scan(forward, (start, LastStates(start, start)), inputs)[0][1]
