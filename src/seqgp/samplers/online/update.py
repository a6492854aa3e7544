"""Update the filters of all particles with a snapshot.

Where the likelihood sees all of the latent, a linearisation comes first: found at the particle nearest to the mean of
all, and once more at the one nearest to their mean as the snapshot has weighted them.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from seqgp.base.snapshot import Snapshot
from seqgp.likelihoods.base import fill_missing
from seqgp.runtime.engine import compiled, in_threads
from seqgp.runtime.parallel import gathered
from seqgp.samplers.ibis import Particles
from seqgp.samplers.online.budget import check_memory
from seqgp.samplers.online.filters import Filters, Spent, advanced, filter_of, group_bounds, particle_count, run_filters
from seqgp.samplers.online.history import Timeline, begin
from seqgp.samplers.online.layout import LatentOption, SiteLayout, all_known, first_filter, operator_of
from seqgp.samplers.online.quadratics import LinearisedSnapshot, QuadraticFit
from seqgp.samplers.online.state import Live
from seqgp.statespace.linearise import Linearisation, SolverData, linearise, log_likelihood
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.observation import Query
from seqgp.statespace.protocol import Filter

ANTITHETIC_PAIRS = 8  # of draws and their mirror images, over which a slope is averaged
CORRECTION_CURVATURE = 0.3  # how much a correction changes over a standard deviation of the particles, about
RATIO_DRAWS = 8  # the same, for the mean ratio of likelihood to its linearisation of each particle


class UpdatedFilters(NamedTuple):
    """The filters with the snapshot taken in."""

    history: Timeline
    filters: Filters
    increments: Float[np.ndarray, "S T"]  # of the log evidence: of the snapshot, or of all where all was laid out anew
    spent: Spent


def update_filters(
    ssm: StateSpaceModel,
    latent: LatentOption,
    live: Live | None,
    particles: Particles,
    snapshot: Snapshot,
    rng: np.random.Generator,
    sees_past_alone: bool = True,
) -> UpdatedFilters:
    """The filters of particles given one more snapshot.

    Args:
        ssm: the model as a state-space model.
        latent: where the user wants the latent to live.
        live: history and filters before the snapshot; ``None`` for the first one.
        particles: before the snapshot.
        snapshot: the data.
        rng: random numbers.
        sees_past_alone: whether the weights know only the data before the snapshot. A linearisation is then found once
            more where the snapshot moves their mean.
    """
    z = particles.z
    if ssm.model.likelihood.pointwise:
        return _updated(ssm, latent, live, z, snapshot, None)
    white = rng.standard_normal((ANTITHETIC_PAIRS, len(snapshot.x)))
    centre = central(z, particles.weights())
    linearised, seconds = linearised_at(ssm, latent, live, z, centre, snapshot, white)
    found = _updated(ssm, latent, live, z, snapshot, linearised)
    increment = found.increments[:, -1]
    if sees_past_alone and np.isfinite(increment).any():
        again = central(z, particles._replace(log_increment=increment).weights())
        if again != centre:
            linearised, more = linearised_at(ssm, latent, live, z, again, snapshot, white)
            found = _updated(ssm, latent, live, z, snapshot, linearised)
            seconds += more
    return found._replace(spent=found.spent + Spent(0, seconds))


def central(z: Float[np.ndarray, "S d"], weights: Float[np.ndarray, " S"]) -> int:
    """The particle nearest to the mean of the particles, in its standard deviations."""
    mean = weights @ z
    scale = np.sqrt(weights @ (z - mean) ** 2) + 1e-12
    distance = (((z - mean) / scale) ** 2).sum(axis=1)
    return int(np.argmin(np.where(weights > 0, distance, np.inf)))


def linearised_at(
    ssm: StateSpaceModel,
    latent: LatentOption,
    live: Live | None,
    z: Float[np.ndarray, "S d"],
    particle: int,
    snapshot: Snapshot,
    white: Float[np.ndarray, "K N"],
) -> tuple[LinearisedSnapshot, float]:
    """The linearisation of a snapshot as one particle's filter predicts it, and the seconds that compilation took."""
    data = solver_data(snapshot)
    if live is None:
        layout, filter = first_filter(ssm, latent, snapshot.x)
        query = _where(ssm, layout, snapshot, 0.0)
        run, seconds = compiled(_line_at_start, filter, query, data, z[particle], white)
    else:
        history = live.history
        query = _where(ssm, history.layout, snapshot, snapshot.t - history.snapshots[-1].t)
        run, seconds = compiled(_line, history.filter, query, data, *filter_of(live.filters, particle), white)
    return LinearisedSnapshot(jax.tree.map(np.asarray, run())), seconds


