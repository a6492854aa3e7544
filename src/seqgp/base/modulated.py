"""Parameters with a season: standard deviations that rise and fall with the time of the year, or of the day.

``base · exp(Σ_k a_k cos(2πkt/period) + b_k sin(2πkt/period))``. The logarithm of the amplitude has mean 0 over a
period, so that ``base`` is the geometric mean over the season.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float

from seqgp.base.errors import ModelError
from seqgp.base.priors import Kept, Parameter, Parameters, Prior, Slot, as_entry, as_slot


class Season(NamedTuple):
    """Cosines and sines of time: ``cos, sin`` of each harmonic, one pair after the other."""

    period: float
    order: int
    name: str

    @property
    def cycle(self) -> tuple[float, int]:
        """Period and order, as of ``seqgp.means.harmonics``."""
        return self.period, self.order

    def columns(self, t: Array | np.ndarray | float) -> Float[Array, "*T 2*order"]:
        """At times ``t``."""
        phase = 2 * jnp.pi * jnp.asarray(t)[..., None] / self.period * jnp.arange(1, self.order + 1, dtype=float)
        return jnp.stack([jnp.cos(phase), jnp.sin(phase)], axis=-1).reshape(*jnp.shape(t), 2 * self.order)

    def amplitude(self, weights: npt.ArrayLike, t: Array | np.ndarray | float) -> Float[Array, "*T"]:
        """``exp(columns · weights)`` at times ``t``."""
        return jnp.exp(self.columns(t) @ jnp.asarray(weights))


class Modulated(eqx.Module):
    """A standard deviation with a season: ``base · exp(weights · harmonics(t))``.

    It stands in the place of a number or prior in ``Separable(…, scale=…)`` and ``likelihoods.Gaussian(noise=…)``. A
    weight of 0.1 moves the standard deviation by 10% either way. The weights are called ``scale.season[0]`` (of the
    first cosine), ``scale.season[1]`` (of the first sine), …, with the name of the harmonics in place of ``season``.

    Args:
        base: the geometric mean over the season, a number or a prior.
        by: ``seqgp.means.harmonics``.
        weights: a number or prior for all harmonics, or a list with one for each cosine and sine.
    """

    base: float | Prior
    season: Season = eqx.field(static=True)
    weights: tuple[float | Prior, ...]

    def __init__(self, base: Parameter, by: Any, weights: Slot):
        cycle = getattr(by, "cycle", None)
        if cycle is None:
            got = getattr(by, "name", type(by).__name__)
            raise ModelError(f"Modulated: by = {got!r}: expected seqgp.means.harmonics(period, order)")
        self.base = as_entry(base, "Modulated: base")
        self.season = Season(cycle[0], cycle[1], by.name)
        given, width = as_slot(weights, "Modulated: weights"), 2 * self.season.order
        self.weights = given if isinstance(given, tuple) else (given,) * width
        if len(self.weights) != width:
            raise ModelError(
                f"Modulated: {len(self.weights)} weights for the {width} columns of {by.name!r}: give one for all, or "
                "one for each cosine and sine"
            )

    def slots(self, name: str) -> dict[str, Kept]:
        """Its parameters where it is the parameter ``name``."""
        return {name: self.base, self.weights_name(name): self.weights}

    def weights_name(self, name: str) -> str:
        """What the weights are called."""
        return f"{name}.{self.season.name}"

    def amplitude(self, name: str, parameters: Parameters, t: Array | np.ndarray | float) -> Float[Array, "*T"]:
        """By what ``base`` is multiplied at times ``t``."""
        return self.season.amplitude(parameters[self.weights_name(name)], t)
