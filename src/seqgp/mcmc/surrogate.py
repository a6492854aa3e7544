"""Surrogate data slice sampling (Murray & Adams 2010) of the kernel's parameters.

Auxiliary data ``g ~ N(sites, S)`` are drawn; given ``g``, the latent is written as its conditional under prior and
auxiliary data plus white coordinates, and the parameters move at fixed ``g`` and coordinates, under
``log p(y | f) + log N(g; prior mean, K + S)``. This is a move in a chart tilted by ``N(g; sites, S)``.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from seqgp.mcmc.charts import Quadratic, Whitened, tilt
from seqgp.mcmc.elliptical import SliceInfo
from seqgp.mcmc.moves import move_parameters
from seqgp.mcmc.target import Position, Target, place_at


def move_kernel_with_surrogate(
    key: Key[Array, ""], target: Target, position: Position, precision: Float[Array, " S"]
) -> tuple[Position, SliceInfo]:
    """Update the kernel's parameters, the latent following; ``precision`` is ``1/S``, fixed (0: no surrogate datum)."""
    block = target.kernel_block
    assert block is not None
    key_data, key_move = jax.random.split(key)
    noise = jax.random.normal(key_data, precision.shape, precision.dtype)
    weighted = precision * position.sites + jnp.sqrt(precision) * noise  # g / S
    quadratic = Quadratic(jnp.sqrt(precision), weighted)

    def chart_of(place):
        return tilt(place, target.root(place.conditional), quadratic)

    def log_auxiliary(candidate: Position) -> Float[Array, ""]:
        """``log N(g; sites, S)`` up to a constant."""
        return jnp.dot(weighted - 0.5 * precision * candidate.sites, candidate.sites)

    start = position._replace(chart=chart_of(position.place))
    moved, info = move_parameters(
        key_move,
        target,
        start,
        block,
        lambda z: chart_of(place_at(target, z)),
        log_auxiliary,
        keep=lambda candidate: candidate._replace(chart=Whitened(candidate.place)),
    )
    return moved, info
