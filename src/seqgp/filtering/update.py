"""How the data of a snapshot change the Gaussian of the level at their places: exactly, or by expectation propagation.

A filter predicts the level at the data as ``N(m, V)``. Gaussian data change it exactly. For other pointwise
likelihoods each datum is replaced by a Gaussian site ``exp(−½ t f² + n f)``: first at the mode (Laplace's method), then
such that the moments of each datum's own posterior are right (expectation propagation), by quadrature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from seqgp.filtering.climb import climb
from seqgp.filtering.moments import Gaussians, LogDensity, Tabulated, covering, on_bell, on_panels, sides_of
from seqgp.filtering.observation import Observation
from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.models.kernels import Parameters
from seqgp.models.likelihoods import Likelihood

SWEEPS = 8  # of expectation propagation
FOUND = 0.1  # how far from a mode that was found its sites may lead, in standard deviations of what was predicted


class Update(NamedTuple):
    """The mean moves by ``V slope``; the covariance falls by ``V D R⁻ᵀ R⁻¹ D V`` with ``D = diag(scale)``."""

    slope: Float[Array, " N"]
    root: Float[Array, "N N"]  # R
    scale: Float[Array, " N"]
    log_evidence: Float[Array, ""]


def gaussian_update(
    variance: Float[Array, "..."], observation: Observation, level: Float[Array, " N"], spread: Float[Array, "N N"]
) -> Update:
    """Data with Gaussian noise; those not seen take no part.

    Args:
        variance: of the noise.
        observation: the data.
        level: the predicted mean ``m``.
        spread: the predicted covariance ``V``, zero where data are not seen.
    """
    seen, n = observation.seen, observation.y.shape[0]
    variance = jnp.broadcast_to(variance, (n,))
    root = cholesky(spread + jnp.diag(jnp.where(seen, variance, 1.0)))
    white = solve_lower(root, jnp.where(seen, observation.y - level, 0.0))
    count = jnp.sum(seen, dtype=float)
    log_evidence = -0.5 * white @ white - jnp.sum(jnp.log(jnp.diagonal(root))) - 0.5 * count * jnp.log(2 * jnp.pi)
    rest = -0.5 * observation.squares / variance[0] - 0.5 * observation.left_over * jnp.log(2 * jnp.pi * variance[0])
    return Update(solve_lower(root, white, transpose=True), root, jnp.ones(n), log_evidence + rest)


class GaussianSites(NamedTuple):
    """Each datum as ``exp(−½ precision f² + linear f)``."""

    precision: Float[Array, " N"]
    linear: Float[Array, " N"]


class Posterior(NamedTuple):
    """The level at the data given sites."""

    mean: Float[Array, " N"]
    variance: Float[Array, " N"]
    slope: Float[Array, " N"]
    root: Float[Array, "N N"]
    scale: Float[Array, " N"]


def posterior_of(sites: GaussianSites, level: Float[Array, " N"], spread: Float[Array, "N N"]) -> Posterior:
    """``N(m, V)`` times the sites, by way of ``B = I + D V D`` (Rasmussen & Williams 2006, section 3.4.3)."""
    scale = jnp.sqrt(sites.precision)
    root = cholesky(jnp.eye(len(level)) + scale[:, None] * spread * scale[None, :])
    pull = sites.linear - sites.precision * level
    inner = solve_lower(root, solve_lower(root, scale * (spread @ pull)), transpose=True)
    slope = pull - scale * inner
    half = solve_lower(root, scale[:, None] * spread)
    variance = jnp.diagonal(spread) - jnp.sum(half**2, axis=0)
    return Posterior(level + spread @ slope, jnp.maximum(variance, 0.0), slope, root, scale)


def approximate_update(
    likelihood: Likelihood,
    parameters: Parameters,
    observation: Observation,
    level: Float[Array, " N"],
    spread: Float[Array, "N N"],
    sweeps: int = SWEEPS,
) -> Update:
    """Data of any pointwise likelihood: Laplace's method, then ``sweeps`` of expectation propagation."""
    seen = observation.seen

    def log_density(f: Float[Array, " N"]) -> Float[Array, " N"]:
        each = likelihood.distribution(f, observation.context, parameters).log_prob(observation.y)
        return jnp.where(seen, each, 0.0)

    mode = _laplace(log_density, level, spread)
    if sweeps == 0:
        posterior = posterior_of(mode.sites, level, spread)
        quadratic = 0.5 * posterior.slope @ (mode.level - level)
        log_evidence = jnp.sum(log_density(mode.level)) - quadratic - _log_determinant(posterior.root)
        return Update(posterior.slope, posterior.root, posterior.scale, log_evidence)
    tabulated, sites = _quadrature(likelihood, log_density, mode, Gaussians(level, _variances(spread, seen)))

    def tilted(sites: GaussianSites) -> tuple[Posterior, Gaussians, Float[Array, " N"], Gaussians]:
        """The posterior, each datum's cavity in it, and the log mass and moments of the two together."""
        posterior = posterior_of(sites, level, spread)
        each = Gaussians(posterior.mean, _variances(posterior.variance, seen))
        cavity = each.without(sites.precision, sites.linear)
        return posterior, cavity, *tabulated(cavity, each).times(cavity)

    def sweep(sites: GaussianSites, damping) -> tuple[GaussianSites, None]:
        _, cavity, _, moments = tilted(sites)
        # Where a datum makes the level less certain (an outlier under Student's t) its site moves the mean alone.
        precision = jnp.maximum(1 / moments.variance - 1 / cavity.variance, 0.0)
        linear = moments.mean * precision + (moments.mean - cavity.mean) / cavity.variance
        usable = seen & jnp.isfinite(precision) & jnp.isfinite(linear)
        new = GaussianSites(
            jnp.where(usable, (1 - damping) * sites.precision + damping * precision, sites.precision),
            jnp.where(usable, (1 - damping) * sites.linear + damping * linear, sites.linear),
        )
        return new, None

    # Damped at first, for all sites move at once.
    sites, _ = jax.lax.scan(sweep, sites, jnp.asarray([0.6] * (sweeps // 2) + [0.9] * (sweeps - sweeps // 2)))
    posterior, cavity, log_mass, _ = tilted(sites)
    return Update(
        posterior.slope, posterior.root, posterior.scale, _log_evidence(sites, posterior, cavity, log_mass, level, seen)
    )


def _variances(of: Float[Array, "..."], seen: Bool[ArrayLike, " N"]) -> Float[Array, " N"]:
    """Variances, or the diagonal of a covariance; of data not seen any that is harmless."""
    variance = jnp.diagonal(of) if of.ndim == 2 else of
    return jnp.where(seen, jnp.maximum(variance, 1e-300), 1.0)


def _quadrature(
    likelihood: Likelihood, log_density: LogDensity, mode: Mode, level: Gaussians
) -> tuple[Callable[[Gaussians, Gaussians], Tabulated], GaussianSites]:
    """How likelihoods are tabulated for a cavity and a posterior, and the sites to begin with."""
    if likelihood.bell_shaped:
        return lambda cavity, posterior: on_bell(log_density, posterior), mode.sites
    # Data that are far from what was predicted have brought the mode along.
    near = Gaussians(mode.level, 1 / (1 / level.variance + mode.sites.precision))
    sides = sides_of(log_density, *covering(level, near))
    # Where the log likelihood is not concave the sites at a mode may be anything, and none are better.
    found = jnp.max(jnp.abs(mode.mean - mode.level) / jnp.sqrt(level.variance)) < FOUND
    return lambda *gaussians: on_panels(log_density, sides, near, *gaussians), GaussianSites(
        *(jnp.where(found, part, 0.0) for part in mode.sites)
    )


class Mode(NamedTuple):
    """The most probable level, and sites there."""

    level: Float[Array, " N"]
    sites: GaussianSites
    mean: Float[Array, " N"]  # that the sites lead to: the mode, where it was reached and the log likelihood is concave


def _laplace(log_density: LogDensity, level, spread) -> Mode:
    """Sites at the mode of the level, by Newton's method."""

    def derivatives(f):
        gradient, curvature = jax.jvp(jax.grad(lambda f: jnp.sum(log_density(f))), (f,), (jnp.ones_like(f),))
        return gradient, jnp.maximum(-curvature, 0.0)

    def log_posterior(dual):  # f = m + V dual
        shift = spread @ dual
        return jnp.sum(log_density(level + shift)) - 0.5 * dual @ shift

    def sites_at(f) -> GaussianSites:
        gradient, precision = derivatives(f)
        return GaussianSites(precision, precision * f + gradient)

    def newton(dual):
        return posterior_of(sites_at(level + spread @ dual), level, spread).slope

    dual = climb(log_posterior, newton, jnp.zeros_like(level), enough=1e-9)
    mode = level + spread @ dual
    sites = sites_at(mode)
    return Mode(mode, sites, posterior_of(sites, level, spread).mean)


def _log_evidence(
    sites: GaussianSites, posterior: Posterior, cavity: Gaussians, log_mass, level, seen
) -> Float[Array, ""]:
    """``log ∫ N(f; m, V) Π site_i``, each site scaled such that its mass against the cavity is the datum's."""
    joint = 0.5 * (level @ posterior.slope + sites.linear @ posterior.mean) - _log_determinant(posterior.root)
    tilted = cavity.mean / cavity.variance + sites.linear
    alone = 0.5 * (tilted**2 / (1 / cavity.variance + sites.precision) - cavity.mean**2 / cavity.variance)
    alone = alone - 0.5 * jnp.log1p(sites.precision * cavity.variance)
    return joint + jnp.sum(jnp.where(seen, log_mass - alone, 0.0))


def _log_determinant(root: Float[Array, "N N"]) -> Float[Array, ""]:
    return jnp.sum(jnp.log(jnp.diagonal(root)))
