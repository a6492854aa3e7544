"""The tilted moments of :mod:`seqgp.statespace.quadrature` for likelihoods without derivatives: from values alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.linalg.types import Array
from seqgp.statespace.quadrature import (
    DOUBLINGS,
    REACH,
    SCAN,
    Gaussians,
    LogDensity,
    Sides,
    Tabulated,
    on_panels,
)
from seqgp.statespace.tilted import Normal, find_flanks

REFINED, BETWEEN = 8, 9  # times that the interval around a mode is divided, and the values in it
STENCIL = 0.1  # of the tilted sd, between the values that a curvature is taken from
CURVATURES = 4  # estimates by turns of the curvature and of the stencil that suits it


def has_derivatives(log_density: LogDensity, like: Float[Array, " N"]) -> bool:
    """Whether JAX differentiates it twice, once by reverse mode; it is traced, and not evaluated."""

    def twice(u):
        return jax.jvp(jax.grad(lambda v: jnp.sum(log_density(v))), (u,), (jnp.ones_like(u),))

    try:
        jax.eval_shape(twice, jax.ShapeDtypeStruct(like.shape, like.dtype))
    except (NotImplementedError, TypeError, ValueError, AssertionError):
        return False
    return True


def tabulated_by_values(log_density: LogDensity, cavity: Gaussians) -> Tabulated:
    """The likelihoods at nodes that suit the tilted distributions of cavities like these."""
    near = near_mode_by_values(log_density, cavity)
    flanks = find_flanks(log_density, Normal(*cavity), Normal(*near))
    return on_panels(log_density, Sides(flanks.place, flanks.width), cavity, near)


def near_mode_by_values(log_density: LogDensity, cavity: Gaussians) -> Gaussians:
    """A Gaussian around the mode of each tilted distribution, with its curvature.

    The interval in which the mode is looked for doubles for as long as the best of a scan is at its end; then the
    interval around the best value is divided.
    """
    sd = jnp.sqrt(cavity.variance)
    places = np.arange(2)[:, None]

    def log_tilted(f):
        values = log_density(f) - 0.5 * (f - cavity.mean) ** 2 / cavity.variance
        return jnp.where(jnp.isnan(values), -jnp.inf, values)

    def around_best(low, high, count):
        f = low + (high - low) * jnp.linspace(0.0, 1.0, count)[:, None]
        best = jnp.argmax(jax.vmap(log_tilted)(f), axis=0)
        ends = jnp.stack([jnp.clip(best - 1, 0, count - 1), jnp.clip(best + 1, 0, count - 1)])
        at_end = jnp.stack([best == 0, best == count - 1])
        return jnp.take_along_axis(f, ends, axis=0), jnp.take_along_axis(f, best[None], axis=0)[0], at_end

    def grow(carry):
        reach, count, *_ = carry
        bracket, best, at_end = around_best(cavity.mean - reach[0] * sd, cavity.mean + reach[1] * sd, SCAN)
        count = jnp.where(jnp.any(at_end), count + 1, DOUBLINGS)
        return jnp.where(at_end, 2 * reach, reach), count, bracket, best

    start = (jnp.full((2, *sd.shape), REACH), 0, cavity.mean + places * sd, cavity.mean)
    _, _, bracket, mode = jax.lax.while_loop(lambda carry: carry[1] < DOUBLINGS, grow, start)

    def divide(_, carry):
        low, high = carry[0]
        return around_best(low, high, BETWEEN)[:2]

    _, mode = jax.lax.fori_loop(0, REFINED, divide, (bracket, mode))

    def curved(_, variance):
        gap = STENCIL * jnp.sqrt(variance)
        below, here, above = (log_density(mode + step * gap) for step in (-1, 0, 1))
        bend = -(above - 2 * here + below) / gap**2
        return 1 / (1 / cavity.variance + jnp.where(jnp.isfinite(bend), jnp.maximum(bend, 0.0), 0.0))

    return Gaussians(mode, jax.lax.fori_loop(0, CURVATURES, curved, cavity.variance))
