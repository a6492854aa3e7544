"""Tilted moments: a Gaussian cavity times the likelihood of one datum, from values of ``log p`` alone.

Where the product is bell-shaped, nodes of Gauss and Hermite are placed at its mode, scaled by its curvature there. In
general the likelihood may be far narrower than the cavity, fall off a cliff inside it, or leave a second bump: then
panels end where the cavity, the posterior and the *flanks* of the likelihood are, and get wider away from each. No
derivative of the likelihood is taken, so it may be a black box.

All arrays have one shape, that of the data; ``log_p`` maps values of the latent of that shape to log likelihoods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.linalg.types import Array

LogLikelihoods = Callable[[Float[Array, "..."]], Float[Array, "..."]]

HERMITE_NODES, HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
FEW_NODES, FEW_WEIGHTS = np.polynomial.hermite_e.hermegauss(16)
WIDE_NODES, WIDE_WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
WIDER = 3.0  # than a site is the Gaussian that nodes lie on where the likelihood may be another one
NARROWEST = 1 / 16  # of the variance of that Gaussian, about the square of the gap between nodes
LEGENDRE_NODES, LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(5)  # of each panel
NEWTON_STEPS = 25  # at most, on the way to a mode
STENCIL = 0.03  # of the tilted sd, between the values that derivatives are taken from
COVERED = 8.0  # standard deviations of the cavity
SCANNED = 33  # values at which the peak of a likelihood is looked for
REFINED = 6  # times that the interval around it is divided
BISECTED = 20  # times that the interval around a flank is halved
FALLEN = 1.0  # of the log likelihood from its peak to its flanks
GAUSSIAN_ENDS = np.array([-4.0, -1.5, 1.5, 4.0])  # of panels, in standard deviations
FLANK_ENDS = np.array([-8.0, -2.0, 2.0, 8.0])  # in widths of a flank


class Normal(NamedTuple):
    """A Gaussian for each datum."""

    mean: Float[Array, "..."]
    variance: Float[Array, "..."]


class TiltedMoments(NamedTuple):
    """``∫ N(f; cavity) p(y | f) df`` in logs, and mean and variance of the integrand."""

    log_mass: Float[Array, "..."]
    mean: Float[Array, "..."]
    variance: Float[Array, "..."]


class Flanks(NamedTuple):
    """Where each likelihood falls by ``FALLEN`` from its peak, below and above it, and over which width by ``e``."""

    place: Float[Array, "2 ..."]
    width: Float[Array, "2 ..."]


def remove_site(marginal: Normal, tau: Float[Array, "..."], nu: Float[Array, "..."]) -> Normal:
    """The marginal without its own site.

    Beside a very precise site the precision of the rest is rounding, and at least ``1e-12`` of the whole. In this form
    the mean goes with whatever variance that leaves: the product with the site has the mean of the marginal.
    """
    variance = 1 / jnp.maximum(1 / marginal.variance - tau, 1e-12 / marginal.variance)
    return Normal(marginal.mean + variance * (tau * marginal.mean - nu), variance)


def tilted_on_bell(log_p: LogLikelihoods, cavity: Normal, near: Normal) -> TiltedMoments:
    """Tilted moments where the product has one peak; ``near`` (the marginal) is where the search for it begins."""
    return _on_gaussian(log_p, cavity, Normal(*tilted_mode(log_p, cavity, near)), HERMITE_NODES, HERMITE_WEIGHTS)


def tilted_near_site(
    log_p: LogLikelihoods, cavity: Normal, tau: Float[Array, "..."], nu: Float[Array, "..."], known: bool
) -> TiltedMoments:
    """Tilted moments by few nodes on the cavity times the site, which has the same moments at EP's fixed point.

    Where the likelihood is not ``known`` to be about the one that the site was found for, the site is taken for three
    times as wide, with more nodes; moments of what is narrower than the gaps between them are those of the gap.
    """
    share = 1.0 if known else WIDER**-2
    variance = 1 / (1 / cavity.variance + share * tau)
    near = Normal(variance * (cavity.mean / cavity.variance + share * nu), variance)
    nodes = (FEW_NODES, FEW_WEIGHTS) if known else (WIDE_NODES, WIDE_WEIGHTS)
    found = _on_gaussian(log_p, cavity, near, *nodes)
    return found._replace(variance=jnp.maximum(found.variance, NARROWEST * variance))


def _on_gaussian(log_p: LogLikelihoods, cavity: Normal, near: Normal, nodes: np.ndarray, weights: np.ndarray):
    sd = jnp.sqrt(near.variance)
    f = near.mean + sd * _along(nodes, sd)
    weight = sd * _along(weights * np.exp(0.5 * nodes**2), sd)
    return _moments(f, _finite(jax.vmap(log_p)(f)), jnp.broadcast_to(weight, f.shape), cavity)


def tilted_on_panels(log_p: LogLikelihoods, flanks: Flanks, cavity: Normal, near: Normal) -> TiltedMoments:
    """Tilted moments of a product of any shape."""
    low, high = _covering(cavity, near)
    around = [flanks.place[side] + flanks.width[side] * _along(FLANK_ENDS, low) for side in (0, 1)]
    around += [one.mean + jnp.sqrt(one.variance) * _along(GAUSSIAN_ENDS, low) for one in (cavity, near)]
    ends = jnp.clip(jnp.concatenate(around), low[None], high[None])
    ends = jnp.sort(jnp.concatenate([low[None], ends, high[None]]), axis=0)
    middle, half = 0.5 * (ends[1:] + ends[:-1]), 0.5 * (ends[1:] - ends[:-1])
    nodes = _along(LEGENDRE_NODES, middle)
    f = (middle[None] + half[None] * nodes).reshape(-1, *low.shape)
    weight = (half[None] * _along(LEGENDRE_WEIGHTS, middle)).reshape(f.shape)
    f, weight = jax.lax.stop_gradient((f, weight))  # the integral does not change with its nodes
    return _moments(f, _finite(jax.vmap(log_p)(f)), weight, cavity)


def tilted_mode(log_p: LogLikelihoods, cavity: Normal, near: Normal) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Mode and inverse curvature of ``N(f; cavity) p(y | f)`` by Newton's method with differences of values.

    Of a step and its fractions the best is taken: far from its mode a likelihood of counts asks for far too long ones.
    """

    def log_tilted(f):
        return _finite(log_p(f)) - 0.5 * (f - cavity.mean) ** 2 / cavity.variance

    def derivatives(f, variance):
        gap = STENCIL * jnp.sqrt(variance)
        below, here, above = _finite(log_p(f - gap)), _finite(log_p(f)), _finite(log_p(f + gap))
        slope = (above - below) / (2 * gap) - (f - cavity.mean) / cavity.variance
        bend = -(above - 2 * here + below) / gap**2
        curvature = 1 / cavity.variance + jnp.where(jnp.isfinite(bend), jnp.maximum(bend, 0.0), 0.0)
        return jnp.where(jnp.isfinite(slope), slope, -jnp.sign(f - cavity.mean) * jnp.sqrt(curvature)), 1 / curvature

    lengths = np.concatenate([[0.0], 4.0 ** -np.arange(7)])

    def newton(carry):
        count, f, variance, _ = carry
        slope, variance = derivatives(f, variance)
        candidates = f + _along(lengths, f) * variance * slope
        best = jnp.argmax(jax.vmap(log_tilted)(candidates), axis=0)
        moved = jnp.take_along_axis(candidates, best[None], axis=0)[0]
        return count + 1, moved, variance, jnp.max(jnp.abs(moved - f) / jnp.sqrt(variance))

    def going(carry):
        return (carry[0] < NEWTON_STEPS) & (carry[3] > 0.01)

    start = (0, near.mean, jnp.minimum(near.variance, cavity.variance), jnp.asarray(jnp.inf, near.mean.dtype))
    _, mode, variance, _ = jax.lax.while_loop(going, newton, start)
    return mode, derivatives(mode, variance)[1]


