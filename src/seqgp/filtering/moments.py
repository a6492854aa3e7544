"""Moments of a Gaussian times the likelihood of one datum, by quadrature.

Where the product is bell-shaped, a few nodes of Gauss and Hermite around it do. In general the likelihood may be far
narrower than the Gaussian (an exact reading), fall off a cliff inside it (a reading below a detection limit), or leave
a second bump where it disagrees with it (Student's t): then panels are laid that end where the Gaussian, the posterior
and the *sides* of the likelihood are, and get wider away from each; the sides are found first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.linalg.types import Array

LogDensity = Callable[[Float[Array, " N"]], Float[Array, " N"]]  # of each datum given its own level

REACH = 8.0  # standard deviations of the Gaussians that are covered
SCAN = 33  # levels at which the peak of a likelihood is looked for
HALVINGS = 18  # of the interval that holds a peak or a side
DROP = 1.0  # of the log likelihood from its peak to its sides
AROUND_GAUSSIAN = np.array([-4.0, -1.5, 1.5, 4.0])  # ends of panels, in standard deviations
AROUND_SIDE = np.array([-8.0, -2.0, 2.0, 8.0])  # in widths of a side
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(5)  # of each panel
NODES, MASSES = np.polynomial.hermite_e.hermegauss(24)  # of a bell


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
        around = self.place[:, None, :] + self.width[:, None, :] * jnp.asarray(AROUND_SIDE)[None, :, None]
        return around.reshape(-1, self.place.shape[1])


def covering(*gaussians: Gaussians) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """The interval of each datum that holds all of its Gaussians."""
    low, high = zip(*(one.interval() for one in gaussians))
    return jnp.min(jnp.stack(low), axis=0), jnp.max(jnp.stack(high), axis=0)


def sides_of(log_density: LogDensity, low: Float[Array, " N"], high: Float[Array, " N"]) -> Sides:
    """The sides of each likelihood within an interval; its ends where it falls beyond them.

    A likelihood with one peak is nowhere between two levels of the scan higher than at the levels beside its peak,
    however narrow it is.
    """

    def finite(f):
        return jnp.nan_to_num(log_density(f), nan=-jnp.inf, neginf=-jnp.inf)

    def slope(f):
        return jax.jvp(log_density, (f,), (jnp.ones_like(f),))[1]

    grid = low[None, :] + (high - low)[None, :] * jnp.linspace(0.0, 1.0, SCAN)[:, None]
    values = jax.vmap(finite)(grid)
    best = jnp.argmax(values, axis=0)

    def at(index):
        return jnp.take_along_axis(grid, jnp.clip(index, 0, SCAN - 1)[None, :], axis=0)[0]

    peak = _halved(lambda f: slope(f) > 0, at(best - 1), at(best + 1))
    peak = jnp.where(finite(peak) >= values.max(axis=0), peak, at(best))
    level = finite(peak) - DROP
    places = [_halved(lambda f: finite(f) < level, end, peak) for end in (low, high)]
    place = jnp.stack([jnp.where(finite(end) < level, found, end) for end, found in zip((low, high), places)])
    width = 1 / jnp.abs(jax.vmap(slope)(place))
    return Sides(place, jnp.where(width < high - low, width, high - low))


def _halved(beyond: Callable, low: Float[Array, " N"], high: Float[Array, " N"]) -> Float[Array, " N"]:
    """Where ``beyond`` ends to hold, on the way from ``low`` to ``high``."""

    def halve(_, ends):
        middle = 0.5 * (ends[0] + ends[1])
        still = beyond(middle)
        return jnp.where(still, middle, ends[0]), jnp.where(still, ends[1], middle)

    low, high = jax.lax.fori_loop(0, HALVINGS, halve, (low, high))
    return 0.5 * (low + high)


class Tabulated(NamedTuple):
    """The likelihoods at the nodes of a quadrature."""

    f: Float[Array, "K N"]
    log_density: Float[Array, "K N"]
    weight: Float[Array, "K N"]

    def times(self, gaussians: Gaussians) -> tuple[Float[Array, " N"], Gaussians]:
        """The log of each ``∫ N(f; mean, variance) p(y | f) df``, and mean and variance of the integrand."""
        logs = self.log_density - 0.5 * (self.f - gaussians.mean[None, :]) ** 2 / gaussians.variance[None, :]
        most = jnp.max(logs, axis=0)
        mass = self.weight * jnp.exp(logs - most[None, :])
        total = jnp.sum(mass, axis=0)
        mean = jnp.sum(mass * self.f, axis=0) / total
        variance = jnp.sum(mass * (self.f - mean[None, :]) ** 2, axis=0) / total
        return most + jnp.log(total) - 0.5 * jnp.log(2 * jnp.pi * gaussians.variance), Gaussians(mean, variance)


def on_bell(log_density: LogDensity, bell: Gaussians) -> Tabulated:
    """The likelihoods where a Gaussian is that is near their product with those to come."""
    sd = jnp.sqrt(bell.variance)
    f = bell.mean[None, :] + sd[None, :] * jnp.asarray(NODES)[:, None]
    weights = sd[None, :] * jnp.asarray(MASSES * np.exp(0.5 * NODES**2))[:, None]
    return Tabulated(f, _values(log_density, f), weights)


def on_panels(log_density: LogDensity, sides: Sides, *gaussians: Gaussians) -> Tabulated:
    """The likelihoods where they, and Gaussians that are near those to come, are."""
    low, high = covering(*gaussians)
    ends = jnp.concatenate([sides.ends(), *(one.ends() for one in gaussians)])
    ends = jnp.sort(jnp.concatenate([low[None, :], jnp.clip(ends, low, high), high[None, :]]), axis=0)
    middle, half = 0.5 * (ends[1:] + ends[:-1]), 0.5 * (ends[1:] - ends[:-1])
    f = middle[:, None, :] + half[:, None, :] * jnp.asarray(POINTS)[None, :, None]
    weights = half[:, None, :] * jnp.asarray(WEIGHTS)[None, :, None]
    f = f.reshape(-1, f.shape[-1])
    return Tabulated(f, _values(log_density, f), weights.reshape(f.shape))


def _values(log_density: LogDensity, f: Float[Array, "K N"]) -> Float[Array, "K N"]:
    values = jax.vmap(log_density)(f)
    return jnp.where(jnp.isnan(values), -jnp.inf, values)
