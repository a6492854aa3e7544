"""The whitened coordinates of the latent: ``nu`` itself (the paper's fixed-``nu`` representation)."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from seqgp.latents.operators import Events
from seqgp.mcmc.target import Place, Target, place_at, shift_to


class Whitened(NamedTuple):
    """The latent in coordinates that are standard normal under its prior."""

    place: Place

    @property
    def events(self) -> Events:  # noqa: D102
        return self.place.events

    def coordinates(self, nu: Float[Array, " n"]) -> Float[Array, " n"]:  # noqa: D102
        return nu

    def centred_nu(self, coordinates: Float[Array, " n"]) -> Float[Array, " n"]:  # noqa: D102
        return coordinates

    def centre(self) -> Float[Array, " n"]:  # noqa: D102
        return jnp.zeros_like(self.place.offset)

    def log_weight(self, nu: Float[Array, " n"], coordinates: Float[Array, " n"]) -> Float[Array, ""]:  # noqa: D102
        return jnp.zeros((), nu.dtype)


def whitened_at(target: Target, z: Float[Array, " d"]) -> Whitened:
    """The whitened coordinates at ``z``: factors a covariance matrix."""
    return Whitened(place_at(target, z))


def whitened_shifted(target: Target, chart: Whitened, z: Float[Array, " d"]) -> Whitened:
    """The whitened coordinates at a ``z`` whose kernel parameters are the old ones."""
    return Whitened(shift_to(target, chart.place, z))
