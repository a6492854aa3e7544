"""Moves with gradients: Hamiltonian Monte Carlo and MALA, tuned from particles.

They know a function from a point ``z`` to its log density and gradient, and no model. The mass matrix is the inverse
covariance of the particles, so that a target like them is isotropic to the move. MALA is one leapfrog step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, Key

from seqgp.linalg.factor import cholesky
from seqgp.linalg.types import Array

LogProbAndGrad = Callable[[Float[Array, " d"]], tuple[Float[Array, ""], Float[Array, " d"]]]

SHRINKAGE = 0.02  # of the particles' correlations
TRAJECTORY = 1.5  # length in standard deviations: a quarter of the way around an ellipse of a Gaussian
JITTER = 0.3  # relative, of the step, so that no direction comes back to where it was


class Point(NamedTuple):
    """A position with its log density and gradient."""

    z: Float[Array, "*S d"]
    log_prob: Float[Array, "*S"]
    grad: Float[Array, "*S d"]


class MoveTuning(NamedTuple):
    """Of a move."""

    root: Float[Array, "d d"]  # of the covariance of the particles
    step: Float[Array, ""]  # of the leapfrog, in standard deviations
    leapfrogs: Int[Array, ""]
    acceptance: Float[Array, ""]  # of the pilot


def points_at(z: Float[Array, "S d"], target: LogProbAndGrad) -> Point:
    """Positions with what the target says about them."""
    return Point(z, *jax.vmap(target)(z))


def hmc(
    key: Key[Array, ""], point: Point, target: LogProbAndGrad, tuning: MoveTuning
) -> tuple[Point, Float[Array, ""]]:
    """One move of HMC, and the probability with which it was accepted. A target that is not finite refuses."""
    key_momentum, key_step, key_accept = jax.random.split(key, 3)
    dtype = point.z.dtype
    momentum = jax.random.normal(key_momentum, point.z.shape, dtype)
    step = tuning.step * (1 + JITTER * jax.random.uniform(key_step, (), dtype, -1.0, 1.0))

    def leapfrog(_, carry):
        now, momentum = carry
        momentum = momentum + 0.5 * step * (tuning.root.T @ now.grad)
        z = now.z + step * (tuning.root @ momentum)
        now = Point(z, *target(z))
        return now, momentum + 0.5 * step * (tuning.root.T @ now.grad)

    end, last = jax.lax.fori_loop(0, tuning.leapfrogs, leapfrog, (point, momentum))
    log_ratio = end.log_prob - point.log_prob - 0.5 * (last @ last - momentum @ momentum)
    finite = jnp.isfinite(log_ratio) & jnp.all(jnp.isfinite(end.grad))
    acceptance = jnp.where(finite, jnp.minimum(jnp.exp(jnp.minimum(log_ratio, 0.0)), 1.0), 0.0)
    accept = jax.random.uniform(key_accept, (), dtype) < acceptance
    return jax.tree.map(lambda new, old: jnp.where(accept, new, old), end, point), acceptance


def mala(
    key: Key[Array, ""], point: Point, target: LogProbAndGrad, tuning: MoveTuning
) -> tuple[Point, Float[Array, ""]]:
    """One move of the Metropolis-adjusted Langevin algorithm: HMC with one leapfrog step."""
    return hmc(key, point, target, tuning._replace(leapfrogs=jnp.ones_like(tuning.leapfrogs)))


def particle_root(z: Float[Array, "S d"], weights: Float[Array, " S"]) -> Float[Array, "d d"]:
    """A root of the weighted covariance of particles, correlations shrunk a little."""
    centred = z - weights @ z
    cov = (weights[:, None] * centred).T @ centred
    variance = jnp.maximum(jnp.diagonal(cov), 1e-12)
    return cholesky((1 - SHRINKAGE) * cov + SHRINKAGE * jnp.diag(variance) + 1e-12 * jnp.diag(variance))


def tune_moves(
    key: Key[Array, ""],
    points: Point,
    root: Float[Array, "d d"],
    target: LogProbAndGrad,
    *,
    langevin: bool = False,
    halvings: int = 5,
) -> MoveTuning:
    """The step with the largest expected squared jump per gradient, by one pilot move of each point.

    Steps are halved from a whole trajectory on, and leapfrogs doubled (after Buchholz, Chopin & Jacob 2021); for MALA
    steps alone.

    Args:
        key: a random key.
        points: about sixteen of them; the pilot's moves are thrown away.
        root: of the covariance of the particles.
        target: log density and gradient.
        langevin: whether one leapfrog step is wanted.
        halvings: how many steps are tried.
    """
    count, dtype = points.z.shape[0], points.z.dtype
    tried = []
    for i in range(halvings):
        step = jnp.asarray(TRAJECTORY * 0.5**i, dtype)
        tuning = MoveTuning(root, step, jnp.asarray(1 if langevin else 2**i), jnp.zeros((), dtype))
        keys = jax.random.split(jax.random.fold_in(key, i), count)
        moved, acceptance = jax.vmap(lambda k, p, tuning=tuning: hmc(k, p, target, tuning))(keys, points)
        jump = jax.scipy.linalg.solve_triangular(root, (moved.z - points.z).T, lower=True)
        gain = jnp.mean(jnp.sum(jump**2, axis=0)) / tuning.leapfrogs
        tried.append((gain, tuning._replace(acceptance=jnp.mean(acceptance))))
    best = jnp.argmax(jnp.stack([gain for gain, _ in tried]))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves)[best], *[tuning for _, tuning in tried])
