"""Expectation propagation: Gaussian sites for data of any pointwise likelihood, until the moments of each are right.

Each datum is a site ``exp(−½ precision u² + pull u)`` in the shift ``u`` of ``f`` from what was predicted,
``u ~ N(0, V)``. A sweep divides each site out of the posterior (the cavity), integrates the likelihood of the datum
against it (the tilted distribution) and gives the site the moments of that. Sweeps end where nothing changes any more.
Sites of data that make ``f`` less certain (two modes under Student's t) have a negative precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.linalg.types import Array
from seqgp.statespace.quadrature import Gaussians, LogDensity, Tabulated, tabulated

TOLERANCE = 5e-4  # of the posterior's standard deviation, by which a site that has converged still moves it
SWEEPS = 40  # at most, with one table of the likelihoods
TABLES = 6  # of the likelihoods, at most: laid anew where the cavities have moved away
SIGNED = 3  # tables after which precisions are kept from being negative, to come near a solution without such
LEAST_DAMPING = 0.05
SHRINKS = 0.7  # what a sweep should leave of the change of the one before; otherwise the next is damped more
MOVED, STRETCHED = 1.0, 1.5  # how far, and by which factor, a cavity may move before its table is laid anew


class SnapshotSites(NamedTuple):
    """Each datum as ``exp(−½ precision u² + pull u)``."""

    precision: Float[Array, " N"]
    pull: Float[Array, " N"]

    def towards(self, other: SnapshotSites, share: Float[Array, "..."]) -> SnapshotSites:
        """Part of the way to other sites."""
        return SnapshotSites(*(a + share * (b - a) for a, b in zip(self, other)))


class SitePosterior(NamedTuple):
    """``N(0, V)`` times the sites: its covariance is ``V − V D R⁻ᵀ R⁻¹ D V + V W W' V`` with ``D = diag(scale)``."""

    mean: Float[Array, " N"]
    variance: Float[Array, " N"]
    slope: Float[Array, " N"]  # the mean is V slope
    left: Float[Array, " N"]  # 1 − precision · variance: the share of the cavity's precision in the posterior's
    log_determinant: Float[Array, ""]  # ½ log |I + V diag(precision)|
    root: Float[Array, "N N"]  # R
    scale: Float[Array, " N"]
    growth: Float[Array, "N N"] | None  # W, where precisions may be negative


def site_posterior(sites: SnapshotSites, f_cov: Float[Array, "N N"], signed: bool) -> SitePosterior:
    """By way of ``B = I + D V D`` (Rasmussen & Williams 2006, section 3.4.3), then the sites of negative precision.

    ``1 − precision · variance`` is the diagonal of ``B⁻¹``: taken from there, a site far more precise than the cavity
    leaves the cavity its digits.
    """
    eye = jnp.eye(len(f_cov))
    scale = jnp.sqrt(jnp.maximum(sites.precision, 0.0))
    root = cholesky(eye + scale[:, None] * f_cov * scale[None, :])
    inverse = solve_lower(root, eye)
    half = (inverse * scale[None, :]) @ f_cov
    after = f_cov - half.T @ half
    left = jnp.sum(inverse**2, axis=0)
    precise = left < 0.5
    variance = jnp.where(precise, (1 - left) / jnp.where(precise, scale, 1.0) ** 2, jnp.diagonal(after))
    variance, log_determinant = jnp.maximum(variance, 0.0), jnp.sum(jnp.log(jnp.diagonal(root)))
    # Of precise sites the pull is nearly precision times mean, so that their difference, the slope, is taken otherwise.
    centre, rest = sites.pull / jnp.where(precise, scale, jnp.inf), jnp.where(precise, 0.0, sites.pull)
    slope = rest + scale * (inverse.T @ (inverse @ (centre - scale * (f_cov @ rest))))
    if not signed:
        return SitePosterior(f_cov @ slope, variance, slope, left, log_determinant, root, scale, None)
    less = jnp.sqrt(jnp.maximum(-sites.precision, 0.0))
    other = cholesky(eye - less[:, None] * after * less[None, :])
    more = jnp.sum(solve_lower(other, less[:, None] * after) ** 2, axis=0)
    left = jnp.where(sites.precision > 0, left - sites.precision * more, 1 - sites.precision * (variance + more))
    growth = solve_lower(other, less[:, None] * (eye - half.T @ (inverse * scale[None, :]))).T
    slope = slope + growth @ solve_lower(other, less * (f_cov @ slope))
    log_determinant = log_determinant + jnp.sum(jnp.log(jnp.diagonal(other)))
    return SitePosterior(f_cov @ slope, variance + more, slope, left, log_determinant, root, scale, growth)


