"""The one target of every step, in standard coordinates, and the position of a chain on it.

    z ~ N(m_z, K_z)      nu ~ N(0, I)      sites = offset(z) + root(z) nu      y ~ likelihood(sites, z)

The costly part (``conditional``, which factors a covariance matrix) depends on the kernel's parameters alone;
``offset`` follows from it and from the window.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from seqgp.fields.operators import Events
from seqgp.fields.protocol import Root
from seqgp.likelihoods.base import Plane
from seqgp.mcmc.gaussian import Block


class Target(Protocol):
    """A posterior in standard coordinates: all that a move may know of a step."""

    @property
    def mean(self) -> Float[Array, " d"]:
        """``m_z``."""
        ...

    @property
    def covariance(self) -> Float[Array, "d d"]:
        """``K_z``."""
        ...

    @property
    def kernel_block(self) -> Block | None:
        """The kernel's parameters ``kappa`` given the rest of ``z``; None where all of them are known."""
        ...

    @property
    def mean_block(self) -> Block | None:
        """The mean ``mu`` given the rest of ``z``."""
        ...

    @property
    def likelihood_block(self) -> Block | None:
        """The likelihood's parameters ``alpha`` given the rest of ``z``."""
        ...

    @property
    def size(self) -> int:
        """The number of sites: the length of ``nu``."""
        ...

    def conditional(self, z: Float[Array, " d"]) -> PyTree:
        """What follows from the kernel's parameters alone: costly, for a covariance matrix is factored."""
        ...

    def offset(self, conditional: PyTree) -> Float[Array, " n"]:
        """The prior mean of the sites, given the window."""
        ...

    def root(self, conditional: PyTree) -> Root:
        """The square root of the prior covariance of the sites."""
        ...

    def constant_mean(self, z: Float[Array, " d"]) -> Float[Array, ""]:
        """The mean, known or inferred, in natural units."""
        ...

    def covariates(self) -> Float[Array, "n q"]:
        """The columns of the mean's covariates at the sites: zero where there are no data of this step."""
        ...

    def covariate_weights(self, z: Float[Array, " d"]) -> Float[Array, " q"]:
        """The weights of the covariates: at the data ``f = sites + constant_mean + covariates @ weights``."""
        ...

    def log_likelihood(self, sites: Float[Array, " n"], z: Float[Array, " d"]) -> Float[Array, ""]:
        """Of all data of the step."""
        ...

    def log_likelihood_on_planes(
        self, middle: Float[Array, " n"], columns: Float[Array, "n k"], z: Float[Array, " d"]
    ) -> Plane:
        """The log likelihood on any plane through ``middle`` within the span of ``columns``."""
        ...

    def log_precision(self, z: Float[Array, " d"]) -> Float[Array, ""]:
        """The log precision of the noise, where the log likelihood is known to be proportional to it; else zero."""
        ...


class Place(NamedTuple):
    """The affine map from ``nu`` to the sites at one ``z``."""

    conditional: PyTree  # what follows from the kernel's parameters, as the target made it
    offset: Float[Array, " n"]

    @property
    def events(self) -> Events:
        """What happened when its covariance was factored."""
        return self.conditional.events


def place_at(target: Target, z: Float[Array, " d"]) -> Place:
    """The map at ``z``: factors a covariance matrix."""
    conditional = target.conditional(z)
    return Place(conditional, target.offset(conditional))


def with_window(target: Target, place: Place) -> Place:
    """The map at the same ``z`` with the window of another target: nothing is factored."""
    return place._replace(offset=target.offset(place.conditional))


class Chart(Protocol):
    """Coordinates ``c`` of the latent at one ``z``: ``nu = centre + linear(c)``, with ``linear`` invertible.

    The target in ``(z, c)`` is ``N(z) N(c; 0, I) exp(log_likelihood + log_weight)``, exactly.
    """

    @property
    def place(self) -> Place:
        """The affine map from ``nu`` to the sites."""
        ...

    @property
    def events(self) -> Events:
        """What happened when its covariance was factored."""
        ...

    def coordinates(self, nu: Float[Array, " n"]) -> Float[Array, " n"]:
        """``c = linear⁻¹(nu − centre)``."""
        ...

    def centred_nu(self, coordinates: Float[Array, " n *k"]) -> Float[Array, " n *k"]:
        """``linear(c)``: ``nu`` without the centre, for one point or for many in columns."""
        ...

    def centre(self) -> Float[Array, " n"]:
        """The ``nu`` at ``c = 0``."""
        ...

    def log_weight(self, nu: Float[Array, " n"], coordinates: Float[Array, " n"]) -> Float[Array, ""]:
        """``log N(nu) − log N(c) + log det linear``: what the chart assumes, taken back."""
        ...


class Position(NamedTuple):
    """Where a chain is: ``z`` and ``nu``, and what follows from them, always in step."""

    z: Float[Array, " d"]
    nu: Float[Array, " n"]
    sites: Float[Array, " n"]
    chart: Chart  # the coordinates of the latent in use, with the place at z
    log_likelihood: Float[Array, ""]

    @property
    def place(self) -> Place:
        """The affine map from ``nu`` to the sites."""
        return self.chart.place


def position_at(target: Target, z: Float[Array, " d"], nu: Float[Array, " n"], chart: Chart) -> Position:
    """The position at ``(z, nu)``, given the chart at ``z``."""
    sites = chart.place.offset + target.root(chart.place.conditional).apply(nu)
    log_likelihood = target.log_likelihood(sites, z)
    # What cannot be evaluated has no density: any proposal that can be is above it. The sites are looked at too, for
    # a likelihood may not see all of them (missing data), and a covariance that was not positive definite spoils them.
    usable = jnp.isfinite(sites).all() & ~jnp.isnan(log_likelihood)
    return Position(z, nu, sites, chart, jnp.where(usable, log_likelihood, -jnp.inf))
