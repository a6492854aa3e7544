"""IBIS: particles with weights, and new ones where the weights have degenerated.

A particle is a value of ``z``. New particles come from importance sampling, or from resampling and moving. Everything
here sees particles and a function from values of ``z`` to log evidences, and nothing of what is behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, PyTree
from scipy.special import logsumexp

from seqgp.samplers.gradient_moves import SHARE, accepted, leapfrog_count, leapfrogs, particle_root
from seqgp.samplers.proposals import Mixture, StudentProposal, log_normal, move_grid, snapped, variance_in_cells
from seqgp.statespace.shared_lengthscales import snap


class Particles(NamedTuple):
    """Values of ``z``, each with ``log weight = log prior + log evidence − log proposal``."""

    z: Float[np.ndarray, "S d"]
    log_prior: Float[np.ndarray, " S"]
    log_evidences: Float[np.ndarray, " S"]  # of all data before the last snapshot; −inf where a filter failed
    log_increment: Float[np.ndarray, " S"]  # of the last snapshot given those before
    log_proposal: Float[np.ndarray, " S"]
    variance: float  # of the log evidence of the whole, from before the weights were made equal

    def log_weights(self, power: float = 1.0) -> Float[np.ndarray, " S"]:
        """With the last snapshot's likelihood raised to a power."""
        increment = power * self.log_increment if power else np.where(np.isneginf(self.log_increment), -np.inf, 0.0)
        return self.log_prior + self.log_evidences + increment - self.log_proposal

    def weights(self, power: float = 1.0) -> Float[np.ndarray, " S"]:
        """Normalised."""
        logs = self.log_weights(power)
        return np.exp(logs - logsumexp(logs))

    def ess(self, power: float = 1.0) -> float:
        """The effective number of particles, ``1 / Σ weights²``."""
        return float(1 / np.sum(self.weights(power) ** 2))

    def distinct_ess(self) -> float:
        """The effective number of different particles: copies count as one.

        After resampling all weights are equal, also where every particle is a copy of one that no move has changed.
        """
        _, group = np.unique(self.z, axis=0, return_inverse=True)
        return float(1 / np.sum(np.bincount(group.reshape(-1), self.weights()) ** 2))

    def log_evidence(self, power: float = 1.0) -> float:
        """The log evidence of the model: the mean weight."""
        return float(logsumexp(self.log_weights(power)) - np.log(len(self.z)))

    def log_evidence_variance(self) -> float:
        """The variance of ``log_evidence``."""
        size = len(self.z)
        return self.variance + max(size / self.ess() - 1, 0.0) / size

    def temper(self, from_power: float, min_ess: float) -> float:
        """The largest power of the last snapshot, up to 1, at which the ESS is ``min_ess``."""
        if self.ess() >= min_ess:
            return 1.0
        low, high = from_power, 1.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.ess(middle) >= min_ess else (low, middle)
        return max(low, from_power + 1e-4 * (1 - from_power))

    def advanced(self, forget: float) -> Particles:
        """The last snapshot becomes one of those before, whose evidence is discounted by ``forget``."""
        return self._replace(
            log_evidences=forget * (self.log_evidences + self.log_increment)
            if forget != 1
            else self.log_evidences + self.log_increment,
            log_increment=np.zeros_like(self.log_increment),
        )


def systematic(rng: np.random.Generator, weights: Float[np.ndarray, " S"], count: int) -> np.ndarray:
    """Indices drawn in proportion to weights, each as often as its share says, up to one."""
    positions = (rng.random() + np.arange(count)) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), positions), len(weights) - 1)


MIN_ESS_FRACTION = 0.4  # of the particles are effective
GOOD_ESS_FRACTION = 0.6  # an importance sample is taken at once
ENOUGH_ESS_FRACTION = 0.5  # the best of a few is taken
UNTEMPERED_ESS_FRACTION = 0.1  # effective share from which a fit to the whole snapshot is tried without tempering
MAX_IMPORTANCE_ROUNDS = 3
MIN_MOVES = 4  # of Metropolis at least, and at most
MAX_MOVES = 60
MAX_CORRELATION = 0.5  # the correlation with where particles began, down to which they are moved
MAX_FILTER_STEPS = 600  # of a particle's filter, after which they are moved no longer
MAX_TEMPERING_STAGES = 60
GRADIENT_COST = 3  # of a gradient of the log evidence, in evaluations


class Evaluated(NamedTuple):
    """Filters of values of ``z``, and what the data say about them."""

    filters: PyTree
    log_evidences: Float[np.ndarray, " S"]  # of all data before the last snapshot (discounted, where the past is)
    log_increment: Float[np.ndarray, " S"]
    filter_steps: int  # per particle


