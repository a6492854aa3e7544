"""Waste-free SMC (Dau & Chopin 2022): few particles are resampled, and all points of their chains are kept.

Of ``S`` weighted particles ``M`` are resampled; each is moved ``S/M − 1`` times by a kernel that leaves the new target
invariant, and the ``S`` points on the way, equally weighted, are the new particles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key

from seqgp.linalg.types import Array
from seqgp.statespace.gradient_moves import LogProbAndGrad, MoveTuning, Point, hmc, particle_root, points_at, tune_moves
from seqgp.statespace.paths import systematic_indices

PILOTS = 16


class WasteFreeInfo(NamedTuple):
    """How the moves went."""

    acceptance: Float[Array, ""]
    tuning: MoveTuning


def rejuvenate_waste_free(
    key: Key[Array, ""],
    particles: Float[Array, "S d"],
    log_weights: Float[Array, " S"],
    log_posterior_and_grad: LogProbAndGrad,
    *,
    chains: int,
    langevin: bool = False,
) -> tuple[Point, WasteFreeInfo]:
    """New particles ``(S, d)`` of equal weight, with their log densities and gradients.

    Args:
        key: a random key.
        particles: weighted towards the target.
        log_weights: theirs, up to a constant.
        log_posterior_and_grad: of the target, from ``z (d,)``.
        chains: ``M``, a divisor of ``S``; a twentieth of ``S`` is a good choice.
        langevin: MALA in place of HMC.
    """
    size = particles.shape[0]
    if size % chains or chains >= size:
        raise ValueError(f"chains = {chains} does not divide {size} particles; choose a divisor such as {size // 8}")
    key_resample, key_order, key_pilot, key_tune, key_move = jax.random.split(key, 5)
    weights = jax.nn.softmax(log_weights)
    root = particle_root(particles, weights)
    uniform = jax.random.uniform(key_resample, (), weights.dtype)
    places = (jnp.arange(chains) + uniform) / chains
    chosen = jnp.clip(jnp.searchsorted(jnp.cumsum(weights), places), 0, size - 1)
    starts = points_at(particles[jax.random.permutation(key_order, chosen)], log_posterior_and_grad)
    pilots = systematic_indices(jax.random.uniform(key_pilot, (), weights.dtype), jnp.full(chains, 1 / chains))
    few = jax.tree.map(lambda leaf: leaf[pilots[:PILOTS]], starts)
    tuning = tune_moves(key_tune, few, root, log_posterior_and_grad, langevin=langevin)

    def move(points, key):
        keys = jax.random.split(key, chains)
        points, acceptance = jax.vmap(lambda k, p: hmc(k, p, log_posterior_and_grad, tuning))(keys, points)
        return points, (points, jnp.mean(acceptance))

    _, (path, acceptance) = jax.lax.scan(move, starts, jax.random.split(key_move, size // chains - 1))
    every = jax.tree.map(lambda first, more: jnp.concatenate([first[None], more]), starts, path)
    flat = jax.tree.map(lambda leaf: leaf.reshape(size, *leaf.shape[2:]), every)
    return flat, WasteFreeInfo(jnp.mean(acceptance), tuning)


class Tempered(NamedTuple):
    """Particles of a posterior, equally weighted, and its log evidence."""

    particles: Float[Array, "S d"]
    log_evidence: float
    powers: list[float]
    infos: list[WasteFreeInfo]


def temper_waste_free(
    key: Key[Array, ""],
    particles: Float[Array, "S d"],
    log_prior_and_grad: LogProbAndGrad,
    log_likelihood_and_grad: LogProbAndGrad,
    *,
    chains: int,
    langevin: bool = False,
    min_ess: float = 0.5,
    max_powers: int = 100,
) -> Tempered:
    """From draws of the prior to the posterior, by powers of the likelihood that keep a share of the ESS."""

    @jax.jit
    def rejuvenate(key, particles, log_weights, power):
        def target(z):
            prior, likelihood = log_prior_and_grad(z), log_likelihood_and_grad(z)
            return prior[0] + power * likelihood[0], prior[1] + power * likelihood[1]

        return rejuvenate_waste_free(key, particles, log_weights, target, chains=chains, langevin=langevin)

    log_likelihoods: Callable = jax.jit(jax.vmap(lambda z: log_likelihood_and_grad(z)[0]))
    power, powers, infos, log_evidence = 0.0, [], [], 0.0
    while power < 1.0:
        if len(powers) == max_powers:
            raise RuntimeError(f"temper_waste_free: power {power:.3g} after {max_powers} steps; use more particles")
        values = np.asarray(log_likelihoods(particles))
        values = np.where(np.isnan(values), -np.inf, values)
        step = next_power(values, power, min_ess) - power
        log_weights = step * values
        log_evidence += float(jax.scipy.special.logsumexp(log_weights) - np.log(len(values)))
        power = min(power + step, 1.0)
        points, info = rejuvenate(jax.random.fold_in(key, len(powers)), particles, log_weights, power)
        particles = points.z
        powers.append(power)
        infos.append(info)
    return Tempered(particles, log_evidence, powers, infos)


def next_power(log_likelihoods: Float[np.ndarray, " S"], power: float, min_ess: float) -> float:
    """The largest power up to 1 whose weights keep an ESS of a share of the particles, by bisection."""

    def share(step: float) -> float:
        weights = np.exp(step * (log_likelihoods - log_likelihoods.max()))
        return weights.sum() ** 2 / (weights**2).sum() / len(weights)

    if share(1.0 - power) >= min_ess:
        return 1.0
    low, high = 0.0, 1.0 - power
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share(middle) >= min_ess else (low, middle)
    return power + high
