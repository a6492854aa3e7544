"""New particles where the weights have degenerated: by importance sampling, or by resampling and moving.

Everything here sees a cloud and a function from values of ``z`` to log evidences, and nothing of what is behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from seqgp.online.cloud import Cloud, systematic
from seqgp.online.points import Mixture, StudentProposal, log_normal

RENEW_BELOW = 0.4  # of the particles are effective
GOOD = 0.6  # an importance sample is taken at once
ENOUGH = 0.5  # the best of a few is taken
DIRECT = 0.1  # effective share from which a fit to the whole snapshot is tried without tempering
ROUNDS = 3
MOVES = 4  # of Metropolis at least, and at most
MOST_MOVES = 60
STAYED = 0.5  # the correlation with where particles began, down to which they are moved
MOST_STEPS = 600  # of a particle's filter, after which they are moved no longer
STAGES = 60


class Evaluated(NamedTuple):
    """Filters of values of ``z``, and what the data say about them."""

    filters: Any
    log_evidence: Float[np.ndarray, " S"]  # of all data before the last snapshot (discounted, where the past is)
    last: Float[np.ndarray, " S"]
    filter_steps: int  # per particle


class Workshop(NamedTuple):
    """What a renewal works with."""

    evaluate: Callable[[Float[np.ndarray, "S d"]], Evaluated]
    choose: Callable[[Any, np.ndarray], Any]  # filters of an index
    either: Callable[[np.ndarray, Any, Any], Any]  # (take, new filters, old filters)
    prior: tuple[np.ndarray, np.ndarray]  # mean and sd of z


class Renewal(NamedTuple):
    """What a renewal was like."""

    kind: str  # "importance" or "moves"
    power: float  # of the last snapshot's likelihood that it was for
    rounds: int
    effective: float  # after it
    acceptance: float  # of the moves; 1 where there were none
    filter_steps: int  # that were run again, per particle
    seconds: float


def settled(
    rng: np.random.Generator, cloud: Cloud, filters: Any, workshop: Workshop, forced: bool = False
) -> tuple[Cloud, Any, tuple[Renewal, ...]]:
    """The cloud with the last snapshot taken in, renewed where too few particles are effective.

    Args:
        rng: random numbers.
        cloud: with the log density of the last snapshot in ``last``.
        filters: of the cloud's particles, the last snapshot absorbed.
        workshop: how new particles are evaluated.
        forced: renew in any case.
    """
    renewals: list[Renewal] = []
    size, d = cloud.z.shape
    power = 0.0
    for _ in range(STAGES if d else 0):
        effective = cloud.effective()
        if effective >= RENEW_BELOW * size and not (forced and not renewals):
            break
        direct = effective >= max(DIRECT * size, 2 * d + 2)
        power = 1.0 if direct else cloud.temper(power, RENEW_BELOW * size)
        cloud, filters, renewal = renewed(rng, cloud, filters, power, workshop)
        renewals.append(renewal)
    return cloud, filters, tuple(renewals)


def renewed(
    rng: np.random.Generator, cloud: Cloud, filters: Any, power: float, workshop: Workshop
) -> tuple[Cloud, Any, Renewal]:
    """A new cloud for the data before and a power of the last snapshot."""
    start = time.perf_counter()
    size = len(cloud.z)
    best: tuple[Cloud, Any] | None = None
    fits: list[StudentProposal] = []
    reference, spent, rounds = cloud, 0, 0
    while rounds < ROUNDS:
        rounds += 1
        fits.append(_fit(reference, power, workshop))
        proposal = Mixture((fits[-1], fits[-2]), (0.8, 0.2)) if len(fits) > 1 else Mixture((fits[-1],), (1.0,))
        z = proposal.points(rng, size)
        found = workshop.evaluate(z)
        spent += found.filter_steps
        candidate = Cloud(
            z, log_normal(z, *workshop.prior), found.log_evidence, found.last, proposal.log_density(z), 0.0
        )
        if not np.isfinite(candidate.log_weights(power)).any():
            continue
        if best is None or candidate.effective(power) > best[0].effective(power):
            best = candidate, found.filters
        if candidate.effective(power) >= GOOD * size:
            break
        if candidate.effective(power) > reference.effective(power):
            reference = candidate
    if best is not None and best[0].effective(power) >= ENOUGH * size:
        seconds = time.perf_counter() - start
        return *best, Renewal("importance", power, rounds, best[0].effective(power), 1.0, spent, seconds)
    if best is not None and best[0].effective(power) > cloud.effective(power):
        cloud, filters = best
    cloud, filters, acceptance, moved = _moved(rng, cloud, filters, power, workshop)
    seconds = time.perf_counter() - start
    return cloud, filters, Renewal("moves", power, rounds, float(size), acceptance, spent + moved, seconds)


def _fit(cloud: Cloud, power: float, workshop: Workshop) -> StudentProposal:
    floor = 1e-10 * workshop.prior[1] ** 2
    return StudentProposal.fitted(cloud.z, cloud.weights(power), floor)


def _moved(
    rng: np.random.Generator, cloud: Cloud, filters: Any, power: float, workshop: Workshop
) -> tuple[Cloud, Any, float, int]:
    """Resampled in proportion to the weights, then moved by Metropolis steps over the whole history.

    It leaves the target as it is whatever the fit, and never sticks. In many dimensions a random walk needs many moves:
    they go on until particles have left where they began, or, over a long history, until they cost too much.
    """
    size, d = cloud.z.shape
    fit = _fit(cloud, power, workshop)
    total = cloud.log_total(power)
    variance = cloud.variance + max(size / cloud.effective(power) - 1, 0.0) / size
    index = systematic(rng, cloud.weights(power), size)
    filters = workshop.choose(filters, index)
    z, prior, evidence, last = (part[index] for part in (cloud.z, cloud.log_prior, cloud.log_evidence, cloud.last))
    began, accepted, spent, moves = z, 0.0, 0, 0
    while moves < MOVES or (moves < MOST_MOVES and spent < MOST_STEPS and _correlation(began, z) > STAYED):
        proposed = z + 1.7 / np.sqrt(d) * rng.standard_normal(z.shape) @ fit.root.T
        found = workshop.evaluate(proposed)
        spent, moves = spent + found.filter_steps, moves + 1
        new_prior = log_normal(proposed, *workshop.prior)
        new = new_prior + found.log_evidence + power * found.last
        old = prior + evidence + power * last
        with np.errstate(invalid="ignore"):
            take = np.log(rng.random(size)) < new - old
        accepted += take.mean()
        filters = workshop.either(take, found.filters, filters)
        z = np.where(take[:, None], proposed, z)
        prior, evidence = np.where(take, new_prior, prior), np.where(take, found.log_evidence, evidence)
        last = np.where(take, found.last, last)
    equal = prior + evidence + power * last - total  # such that every weight is the evidence at this power
    return Cloud(z, prior, evidence, last, equal, variance), filters, accepted / moves, spent


def _correlation(began: Float[np.ndarray, "S d"], now: Float[np.ndarray, "S d"]) -> float:
    """Of the parameter that remembers most."""
    a, b = began - began.mean(axis=0), now - now.mean(axis=0)
    return float(np.max((a * b).sum(axis=0) / np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0) + 1e-300)))
