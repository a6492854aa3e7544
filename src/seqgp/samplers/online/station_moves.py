"""Rejuvenation of particles with a noise for each station (:mod:`seqgp.samplers.online.stations`).

Where too few particles are left they are resampled and moved, each time by two kernels that leave the posterior of
``(z, λ)`` as it is:

- Metropolis moves of ``z`` over all data, with the ratios kept or with the stations' noises kept, in turn;
- a Gibbs sweep: a path of the latent given ``(z, λ)``; ``noise`` and ``a``
  given the path, with the ratios integrated out; the ratios given all of these.

A Gibbs sweep is reversible. While the last snapshot counts with a power below 1 the sweep sees the data before it
alone, and is accepted with the ratio of the powers of the last snapshot's density.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln as log_gamma
from jaxtyping import Float
from scipy.special import gammaln

from seqgp.fields.sites import round_size
from seqgp.likelihoods.gaussian import CONCENTRATION, RATIOS, STATION
from seqgp.linalg.types import Array, ArrayLike
from seqgp.runtime.engine import compiled, in_threads
from seqgp.samplers.ibis import (
    MAX_CORRELATION,
    MAX_TEMPERING_STAGES,
    MIN_ESS_FRACTION,
    MIN_MOVES,
    UNTEMPERED_ESS_FRACTION,
    Particles,
    Rejuvenation,
    correlation,
    systematic,
)
from seqgp.samplers.online.filters import LANES, Filters, Spent, chosen, either, particle_slices
from seqgp.samplers.online.history import Timeline
from seqgp.samplers.online.layout import dense_filter, observation_of
from seqgp.samplers.online.stations import ROOM, SMALLEST, values_of
from seqgp.samplers.proposals import StudentProposal, log_normal
from seqgp.statespace.dense import DenseFilter
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.observation import Observation, padded, stacked
from seqgp.statespace.smoother import draw_path

if TYPE_CHECKING:
    from seqgp.samplers.online.step import OnlineStep

MAX_MOVES = 12
SHORTEST = 32  # times that paths are drawn at, at least: few lengths, so few compilations
POPULATION_MOVES = 20  # of noise and concentration for each path


def rejuvenate_stations(step: OnlineStep, forced: bool = False) -> None:
    """Resample and move the particles of a step, at powers of the last snapshot where it says very much."""
    size, power = len(step.particles.z), 0.0
    for stage in range(MAX_TEMPERING_STAGES):
        ess = step.particles.ess()
        if ess >= MIN_ESS_FRACTION * size and not (forced and not stage):
            return
        direct = ess >= max(UNTEMPERED_ESS_FRACTION * size, 2 * len(step.ssm.in_particles) + 2)
        power = 1.0 if direct else step.particles.temper(power, MIN_ESS_FRACTION * size)
        _resample_and_move(step, power)


def _resample_and_move(step: OnlineStep, power: float) -> None:
    start, particles, size = time.perf_counter(), step.particles, len(step.particles.z)
    d, total = len(step.ssm.in_particles), step.particles.log_evidence(power)
    variance = particles.variance + max(size / particles.ess(power) - 1, 0.0) / size
    weights, before = particles.weights(power), step.spent.filter_steps
    spread = _root(particles.z[:, :d], weights, step.ssm)
    index = systematic(step.rng, weights, size)
    now = _Moving(
        particles.z[index], particles.log_evidences[index], particles.log_increment[index],
        chosen(step.filters, index),
    )  # fmt: skip
    began, accepted, moves = now.z[:, :d], 0.0, 0
    data = _all_data(step.history)
    while moves < MIN_MOVES or (d and moves < MAX_MOVES and correlation(began, now.z[:, :d]) > MAX_CORRELATION):
        if d:
            now, taken = _walked(step, now, spread, power, keep_noise=bool(moves % 2))
            accepted += taken
        now = _swept(step, now, data, spread, power)
        moves += 1
    prior = log_normal(now.z[:, :d], *step.ssm.particle_prior())
    equal = prior + now.evidence + power * now.increment - total
    step.particles = Particles(now.z, prior, now.evidence, now.increment, equal, variance)
    step.filters = now.filters
    step.past = step.past._replace(evaluated_at=step.number)
    steps, seconds = step.spent.filter_steps - before, time.perf_counter() - start
    step.rejuvenations += (Rejuvenation("moves", power, 0, float(size), accepted / moves, steps, seconds),)


class _Moving(NamedTuple):
    """Particles that are moved."""

    z: Float[np.ndarray, "S n"]
    evidence: Float[np.ndarray, " S"]
    increment: Float[np.ndarray, " S"]
    filters: Filters

    def where(self, take: np.ndarray, other: _Moving) -> _Moving:
        """The others where ``take`` says so."""
        return _Moving(
            np.where(take[:, None], other.z, self.z),
            np.where(take, other.evidence, self.evidence),
            np.where(take, other.increment, self.increment),
            either(take, other.filters, self.filters),
        )


def _root(z: Float[np.ndarray, "S d"], weights: Float[np.ndarray, " S"], ssm: StateSpaceModel) -> np.ndarray:
    """Of the covariance of the particles' ``z``."""
    return StudentProposal.fitted(z, weights, 1e-10 * ssm.particle_prior()[1] ** 2).root


