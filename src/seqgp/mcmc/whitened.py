"""The whitened coordinates of the latent: ``nu`` itself (the paper's fixed-``nu`` representation)."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from seqgp.fields.operators import Events
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
