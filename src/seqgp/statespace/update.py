"""How the data of a snapshot change the Gaussian of ``f`` at their places: exactly, or by expectation propagation.

A filter predicts ``f`` at the data as ``N(m, V)``. Gaussian data change it exactly. For other pointwise
likelihoods each datum is replaced by a Gaussian site: first at the mode (Laplace's method), then such that the moments
of each datum's own posterior are right (expectation propagation, :mod:`seqgp.statespace.snapshot_ep`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from seqgp.base.snapshot import Context
from seqgp.kernels.base import Parameters
from seqgp.likelihoods.base import Likelihood
from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.newton import damped_newton
from seqgp.statespace.observation import Observation
from seqgp.statespace.quadrature import LogDensity, tabulated
from seqgp.statespace.snapshot_ep import ALLOWED, EXCESS, SHORTFALL, SnapshotSites, propagate, site_posterior
from seqgp.statespace.tabulated import Table, interpolate
from seqgp.statespace.value_quadrature import has_derivatives, tabulated_by_values

SHORT = 0.01  # of the variance of the noise, by which rounding may leave that of a prediction below it
GAIN = 1e-4  # in log density, of a step of Newton's method, below which it has come near enough to the mode
FOUND = 0.1  # how far from a mode that was found its sites may lead, in standard deviations of what was predicted


class Update(NamedTuple):
    """The mean moves by ``V slope``; the covariance falls by ``V D R⁻ᵀ R⁻¹ D V`` with ``D = diag(scale)``."""

    slope: Float[Array, " N"]
    root: Float[Array, "N N"]  # R
    scale: Float[Array, " N"]
    log_evidence: Float[Array, ""]
    growth: Float[Array, "N N"] | None = None  # W: the covariance rises by V W W' V, where data can make it do so
    fault: Int[Array, " N"] | None = None  # of each datum, an index of FAULTS
    sites: SnapshotSites | None = None  # of EP, in the shift of ``f`` from what was predicted


def gaussian_update(
    variance: Float[Array, "..."], observation: Observation, f: Float[Array, " N"], f_cov: Float[Array, "N N"]
) -> Update:
    """Data with Gaussian noise; those not seen take no part.

    The log evidence is NaN where it cannot be right (``fault``): above that of the noise alone, or with a predictive
    variance below that of the noise.

    Args:
        variance: of the noise.
        observation: the data.
        f: the predicted mean ``m``.
        f_cov: the predicted covariance ``V``, zero where data are not seen.
    """
    seen, n = observation.seen, observation.y.shape[0]
    variance = jnp.broadcast_to(variance, (n,))
    root = cholesky(f_cov + jnp.diag(jnp.where(seen, variance, 1.0)))
    white = solve_lower(root, jnp.where(seen, observation.y - f, 0.0))
    count = jnp.sum(seen, dtype=float)
    log_evidence = -0.5 * white @ white - jnp.sum(jnp.log(jnp.diagonal(root))) - 0.5 * count * jnp.log(2 * jnp.pi)
    rest = -0.5 * observation.squares / variance[0] - 0.5 * observation.left_over * jnp.log(2 * jnp.pi * variance[0])
    log_evidence = log_evidence + rest
    fault = jnp.where(log_evidence > largest_log_density(variance, observation) + ALLOWED, EXCESS, 0)
    fault = jnp.where(seen, jnp.where(below_noise(jnp.diagonal(f_cov), variance), SHORTFALL, fault), 0)
    log_evidence = jnp.where(jnp.any(fault > 0), jnp.nan, log_evidence)
    return Update(solve_lower(root, white, transpose=True), root, jnp.ones(n), log_evidence, fault=fault)


def largest_log_density(variance: Float[Array, "..."], observation: Observation) -> Float[Array, ""]:
    """Of Gaussian data, with noise of this variance: ``−½ log |2π (V + R)| ≤ −½ log |2π R|``, for ``V ⪰ 0``."""
    each = jnp.broadcast_to(jnp.log(2 * jnp.pi * variance), jnp.shape(observation.y))
    return -0.5 * (jnp.sum(jnp.where(observation.seen, each, 0.0)) + observation.left_over * each[0])


def possible(
    log_density: Float[Array, ""],
    f_variance: Float[Array, " M"],
    variance: Float[Array, "..."],
    observation: Observation,
) -> Float[Array, ""]:
    """The log density of Gaussian data, NaN where it cannot be right; the variances may be those of any modes."""
    excess = log_density > largest_log_density(variance, observation) + ALLOWED
    return jnp.where(excess | jnp.any(below_noise(f_variance, variance)), jnp.nan, log_density)


def below_noise(f_variance: Float[Array, "..."], variance: Float[Array, "..."]) -> Bool[Array, "..."]:
    """Whether predicted variances of ``f`` are so far below zero that data vary less than their noise does."""
    return f_variance < -SHORT * variance


def approximate_update(
    likelihood: Likelihood,
    parameters: Parameters,
    observation: Observation,
    f: Float[Array, " N"],
    f_cov: Float[Array, "N N"],
    propagated: bool = True,
) -> Update:
    """Data of any pointwise likelihood: Laplace's method, then expectation propagation from there.

    A likelihood without derivatives, a black box, begins without sites, and its moments are found from values alone.
    The log evidence is NaN where something is wrong with a datum (``fault``): the propagation did not converge, say.
    """
    seen, signed = observation.seen, not likelihood.bell_shaped
    data = PointwiseData(jnp.asarray(observation.y), observation.context, observation.table)

    def log_density(shift: Float[Array, " N"]) -> Float[Array, " N"]:
        return jnp.where(seen, pointwise_log_probs(likelihood, parameters, data, f + shift), 0.0)

    by_values = not has_derivatives(log_density, f)
    mode, sites = (f, _no_sites(f)) if by_values else laplace(log_density, f_cov)
    if not propagated:
        posterior = site_posterior(sites, f_cov, signed)
        quadratic = 0.5 * posterior.slope @ mode
        log_evidence = jnp.sum(log_density(mode)) - quadratic - posterior.log_determinant
        return Update(posterior.slope, posterior.root, posterior.scale, log_evidence, posterior.growth)
    support = likelihood.distribution(f, observation.context, parameters).support
    discrete = bool(getattr(support, "is_discrete", False))
    table = tabulated_by_values if by_values else tabulated
    found = propagate(log_density, sites, f_cov, jnp.asarray(seen), signed, discrete, table)
    posterior, log_evidence, fault, sites = found
    fault = jnp.where(jnp.isneginf(log_evidence), 0, fault)  # data that cannot be need no sites
    log_evidence = jnp.where(jnp.any(fault > 0), jnp.nan, log_evidence)
    return Update(posterior.slope, posterior.root, posterior.scale, log_evidence, posterior.growth, fault, sites)


def update_given_sites(
    tau: Float[Array, " N"], nu: Float[Array, " N"], f: Float[Array, " N"], f_cov: Float[Array, "N N"]
) -> Update:
    """Sites ``exp(−½ tau f² + nu f)`` that are known; the log evidence is left at 0."""
    found = site_posterior(SnapshotSites(tau, nu - tau * f), f_cov, signed=False)
    return Update(found.slope, found.root, found.scale, jnp.zeros(()))


class PointwiseData(NamedTuple):
    """What the likelihood of each datum needs besides ``f``."""

    y: Float[ArrayLike, " N"]
    context: Context
    table: Table | None = None  # of a black box that was tabulated


def pointwise_log_probs(
    likelihood: Likelihood, parameters: Parameters, data: PointwiseData, f: Float[Array, " N"]
) -> Float[Array, " N"]:
    """Of each datum given ``f`` there."""
    if data.table is not None:
        return interpolate(f, data.table)
    return jnp.asarray(likelihood.distribution(f, data.context, parameters).log_prob(data.y))


def _no_sites(f: Float[Array, " N"]) -> SnapshotSites:
    return SnapshotSites(jnp.zeros_like(f), jnp.zeros_like(f))


def laplace(log_density: LogDensity, f_cov: Float[Array, "N N"]) -> tuple[Float[Array, " N"], SnapshotSites]:
    """The most probable shift of ``f``, by Newton's method, and sites there; no sites where they lead elsewhere."""

    def sites_at(shift) -> SnapshotSites:
        gradient, curvature = jax.jvp(jax.grad(lambda u: jnp.sum(log_density(u))), (shift,), (jnp.ones_like(shift),))
        precision = jnp.maximum(-curvature, 0.0)
        return SnapshotSites(precision, precision * shift + gradient)

    def log_posterior(dual):  # u = V dual
        shift = f_cov @ dual
        return jnp.sum(log_density(shift)) - 0.5 * dual @ shift

    def newton(dual):
        return site_posterior(sites_at(f_cov @ dual), f_cov, signed=False).slope

    mode = f_cov @ damped_newton(log_posterior, newton, jnp.zeros(len(f_cov)), enough=GAIN)
    sites = sites_at(mode)
    # Where the log likelihood is not concave the sites at a mode may be anything, and none are better.
    away = jnp.abs(site_posterior(sites, f_cov, signed=False).mean - mode)
    found = jnp.all(away < FOUND * jnp.sqrt(jnp.diagonal(f_cov)) + 1e-150)
    return mode, SnapshotSites(*(jnp.where(found, part, 0.0) for part in sites))
