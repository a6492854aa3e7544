"""Coordinates tilted by a quadratic surrogate of the log likelihood.

With the prior ``sites = o + L nu`` and a surrogate ``−½ s'Hs + b's`` of the log likelihood in the sites,
``B = I + L'HL``, ``m = B⁻¹ L'(b − H o)`` and ``nu = m + chol(B)⁻ᵀ c``. In the coordinates ``(z, c)`` a target
``N(z) · N(nu) · exp(log_likelihood)`` becomes ``N(z) · N(c) · exp(log_likelihood + log_weight)`` with
``log_weight = log N(nu) − log N(c) − log det chol(B)``: exact, whatever the surrogate.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax.lax.linalg import cholesky
from jaxtyping import Array, Float

from seqgp.latents.operators import Events, solve_lower
from seqgp.latents.protocol import Root
from seqgp.mcmc.target import Place


class Tilted(NamedTuple):
    """The latent in coordinates that are standard normal under prior times surrogate."""

    place: Place
    middle: Float[Array, "n"]  # m
    root: Float[Array, "n n"]  # chol(B)
    log_det: Float[Array, ""]

    @property
    def events(self) -> Events:  # noqa: D102
        return self.place.events

    def coordinates(self, nu: Float[Array, "n"]) -> Float[Array, "n"]:  # noqa: D102
        return self.root.T @ (nu - self.middle)

    def centred_nu(self, coordinates: Float[Array, "n"]) -> Float[Array, "n"]:  # noqa: D102
        return solve_lower(self.root, coordinates, transpose=True)

    def centre(self) -> Float[Array, "n"]:  # noqa: D102
        return self.middle

    def log_weight(self, nu: Float[Array, "n"], coordinates: Float[Array, "n"]) -> Float[Array, ""]:  # noqa: D102
        return -0.5 * jnp.dot(nu, nu) + 0.5 * jnp.dot(coordinates, coordinates) - self.log_det


class Quadratic(NamedTuple):
    """``−½ s'Hs + b's`` in the sites; ``H`` is a diagonal or a matrix."""

    curvature: Float[Array, "n"] | Float[Array, "n n"]  # H
    slope: Float[Array, "n"]  # b

    def times(self, v: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        """``H v``."""
        if self.curvature.ndim == 2:
            return self.curvature @ v
        return self.curvature * v if v.ndim == 1 else self.curvature[:, None] * v


def tilt(place: Place, root: Root, quadratic: Quadratic) -> Tilted:
    """The chart of a surrogate at one place."""
    n = place.offset.shape[0]
    if quadratic.curvature.ndim == 1:
        # One product of L' H^½ with its transpose: symmetric by construction.
        half = root.transpose(jnp.diag(jnp.sqrt(quadratic.curvature)))
        matrix = jnp.eye(n) + half @ half.T
    else:
        matrix = jnp.eye(n) + root.transpose(root.transpose(quadratic.curvature).T)
    chol = cholesky(matrix, symmetrize_input=False)
    slope = root.transpose(quadratic.slope - quadratic.times(place.offset))
    middle = solve_lower(chol, solve_lower(chol, slope), transpose=True)
    return Tilted(place, middle, chol, jnp.sum(jnp.log(jnp.diagonal(chol))))
