"""From the state of one filter to that of another: on the same sites, or on more of them.

Stations join a covariance that is written out exactly (``DenseFilter.extended``). From there to diagonal plus low rank:
a new station is one whose values were never seen, so the covariance exceeds the one that complete data at all sites
would have left by a part of low rank: its leading directions become ``F``.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Float, PyTree

from seqgp.linalg.factor import cholesky, eigenvectors, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.eigenbasis import RotatedFilter, RotatedMatrices, RotatedState
from seqgp.statespace.low_rank import LowRankState, compression_metric
from seqgp.statespace.modes import Modes, mode_covariance
from seqgp.statespace.network import NetworkFilter, NetworkMatrices, NetworkState
from seqgp.statespace.protocol import Filter


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


RECENT = 32  # snapshots from which a filter that takes over knows what complete data would have left


def take_over(
    before: Filter, after: Filter, matrices: PyTree, state: PyTree, found: PyTree = None
) -> tuple[PyTree, PyTree]:
    """matrices and state of the filter ``after``, whose first sites are those of the filter ``before``.

    Exact, except where the covariance is compressed to the rank of a ``NetworkFilter``, which adds to what it
    folded. ``found`` are the matrices of that, where they are known.
    """
    if not isinstance(after, NetworkFilter):
        dense, matrices, state = before.as_dense(matrices, state)
        return dense.extended(after, matrices, state)  # pyright: ignore[reportArgumentType]
    if isinstance(before, RotatedFilter) and before.sites == after.sites:
        return _rotated_to_low_rank(before, after, matrices, state, found)
    return _dense_to_low_rank(before, after, matrices, state, found)


def _rotated_to_low_rank(
    before: RotatedFilter, after: NetworkFilter, matrices: RotatedMatrices, state: RotatedState, found: PyTree
) -> tuple[NetworkMatrices, NetworkState]:
    """Exactly: after complete data the covariance is a function of ``K_space``, so only its eigenvalues are sorted."""
    found = after.matrices_at(matrices.parameters) if found is None else found
    vectors, largest_first = found.modes.vectors, jnp.argsort(-matrices.values)

    def turned(values: Float[Array, "*k M"]) -> Float[Array, "*k M"]:
        at_sites = before.rotate_back(matrices, values.reshape(-1, before.sites).T).T
        return (at_sites @ vectors).reshape(values.shape)

    factor = jnp.zeros((after.compression.rank, state.mean.shape[0], after.leading))
    low_rank = LowRankState(
        turned(state.mean),
        state.covariance[:, :, largest_first],
        factor,
        turned(state.response),
        state.precision,
        state.information,
    )
    return found, NetworkState(low_rank, jnp.zeros(()))


def _dense_to_low_rank(before: Filter, after: NetworkFilter, matrices: PyTree, state: PyTree, found: PyTree):
    """By way of the covariance written out, on all sites."""
    ssm, parameters = after.ssm, matrices.parameters
    dense, known, written = before.as_dense(matrices, state)
    _, written = dense.extended(after.dense, known, written)
    found = after.matrices_at(parameters) if found is None else found
    noise = ssm.model.likelihood.noise(after.context, parameters)
    stationary = ssm.stationary(parameters)
    complete = complete_blocks(
        found.modes, stationary, lambda dt: ssm.transition(parameters, dt).move, after.recent,
        ssm.observe(parameters, None), noise,
    )  # fmt: skip
    real = jnp.tile(jnp.asarray(after.mask), ssm.order)
    real = jnp.concatenate([real, jnp.ones(len(ssm.in_state), bool)])
    cov = jnp.where(real[:, None] & real[None, :], written.covariance, 0.0)
    low_rank, folded = low_rank_from_dense(
        written.mean, cov, found.modes, stationary, complete, noise, ssm.coefficient_scales(),
        after.compression.rank, after.leading,
    )  # fmt: skip
    return found, NetworkState(low_rank, getattr(state, "folded", jnp.zeros(())) + folded)