class Propagated(NamedTuple):
    """What expectation propagation ends with."""

    posterior: SitePosterior
    log_evidence: Float[Array, ""]
    fault: Int[Array, " N"]  # what is wrong with each datum, an index of FAULTS
    sites: SnapshotSites


FAULTS = (
    "",
    "expectation propagation did not converge",
    "the log probability of a discrete datum is above zero",
    "the posterior is wider than the prediction, which a log-concave likelihood does not allow",
    "the log evidence is above what the likelihood allows for any latent",
    "its predictive variance is below that of its noise: the filter's covariances have no digits left",
)
EXCESS, SHORTFALL = 4, 5  # of these
ALLOWED = 1.0  # by which the log mass of a datum may exceed the largest log likelihood at the nodes


class _Sweeping(NamedTuple):
    sites: SnapshotSites
    before: SnapshotSites
    damping: Float[Array, ""]
    change: Float[Array, ""]
    usable: Bool[Array, " N"]
    number: Array


class _Tables(NamedTuple):
    sites: SnapshotSites
    log_mass: Float[Array, " N"]
    most: Float[Array, " N"]  # of the log likelihood, at the nodes
    converged: Bool[Array, " N"]
    number: Array


def propagate(
    log_density: LogDensity,
    start: SnapshotSites,
    f_cov: Float[Array, "N N"],
    seen: Bool[Array, " N"],
    signed: bool,
    discrete: bool = False,
    tabulate: Callable[[LogDensity, Gaussians], Tabulated] = tabulated,
) -> Propagated:
    """Sites whose moments are those of the data.

    Args:
        log_density: of each datum, given its own shift ``u``.
        start: sites to begin with.
        f_cov: the predicted covariance ``V``, zero where data are not seen.
        seen: which data count.
        signed: whether the likelihood may make ``f`` less certain, as one that is not log-concave does.
        discrete: whether data are, so that no log probability is above zero.
        tabulate: the likelihoods at nodes that suit given cavities; by values alone where they have no derivatives.
    """
    prior = jnp.where(seen, jnp.maximum(jnp.diagonal(f_cov), 1e-300), 1.0)

    def next_table(carry: _Tables) -> _Tables:
        floor = jnp.where((carry.number < SIGNED) & signed, -jnp.inf, 0.0)
        sites = carry.sites._replace(precision=jnp.maximum(carry.sites.precision, floor))
        cavity = cavity_of(site_posterior(sites, f_cov, signed), prior, seen)
        table = tabulate(log_density, cavity)
        sites, ended = _swept(table, sites, f_cov, prior, seen, signed, floor)
        now = cavity_of(site_posterior(sites, f_cov, signed), prior, seen)
        sd, first = jnp.sqrt(now.variance), jnp.sqrt(cavity.variance)
        still = (jnp.abs(now.mean - cavity.mean) < MOVED * jnp.minimum(sd, first)) & (
            jnp.maximum(sd / first, first / sd) < STRETCHED
        )
        most = jnp.max(table.log_density, axis=0)
        return _Tables(sites, table.times(now)[0], most, (ended & still) | ~seen, carry.number + 1)

    none = jnp.zeros_like(prior)
    carry = _Tables(start, none, none, ~seen, jnp.zeros((), int))
    going = lambda carry: (~jnp.all(carry.converged) | (carry.number == 0)) & (carry.number < TABLES)  # noqa: E731
    end = jax.lax.while_loop(going, next_table, carry)
    posterior = site_posterior(end.sites, f_cov, signed)
    cavity = cavity_of(posterior, prior, seen)
    log_evidence = log_evidence_of(end.sites, posterior, cavity, end.log_mass, seen)
    allowed = jnp.sum(jnp.where(seen, end.most + ALLOWED, 0.0))
    found = [
        ~end.converged,
        (end.log_mass > 1e-6) & discrete,
        (posterior.variance > prior * (1 + 1e-6)) & (not signed),
        jnp.broadcast_to(log_evidence > allowed, seen.shape),
    ]
    fault = jnp.zeros(seen.shape, int)
    for number, wrong in reversed(list(enumerate(found, start=1))):
        fault = jnp.where(seen & wrong, number, fault)
    return Propagated(posterior, log_evidence, fault, end.sites)


