"""What passes from step to step: the window of the past, the prior that a carry makes of it, and what a carry is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float

from seqgp.latents.protocol import Conditional, Root
from seqgp.models.model import Model
from seqgp.models.types import Array

if TYPE_CHECKING:
    from seqgp.sequential.state import SequentialState


class Window(NamedTuple):
    """The last ``tau`` times with their sites, and the draws of the latent there.

    ``f`` is the zero-mean latent: add ``parameters["mean"]`` of the same draw for the level. With the joint carry these
    are smoothed: every step revises them in the light of its data.
    """

    times: np.ndarray  # (tau,)
    x: np.ndarray  # (tau, S, D)
    mask: np.ndarray  # (tau, S): False where a site is only padding, or the window not yet full
    f: Float[Array, "draws tau S"]


class Carried(NamedTuple):
    """The prior of a step, as arrays."""

    mean: Float[Array, " d"]  # of z
    covariance: Float[Array, "d d"]
    shared: Any  # what the carry needs besides, the same for every draw


class Carry(Protocol):
    """A way to pass the past on."""

    @property
    def name(self) -> str: ...  # noqa: D102

    def summarise(self, model: Model, state: SequentialState) -> Carried:
        """The prior of the next step from the draws of the last."""
        ...

    def report(self, model: Model, state: SequentialState) -> tuple[dict[str, Any], list[str]]:
        """What a person wants to know of the carry after a step: numbers, and remarks in plain words."""
        ...

    def per_draw(self, model: Model, state: SequentialState) -> Float[Array, "draws tau S"]:
        """What each draw of the next step conditions on."""
        ...

    def size(self, tau: int, sites: int) -> int:
        """The number of sites that a step samples: those of the present, and of the window if it moves."""
        ...

    def given(self, shared: Any, conditional: Conditional, z: Float[Array, " d"]) -> Any:
        """What the kernel's parameters decide: the prior of the present given the window, and whatever is more."""
        ...

    def offset(
        self,
        shared: Any,
        window: Float[Array, "tau S"],
        given: Any,
        z: Float[Array, " d"],
        mean: Array,
    ) -> Float[Array, " n"]:
        """The prior mean of the sites."""
        ...

    def root(self, shared: Any, given: Any) -> Root:
        """The square root of the prior covariance of the sites."""
        ...

    def slide(self, window: Float[Array, "draws tau S"], sites: Float[Array, "draws n"], mean: Array) -> Array:
        """The latents of window and present, ``(draws, tau+1, S)``, after the step (zero-mean)."""
        ...
