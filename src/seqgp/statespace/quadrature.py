"""Moments of a Gaussian times the likelihood of one datum (a tilted distribution), by quadrature.

The likelihood may be far narrower than the Gaussian (an exact reading, a large count), fall off a cliff inside it (a
reading below a detection limit, no count under a wide prior), lie far outside it, or leave a second bump where it
disagrees with it (Student's t). So panels are laid that end where the Gaussian, the mode of the tilted distribution and
the *sides* of the likelihood are, and get wider away from each; the mode and the sides are found first, from values of
the log likelihood and its slope alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.linalg.types import Array

LogDensity = Callable[[Float[Array, " N"]], Float[Array, " N"]]  # of each datum given its own f

REACH = 8.0  # standard deviations of the Gaussians that are covered
SCAN = 25  # values of f at which the peak of a likelihood is looked for
HALVINGS = 28  # of the interval that holds a peak or a side, at most
NEAR = 0.02  # in log density, to which peaks and sides are found
DOUBLINGS = 12  # of the interval that is looked at, where the tilted distribution still rises at its end
DROP = 1.0  # of the log likelihood from its peak to its sides
AROUND_GAUSSIAN = np.array([-4.0, -1.5, 1.5, 4.0])  # ends of panels, in standard deviations
OUTWARD = np.array([2.0, 8.0, 32.0, 128.0])  # in widths of a side, away from the peak: tails may be heavy
INWARD = np.array([-2.0, -8.0])
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(6)  # of each panel


class Gaussians(NamedTuple):
    """A Gaussian for each datum."""

    mean: Float[Array, " N"]
    variance: Float[Array, " N"]

    def interval(self) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
        """What holds all of it that counts."""
        reach = REACH * jnp.sqrt(self.variance)
        return self.mean - reach, self.mean + reach

    def without(self, precision: Float[Array, " N"], linear: Float[Array, " N"]) -> Gaussians:
        """Each divided by ``exp(−½ precision f² + linear f)``, which it has as a factor."""
        variance = 1 / jnp.maximum(1 / self.variance - precision, 1e-12 / self.variance)
        return Gaussians(variance * (self.mean / self.variance - linear), variance)

    def ends(self) -> Float[Array, "ends N"]:
        """Ends of panels."""
        return self.mean[None, :] + jnp.sqrt(self.variance)[None, :] * jnp.asarray(AROUND_GAUSSIAN)[:, None]


class Sides(NamedTuple):
    """Where each likelihood falls by ``DROP`` from its peak, below and above it, and how fast it does."""

    place: Float[Array, "2 N"]
    width: Float[Array, "2 N"]  # over which it falls by a factor e

    def ends(self) -> Float[Array, "ends N"]:
        """Ends of panels."""
        steps = np.concatenate([INWARD, OUTWARD])
        around = self.place[:, None, :] + self.width[:, None, :] * jnp.asarray(np.stack([-steps, steps]))[:, :, None]
        return around.reshape(-1, self.place.shape[1])


def covering(*gaussians: Gaussians) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """The interval of each datum that holds all of its Gaussians."""
    low, high = zip(*(one.interval() for one in gaussians))
    return jnp.min(jnp.stack(low), axis=0), jnp.max(jnp.stack(high), axis=0)


class Scan(NamedTuple):
    """Each log likelihood at values of ``f`` evenly spread over an interval."""

    f: Float[Array, "K N"]
    log_density: Float[Array, "K N"]

    def beside_best(self, log_density: Float[Array, "K N"]) -> tuple[Float[Array, " N"], ...]:
        """``f`` with the largest of given values, and its neighbours in the scan below and above."""
        best = jnp.argmax(log_density, axis=0)
        index = [jnp.clip(best + step, 0, len(self.f) - 1)[None, :] for step in (0, -1, 1)]
        return tuple(jnp.take_along_axis(self.f, one, axis=0)[0] for one in index)


def scanned(log_density: LogDensity, low: Float[Array, " N"], high: Float[Array, " N"]) -> Scan:
    """The likelihoods between two values of ``f`` each."""
    f = low[None, :] + (high - low)[None, :] * jnp.linspace(0.0, 1.0, SCAN)[:, None]
    return Scan(f, _values(log_density, f))


def sides_of(log_density: LogDensity, low: Float[Array, " N"], high: Float[Array, " N"]) -> Sides:
    """The sides of each likelihood within an interval; its ends where it falls beyond them.

    A likelihood with one peak is nowhere between two points of the scan higher than at the points beside its peak,
    however narrow it is.
    """

    def finite(f):
        return _values(log_density, f[None, :])[0]

    scan = scanned(log_density, low, high)
    best, below, above = scan.beside_best(scan.log_density)
    peak = _halved(_rising(log_density, best), below, above)
    peak = jnp.where(finite(peak) >= scan.log_density.max(axis=0), peak, best)
    threshold = finite(peak) - DROP
    ends = jnp.stack([low, high])
    above = jax.vmap(lambda f: finite(f) - threshold)

    def fallen(f, width):
        height = above(f)
        return height < 0, jnp.abs(height) < NEAR

    found = _halved(fallen, ends, jnp.stack([peak, peak]))
    place = jnp.where(above(ends) < 0, found, ends)
    width = 1 / jnp.abs(jax.vmap(lambda f: slope_of(log_density, f))(place))
    most = jnp.broadcast_to(high - low, width.shape)
    return Sides(place, jnp.where(width < most, width, most))  # a flat side has no slope, a wild one NaN


def slope_of(log_density: LogDensity, f: Float[Array, " N"]) -> Float[Array, " N"]:
    """The derivative of each log likelihood by its own ``f``."""
    return jax.jvp(log_density, (f,), (jnp.ones_like(f),))[1]


def near_mode(log_density: LogDensity, cavity: Gaussians) -> Gaussians:
    """A Gaussian around the mode of each tilted distribution, with its curvature.

    The interval in which the mode is looked for doubles for as long as the tilted distribution rises at its end: data
    may be any number of standard deviations from what was predicted.
    """

    def log_tilted(f):
        return log_density(f) - 0.5 * (f - cavity.mean) ** 2 / cavity.variance

    def rising(f, sign):
        return sign * slope_of(log_tilted, f) > 0  # NaN, beyond the range of numbers, does not

    sd = jnp.sqrt(cavity.variance)

    def grow(carry):
        reach, count = carry
        still = jnp.stack([rising(cavity.mean + sign * reach[i] * sd, sign) for i, sign in enumerate((-1.0, 1.0))])
        return jnp.where(still, 2 * reach, reach), jnp.where(jnp.any(still), count + 1, DOUBLINGS)

    start = jnp.full((2, *sd.shape), REACH)
    reach, _ = jax.lax.while_loop(lambda carry: carry[1] < DOUBLINGS, grow, (start, 0))
    scan = scanned(log_density, cavity.mean - reach[0] * sd, cavity.mean + reach[1] * sd)
    apart = scan.f - cavity.mean[None, :]
    best, below, above = scan.beside_best(scan.log_density - 0.5 * apart**2 / cavity.variance[None, :])
    mode = _halved(_rising(log_tilted, best), below, above)
    curvature = jax.jvp(lambda f: slope_of(log_density, f), (mode,), (jnp.ones_like(mode),))[1]
    curvature = jnp.where(jnp.isfinite(curvature), jnp.maximum(-curvature, 0.0), 0.0)
    return Gaussians(mode, 1 / (1 / cavity.variance + curvature))


def _rising(log_density: LogDensity, best: Float[Array, " N"]) -> Callable:
    """Whether each log density rises; where its slope is beyond the range of numbers, whether ``best`` is above."""

    def rising(f, width):
        slope = slope_of(log_density, f)
        return jnp.where(jnp.isnan(slope), f < best, slope > 0), jnp.abs(slope) * width < NEAR

    return rising


def _halved(beyond: Callable, low: Float[Array, " N"], high: Float[Array, " N"]) -> Float[Array, " N"]:
    """Where ``beyond`` ends to hold, on the way from ``low`` to ``high``.

    Args:
        beyond: from values of ``f``, and from the width of the intervals around them, to whether it holds at each, and
            whether each is near enough to where it ends.
        low: where it holds.
        high: where it does not.
    """

    def halve(carry):
        low, high, near, count = carry
        middle = 0.5 * (low + high)
        still, enough = beyond(middle, jnp.abs(high - low))
        low, high = jnp.where(near | ~still, low, middle), jnp.where(near | still, high, middle)
        enough = enough & ~near
        return jnp.where(enough, middle, low), jnp.where(enough, middle, high), near | enough, count + 1

    carry = low, high, jnp.zeros(low.shape, bool), 0
    low, high, *_ = jax.lax.while_loop(lambda c: ~jnp.all(c[2]) & (c[3] < HALVINGS), halve, carry)
    return 0.5 * (low + high)


class Tabulated(NamedTuple):
    """The likelihoods at the nodes of a quadrature."""

    f: Float[Array, "K N"]
    log_density: Float[Array, "K N"]
    weight: Float[Array, "K N"]

    def times(self, gaussians: Gaussians) -> tuple[Float[Array, " N"], Gaussians]:
        """The log of each ``∫ N(f; mean, variance) p(y | f) df``, and mean and variance of the integrand."""
        logs = self.log_density - 0.5 * (self.f - gaussians.mean[None, :]) ** 2 / gaussians.variance[None, :]
        most = jnp.maximum(jnp.max(logs, axis=0), -1e300)  # of data that cannot be, the log mass is -inf
        mass = self.weight * jnp.exp(logs - most[None, :])
        total = jnp.sum(mass, axis=0)
        mean = jnp.sum(mass * self.f, axis=0) / total
        variance = jnp.sum(mass * (self.f - mean[None, :]) ** 2, axis=0) / total
        return most + jnp.log(total) - 0.5 * jnp.log(2 * jnp.pi * gaussians.variance), Gaussians(mean, variance)


def tabulated(log_density: LogDensity, cavity: Gaussians) -> Tabulated:
    """The likelihoods at nodes that suit the tilted distributions of cavities like these."""
    near = near_mode(log_density, cavity)
    return on_panels(log_density, sides_of(log_density, *covering(cavity, near)), cavity, near)


def on_panels(log_density: LogDensity, sides: Sides, *gaussians: Gaussians) -> Tabulated:
    """The likelihoods where they, and Gaussians that are near those to come, are."""
    low, high = covering(*gaussians)
    ends = jnp.concatenate([sides.ends(), *(one.ends() for one in gaussians)])
    ends = jnp.sort(jnp.concatenate([low[None, :], jnp.clip(ends, low[None, :], high[None, :]), high[None, :]]), axis=0)
    middle, half = 0.5 * (ends[1:] + ends[:-1]), 0.5 * (ends[1:] - ends[:-1])
    f = middle[:, None, :] + half[:, None, :] * jnp.asarray(POINTS)[None, :, None]
    weights = half[:, None, :] * jnp.asarray(WEIGHTS)[None, :, None]
    f = f.reshape(-1, f.shape[-1])
    return Tabulated(f, _values(log_density, f), weights.reshape(f.shape))


def _values(log_density: LogDensity, f: Float[Array, "K N"]) -> Float[Array, "K N"]:
    values = jax.vmap(log_density)(f)
    return jnp.where(jnp.isnan(values), -jnp.inf, values)
