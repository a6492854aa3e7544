"""What EP leaves, removed without bias: SMC backwards in time over paths drawn from the Gaussian of the sites.

    p(y) = Z_psi E_q[Π_t G_t]      G_t = Π_i p(y_ti | f_ti) / site_ti(f_ti)      q(s) = p(s) Π site / Z_psi

holds for any sites. Paths begin with draws of ``s_T`` from the filter and go back by the kernel ``q(s_t | s_{t+1})``,
weighted by ``G_t`` and resampled; the product of mean weights is unbiased.

The kernel needs no root of a covariance. ``K`` joint draws ``(s̃_t, s̃_{t+1})`` of the filter come from simulating the
prior forwards and correcting each draw by the filter's own gain (Matheron's rule); then

    s_t = s̃_t + J_t (s_{t+1} − s̃_{t+1})      J_t = P_t A' (A P_t A' + Q)⁻¹

and ``s̃_t − J_t s̃_{t+1}`` is independent of everything later. One factor of the predicted covariance a time is shared by
all paths. The joint draws come in pairs that mirror each other at the mean of the filter: each has the law of a draw,
which is all that the estimate asks for, and pairs have less noise and cost half.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, Key

from seqgp.linalg.factor import cholesky, covariance_root, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.ep import LogProb, ObservedHistory
from seqgp.statespace.gauss_markov import (
    Directions,
    GaussMarkov,
    directions,
    noise_of,
    observe,
)
from seqgp.statespace.loops import scan_first
from seqgp.statespace.site_filter import GaussianSites, at_time, predict_state, steps_of, update_with_sites
from seqgp.statespace.transition import moved

PATHS = 8  # where nothing is known of the noise
MAX_PATHS = 512
MAX_VARIANCE = 0.25  # of the log evidence of a value of the parameters, that is wanted
LARGE = 2**23  # numbers kept per value of the parameters, beyond which only some times are kept


class FilteredState(NamedTuple):
    """A Gaussian of the state."""

    mean: Float[Array, " n"]
    cov: Float[Array, "n n"]


class Paths(NamedTuple):
    """The estimate of ``log p(y)``, and weighted draws of the last state."""

    log_evidence: Float[Array, ""]
    variance: Float[Array, ""]  # of log_evidence, estimated from this one run (Lee & Whiteley 2018)
    log_weights: Float[Array, " K"]  # normalised
    last_states: Float[Array, "K n"]  # s_T of each path
    ess: Float[Array, ""]  # the least over time
    resampled: Int[Array, ""]  # how often
    before: FilteredState  # given the sites: after the last time but one (of a single time, before any)
    filtered: FilteredState  # and after the last one
    states: Float[Array, "T K n"] | None = None  # before tracing; see trace_paths
    ancestors: Int[Array, "T K"] | None = None


class _Forward(NamedTuple):
    """Predicted mean and covariance, and draws of the state, one of each pair, at one time."""

    mean: Float[Array, " n"]
    cov: Float[Array, "n n"]
    draws: Float[Array, "K/2 n"]
    before: FilteredState
    filtered: FilteredState


class _Backward(NamedTuple):
    """Particles of the state at one time."""

    states: Float[Array, "K n"]
    log_weights: Float[Array, " K"]
    log_mean: Float[Array, ""]  # of the weights up to the last resampling
    origin: Int[Array, " K"]  # index of each path's s_T
    last_states: Float[Array, "K n"]
    ess: Float[Array, ""]
    resampled: Int[Array, ""]
    began: Bool[Array, ""]


def smc_paths(
    key: Key[Array, ""],
    history: ObservedHistory,
    log_prob: LogProb,
    sites: GaussianSites,
    *,
    paths: int = PATHS,
    segments: int = 1,
    trace: bool = False,
    length: Int[Array, ""] | None = None,
    first: Int[ArrayLike, ""] | int = 0,
) -> Paths:
    """An unbiased estimate of ``p(y)``, in logs, for one value of the parameters.

    With ``first``, of the data from there on, given the Gaussian that the sites before it make of the state.

    Args:
        key: a random key, of its own for each value of the parameters; the same key gives the same paths.
        history: prior, operator and data.
        log_prob: of the data of one time, given the latent there.
        sites: any; those of EP give little variance.
        paths: ``K``.
        segments: of time; with more than one, covariances are kept at their beginnings only and computed again.
        trace: whether states and ancestors of all times are returned.
        length: how many of the times are real, where the last ones are padding; all by default.
        first: the time before which sites stand for the data.
    """
    key_forward, key_backward = jax.random.split(key)
    prior, n, times = history.prior, history.prior.cov.shape[0], history.prior.move.shape[0]
    along = directions(prior)
    inputs, size = _segmented(history, sites, segments, first)
    key_first, key_forward = jax.random.split(key_forward)
    initial = _normal(key_first, (-(-paths // 2), n), prior.cov.dtype)
    nothing = FilteredState(prior.mean, prior.cov)
    start = _Forward(*nothing, prior.mean + initial @ covariance_root(prior.cov).T, nothing, nothing)
    # What is left of the real times at the start of each segment; all of them, where no number is given.
    left = None if length is None else jnp.clip(length - size * jnp.arange(segments), 0, size)

    def forward(carry, step):
        return _forward(key_forward, prior, along, carry, step)

    def backward(carry, pair):
        return _backward(key_backward, prior, log_prob, carry, *pair)

    def path_segment(carry, entries):
        first, steps, count = entries
        _, (_, kept) = scan_first(forward, first, steps, count)
        return scan_first(backward, carry, (steps, kept), count, reverse=True)

    def beginning(carry, entries):
        steps, count = entries
        after, (log_normaliser, _) = scan_first(forward, carry, steps, count)
        return after, (carry, jnp.sum(log_normaliser))

    end = _nothing(paths, n, prior.cov.dtype)
    if segments == 1:
        steps, count = jax.tree.map(lambda leaf: leaf[0], inputs), None if left is None else left[0]
        last, (log_normaliser, kept) = scan_first(forward, start, steps, count)
        end, traced = scan_first(backward, end, (steps, kept), count, reverse=True)
    else:
        counts = jnp.clip(times - size * jnp.arange(segments), 0, size) if left is None else left
        last, (starts, log_normaliser) = jax.lax.scan(beginning, start, (inputs, counts))
        end, traced = jax.lax.scan(path_segment, end, (starts, inputs, counts), reverse=True)
        traced = jax.tree.map(lambda leaf: leaf.reshape(segments * size, *leaf.shape[2:])[:times], traced)
    result = _result(end, jnp.sum(log_normaliser), last)
    return result._replace(states=traced[0], ancestors=traced[1]) if trace else result


def _normal(key, shape: tuple[int, ...], dtype) -> Array:
    """Standard normal numbers of single precision, which cost half as much: their law is off by less than 1e-7."""
    return jax.random.normal(key, shape, jnp.float32).astype(dtype)


def _segmented(history: ObservedHistory, sites: GaussianSites, segments: int, first) -> tuple[tuple, int]:
    """All that changes with time, in segments of one length; what is added at the end is not real."""
    times = history.prior.move.shape[0]
    length = math.ceil(times / segments)
    extra = segments * length - times

    def padded(leaf):
        leaf = jnp.asarray(leaf)
        leaf = jnp.concatenate([leaf, jnp.repeat(leaf[-1:], extra, axis=0)]) if extra else leaf
        return leaf.reshape(segments, length, *leaf.shape[1:])

    entries = (steps_of(history.prior), history.operator, sites, history.data)
    index = jnp.arange(segments * length).reshape(segments, length)
    return ((index, index >= first), *jax.tree.map(padded, entries)), length


def _forward(key, prior: GaussMarkov, along: Directions, carry: _Forward, step):
    """Filter and draws over one time."""
    (index, weighted), entries, operator, site, _ = step
    site = GaussianSites(*(jnp.where(operator.seen, part, 0.0) for part in site))
    updated = update_with_sites(carry.mean, carry.cov, operator, site)
    f = observe(operator, carry.draws) + operator.offset[None, :]
    count, size = f.shape
    white = _normal(jax.random.fold_in(key, index), (count, size + carry.draws.shape[1]), f.dtype)
    pull = site.nu[None, :] - site.tau[None, :] * f - jnp.sqrt(site.tau)[None, :] * white[:, :size]
    draws = carry.draws + updated.slopes(site.tau, pull) @ updated.cross.T
    now = at_time(prior, entries)
    mean, cov = predict_state(now, updated.mean, updated.cov)
    from_fields = moved(now.move, draws.T, prior.space[0].shape[0]).T
    predicted = from_fields + noise_of(now, along, white[:, size:])
    after = _Forward(mean, cov, predicted, carry.filtered, FilteredState(updated.mean, updated.cov))
    log_normaliser = jnp.where(weighted, updated.log_normaliser, 0.0)
    return after, (log_normaliser, (updated.mean, updated.cov, mean, cov, draws, predicted))


def _backward(key, prior: GaussMarkov, log_prob: LogProb, carry: _Backward, step, kept):
    """Resampling, the backward kernel and the weights of one time."""
    (index, weighted), entries, operator, site, data = step
    mean, cov, later_mean, later_cov, draws, predicted = kept
    count = carry.states.shape[0]
    draws, predicted = _mirrored(draws, mean, count), _mirrored(predicted, later_mean, count)
    log_mean = jax.scipy.special.logsumexp(carry.log_weights) - math.log(count)
    weights = jax.nn.softmax(carry.log_weights)
    ess = 1 / jnp.sum(weights**2)
    resample = carry.began & (ess < 0.5 * count)
    uniform = jax.random.uniform(jax.random.fold_in(key, index), (), weights.dtype)
    ancestors = jnp.where(resample, systematic_indices(uniform, weights), jnp.arange(count))
    later = carry.states[ancestors]
    earlier = _earlier(at_time(prior, entries), cov, later_cov, draws, later - predicted)
    states = jnp.where(carry.began, earlier, draws)
    f = observe(operator, states) + operator.offset[None, :]
    log_weight = jax.vmap(log_prob, in_axes=(0, None))(f, data) + 0.5 * site.tau * f**2 - site.nu * f
    log_weight = jnp.sum(jnp.where(operator.seen[None, :] & weighted, log_weight, 0.0), axis=1)
    log_weight = jnp.where(jnp.isnan(log_weight), -jnp.inf, log_weight)
    after = _Backward(
        states,
        jnp.where(resample, 0.0, carry.log_weights) + log_weight,
        carry.log_mean + jnp.where(resample, log_mean, 0.0),
        carry.origin[ancestors],
        jnp.where(carry.began, carry.last_states, states),
        jnp.minimum(carry.ess, ess),
        carry.resampled + resample,
        jnp.asarray(True),
    )
    return after, (states, ancestors)


def _mirrored(draws: Float[Array, "K/2 n"], mean: Float[Array, " n"], count: int) -> Float[Array, "K n"]:
    """Draws of a Gaussian, and after them their mirror images at its mean."""
    return jnp.concatenate([draws, 2 * mean - draws])[:count]


def _earlier(prior: GaussMarkov, cov, later_cov, draws, gap) -> Float[Array, "K n"]:
    """``s̃_t + J_t gap``, for the prior of one time."""
    root = cholesky(later_cov)
    dual = solve_lower(root, solve_lower(root, gap.T), transpose=True)
    return draws + (cov @ moved(prior.move.T, dual, prior.space[0].shape[0])).T


def systematic_indices(uniform: Float[Array, ""], weights: Float[Array, " K"]) -> Int[Array, " K"]:
    """Indices of systematic resampling, by one uniform number."""
    count = weights.shape[0]
    places = (jnp.arange(count) + uniform) / count
    return jnp.clip(jnp.searchsorted(jnp.cumsum(weights), places * jnp.sum(weights)), 0, count - 1)


def _nothing(paths: int, n: int, dtype) -> _Backward:
    return _Backward(
        jnp.zeros((paths, n), dtype),
        jnp.zeros(paths, dtype),
        jnp.zeros((), dtype),
        jnp.arange(paths),
        jnp.zeros((paths, n), dtype),
        jnp.asarray(float(paths), dtype),
        jnp.asarray(0),
        jnp.asarray(False),
    )


def _result(end: _Backward, log_normaliser, last: _Forward) -> Paths:
    count = end.log_weights.shape[0]
    weights = jax.nn.softmax(end.log_weights)
    log_mean = jax.scipy.special.logsumexp(end.log_weights) - math.log(count)
    pairs = -(-count // 2)
    families = jnp.zeros(pairs, weights.dtype).at[end.origin % pairs].add(weights)
    alone = jnp.sum(jnp.bincount(jnp.arange(count) % pairs, length=pairs) ** 2) / count**2  # of equal weights
    variance = jnp.maximum(jnp.sum(families**2) - alone, 0.0)
    ess = jnp.minimum(end.ess, 1 / jnp.sum(weights**2))
    return Paths(
        log_normaliser + end.log_mean + log_mean,
        variance,
        jax.nn.log_softmax(end.log_weights),
        end.last_states[end.origin],
        ess,
        end.resampled,
        last.before,
        last.filtered,
    )


def trace_paths(states: Float[Array, "T K n"], ancestors: Int[Array, "T K"]) -> Float[Array, "T K n"]:
    """Whole paths, from states and the index of each one's state a time later; weighted as the result says."""

    def forward(index, inputs):
        state, ancestor = inputs
        return ancestor[index], state[index]

    return jax.lax.scan(forward, jnp.arange(states.shape[1]), (states, ancestors))[1]


def segments_for(times: int, n: int) -> int:
    """How many segments of time keep the memory of :func:`smc_paths` small."""
    return 1 if 2 * times * n * n <= LARGE else math.ceil(math.sqrt(times))
