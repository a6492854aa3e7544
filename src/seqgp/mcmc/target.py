"""The one target of every step, in standard coordinates, and the position of a chain on it.

    z ~ N(m_z, K_z)      nu ~ N(0, I)      sites = offset(z) + root(z) nu      y ~ likelihood(sites, z)

The costly part (``conditional``, which factors a covariance matrix) depends on the kernel's parameters alone;
``offset`` is cheap, and may depend on all of ``z``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from seqgp.latents.operators import Events
from seqgp.latents.protocol import Root
from seqgp.mcmc.gaussian import Block
from seqgp.models.likelihoods import Plane


class Target(NamedTuple):
    """A posterior in standard coordinates."""

    mean: Float[Array, " d"]  # of z
    covariance: Float[Array, "d d"]
    kernel: Block | None  # kappa given the rest of z; None where every such parameter is known
    level: Block | None  # the mean alone
    likelihood: Block | None  # alpha
    conditional: Callable[[Float[Array, " d"]], Any]
    offset: Callable[[Any, Float[Array, " d"], Float[Array, ""]], Float[Array, " n"]]  # affine in z and in the mean
    root: Callable[[Any], Root]
    mean_level: Callable[[Float[Array, " d"]], Float[Array, ""]]
    log_likelihood: Callable[[Float[Array, " n"], Float[Array, " d"]], Float[Array, ""]]
    on_span: Callable[..., Plane]  # (middle, columns, z): the same on any plane of a span
    log_precision: Callable[[Float[Array, " d"]], Float[Array, ""]]  # of the data's noise, where it is known to scale
    size: int


class Place(NamedTuple):
    """The affine map from ``nu`` to the sites at one ``z``."""

    conditional: Any
    offset: Float[Array, " n"]

    @property
    def events(self) -> Events:
        """What happened when its covariance was factored."""
        return self.conditional.events


def place_at(target: Target, z: Float[Array, " d"]) -> Place:
    """The map at ``z``: factors a covariance matrix."""
    conditional = target.conditional(z)
    return Place(conditional, target.offset(conditional, z, target.mean_level(z)))


def shift_to(target: Target, place: Place, z: Float[Array, " d"]) -> Place:
    """The map at a ``z`` whose kernel parameters are the old ones: nothing is factored."""
    return place._replace(offset=target.offset(place.conditional, z, target.mean_level(z)))


class Position(NamedTuple):
    """Where a chain is: ``z`` and ``nu``, and what follows from them, always in step."""

    z: Float[Array, " d"]
    nu: Float[Array, " n"]
    sites: Float[Array, " n"]
    chart: Any  # the coordinates of the latent in use, with the place at z
    log_likelihood: Float[Array, ""]

    @property
    def place(self) -> Place:
        """The affine map from ``nu`` to the sites."""
        return self.chart.place


def position_at(target: Target, z: Float[Array, " d"], nu: Float[Array, " n"], chart: Any) -> Position:
    """The position at ``(z, nu)``, given the chart at ``z``."""
    sites = chart.place.offset + target.root(chart.place.conditional).apply(nu)
    log_likelihood = target.log_likelihood(sites, z)
    # What cannot be evaluated has no density: any proposal that can be is above it. The sites are looked at too, for
    # a likelihood may not see all of them (missing data), and a covariance that was not positive definite spoils them.
    usable = jnp.isfinite(sites).all() & ~jnp.isnan(log_likelihood)
    return Position(z, nu, sites, chart, jnp.where(usable, log_likelihood, -jnp.inf))
