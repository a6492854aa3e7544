"""The protocol of a representation: what a step needs to know of the latent's prior.

The latent lives on *sites*. For given kernel parameters, a representation gives the prior of the sites of the
present given those of the window: a linear mean and a square root of the covariance. The likelihood sees the latent
at the data, through ``observe``.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, PyTree

from seqgp.fields.operators import Events
from seqgp.fields.sites import Observe, Sites, StepSites, Window
from seqgp.kernels.base import Parameters
from seqgp.kernels.separable import LatentKernel
from seqgp.linalg.types import Array, ArrayLike
from seqgp.model import Model

Geometry = PyTree  # what a representation computes of the inputs alone: a tree of arrays of its own kind


class Root(Protocol):
    """A square root of the covariance of the sites of the present, given those of the window."""

    def apply(self, v: Float[Array, " S *k"]) -> Float[Array, " S *k"]:
        """The root times ``v``."""
        ...

    def solve(self, v: Float[Array, " S *k"]) -> Float[Array, " S *k"]:
        """The inverse of the root times ``v``."""
        ...

    def pull(self, v: Float[Array, " S *k"]) -> Float[Array, " S *k"]:
        """The transpose of the root times ``v``."""
        ...

    def pull_diagonal(self, d: Float[Array, " S"]) -> Float[Array, "S S"]:
        """``pull`` of a diagonal matrix."""
        ...

    def gram_diagonal(self, d: Float[Array, " S"]) -> Float[Array, "S S"]:
        """``pull_diagonal(d).T @ pull_diagonal(d)``: the covariance of the present, scaled on both sides."""
        ...


class Conditional(Protocol):
    """The prior of the present's sites given the window's, at one value of the kernel's parameters."""

    @property
    def root(self) -> Root:
        """``L_t``, with ``L_t L_t'`` the covariance of the present given the window."""
        ...

    @property
    def events(self) -> Events:
        """What happened when the covariance was factored."""
        ...

    def mean(self, window: Float[Array, "tau S"]) -> Float[Array, " S"]:
        """``A f_w``: the mean of the present given the latent of the window."""
        ...


class PredictionSites(NamedTuple):
    """The sites that a prediction at new inputs needs beside the window."""

    representation: Latent  # of the latent at these sites given the window
    x: np.ndarray  # (S, D)
    observe: Observe  # from the sites to the new inputs
    known: bool  # the sites themselves are the last ones of the window: nothing is left to draw


@runtime_checkable
class Latent(Protocol):
    """A representation of the latent function, resolved for a model and the inputs of a first snapshot.

    Any object with these members can be a sampler's ``latent=``. It must be a PyTree of arrays (arguments of compiled
    functions) and hashable values (compiled in), such as an Equinox module.
    """

    @property
    def name(self) -> str:
        """What an info calls it."""
        ...

    def sites(self, x: np.ndarray, size: int) -> Sites:
        """The sites for data at ``x``, padded to ``size`` data points where the representation can."""
        ...

    def step_sites(self, x: np.ndarray, window: Window, last: int, pointwise: bool) -> StepSites:
        """The sites of a later snapshot, with the window brought to as many.

        Args:
            x: the inputs of the snapshot.
            window: the window before it.
            last: how many inputs the snapshot before had.
            pointwise: whether data may be added as padding.
        """
        ...

    def prediction_sites(self, x: np.ndarray, now: bool) -> PredictionSites:
        """The sites for a prediction at ``x``: at the time of the last snapshot (``now``), or later."""
        ...

    def geometry(
        self,
        kernel: LatentKernel,
        times: Float[ArrayLike, " B"],
        x: Float[ArrayLike, "B S D"],
        mask: Bool[ArrayLike, "B S"],
        present: int,
    ) -> Geometry:
        """What depends on the inputs alone; the last ``present`` blocks of sites are the present."""
        ...

    def conditional(
        self, kernel: LatentKernel, geometry: Geometry, parameters: Parameters, jitter: tuple[float, ...]
    ) -> Conditional:
        """The prior of the present's sites given the window's, at one value of the kernel's parameters."""
        ...

    def report(self, model: Model, z: Float[Array, " d"], x: np.ndarray) -> tuple[dict[str, float], list[str]]:
        """Its accuracy at ``z`` and ``x``, for people: numbers, and remarks in plain words."""
        ...


@runtime_checkable
class LatentChoice(Protocol):
    """What becomes a representation once the first inputs are known: ``Grid()``, ``Knots(…)``."""

    def resolve(self, kernel: LatentKernel, x: np.ndarray) -> Latent:
        """The representation for a run that begins with these inputs."""
        ...