def find_flanks(log_p: LogLikelihoods, cavity: Normal, near: Normal) -> Flanks:
    """The flanks of each likelihood within what the Gaussians cover; its ends where it falls beyond them.

    A likelihood with one peak is nowhere between two values of the scan higher than beside its peak, however narrow.
    """
    low, high = _covering(cavity, near)
    start, end, peak = low, high, low
    for _ in range(REFINED):
        size = SCANNED if start is low else 9
        grid = start + (end - start) * _along(np.linspace(0.0, 1.0, size), low)
        best = jnp.argmax(_finite(jax.vmap(log_p)(grid)), axis=0)
        start, peak, end = (
            jnp.take_along_axis(grid, jnp.clip(best + move, 0, size - 1)[None], axis=0)[0] for move in (-1, 0, 1)
        )
    threshold = _finite(log_p(peak)) - FALLEN
    places = []
    for outer in (low, high):
        found = _bisect(lambda f: _finite(log_p(f)) < threshold, outer, peak)
        places.append(jnp.where(_finite(log_p(outer)) < threshold, found, outer))
    place = jnp.stack(places)
    gap = 0.05 * jnp.maximum(jnp.abs(place - peak[None]), 1e-9 * (high - low)[None])
    rise = (jax.vmap(log_p)(place + gap) - jax.vmap(log_p)(place - gap)) / (2 * gap)
    width = 1 / jnp.abs(rise)
    return Flanks(place, jnp.where(width < (high - low)[None], width, (high - low)[None]))


def _covering(*gaussians: Normal) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """The interval of each datum that holds all of its Gaussians."""
    low = jnp.stack([one.mean - COVERED * jnp.sqrt(one.variance) for one in gaussians])
    high = jnp.stack([one.mean + COVERED * jnp.sqrt(one.variance) for one in gaussians])
    return jnp.min(low, axis=0), jnp.max(high, axis=0)


def _bisect(beyond: Callable, outer: Float[Array, "..."], inner: Float[Array, "..."]) -> Float[Array, "..."]:
    """Where ``beyond`` ends to hold, on the way from ``outer`` to ``inner``."""

    def halve(_, ends):
        middle = 0.5 * (ends[0] + ends[1])
        still = beyond(middle)
        return jnp.where(still, middle, ends[0]), jnp.where(still, ends[1], middle)

    outer, inner = jax.lax.fori_loop(0, BISECTED, halve, (outer, inner))
    return 0.5 * (outer + inner)


def _moments(f, log_p, weight, cavity: Normal) -> TiltedMoments:
    logs = log_p - 0.5 * (f - cavity.mean[None]) ** 2 / cavity.variance[None]
    most = jax.lax.stop_gradient(jnp.max(logs, axis=0))
    most = jnp.where(jnp.isfinite(most), most, 0.0)
    mass = weight * jnp.exp(logs - most[None])
    total = jnp.sum(mass, axis=0)
    mean = jnp.sum(mass * f, axis=0) / total
    variance = jnp.sum(mass * (f - mean[None]) ** 2, axis=0) / total
    return TiltedMoments(most + jnp.log(total) - 0.5 * jnp.log(2 * jnp.pi * cavity.variance), mean, variance)


def _finite(values):
    return jnp.where(jnp.isnan(values), -jnp.inf, values)


def _along(numbers: np.ndarray, like: Array) -> Array:
    """Numbers along a new first axis of an array."""
    return jnp.asarray(numbers, like.dtype).reshape(-1, *(1 for _ in like.shape))
