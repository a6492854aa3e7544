"""The protocol of a representation: what a step needs to know of the latent's prior.

The latent lives on *sites*. For given kernel parameters, a representation gives the prior of the sites of the
present given those of the window: a linear mean and a square root of the covariance. The likelihood sees the latent
at the data, through ``observe``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Bool, Float

from seqgp.latents.operators import Events
from seqgp.models.kernels import LatentKernel, Parameters
from seqgp.models.types import Array


class Root(Protocol):
    """A square root of the covariance of the sites: those of the present, after those of the window if it moves."""

    def apply(self, v: Float[Array, " n *k"]) -> Float[Array, " n *k"]:
        """The root times ``v``."""
        ...

    def solve(self, v: Float[Array, " n *k"]) -> Float[Array, " n *k"]:
        """The inverse of the root times ``v``."""
        ...

    def pull(self, v: Float[Array, " S *k"]) -> Float[Array, " n *k"]:
        """The transpose of the root times ``v``, which lives on the sites of the present (zero on the window's)."""
        ...

    def pull_diagonal(self, d: Float[Array, " S"]) -> Float[Array, "n S"]:
        """``pull`` of a diagonal matrix."""
        ...

    def gram_diagonal(self, d: Float[Array, " S"]) -> Float[Array, "S S"]:
        """``pull_diagonal(d).T @ pull_diagonal(d)``: the covariance of the present, scaled on both sides."""
        ...


class Conditional(Protocol):
    """The prior of the present's sites given the window's, at one value of the kernel's parameters."""

    @property
    def root(self) -> Root: ...  # noqa: D102
    @property
    def events(self) -> Events: ...  # noqa: D102
    @property
    def sites(self) -> int: ...  # noqa: D102
    def mean(self, window: Float[Array, "tau S"]) -> Float[Array, " S"]: ...  # noqa: D102
    def mean_columns(self, window: Float[Array, " n *k"]) -> Float[Array, " S *k"]: ...  # noqa: D102
    def mean_transpose(self, v: Float[Array, " S *k"]) -> Float[Array, " n *k"]: ...  # noqa: D102


class Sites(NamedTuple):
    """Where the latent lives at one time, and how the data see it."""

    x: np.ndarray  # (S, D)
    mask: np.ndarray  # (S,): False where a site is only padding
    observe: Observe


class Observe(NamedTuple):
    """From the sites to the data: a choice of sites, or interpolation from them."""

    index: np.ndarray | None = None  # pyright: ignore[reportIncompatibleMethodOverride]
    weights: np.ndarray | None = None

    def __call__(self, sites: Float[Array, " S"]) -> Float[Array, " N"]:
        """The latent at the data."""
        if self.weights is not None:
            return self.weights @ sites
        return sites if self.index is None else sites[self.index]


class Latent(Protocol):
    """A representation, resolved for a model and the first snapshot."""

    @property
    def name(self) -> str: ...  # noqa: D102

    def sites(self, x: np.ndarray, size: int) -> Sites:
        """The sites for data at ``x``, padded to ``size`` data points where the representation can."""
        ...

    def geometry(
        self,
        kernel: LatentKernel,
        times: Float[Array, " B"],
        x: Float[Array, "B S D"],
        mask: Bool[Array, "B S"],
        present: int,
    ) -> Any:
        """What depends on the inputs alone; the last ``present`` blocks of sites are the present."""
        ...

    def conditional(
        self, kernel: LatentKernel, geometry: Any, parameters: Parameters, jitter: tuple[float, ...]
    ) -> Any:
        """The prior of the present's sites given the window's: a :class:`Conditional`."""
        ...
