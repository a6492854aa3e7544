"""What passes from step to step: the prior that a carry makes of the past, and how the sites follow from it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from jaxtyping import Float, PyTree

from seqgp.fields.operators import Events
from seqgp.fields.protocol import Conditional, Root
from seqgp.linalg.types import Array, ArrayLike


class Carried(NamedTuple):
    """The prior of a step, as arrays."""

    mean: Float[ArrayLike, " d"]  # of z
    covariance: Float[ArrayLike, "d d"]
    window_moments: PyTree  # what the carry knows of the window, the same for every draw; None where that is nothing


class Factored(Protocol):
    """What follows from the kernel's parameters alone: covariances, factored once and reused while these stay."""

    @property
    def events(self) -> Events:
        """What happened when they were factored."""
        ...


class WindowPrior(Protocol):
    """The part of a carry that the target of a step sees: ``sites = offset + root nu`` with the window before them."""

    def size(self, tau: int, sites: int) -> int:
        """The number of sites that a step samples: those of the present, and of the window if it moves."""
        ...

    def prior_at(self, window_moments: PyTree, conditional: Conditional, z: Float[Array, " d"]) -> Factored:
        """The prior of the sites at the kernel's parameters in ``z``.

        Args:
            window_moments: what was carried of the window.
            conditional: the prior of the present given the window.
            z: all parameters, of which only those of the kernel may be used.
        """
        ...

    def offset(
        self,
        window_moments: PyTree,
        window: Float[Array, "tau S"],
        prior: PyTree,
        z: Float[Array, " d"],
        mean: Array,
    ) -> Float[Array, " n"]:
        """The prior mean of the sites, affine in ``z`` and in ``mean``; ``prior`` is what ``prior_at`` gave."""
        ...

    def root(self, window_moments: PyTree, prior: PyTree) -> Root:
        """The square root of the prior covariance of the sites."""
        ...
