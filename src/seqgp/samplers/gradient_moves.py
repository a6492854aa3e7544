"""Moves of particles by gradients: Hamiltonian Monte Carlo tuned from the particles, all of whose points are kept.

In many dimensions no distribution fitted to a few hundred particles is near the posterior, and a random walk is slow.
Here few particles are resampled, each is moved many times, and the points on the way are the new particles (waste-free
SMC, Dau & Chopin 2022). The mass matrix is the inverse covariance of the particles; the number of leapfrog steps is
found by pilot moves (after Buchholz, Chopin & Jacob 2021), and one step is MALA.

A leapfrog step is reversible and keeps volume whatever the force, so an approximate gradient will do: moves are
accepted by the evidence itself, which may be an unbiased estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Force = Callable[[Float[np.ndarray, "M d"]], Float[np.ndarray, "M d"]]  # the gradient of a log target, about

SHARE = 8  # points that each resampled particle becomes
TRAJECTORY = 1.5  # length in standard deviations: a quarter of the way around an ellipse of a Gaussian
JITTER = 0.3  # relative, of the step, so that no direction comes back to where it was
MAX_LEAPFROGS = 32
MIN_ACCEPTANCE = 0.65  # of pilot moves, from which a number of leapfrog steps is enough
SHRINKAGE = 0.02  # of the particles' correlations


class Proposed(NamedTuple):
    """Where leapfrog steps lead, and by how much the kinetic energy rises on the way."""

    z: Float[np.ndarray, "M d"]
    energy: Float[np.ndarray, " M"]


def particle_root(z: Float[np.ndarray, "S d"], weights: Float[np.ndarray, " S"], floor: np.ndarray) -> np.ndarray:
    """A root of the weighted covariance of particles, correlations shrunk a little, no variance below ``floor``."""
    centred = z - weights @ z
    covariance = (weights[:, None] * centred).T @ centred
    variance = np.maximum(np.diag(covariance), floor)
    return np.linalg.cholesky((1 - SHRINKAGE) * covariance + SHRINKAGE * np.diag(variance) + 1e-12 * np.diag(variance))


def leapfrogs(
    rng: np.random.Generator, z: Float[np.ndarray, "M d"], force: Force, root: Float[np.ndarray, "d d"], count: int
) -> Proposed:
    """One trajectory of ``count`` steps from each point, with momenta and lengths of its own.

    Where the force is not finite it counts as none.
    """
    momentum = rng.standard_normal(z.shape)
    step = TRAJECTORY / count * (1 + JITTER * rng.uniform(-1.0, 1.0, (len(z), 1)))
    before = 0.5 * (momentum**2).sum(axis=1)

    def kicked(momentum, z, share):
        pushed = force(z)
        return momentum + share * step * (np.where(np.isfinite(pushed), pushed, 0.0) @ root)

    momentum = kicked(momentum, z, 0.5)
    for i in range(count):
        z = z + step * (momentum @ root.T)
        momentum = kicked(momentum, z, 1.0 if i < count - 1 else 0.5)
    return Proposed(z, 0.5 * (momentum**2).sum(axis=1) - before)


def leapfrog_count(
    rng: np.random.Generator,
    z: Float[np.ndarray, "M d"],
    log_target: Float[np.ndarray, " M"],
    evaluate: Callable[[Float[np.ndarray, "M d"]], Float[np.ndarray, " M"]],
    force: Force,
    root: Float[np.ndarray, "d d"],
) -> tuple[int, int]:
    """The least number of leapfrog steps that is accepted often enough, and how many steps the pilots took.

    Args:
        rng: random numbers.
        z: points, whose pilot moves are thrown away.
        log_target: there.
        evaluate: from points to log targets.
        force: about their gradient.
        root: of the covariance of the particles.
    """
    count, spent = 1, 0
    while True:
        found = leapfrogs(rng, z, force, root, count)
        spent += count + 1
        if count >= MAX_LEAPFROGS or accepted(evaluate(found.z) - log_target - found.energy).mean() >= MIN_ACCEPTANCE:
            return count, spent
        count *= 2


def accepted(log_ratio: Float[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
    """The probability with which each move is accepted; none where the ratio is not a number."""
    return np.where(np.isnan(log_ratio), 0.0, np.exp(np.minimum(np.nan_to_num(log_ratio, nan=-np.inf), 0.0)))
