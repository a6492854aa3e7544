"""Charts: coordinates of the latent function at one ``z`` in which an update moves.

The whitened chart is ``nu`` itself (the fixed-``nu`` representation of the paper). The other is tilted by a quadratic
approximation of the log likelihood. With the prior ``sites = o + L nu`` and the approximation ``−½ s'Hs + b's`` in
the sites now, ``H = F F'``, let ``G = L'F``, ``B = I + G G'`` and ``m = B⁻¹ L'(b − H o)``. Prior times
approximation is ``N(nu; m, B⁻¹)``, and ``nu = m + R c`` with a root ``R R' = B⁻¹``. In the coordinates ``(z, c)`` a
target ``N(z) N(nu) exp(log_likelihood)`` becomes ``N(z) N(c) exp(log_likelihood + log_weight)`` with
``log_weight = log N(nu) − log N(c) + log det R``: exact, whatever the approximation.

Everything follows from one Cholesky factor ``C C' = I + G'G``, of the size of the data where they are fewer than the
sites: ``R = I − G C⁻ᵀ (I + C)⁻¹ G'`` and ``R⁻¹ = I + G (I + C')⁻¹ G'``, both by triangular solves.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Float

from seqgp.fields.operators import Events
from seqgp.fields.protocol import Root
from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.linalg.types import Array
from seqgp.mcmc.target import Place, Target, place_at


class Whitened(NamedTuple):
    """The latent in coordinates that are standard normal under its prior."""

    place: Place

    @property
    def events(self) -> Events:
        """What happened when its covariance was factored."""
        return self.place.events

    def coordinates(self, nu: Float[Array, " n"]) -> Float[Array, " n"]:
        """``c = nu``."""
        return nu

    def centred_nu(self, coordinates: Float[Array, " n *k"]) -> Float[Array, " n *k"]:
        """``nu = c``."""
        return coordinates

    def centre(self) -> Float[Array, " n"]:
        """``0``."""
        return jnp.zeros_like(self.place.offset)

    def log_weight(self, nu: Float[Array, " n"], coordinates: Float[Array, " n"]) -> Float[Array, ""]:
        """``0``: the prior is what the coordinates assume."""
        return jnp.zeros((), nu.dtype)


def whitened_at(target: Target, z: Float[Array, " d"]) -> Whitened:
    """The whitened coordinates at ``z``: factors a covariance matrix."""
    return Whitened(place_at(target, z))


class Quadratic(NamedTuple):
    """``−½ s'Hs + b's`` in the sites, with ``H = F F'``; a diagonal ``F`` is a vector."""

    factor: Float[Array, " S"] | Float[Array, "S r"]  # F
    slope: Float[Array, " S"]  # b

    def curve(self, v: Float[Array, " S"]) -> Float[Array, " S"]:
        """``H v``."""
        if self.factor.ndim == 1:
            return self.factor**2 * v
        return self.factor @ (self.factor.T @ v)


class Tilted(NamedTuple):
    """The latent in coordinates that are standard normal under prior times approximation."""

    place: Place
    middle: Float[Array, " n"]  # m
    half: Float[Array, "n r"]  # G
    chol: Float[Array, "r r"]  # C

    @property
    def events(self) -> Events:
        """What happened when its covariance was factored."""
        return self.place.events

    def coordinates(self, nu: Float[Array, " n"]) -> Float[Array, " n"]:
        """``c = R⁻¹ (nu − m)``."""
        centred = nu - self.middle
        return centred + self.half @ solve_lower(self._raised(), self.half.T @ centred, transpose=True)

    def centred_nu(self, coordinates: Float[Array, " n *k"]) -> Float[Array, " n *k"]:
        """``R c``."""
        inner = solve_lower(self._raised(), self.half.T @ coordinates)
        return coordinates - self.half @ solve_lower(self.chol, inner, transpose=True)

    def centre(self) -> Float[Array, " n"]:
        """``m``."""
        return self.middle

    def log_weight(self, nu: Float[Array, " n"], coordinates: Float[Array, " n"]) -> Float[Array, ""]:
        """``log N(nu) − log N(c) + log det R``, with ``det R = 1 / det C``."""
        log_det = jnp.sum(jnp.log(jnp.diagonal(self.chol)))
        return 0.5 * (jnp.dot(coordinates, coordinates) - jnp.dot(nu, nu)) - log_det

    def _raised(self) -> Float[Array, "r r"]:
        return self.chol + jnp.eye(self.chol.shape[0], dtype=self.chol.dtype)


def tilt(place: Place, root: Root, quadratic: Quadratic) -> Tilted:
    """The chart of a quadratic approximation at one place: one product, one Cholesky factor."""
    diagonal = quadratic.factor.ndim == 1
    half = root.pull_diagonal(quadratic.factor) if diagonal else root.pull(quadratic.factor)
    gram = root.gram_diagonal(quadratic.factor) if diagonal else half.T @ half
    chol = cholesky(gram + jnp.eye(half.shape[1], dtype=half.dtype))
    return retilt(Tilted(place, jnp.zeros_like(place.offset), half, chol), root, quadratic)


def retilt(chart: Tilted, root: Root, quadratic: Quadratic) -> Tilted:
    """The chart where only the offset of its place, or the slope of the approximation, is new."""
    excess = quadratic.slope - quadratic.curve(chart.place.offset)
    if quadratic.factor.ndim == 1:
        # With ``excess = F q``, ``m = B⁻¹ G q = G (I + G'G)⁻¹ q``. The difference below would be one of numbers as
        # large as the squared ratio of scale and noise: with noise of 1e-8 nothing is left of them.
        curved = quadratic.factor > 0
        scaled = jnp.where(curved, excess / jnp.where(curved, quadratic.factor, 1.0), 0.0)
        exact = chart.half @ _solved(chart, scaled)
        slope = root.pull(jnp.where(curved, 0.0, excess))
    else:
        exact, slope = jnp.zeros_like(chart.middle), root.pull(excess)
    middle = exact + slope - chart.half @ _solved(chart, chart.half.T @ slope)
    return chart._replace(middle=middle)


def _solved(chart: Tilted, v: Float[Array, " r"]) -> Float[Array, " r"]:
    """``(I + G'G)⁻¹ v``."""
    return solve_lower(chart.chol, solve_lower(chart.chol, v), transpose=True)
