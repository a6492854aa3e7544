"""The history of a dense filter for EP and for paths: its prior and observation operator at one value of ``z``.

All times have one filter and one number of data. Times after the first ``length`` are padding, at which nothing is seen
and no time passes, so that histories of different lengths share one compilation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, PyTree

from seqgp.linalg.types import Array, ArrayLike
from seqgp.model import Model
from seqgp.statespace.dense import DenseFilter, DenseMatrices
from seqgp.statespace.ep import LogProb, ObservedHistory, ep_refine
from seqgp.statespace.gauss_markov import ObservationOperator
from seqgp.statespace.loops import scan_first
from seqgp.statespace.observation import Observation
from seqgp.statespace.site_filter import GaussianSites
from seqgp.statespace.update import PointwiseData, pointwise_log_probs

SHARED_ITERATIONS = 20  # of EP at most, for sites that particles share
SHARED_TOLERANCE = 1e-3


class LastStates(NamedTuple):
    """States of a filter given sites: after the last time but one (of a single time, before any data), and after it."""

    before: PyTree
    filtered: PyTree


def observed_history(
    filter: DenseFilter, matrices: DenseMatrices, observations: Observation, length: Int[Array, ""]
) -> tuple[ObservedHistory, LogProb]:
    """Prior, operator and data of all times (stacked observations), and the log likelihood of the data of one time."""
    ssm, parameters = filter.ssm, matrices.parameters
    prior, h = filter.history_prior(matrices, jnp.asarray(observations.dt), jnp.asarray(observations.t))
    times = jnp.arange(prior.floor.shape[0])
    prior = prior._replace(floor=jnp.where(times < length - 1, prior.floor, 0.0))
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
    filter: DenseFilter,
    z: Float[Array, " d"],
    observations: Observation,
    length: Int[Array, ""],
    first: Int[Array, ""] | None = None,
) -> GaussianSites:
    """Sites of EP over the history at one ``z``, from those that a filter finds snapshot by snapshot.

    Those of times before ``first`` are sites of EP over these alone: what follows has no say in what they stand for.
    """
    matrices = filter.matrices(z)

    def forward(state, observation):
        return filter.update_with_sites(matrices, filter.predict(matrices, state, observation.dt), observation)

    _, sites = scan_first(forward, filter.start(matrices), observations, length)
    history, log_prob = observed_history(filter, matrices, observations, length)

    def iterated(history, sites, free):
        most, tolerance = SHARED_ITERATIONS, SHARED_TOLERANCE
        known = likelihood_is_known(filter.ssm.model)
        found = ep_refine(
            history, log_prob, sites, known=known, iterations=most, tolerance=tolerance, length=length, free=free
        )
        return found[0]

    return in_order(history, sites, iterated, first)


def likelihood_is_known(model: Model) -> bool:
    """Whether all particles have one likelihood of each datum, with one peak and no cliff."""
    own = {name.split("[")[0] for name in model.names} & set(model.likelihood.priors)
    return model.likelihood.bell_shaped and not own


def in_order(
    history: ObservedHistory,
    sites: GaussianSites,
    revised: Callable[[ObservedHistory, GaussianSites, Bool[ArrayLike, "T 1"] | bool], GaussianSites],
    first: Int[Array, ""] | None,
) -> GaussianSites:
    """Sites revised by EP, those before ``first`` without the data from there on, and held while the others move.

    A site that is revised to none that is finite stays.
    """

    def kept(new: GaussianSites, old: GaussianSites, where) -> GaussianSites:
        usable = jnp.isfinite(new.tau) & jnp.isfinite(new.nu) & where
        return GaussianSites(*(jnp.where(usable, part, other) for part, other in zip(new, old)))

    if first is None:
        return kept(revised(history, sites, True), sites, True)
    before = jnp.arange(len(sites.tau))[:, None] < first
    alone = history._replace(operator=history.operator._replace(seen=history.operator.seen & before))
    sites = kept(revised(alone, sites, True), sites, before)
    return kept(revised(history, sites, ~before), sites, ~before)


def last_states(
    filter: DenseFilter,
    matrices: PyTree,
    observations: Observation,
    sites: GaussianSites,
    length: Int[Array, ""],
) -> LastStates:
    """The filter that takes sites for data, at the last real time."""

    def forward(last, inputs):
        observation, site = inputs
        state = last.filtered
        site = GaussianSites(*(jnp.where(observation.seen, part, 0.0) for part in site))
        after = filter.given_sites(matrices, filter.predict(matrices, state, observation.dt), observation, site)
        return LastStates(state, after), None

    start = filter.start(matrices)
    return scan_first(forward, LastStates(start, start), (observations, sites), length)[0]
