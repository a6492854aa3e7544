"""Expectation propagation over a whole history, for one value of the parameters.

All sites at once: filter and smoother give the marginal of every ``f_ti``; without its own site it is the cavity; the
cavity times the likelihood has the tilted moments ``(m̂, v̂)``; the new site is the one that leads to them,

    tau' = max(1/v̂ − 1/v_c, 0)      nu' = m̂ tau' + (m̂ − m_c) / v_c

and the step towards it is damped. Values of ``log p`` are all that is asked of a likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, PyTree

from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.gauss_markov import GaussMarkov, ObservationOperator
from seqgp.statespace.site_filter import GaussianSites, SiteMarginals, over_marginals, site_marginals
from seqgp.statespace.tilted import (
    Flanks,
    Normal,
    TiltedMoments,
    find_flanks,
    remove_site,
    tilted_near_site,
    tilted_on_bell,
    tilted_on_panels,
)

LogProb = Callable[[Float[Array, " N"], PyTree], Float[Array, " N"]]  # of the data of one time, given the latent there

DAMPING = 0.8
TOLERANCE = 1e-6


class ObservedHistory(NamedTuple):
    """What the data of ``T`` times are, for one value of the parameters."""

    prior: GaussMarkov
    operator: ObservationOperator
    data: PyTree  # arrays with a leading axis of time, which ``log_prob`` takes one time of


class EPState(NamedTuple):
    """Sites, and what filter, smoother and quadrature say about them."""

    sites: GaussianSites
    marginal: Normal  # (T, N)
    cavity: Normal
    tilted: TiltedMoments
    log_normaliser: Float[Array, ""]  # log Z_psi
    log_evidence: Float[Array, ""]  # EP's: log Z_psi, each site scaled to the mass of its datum


class EPInfo(NamedTuple):
    """How the iteration ended."""

    iterations: Int[Array, ""]
    residual: Float[Array, ""]  # the largest step that a site still wants, in units of its marginal's precision or sd
    converged: Bool[Array, ""]


def history_log_likelihoods(
    history: ObservedHistory, log_prob: LogProb
) -> Callable[[Float[Array, "T N"]], Float[Array, "T N"]]:
    """Those of all data; 0 where nothing is seen."""
    seen = jnp.asarray(history.operator.seen)
    return lambda f: jnp.where(seen, jax.vmap(log_prob)(f, history.data), 0.0)


def ep_evaluate(history: ObservedHistory, log_prob: LogProb, sites: GaussianSites, flanks: Flanks | None) -> EPState:
    """Filter, smoother and quadrature at given sites; by Gauss and Hermite where there are no flanks."""
    marginals = site_marginals(history.prior, history.operator, sites)
    marginal, cavity = _marginal_and_cavity(marginals, sites)
    log_p, seen = history_log_likelihoods(history, log_prob), jnp.asarray(history.operator.seen)
    if flanks is None:
        tilted = tilted_on_bell(log_p, cavity, marginal)
    else:
        tilted = tilted_on_panels(log_p, flanks, cavity, marginal)
    shifted = cavity.mean / cavity.variance + sites.nu
    alone = 0.5 * (shifted**2 / (1 / cavity.variance + sites.tau) - cavity.mean**2 / cavity.variance)
    alone = alone - 0.5 * jnp.log1p(sites.tau * cavity.variance)
    log_evidence = marginals.log_normaliser + jnp.sum(jnp.where(seen, tilted.log_mass - alone, 0.0))
    return EPState(sites, marginal, cavity, tilted, marginals.log_normaliser, log_evidence)


def likelihood_flanks(history: ObservedHistory, log_prob: LogProb, sites: GaussianSites) -> Flanks:
    """Flanks of the likelihoods where their cavities at given sites are: once before EP, for panels."""
    marginal, cavity = _marginal_and_cavity(site_marginals(history.prior, history.operator, sites), sites)
    return find_flanks(history_log_likelihoods(history, log_prob), cavity, marginal)


def ep_update(state: EPState, seen: Bool[Array, "T N"], damping: float) -> tuple[GaussianSites, Float[Array, ""]]:
    """The next sites, and the largest step that any wanted. A site without finite moments stays."""
    return _moved(state.sites, state.marginal, state.cavity, state.tilted, seen, damping)


def _moved(
    sites: GaussianSites,
    marginal: Normal,
    cavity: Normal,
    tilted: TiltedMoments,
    seen: Bool[Array, "..."],
    damping: float,
) -> tuple[GaussianSites, Float[Array, ""]]:
    tau = jnp.maximum(1 / tilted.variance - 1 / cavity.variance, 0.0)
    nu = tilted.mean * tau + (tilted.mean - cavity.mean) / cavity.variance
    usable = seen & jnp.isfinite(tau) & jnp.isfinite(nu)
    tau, nu = jnp.where(usable, tau - sites.tau, 0.0), jnp.where(usable, nu - sites.nu, 0.0)
    # A site is judged by how far it moves the marginal: `tau m` of a `nu` that goes with a `tau` moves nothing.
    mean, variance = marginal.mean, marginal.variance
    wanted = jnp.maximum(jnp.abs(tau) * variance, jnp.abs(nu - tau * mean) * jnp.sqrt(variance))
    broken = jnp.any(seen & ~(jnp.isfinite(tilted.mean) & jnp.isfinite(tilted.variance)))
    residual = jnp.where(broken, jnp.inf, jnp.max(wanted))
    return GaussianSites(sites.tau + damping * tau, sites.nu + damping * nu), residual


def ep(
    history: ObservedHistory,
    log_prob: LogProb,
    sites: GaussianSites,
    *,
    bell_shaped: bool = True,
    iterations: int = 50,
    damping: float = DAMPING,
    tolerance: float = TOLERANCE,
    free: Bool[ArrayLike, "T 1"] | bool = True,
) -> tuple[EPState, EPInfo]:
    """EP from given sites until no site wants to move its marginal by more than ``tolerance``.

    Args:
        history: prior, operator and data.
        log_prob: of the data of one time ``(N,)``, given the latent there and their entry of ``history.data``.
        sites: to begin with, ``(T, N)``; those of another value of the parameters are best.
        bell_shaped: whether every cavity times its likelihood is near a Gaussian (log-concave likelihoods are).
        iterations: at most.
        damping: of each step; 1 is a full one.
        tolerance: of the convergence test.
        free: times whose sites move; the others stay as they are given.
    """
    seen = jnp.asarray(history.operator.seen)
    sites, seen = GaussianSites(*(jnp.where(seen, part, 0.0) for part in sites)), seen & free
    flanks = None if bell_shaped else likelihood_flanks(history, log_prob, sites)

    def iterate(carry):
        count, state, _ = carry
        moved, _ = ep_update(state, seen, damping)
        state = ep_evaluate(history, log_prob, moved, flanks)
        return count + 1, state, ep_update(state, seen, damping)[1]

    def going(carry):
        return (carry[0] < iterations) & (carry[2] > tolerance)

    state = ep_evaluate(history, log_prob, sites, flanks)
    start = (jnp.asarray(0), state, ep_update(state, seen, damping)[1])
    count, state, residual = jax.lax.while_loop(going, iterate, start)
    return state, EPInfo(count, residual, residual <= tolerance)


def ep_refine(
    history: ObservedHistory,
    log_prob: LogProb,
    sites: GaussianSites,
    *,
    known: bool = True,
    iterations: int = 2,
    tolerance: float | None = None,
    length: Int[Array, ""] | None = None,
    free: Bool[ArrayLike, "T 1"] | bool = True,
) -> tuple[GaussianSites, Float[Array, ""]]:
    """Sites that are good enough for paths, after a few iterations from good ones; and the step that the last wanted.

    The nodes of the quadrature lie where the sites are, which are near the likelihoods then: no search for modes or
    flanks. One filter and one smoother an iteration.

    Args:
        history: prior, operator and data.
        log_prob: of the data of one time.
        sites: to begin with.
        known: whether those were found for about the same likelihoods, with one peak and no cliff.
        iterations: how many; at most so many where there is a tolerance.
        tolerance: of the convergence test.
        length: how many of the times are real; all by default.
        free: times whose sites move.
    """
    seen = jnp.asarray(history.operator.seen)
    sites, seen = GaussianSites(*(jnp.where(seen, part, 0.0) for part in sites)), seen & free

    def moved(mean, variance, site, more):
        data, seen = more
        marginal = Normal(mean, jnp.maximum(variance, 1e-300))
        cavity = remove_site(marginal, *site)
        tilted = tilted_near_site(lambda f: jnp.where(seen, log_prob(f, data), 0.0), cavity, site.tau, site.nu, known)
        return _moved(site, marginal, cavity, tilted, seen, DAMPING)

    def iterate(sites):
        (sites, residual), _ = over_marginals(
            history.prior, history.operator, sites, (history.data, seen), length, moved
        )
        return sites, jnp.max(residual)

    if tolerance is None:
        first = sites, jnp.asarray(jnp.inf, sites.tau.dtype)
        return jax.lax.fori_loop(0, iterations, lambda _, carry: iterate(carry[0]), first)

    def going(carry):
        return (carry[0] < iterations) & (carry[2] > tolerance)

    start = jnp.asarray(0), sites, jnp.asarray(jnp.inf, sites.tau.dtype)
    return jax.lax.while_loop(going, lambda carry: (carry[0] + 1, *iterate(carry[1])), start)[1:]


def _marginal_and_cavity(marginals: SiteMarginals, sites: GaussianSites) -> tuple[Normal, Normal]:
    marginal = Normal(marginals.mean, jnp.maximum(marginals.variance, 1e-300))
    return marginal, remove_site(marginal, *sites)