def _evaluated(step: OnlineStep, z: Float[np.ndarray, "S n"]) -> _Moving:
    found = step.evaluate(z)
    return _Moving(z, found.log_evidences, found.log_increment, found.filters)


def _walked(
    step: OnlineStep, now: _Moving, spread: np.ndarray, power: float, keep_noise: bool
) -> tuple[_Moving, float]:
    """A Metropolis step of ``z`` with the ratios kept, or with the noise of each station kept."""
    ssm, size = step.ssm, len(now.z)
    d = len(ssm.in_particles)
    proposed = now.z.copy()
    proposed[:, :d] += 1.7 / np.sqrt(d) * step.rng.standard_normal((size, d)) @ spread.T
    if keep_noise:
        noise, old_noise = values_of(ssm, "noise", proposed), values_of(ssm, "noise", now.z)
        proposed[:, d:] += 2 * (np.log(noise) - np.log(old_noise))[:, None]
    found = _evaluated(step, proposed)
    new, old = (_log_target(ssm, one, power) for one in (found, now))
    with np.errstate(invalid="ignore"):
        take = np.log(step.rng.random(size)) < new - old
    return now.where(take, found), float(take.mean())


def _log_target(ssm: StateSpaceModel, at: _Moving, power: float) -> Float[np.ndarray, " S"]:
    """Of ``z`` and ``log λ``: priors, and the evidence at a power of the last snapshot."""
    d = len(ssm.in_particles)
    a, logs = values_of(ssm, CONCENTRATION, at.z)[:, None], at.z[:, d:]
    population = (a * np.log(a) - gammaln(a) + a * (logs - np.exp(logs))).sum(axis=1)
    return log_normal(at.z[:, :d], *ssm.particle_prior()) + population + at.evidence + power * at.increment


def _swept(step: OnlineStep, now: _Moving, data: _Data, spread: np.ndarray, power: float) -> _Moving:
    """A Gibbs sweep of each particle."""
    ssm, size, whole = step.ssm, len(now.z), power == 1.0
    d = len(ssm.in_particles)
    keys = step.rng.integers(0, 2**32, (size, 2), dtype=np.uint32)
    length, parts = np.asarray(data.length if whole else data.length - 1), particle_slices(size)
    rows = [(_whole(now.z[part]), _whole(keys[part])) for part in parts]
    runs = [compiled(_residuals, data.filter, data.observations, length, *pair) for pair in rows]
    each = in_threads([run for run, _ in runs])
    step.spend(Spent(data.length, sum(seconds for _, seconds in runs)))
    found = Residuals(*(_joined(leaves, parts) for leaves in zip(*each)))
    z = np.concatenate([_population_moves(step, found, now.z[:, :d], spread), now.z[:, d:]], axis=1)
    noise, a = (values_of(ssm, name, z)[:, None] for name in ("noise", CONCENTRATION))
    shape, rate = a + 0.5 * found.num_data, a + 0.5 * found.squares / noise**2
    z[:, d:] = np.log(np.maximum(step.rng.standard_gamma(shape) / rate, SMALLEST))
    after = _evaluated(step, np.where(np.isfinite(z).all(axis=1, keepdims=True), z, now.z))
    if whole:
        return after
    with np.errstate(invalid="ignore"):
        take = np.log(step.rng.random(size)) < power * (after.increment - now.increment)
    return now.where(take, after)


def _joined(leaves: Any, parts: list[slice]) -> np.ndarray:
    """Of all particles, without what was added to whole bundles."""
    return np.concatenate([np.asarray(leaf)[: part.stop - part.start] for leaf, part in zip(leaves, parts)])


def _population_moves(
    step: OnlineStep, found: Residuals, z: Float[np.ndarray, "S d"], spread: np.ndarray
) -> Float[np.ndarray, "S d"]:
    """Metropolis moves of noise and concentration given the path, the ratios integrated out."""
    moving = np.array([name in ("noise", CONCENTRATION) for name in step.ssm.names], bool)
    if not moving.any():
        return z
    widths = 2.0 * 0.1 ** step.rng.random((POPULATION_MOVES, len(z), 1))  # from wide to narrow
    sds = np.where(moving, np.sqrt(np.sum(spread**2, axis=1)), 0.0)
    steps = widths * sds * step.rng.standard_normal((POPULATION_MOVES, *z.shape))
    log_uniform = np.log(step.rng.random((POPULATION_MOVES, len(z))))
    run, seconds = compiled(_moved_population, step.ssm, step.ssm.particle_prior(), found, z, steps, log_uniform)
    step.spend(Spent(0, seconds))
    return np.array(run())