class ParticleTarget(NamedTuple):
    """What a rejuvenation works with."""

    evaluate: Callable[[Float[np.ndarray, "S d"]], Evaluated]
    choose: Callable[[PyTree, np.ndarray], PyTree]  # filters of an index
    either: Callable[[np.ndarray, PyTree, PyTree], PyTree]  # (take, new filters, old filters)
    prior: tuple[np.ndarray, np.ndarray]  # mean and sd of z
    on_grid: tuple[int, ...] = ()  # entries of z whose proposals lie on a grid, so that particles share them
    # (z, power): the gradient of the log evidence, about; where there are many parameters
    gradient: Callable[[Float[np.ndarray, "S d"], float], Float[np.ndarray, "S d"]] | None = None
    approximate: bool = False  # whether the particles' own weights are: enough for a fit, and not to go on from


class Rejuvenation(NamedTuple):
    """What a rejuvenation was like."""

    kind: str  # "importance", "moves", "gradient moves", or "spread" over steps
    power: float  # of the last snapshot's likelihood that it was for
    rounds: int
    ess: float  # after it
    acceptance: float  # of the moves; 1 where there were none
    filter_steps: int  # that were run again, per particle
    seconds: float


def rejuvenate(
    rng: np.random.Generator, particles: Particles, filters: PyTree, target: ParticleTarget, forced: bool = False
) -> tuple[Particles, PyTree, tuple[Rejuvenation, ...]]:
    """The particles given the last snapshot, rejuvenated where their ESS is too low.

    Args:
        rng: random numbers.
        particles: with the log density of the last snapshot in ``log_increment``.
        filters: of the particles, updated with the last snapshot.
        target: how new particles are evaluated.
        forced: rejuvenate in any case.
    """
    rejuvenations: list[Rejuvenation] = []
    size, d = particles.z.shape
    power = 0.0
    for _ in range(MAX_TEMPERING_STAGES if d else 0):
        ess = particles.ess()
        if ess >= MIN_ESS_FRACTION * size and not (forced and not rejuvenations):
            break
        direct = ess >= max(UNTEMPERED_ESS_FRACTION * size, 2 * d + 2)
        power = 1.0 if direct else particles.temper(power, MIN_ESS_FRACTION * size)
        particles, filters, rejuvenation = rejuvenate_at(rng, particles, filters, power, target)
        target = target._replace(approximate=False)
        rejuvenations.append(rejuvenation)
    return particles, filters, tuple(rejuvenations)


def rejuvenate_at(
    rng: np.random.Generator, particles: Particles, filters: PyTree, power: float, target: ParticleTarget
) -> tuple[Particles, PyTree, Rejuvenation]:
    """New particles for the data before and a power of the last snapshot."""
    start = time.perf_counter()
    size = len(particles.z)
    best: tuple[Particles, PyTree] | None = None
    fits: list[StudentProposal] = []
    reference, spent, rounds = particles, 0, 0
    while rounds < (MAX_IMPORTANCE_ROUNDS if target.gradient is None else 1):
        rounds += 1
        fits.append(_fit(reference, power, target))
        proposal = Mixture((fits[-1], fits[-2]), (0.8, 0.2)) if len(fits) > 1 else Mixture((fits[-1],), (1.0,))
        proposal = snapped(proposal, target.on_grid)
        z = proposal.points(rng, size)
        found = target.evaluate(z)
        spent += found.filter_steps
        candidate = Particles(
            z, log_normal(z, *target.prior), found.log_evidences, found.log_increment, proposal.log_density(z), 0.0
        )
        if not np.isfinite(candidate.log_weights(power)).any():
            continue
        if best is None or candidate.ess(power) > best[0].ess(power):
            best = candidate, found.filters
        if candidate.ess(power) >= GOOD_ESS_FRACTION * size:
            break
        if candidate.ess(power) > reference.ess(power):
            reference = candidate
    if best is not None and best[0].ess(power) >= ENOUGH_ESS_FRACTION * size:
        seconds = time.perf_counter() - start
        return *best, Rejuvenation("importance", power, rounds, best[0].ess(power), 1.0, spent, seconds)
    if best is not None and best[0].ess(power) > particles.ess(power):
        particles, filters = best
    elif target.approximate:
        found = target.evaluate(particles.z)
        filters, spent = found.filters, spent + found.filter_steps
        particles = particles._replace(log_evidences=found.log_evidences, log_increment=found.log_increment)
    if target.gradient is None:
        kind, moves = "moves", _resample_and_move(rng, particles, filters, power, target)
    else:
        kind, moves = "gradient moves", _resample_and_follow(rng, particles, power, target)
    particles, filters, acceptance, moved = moves
    seconds = time.perf_counter() - start
    return particles, filters, Rejuvenation(kind, power, rounds, float(size), acceptance, spent + moved, seconds)


