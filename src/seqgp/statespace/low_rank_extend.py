"""From a covariance that is written out to diagonal plus low rank: for stations that join, and for filters that change.

Stations join a covariance that is written out exactly (``DenseFilter.extended``). A new station is one whose values
were never seen, so the covariance exceeds the one that complete data at all sites would have left by a part of low
rank: its leading directions become ``F``.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Float

from seqgp.linalg.factor import cholesky, eigenvectors, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.low_rank import LowRankState, compression_metric
from seqgp.statespace.modes import Modes, mode_covariance


def complete_blocks(
    modes: Modes,
    stationary: tuple[Float[ArrayLike, "p_j p_j"], ...],
    transition: Callable[[Float[Array, ""]], Float[Array, "p p"]],
    dts: Float[ArrayLike, " T"],
    observe: Float[ArrayLike, " p"],
    noise: Float[ArrayLike, ""],
) -> Float[Array, "p p M"]:
    """``D`` after ``T`` complete snapshots: what no gaps would have left. The last few times are enough.

    Args:
        modes: of space.
        stationary: the covariance of each term's state.
        transition: from a time step to ``A``.
        dts: the time before each snapshot; zero for the first one, infinite where there is none.
        observe: ``h``.
        noise: the standard deviation of the noise.
    """
    start, h = mode_covariance(stationary, modes), jnp.asarray(observe)

    def step(block, dt):
        known = jnp.isfinite(dt)
        move = transition(jnp.where(known, dt, 0.0))
        # The noise of a step is what keeps the stationary covariance as it is.
        moved = start + jnp.einsum("ab,bcm,dc->adm", move, block - start, move)
        cross = jnp.einsum("abm,b->am", moved, h)
        variance = h @ cross + noise**2
        seen = moved - cross[:, None, :] * cross[None, :, :] / variance[None, None, :]
        return jnp.where(known, seen, block), None

    return jax.lax.scan(step, start, jnp.asarray(dts))[0]


def low_rank_from_dense(
    mean: Float[Array, " n"],
    cov: Float[Array, "n n"],
    modes: Modes,
    stationary: tuple[Float[ArrayLike, "p_j p_j"], ...],
    complete: Float[Array, "p p M"],
    noise: Float[ArrayLike, ""],
    scales: Float[ArrayLike, " q"],
    rank: int,
    leading: int,
) -> tuple[LowRankState, Float[Array, ""]]:
    """A state whose covariance is written out, and the trace (in the metric) of what was folded into ``D``.

    Args:
        mean: all fields at the sites, component by component, then the coefficients of the mean.
        cov: of the same; zero at padding.
        modes: of the sites.
        stationary: the covariance of each term's state.
        complete: ``D`` from :func:`complete_blocks`, with the same snapshots.
        noise: the standard deviation of the noise.
        scales: the prior standard deviation of each coefficient.
        rank: of ``F``.
        leading: the number of modes that it is kept on.
    """
    p, m, q = complete.shape[0], complete.shape[2], jnp.asarray(scales).shape[0]
    fields = p * m

    def rotated(rows):  # (k, p M) at the sites to (k, p, M) in the eigenbasis
        return rows.reshape(-1, p, m) @ modes.vectors

    own, centre, response = cov[:fields, :fields], mean[:fields], jnp.zeros((q, fields))
    precision, information = jnp.zeros((q, q)), jnp.zeros(q)
    if q:
        chol = cholesky(cov[fields:, fields:])
        half = solve_lower(chol, cov[fields:, :fields])
        inverse = solve_lower(chol, jnp.eye(q))
        response = -inverse.T @ half  # given the coefficients c the fields have the mean ``centre - c' response``
        own, centre = own - half.T @ half, centre + mean[fields:] @ response
        whole = inverse.T @ inverse
        precision, information = whole - jnp.diag(jnp.asarray(scales) ** -2.0), whole @ mean[fields:]
    half = rotated(own).reshape(fields, fields).T
    turned = rotated(half).reshape(p, m, p, m)
    zeros = jnp.zeros((0, p, leading))
    state = LowRankState(rotated(centre)[0], complete, zeros, rotated(response), precision, information)
    return _leading_directions(state, turned, stationary, noise, rank)


def _leading_directions(
    state: LowRankState, cov: Float[Array, "p M p M"], stationary, noise, rank: int
) -> tuple[LowRankState, Float[Array, ""]]:
    """``D`` and ``F`` of a covariance: directions of ``P − D`` in the metric, the rest of its variance folded."""
    _, p, leading = state.factor.shape
    m = state.mean.shape[1]
    excess = cov - jnp.einsum("abm,mn->ambn", state.block, jnp.eye(m))
    root = jnp.sqrt(compression_metric(state, noise, stationary)).reshape(-1)
    inner = excess[:, :leading, :, :leading].reshape(p * leading, p * leading) * root[:, None] * root[None, :]
    values, vectors = eigenvectors(0.5 * (inner + inner.T))
    kept = min(rank, p * leading)
    scale = jnp.sqrt(jnp.maximum(values[-kept:], 0.0))
    factor = (scale[None, :] * vectors[:, -kept:] / root[:, None]).T.reshape(kept, p, leading)
    factor = jnp.pad(factor, ((0, rank - kept), (0, 0), (0, 0)))
    rest = jnp.einsum("ambm->abm", excess)
    rest = rest.at[:, :, :leading].add(-jnp.einsum("ram,rbm->abm", factor, factor))
    return state._replace(block=state.block + rest, factor=factor), jnp.sum(jnp.maximum(values[:-kept], 0.0))