class Ratios(NamedTuple):
    """Draws of each particle's ``f`` at the last data, and the ratio of the likelihood to its linearisation."""

    log_ratio: Float[np.ndarray, "S K"]
    drawn: Float[np.ndarray, "S K q+N"]  # coefficients of the mean, and ``f``

    def log_mean(self) -> Float[np.ndarray, " S"]:
        """What corrects the log evidence of each particle."""
        return np.asarray(logsumexp(self.log_ratio, axis=1)) - np.log(self.log_ratio.shape[1])

    def correction(self, particles: Particles) -> QuadraticFit:
        """Their log means as a quadratic of the parameters.

        A few draws of a particle far from where the linearisation was found say little: what is far from the others is
        brought nearer, and the noise that remains flattens the quadratic, which bends by about
        ``CORRECTION_CURVATURE`` over the particles.
        """
        values, weights = self.log_mean(), particles.weights()
        middle = _weighted_median(values, weights)
        spread = 1.48 * _weighted_median(np.abs(values - middle), weights) + 1e-9
        near = np.clip(values, middle - 3 * spread, middle + 3 * spread)
        return QuadraticFit.fitted(
            particles.z, near, weights, ridge=spread**2 / particles.ess() / CORRECTION_CURVATURE**2 + 1e-6
        )

    def ess_fraction(self) -> Float[np.ndarray, " S"]:
        """The share of its draws that is effective, for each particle."""
        logs = self.log_ratio - logsumexp(self.log_ratio, axis=1, keepdims=True)
        return 1 / np.exp(2 * logs).sum(axis=1) / logs.shape[1]

    def draws(self, rng: np.random.Generator, particle: Int[np.ndarray, " draws"]) -> Float[np.ndarray, "draws q+N"]:
        """One draw for each of given particles, in proportion to the ratio."""
        share = np.exp(self.log_ratio - logsumexp(self.log_ratio, axis=1, keepdims=True)).cumsum(axis=1)
        slot = (share[particle] < rng.random((len(particle), 1))).sum(axis=1)
        return self.drawn[particle, np.minimum(slot, share.shape[1] - 1)]


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), 0.5 * weights.sum())])


def ratios_of(history: Timeline, filters: Filters, rng: np.random.Generator) -> tuple[Ratios, float]:
    """Of all particles, and the seconds that compilation took."""
    snapshot, linearised = history.snapshots[-1], history.linearised_snapshots[-1]
    assert linearised is not None
    query = _where(history.ssm, history.layout, snapshot, 0.0)
    size = len(history.ssm.in_state) + len(snapshot.x)
    count, runs = particle_count(filters), []
    white = rng.standard_normal((count, RATIO_DRAWS, size))
    for group, (low, high) in zip(filters.groups, itertools.pairwise(group_bounds(filters))):
        mirrored = np.concatenate([white[low:high], -white[low:high]], axis=1)
        runs.append(compiled(_ratios, history.filter, query, solver_data(snapshot), linearised.line, *group, mirrored))
    found = in_threads([run for run, _ in runs])
    logs, drawn = (gathered(np.concatenate([np.asarray(part[i]) for part in found]), count) for i in (0, 1))
    return Ratios(np.where(np.isnan(logs), -np.inf, logs), drawn), sum(seconds for _, seconds in runs)


def solver_data(snapshot: Snapshot) -> SolverData:
    """The data of a snapshot, flat."""
    filled, missing = fill_missing(snapshot.y)
    return SolverData(jnp.asarray(filled.reshape(-1)), jnp.asarray(~missing.reshape(-1)), snapshot.context)


def _updated(
    ssm: StateSpaceModel,
    latent: LatentOption,
    live: Live | None,
    z: np.ndarray,
    snapshot: Snapshot,
    linearised: LinearisedSnapshot | None,
) -> UpdatedFilters:
    if live is None:
        history = begin(ssm, latent, snapshot, linearised)
        check_memory(history, len(z))
        return UpdatedFilters(history, *run_filters(history, z, 1))
    history = live.history.with_snapshot(snapshot, linearised)
    if history.segments[-1].first == len(history.snapshots) - 1:
        check_memory(history, len(z))
    if history.rebuilt:
        return UpdatedFilters(history, *run_filters(history, z, len(history.snapshots)))
    filters, increment, spent = advanced(history, live.filters)
    return UpdatedFilters(history, filters, increment[:, None], spent)


def _where(ssm: StateSpaceModel, layout: SiteLayout, snapshot: Snapshot, dt: float) -> Query:
    operator = operator_of(layout, snapshot.x) if all_known(layout, snapshot.x) else None
    columns = ssm.columns(snapshot.t, snapshot.x, snapshot.context)
    return Query(snapshot.x, operator, columns, np.asarray(dt, float), np.asarray(snapshot.t, float))


def _line_at_start(filter: Filter, query: Query, data: SolverData, z, white) -> Linearisation:
    matrices = filter.matrices(z)
    return _line(filter, query, data, matrices, filter.start(matrices), white)


def _line(filter: Filter, query: Query, data: SolverData, matrices, state, white) -> Linearisation:
    gaussian, parameters = filter.predict_f(matrices, state, query), matrices.parameters
    q = gaussian.mean.shape[0] - white.shape[1]
    likelihood = filter.ssm.model.likelihood
    return linearise(likelihood, data, parameters, gaussian.mean[q:], gaussian.covariance[q:, q:], white)


def _ratios(filter: Filter, query: Query, data: SolverData, line: Linearisation, all_matrices, states, white):
    likelihood = filter.ssm.model.likelihood

    def one(inputs):
        matrices, state, white = inputs
        gaussian, parameters = filter.predict_f(matrices, state, query), matrices.parameters
        drawn = gaussian.mean[None, :] + white @ gaussian.root().T
        q = gaussian.mean.shape[0] - query.columns.shape[0]

        def log_ratio(f):
            linearised = line.log_density(likelihood, *data, parameters, f)
            return log_likelihood(likelihood, data, parameters, f) - linearised

        return jax.vmap(log_ratio)(drawn[:, q:]), drawn

    return jax.lax.map(one, (all_matrices, states, white))