def _swept(
    table: Tabulated, sites: SnapshotSites, f_cov, prior, seen, signed, floor
) -> tuple[SnapshotSites, Bool[Array, " N"]]:
    """Sweeps with one table of the likelihoods, and which data's sites have converged."""

    def sweep(carry: _Sweeping) -> _Sweeping:
        posterior = site_posterior(carry.sites, f_cov, signed)
        cavity = cavity_of(posterior, prior, seen)
        _, tilted = table.times(cavity)
        wanted = 1 / tilted.variance - 1 / cavity.variance
        precision = jnp.maximum(wanted, floor)
        pull = (tilted.mean - cavity.mean) / cavity.variance + tilted.mean * precision
        usable = jnp.isfinite(precision) & jnp.isfinite(pull) & (posterior.left > 0)
        target = SnapshotSites(
            jnp.where(usable & seen, precision, carry.sites.precision), jnp.where(usable & seen, pull, carry.sites.pull)
        )
        change = _change(carry.sites, target, posterior)
        valid = jnp.isfinite(change)  # not where the sites together are improper: back half of the way
        slow = change > SHRINKS * carry.change
        damping = jnp.maximum(jnp.where(slow | ~valid, 0.5 * carry.damping, carry.damping), LEAST_DAMPING)
        new = carry.sites.towards(target, damping)
        back = carry.sites.towards(carry.before, jnp.asarray(0.5))
        chosen = SnapshotSites(*(jnp.where(valid, a, b) for a, b in zip(new, back)))
        before = SnapshotSites(*(jnp.where(valid, a, b) for a, b in zip(carry.sites, carry.before)))
        change = jnp.where(valid, change, carry.change)
        right = usable & valid & (posterior.variance * (precision - wanted) <= TOLERANCE)  # not what the floor holds up
        return _Sweeping(chosen, before, damping, change, right, carry.number + 1)

    nothing = SnapshotSites(jnp.zeros_like(sites.pull), jnp.zeros_like(sites.pull))
    start = _Sweeping(sites, nothing, jnp.ones(()), jnp.asarray(jnp.inf), ~seen, jnp.zeros((), int))
    end = jax.lax.while_loop(lambda c: (c.change > TOLERANCE) & (c.number < SWEEPS), sweep, start)
    return end.sites, end.usable & (end.change <= TOLERANCE)


def _change(old: SnapshotSites, new: SnapshotSites, posterior: SitePosterior) -> Float[Array, ""]:
    """By how much sites move the posterior of their datum: its log variance, and its mean in standard deviations."""
    precision = new.precision - old.precision
    pull = (new.pull - old.pull) - precision * posterior.mean
    return jnp.max(jnp.maximum(jnp.abs(precision) * posterior.variance, jnp.abs(pull) * jnp.sqrt(posterior.variance)))


def cavity_of(posterior: SitePosterior, prior: Float[Array, " N"], seen: Bool[Array, " N"]) -> Gaussians:
    """Each datum's marginal without its own site; of data not seen, any that is harmless."""
    usable = seen & (posterior.left > 0) & (posterior.variance > 0)
    variance = jnp.where(usable, posterior.variance / jnp.where(usable, posterior.left, 1.0), prior)
    mean = posterior.mean - variance * posterior.slope
    return Gaussians(jnp.where(usable, mean, 0.0), variance)


def log_evidence_of(
    sites: SnapshotSites, posterior: SitePosterior, cavity: Gaussians, log_mass: Float[Array, " N"], seen
) -> Float[Array, ""]:
    """``log ∫ N(u; 0, V) Π site_i``, each site scaled such that its mass against the cavity is the datum's."""
    joint = 0.5 * sites.pull @ posterior.mean - posterior.log_determinant
    ratio = 1 + sites.precision * cavity.variance
    with_cavity = cavity.mean + cavity.variance * sites.pull
    alone = 0.5 * (with_cavity**2 / ratio - cavity.mean**2) / cavity.variance - 0.5 * jnp.log(ratio)
    return joint + jnp.sum(jnp.where(seen, log_mass - alone, 0.0))