def _fit(particles: Particles, power: float, target: ParticleTarget) -> StudentProposal:
    floor = 1e-10 * target.prior[1] ** 2 + variance_in_cells(particles.z, target.on_grid, target.prior[1])
    return StudentProposal.fitted(particles.z, particles.weights(power), floor)


def _resample_and_move(
    rng: np.random.Generator, particles: Particles, filters: PyTree, power: float, target: ParticleTarget
) -> tuple[Particles, PyTree, float, int]:
    """Resampled in proportion to the weights, then moved by Metropolis steps over the whole history.

    It leaves the target as it is whatever the fit, and never sticks. In many dimensions a random walk needs many moves:
    they go on until particles have left where they began, or, over a long history, until they cost too much.
    """
    size, d = particles.z.shape
    fit = _fit(particles, power, target)
    total = particles.log_evidence(power)
    variance = particles.variance + max(size / particles.ess(power) - 1, 0.0) / size
    index = systematic(rng, particles.weights(power), size)
    filters = target.choose(filters, index)
    z, prior, evidence, increment = (
        part[index] for part in (particles.z, particles.log_prior, particles.log_evidences, particles.log_increment)
    )
    began, accepted, spent, moves = z, 0.0, 0, 0
    grid = move_grid(fit, z, target.on_grid)
    while moves < MIN_MOVES or (
        moves < MAX_MOVES and spent < MAX_FILTER_STEPS and correlation(began, z) > MAX_CORRELATION
    ):
        proposed = z + 1.7 / np.sqrt(d) * rng.standard_normal(z.shape) @ fit.root.T
        proposed = proposed if grid is None else snap(proposed, grid)  # the walk stays symmetric
        found = target.evaluate(proposed)
        spent, moves = spent + found.filter_steps, moves + 1
        new_prior = log_normal(proposed, *target.prior)
        new = new_prior + found.log_evidences + power * found.log_increment
        old = prior + evidence + power * increment
        with np.errstate(invalid="ignore"):
            take = np.log(rng.random(size)) < new - old
        accepted += take.mean()
        filters = target.either(take, found.filters, filters)
        z = np.where(take[:, None], proposed, z)
        prior, evidence = np.where(take, new_prior, prior), np.where(take, found.log_evidences, evidence)
        increment = np.where(take, found.log_increment, increment)
    equal = prior + evidence + power * increment - total  # such that every weight is the evidence at this power
    return Particles(z, prior, evidence, increment, equal, variance), filters, accepted / moves, spent


def _resample_and_follow(
    rng: np.random.Generator, particles: Particles, power: float, target: ParticleTarget
) -> tuple[Particles, PyTree, float, int]:
    """One particle in ``SHARE`` resampled, and moved by gradients; every point on the way is a new particle.

    The filters of all of them are run once at the end, which for unbiased estimates of the evidence is a refresh.
    """
    size, mean, sd = len(particles.z), *target.prior
    assert target.gradient is not None
    root = particle_root(particles.z, particles.weights(power), 1e-10 * sd**2)
    total = particles.log_evidence(power)
    variance = particles.variance + max(size / particles.ess(power) - 1, 0.0) / size
    index = rng.permutation(systematic(rng, particles.weights(power), -(-size // SHARE)))
    gradient, steps = target.gradient, 0

    def evaluate(z):
        nonlocal steps
        found = target.evaluate(z)
        steps += found.filter_steps
        return log_normal(z, mean, sd) + found.log_evidences + power * found.log_increment

    def force(z):
        return gradient(z, power) - (z - mean) / sd**2

    z, now = (
        particles.z[index],
        (particles.log_prior + particles.log_evidences + power * particles.log_increment)[index],
    )
    count, kicks = leapfrog_count(rng, z, now, evaluate, force, root)
    points, values, acceptance = [z], [now], []
    for _ in range(SHARE - 1):
        found = leapfrogs(rng, z, force, root, count)
        proposed, kicks = evaluate(found.z), kicks + count + 1
        probability = accepted(proposed - now - found.energy)
        take = rng.random(len(z)) < probability
        z, now = np.where(take[:, None], found.z, z), np.where(take, proposed, now)
        points, values, acceptance = [*points, z], [*values, now], [*acceptance, probability.mean()]
    z, equal = np.concatenate(points)[:size], np.concatenate(values)[:size] - total
    whole = target.evaluate(z)
    spent = whole.filter_steps + (steps + GRADIENT_COST * kicks * whole.filter_steps) // SHARE
    new = Particles(z, log_normal(z, mean, sd), whole.log_evidences, whole.log_increment, equal, variance)
    return new, whole.filters, float(np.mean(acceptance)), spent


def correlation(began: Float[np.ndarray, "S d"], now: Float[np.ndarray, "S d"]) -> float:
    """Of the parameter that remembers most."""
    a, b = began - began.mean(axis=0), now - now.mean(axis=0)
    return float(np.max((a * b).sum(axis=0) / np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0) + 1e-300)))
