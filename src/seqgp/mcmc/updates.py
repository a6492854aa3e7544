"""What a set of updates is: coordinates, a sweep, and what is found out about the target before chains start.

An update set never sees times, grids or carries: a sweep sees a ``seqgp.mcmc.target.Target``, and what is
frozen before the sweeps (a quadratic approximation, an ellipse) is found by way of an ``Exploration`` of it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int, Key, PyTree

from seqgp.linalg.types import Array, ArrayLike
from seqgp.mcmc.moves import SweepInfo
from seqgp.mcmc.target import Chart, Position, Target


class QuadraticApproximation(NamedTuple):
    """``exp(log_scale(z)) · (−½ u'Hu + b'u)`` in ``u = f`` at the sites of the present, ``H = F F'``."""

    factor: Float[ArrayLike, " S"] | Float[ArrayLike, "S r"]  # F
    slope: Float[ArrayLike, " S"]  # b
    centre: Float[ArrayLike, " d"]  # where it was found
    growth: Float[ArrayLike, " d"]  # d log_scale / dz there, besides what the target knows


class SearchResult(NamedTuple):
    """Where a search for the most probable latent at fixed parameters ended."""

    nu: Float[ArrayLike, " n"]
    sites: Float[ArrayLike, " n"]
    approximation: QuadraticApproximation  # of the log likelihood there
    log_density: Float[ArrayLike, ""]
    iterations: Int[ArrayLike, ""]
    converged: Bool[ArrayLike, ""]


class Exploration(Protocol):
    """What updates may ask about a target before chains start. Nothing of it moves a chain."""

    @property
    def mean(self) -> Float[np.ndarray, " d"]:
        """The prior mean of ``z``."""
        ...

    @property
    def covariance(self) -> Float[np.ndarray, "d d"]:
        """The prior covariance of ``z``."""
        ...

    @property
    def uninformed(self) -> Int[np.ndarray, " k"]:
        """The entries of ``z`` that the data say nothing about: those of the time kernel, where there is one time."""
        ...

    @property
    def present(self) -> int:
        """The number of sites that the data see."""
        ...

    @property
    def quadratic(self) -> bool:
        """Whether the log likelihood is quadratic in the latent: the approximation is then exact."""
        ...

    def differentiable(self) -> bool:
        """Whether JAX can differentiate the log likelihood in the latent."""
        ...

    def prior_variance(self, z: Float[np.ndarray, " d"]) -> float:
        """The prior variance of the latent."""
        ...

    def curvature(self, sites: Float[np.ndarray, " S"], z: Float[np.ndarray, " d"]) -> Float[np.ndarray, " S"]:
        """``−∂² log p(y | sites, z) / ∂sites²`` at the sites of the present, clipped at zero."""
        ...

    def search(self, z: Float[np.ndarray, " d"]) -> SearchResult:
        """The most probable latent at fixed ``z``, and the approximation there."""
        ...

    def approximation(self, sites: Float[np.ndarray, " n"], z: Float[np.ndarray, " d"]) -> QuadraticApproximation:
        """The approximation at a point."""
        ...


class Schedule(NamedTuple):
    """How a warm-up is planned, as updates would have it; a user's own numbers take precedence."""

    warmup: int  # sweeps per chain before the initial sample
    thin: int  # sweeps per draw of the initial sample
    least: int  # draws per chain before a later step, at least
    stages: tuple[float, ...]  # shares of the warm-up after each of which ``retune`` is called; none: never
    remedy: str = "draws"  # which settings to raise where chains mix slowly: only such as these updates have


class WarmUp(NamedTuple):
    """What a stage of the warm-up has shown: its draws, chain by chain."""

    z: Float[np.ndarray, "chains n d"]
    sites: Float[np.ndarray, "chains n size"]
    last: bool  # the stage is the last one: chains have met, if they ever will


class Tuned(NamedTuple):
    """The updates to use (others, where theirs could not be prepared), what is frozen, and what is worth saying."""

    updates: Updates
    tuning: PyTree
    remarks: tuple[str, ...] = ()


@runtime_checkable
class Updates(Protocol):
    """The moves of a sweep. Any object with these members can be a sampler's ``updates=``.

    It is compiled in, so it must be hashable, such as an Equinox module with static fields. ``tuning`` is what ``tune``
    returns, a PyTree of arrays.
    """

    @property
    def name(self) -> str:
        """What an info calls it."""
        ...

    @property
    def needs_gradient(self) -> bool:
        """Whether the log likelihood must be differentiable."""
        ...

    def schedule(self, first: bool) -> Schedule:
        """The plan of the warm-up, of the initial sample (``first``) or of a later step."""
        ...

    def tune(self, target: Exploration) -> Tuned:
        """Before the first sweep: what is frozen, found at the prior mean of ``z``."""
        ...

    def retune(self, target: Exploration, tuning: PyTree, warm: WarmUp) -> PyTree:
        """After a stage of the warm-up: the tuning found anew, nearer to where the posterior is."""
        ...

    def chart_at(self, target: Target, z: Float[Array, " d"], tuning: PyTree) -> Chart:
        """The coordinates that a chain of these updates lives in."""
        ...

    def transfer(self, key: Key[Array, ""], target: Target, position: Position, tuning: PyTree) -> Position:
        """The position on the target of the next draw, whose window is new and whose ``z`` is the old one."""
        ...

    def sweep(
        self, key: Key[Array, ""], target: Target, position: Position, tuning: PyTree, first: bool
    ) -> tuple[Position, SweepInfo]:
        """All moves in turn, for one draw of a step or of the initial sample (``first``)."""
        ...
