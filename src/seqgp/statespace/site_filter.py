"""The Kalman filter that takes Gaussian sites for data, and the marginals of the latent given all of them.

A site of datum ``i`` at time ``t`` is ``exp(−½ tau f² + nu f)`` with ``tau ≥ 0``. The smoother is that of Bryson and
Frazier: going back in time it carries the adjoint ``(lam, Lam)`` with ``m_s = m − P lam`` and ``P_s = P − P Lam P``. It
inverts no covariance of the state, and as only the latent at the data is asked for, its largest product is one of
``n × n`` with ``n × N``: it costs what the filter costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, PyTree

from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.linalg.types import Array
from seqgp.statespace.gauss_markov import (
    GaussMarkov,
    ObservationOperator,
    observe,
    observe_adjoint,
    predict_covariance,
    sites_seen_by,
)
from seqgp.statespace.loops import scan_first
from seqgp.statespace.transition import moved


class GaussianSites(NamedTuple):
    """``exp(−½ tau f² + nu f)`` for each datum; both are 0 where nothing is seen."""

    tau: Float[Array, "T N"]
    nu: Float[Array, "T N"]


FLAT = 1e-100  # precision of a site below which it has none


class SiteUpdate(NamedTuple):
    """The state of one time given the sites up to it, and what the smoother needs."""

    mean: Float[Array, " n"]
    cov: Float[Array, "n n"]
    gain: Float[Array, "n N"]  # cov H'
    inner: Float[Array, "N N"]  # D (I + D V D)⁻¹ D with D = diag(√tau): the inverse covariance of the innovation
    slope: Float[Array, " N"]  # the mean moved by (predicted cov) H' slope
    f_mean: Float[Array, " N"]
    f_variance: Float[Array, " N"]
    log_normaliser: Float[Array, ""]  # log ∫ N(f; predicted) Π site df
    cross: Float[Array, "n N"]  # (predicted cov) H'
    variance: Float[Array, "N N"]  # H (predicted cov) H'

    def slopes(self, tau: Float[Array, " N"], pull: Float[Array, " *K N"]) -> Float[Array, " *K N"]:
        """``pull − inner variance pull``: by what states move along ``cross``."""
        return _slopes(self.inner, self.variance, tau, pull)


def update_with_sites(
    mean: Float[Array, " n"], cov: Float[Array, "n n"], operator: ObservationOperator, sites: GaussianSites
) -> SiteUpdate:
    """A predicted state times the sites of one time; sites of ``tau = 0`` are allowed."""
    scale = jnp.sqrt(sites.tau)
    cross = observe(operator, cov)
    variance = observe(operator, cross.T)
    f = observe(operator, mean[None, :])[0] + operator.offset
    size = f.shape[0]
    root = cholesky(jnp.eye(size, dtype=cov.dtype) + scale[:, None] * variance * scale[None, :])
    # The barrier has the transpose taken by rows: its product with itself is then twice as fast.
    half = jax.lax.optimization_barrier(solve_lower(root, scale[:, None] * cross.T).T)
    whitened = solve_lower(root, jnp.diag(scale))
    inner = whitened.T @ whitened
    slope = _slopes(inner, variance, sites.tau, sites.nu - sites.tau * f)
    gain = cross - half @ observe(operator, half.T)
    f_mean = f + variance @ slope
    log_normaliser = 0.5 * (f @ slope + sites.nu @ f_mean) - jnp.sum(jnp.log(jnp.diagonal(root)))
    f_variance = jnp.maximum(jnp.diagonal(observe(operator, gain.T)), 0.0)
    moved, left = mean + cross @ slope, cov - half @ half.T
    return SiteUpdate(moved, left, gain, inner, slope, f_mean, f_variance, log_normaliser, cross, variance)


def _slopes(inner, variance, tau, pull):
    """``pull − inner variance pull``, which is ``inner (pull / tau)`` where there is precision.

    The difference has no digits left where sites are far more precise than the prediction.
    """
    precise = tau > FLAT
    residual = jnp.where(precise, pull / jnp.where(precise, tau, 1.0), 0.0)
    flat = jnp.where(precise, 0.0, pull)
    return (residual - flat @ variance) @ inner + flat


def predict_state(prior: GaussMarkov, mean, cov) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """The state one time later, for the prior of one time."""
    return moved(prior.move, mean[:, None], prior.space[0].shape[0])[:, 0], predict_covariance(prior, cov)


def at_time(prior: GaussMarkov, step: tuple) -> GaussMarkov:
    """The prior of one time from the entries that :func:`steps_of` has for it."""
    move, noise, floor = step
    return prior._replace(move=move, noise=noise, floor=floor)


def steps_of(prior: GaussMarkov) -> tuple:
    """What changes from time to time, to scan over."""
    return prior.move, prior.noise, prior.floor


class SiteMarginals(NamedTuple):
    """The latent function at each datum given all sites."""

    mean: Float[Array, "T N"]
    variance: Float[Array, "T N"]
    log_normaliser: Float[Array, ""]  # log Z_psi = log ∫ p(s) Π site ds


def site_marginals(prior: GaussMarkov, operator: ObservationOperator, sites: GaussianSites) -> SiteMarginals:
    """Filter and smoother: marginals of ``q(s) = p(s) Π site / Z_psi`` at the data, and ``log Z_psi``."""
    (mean, variance), log_normaliser = over_marginals(
        prior, operator, sites, None, None, lambda mean, variance, site, _: (mean, variance)
    )
    return SiteMarginals(mean, variance, log_normaliser)


def over_marginals(
    prior: GaussMarkov,
    operator: ObservationOperator,
    sites: GaussianSites,
    inputs: PyTree,
    length: Int[Array, ""] | None,
    function: Callable[[Float[Array, " N"], Float[Array, " N"], GaussianSites, PyTree], PyTree],
) -> tuple[PyTree, Float[Array, ""]]:
    """A function of the marginals of each time, found while the smoother is there, and ``log Z_psi``.

    Args:
        prior: of the states.
        operator: through which data see them.
        sites: in place of the data.
        inputs: what else the function takes, with a leading axis of time.
        length: how many of the times are real; all by default.
        function: of mean, variance, sites and inputs of one time.
    """

    def forward(carry, inputs):
        step, now, site = inputs
        updated = update_with_sites(carry[0], carry[1], now, site)
        kept = (updated.gain, updated.inner, updated.slope, updated.f_mean, updated.f_variance, updated.log_normaliser)
        return predict_state(at_time(prior, step), updated.mean, updated.cov), kept

    steps = steps_of(prior)
    _, kept = scan_first(forward, (prior.mean, prior.cov), (steps, operator, sites), length)

    def backward(carry, entries):
        step, now, site, more, (gain, inner, slope, f_mean, f_variance, _) = entries
        tau = site.tau
        sites_count, seen_sites = prior.space[0].shape[0], sites_seen_by(now, carry[0].shape[0])
        back = step[0].T
        lam = moved(back, carry[0][:, None], sites_count)[:, 0]
        weight = moved(back, moved(back, carry[1], sites_count).T, sites_count)
        lowered = weight @ gain
        mean, variance = f_mean - gain.T @ lam, f_variance - jnp.sum(gain * lowered, axis=0)
        pulled = slope + tau * (gain.T @ lam)
        side = observe_adjoint(now, lowered * tau[None, :], seen_sites)
        middle = inner + tau[:, None] * (gain.T @ lowered) * tau[None, :]
        corner = observe_adjoint(now, observe_adjoint(now, middle, seen_sites).T, seen_sites)
        lam = lam - observe_adjoint(now, pulled[None, :], seen_sites)[0]
        found = function(mean, jnp.maximum(variance, 0.0), site, more)
        return (lam, weight - side - side.T + corner), found

    nothing = (jnp.zeros_like(prior.mean), jnp.zeros_like(prior.cov))
    _, found = scan_first(backward, nothing, (steps, operator, sites, inputs, kept), length, reverse=True)
    return found, jnp.sum(kept[-1])