class Residuals(NamedTuple):
    """What the data say about the noise of each station, given the latent: sufficient for ``λ``."""

    num_data: Float[ArrayLike, "*S M"]
    squares: Float[ArrayLike, "*S M"]


def population_log_prob(
    found: Residuals, noise: Float[ArrayLike, ""], concentration: Float[ArrayLike, ""]
) -> Float[Array, ""]:
    """The log density of the residuals given ``noise`` and ``a``, the ratios integrated out (Student's t)."""
    a = concentration
    shape, rate = a + 0.5 * found.num_data, a + 0.5 * found.squares / noise**2
    each = log_gamma(shape) - log_gamma(a) + a * jnp.log(a) - shape * jnp.log(rate)
    return jnp.sum(each - 0.5 * found.num_data * jnp.log(2 * jnp.pi * noise**2))


def _moved_population(ssm: StateSpaceModel, prior, found: Residuals, z, steps, log_uniform):
    mean, sd = prior

    def log_target(z, found):
        parameters = ssm.parameters(z)
        log_prior = -0.5 * jnp.sum(((z - mean) / sd) ** 2)
        return log_prior + population_log_prob(found, parameters["noise"], parameters[CONCENTRATION])

    heights = jax.vmap(log_target)

    def move(carry, numbers):
        z, height = carry
        step, log_u = numbers
        new = heights(z + step, found)
        take = log_u < new - height
        return (jnp.where(take[:, None], z + step, z), jnp.where(take, new, height)), None

    return jax.lax.scan(move, (z, heights(z, found)), (steps, log_uniform))[0][0]


def _whole(rows: np.ndarray) -> np.ndarray:
    """Rows of whole bundles: what a processor computes at once is the same for every particle."""
    return np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % LANES, axis=0)])


class _Data(NamedTuple):
    """All snapshots for one filter, padded to one of a few lengths."""

    filter: DenseFilter
    observations: Observation  # stacked
    length: int


def _all_data(history: Timeline) -> _Data:
    layout, ssm = history.layout, history.ssm
    times = [snapshot.t for snapshot in history.snapshots]
    gaps = np.diff(times, prepend=times[0])
    each = [observation_of(ssm, layout, s, float(dt), None) for s, dt in zip(history.snapshots, gaps)]
    size = round_size(max(len(one.y) for one in each))
    each = [padded(one, size) for one in each]
    longest = np.asarray(max(float(np.max([one.dt for one in each])), 1e-3))
    nothing = each[-1]._replace(dt=longest, seen=np.zeros(size, bool))
    room = -(-len(layout.x) // ROOM) * ROOM
    observations = stacked(each + [nothing] * (round_size(max(len(each), SHORTEST)) - len(each)))
    return _Data(dense_filter(ssm, layout, room), observations, len(each))


def _residuals(filter: DenseFilter, observations: Observation, length, z, keys) -> Residuals:
    """Of a path for each particle, by station; snapshots from the ``length``-th on say nothing."""
    times = jnp.arange(observations.seen.shape[0])
    observations = observations._replace(seen=jnp.asarray(observations.seen) & (times < length)[:, None])

    def one(inputs):
        z, key = inputs
        return _residuals_of_path(jax.random.wrap_key_data(key, impl="threefry2x32"), filter, observations, z)

    return jax.lax.map(one, (z, keys), batch_size=LANES if filter.together() else None)


def _residuals_of_path(key, filter: DenseFilter, observations: Observation, z) -> Residuals:
    """Of a draw of the path of the latent, by station, as if the noise had no season."""
    ssm, matrices = filter.ssm, filter.matrices(z)
    parameters = matrices.parameters
    path = draw_path(key, filter, matrices, observations)
    shown = filter.shown(matrices, path, observations.t)
    flat, room = parameters | {RATIOS: jnp.ones_like(parameters[RATIOS])}, parameters[RATIOS].shape[0]

    def of_one(row, observation):
        latent = observation.operator.of(row[: filter.sites]) + row[filter.sites :] @ observation.design.T
        latent = latent + ssm.offset(parameters, observation.columns)
        sd = jnp.broadcast_to(ssm.model.likelihood.noise(observation.context, flat), latent.shape)
        error = jnp.where(observation.seen, (observation.y - latent) / sd * parameters["noise"], 0.0)
        station, none = jnp.asarray(observation.context[STATION]), jnp.zeros(room)
        return none.at[station].add(observation.seen.astype(float)), none.at[station].add(error**2)

    counts, squares = jax.vmap(of_one)(shown, observations)
    return Residuals(counts.sum(axis=0), squares.sum(axis=0))
