"""The Kalman filter of a network with gaps: diagonal plus low rank in the eigenbasis of space.

In the coordinates of :mod:`seqgp.statespace.modes` complete data leave the modes independent; values that are not seen
tie them together. The covariance of the state is ``P = D + F'F``: ``D`` a ``p × p`` block for each mode, ``F`` of ``R``
rows on the first ``r`` modes (all of them, or the leading ones: :mod:`seqgp.statespace.two_level`). Given
``w ~ N(0, I_R)`` and the ``k`` values ``u`` that are not seen, under a flat prior, the data are complete:

    e = G'(w, u) + N(0, V),   V = h'Dh + s²,   G = [h'F; −U_gaps],   Λ = G V⁻¹ G' + diag(I_R, 0_k) = C C'

One update costs ``M (R + k)²`` and is exact; it adds ``k`` rows to ``F``. :func:`compress` keeps ``R`` of them, and
folds the variance of the others into ``D``. Coefficients of the mean are integrated out as in de Jong (1991).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from seqgp.base.errors import DataError
from seqgp.linalg.factor import cholesky, eigenvectors, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.modes import Modes, mode_covariance


class LowRankState(NamedTuple):
    """The state given the data so far, in the eigenbasis, and what the data say about the coefficients of the mean."""

    mean: Float[Array, "p M"]
    block: Float[Array, "p p M"]  # D
    factor: Float[Array, "R p r"]  # F, on the first r modes
    response: Float[Array, "q p M"]  # the mean of the state that a unit of each coefficient explains
    precision: Float[Array, "q q"]  # of the coefficients, the data's part
    information: Float[Array, " q"]


class SiteData(NamedTuple):
    """A snapshot in the order of the sites. At padding, data are seen and zero."""

    y: Float[ArrayLike, " M"]  # less the known part of the mean; any finite number where it is not seen
    seen: Bool[ArrayLike, " M"]
    design: Float[ArrayLike, "M q"]  # columns of the mean whose coefficients are integrated out
    num_padding: Float[ArrayLike, ""] = np.zeros(())


class Innovation(NamedTuple):
    """The innovations of data and design in the eigenbasis, and the factored problem of ``(w, u)``."""

    values: Float[Array, "1+q M"]  # e
    variance: Float[Array, " M"]  # V
    gain: Float[Array, "p M"]  # Dh / V
    rows: Float[Array, "k M"]  # U_gaps, zero where the size is not used
    chol: Float[Array, "R+k R+k"]  # C
    white: Float[Array, "R+k 1+q"]  # C⁻¹ G V⁻¹ e


def check_gaps(seen: Bool[np.ndarray, " M"], gaps: int) -> None:
    """Refuse a snapshot with more values that are not seen than a filter is compiled for."""
    missing = int(np.sum(~np.asarray(seen)))
    if missing > gaps:
        raise DataError(
            f"{missing} of {len(seen)} values are missing, and the filter was compiled for {gaps} at most; compile it "
            f"for {missing} or more, or use the dense filter"
        )


def low_rank_start(
    modes: Modes, stationary: tuple[Float[ArrayLike, "p_j p_j"], ...], rank: int, num_coefficients: int, leading: int
) -> LowRankState:
    """The state before any data.

    Args:
        modes: of space.
        stationary: the covariance of each term's state at any one time.
        rank: the number ``R`` of rows of ``F``, all zero.
        num_coefficients: of the mean, integrated out.
        leading: the number ``r`` of modes that ``F`` is kept on; all of them for the one-level filter.
    """
    block = mode_covariance(stationary, modes)
    p, m, q = block.shape[0], block.shape[2], num_coefficients
    zeros = jnp.zeros((q, q)), jnp.zeros(q)
    return LowRankState(jnp.zeros((p, m)), block, jnp.zeros((rank, p, leading)), jnp.zeros((q, p, m)), *zeros)


def low_rank_predict(
    state: LowRankState, transition: Float[ArrayLike, "p p"], noise: Float[Array, "p p M"]
) -> LowRankState:
    """The state a time step later: ``A m``, ``A D A' + Q`` and ``A F``, with ``Q`` from ``mode_covariance``."""
    move = jnp.asarray(transition)
    return state._replace(
        mean=move @ state.mean,
        block=jnp.einsum("ab,bcm,dc->adm", move, state.block, move) + noise,
        factor=jnp.einsum("ab,rbm->ram", move, state.factor),
        response=jnp.einsum("ab,qbm->qam", move, state.response),
    )


def low_rank_update(
    state: LowRankState,
    modes: Modes,
    observe: Float[ArrayLike, " p"],
    noise: Float[ArrayLike, ""],
    data: SiteData,
    scales: Float[ArrayLike, " q"],
    gaps: int,
) -> tuple[LowRankState, Float[Array, ""]]:
    """The state given one more snapshot, with ``gaps`` more rows of ``F``, and the log density of its data. Exact.

    Args:
        state: predicted, with ``F`` on all modes.
        modes: of space.
        observe: ``h``; the latent at a site is ``h's``.
        noise: the standard deviation of the noise.
        data: the snapshot.
        scales: the prior standard deviation of each coefficient of the mean.
        gaps: the largest number of values that are not seen. With more, the log density is NaN; call
            :func:`check_gaps` first.
    """
    found = innovation(state, modes, observe, noise, data, gaps)
    through = found.gain[None, :, :] * found.rows[:, None, :]
    old = state.factor - found.gain[None, :, :] * jnp.einsum("a,ram->rm", observe, state.factor)[:, None, :]
    both = jnp.concatenate([old, through])
    factor = solve_lower(found.chol, both.reshape(both.shape[0], -1)).reshape(both.shape)
    means = found.gain[None, :, :] * found.values[:, None, :] + jnp.einsum("ri,ram->iam", found.white, factor)
    block = state.block - found.variance[None, None, :] * found.gain[:, None, :] * found.gain[None, :, :]
    after = updated(state, found, means)._replace(block=block, factor=factor)
    return after, log_increment(state, after, found, noise, data, scales)


def innovation(
    state: LowRankState,
    modes: Modes,
    observe: Float[ArrayLike, " p"],
    noise: Float[ArrayLike, ""],
    data: SiteData,
    gaps: int,
) -> Innovation:
    """What a snapshot says that was not predicted; the arguments are those of :func:`low_rank_update`."""
    h, seen, vectors = jnp.asarray(observe), jnp.asarray(data.seen), modes.vectors
    rank, leading = state.factor.shape[0], state.factor.shape[2]
    cross = jnp.einsum("abm,b->am", state.block, h)
    variance = h @ cross + noise**2
    index = jnp.nonzero(~seen, size=gaps, fill_value=len(seen))[0]
    rows = vectors.at[index].get(mode="fill", fill_value=0.0)
    predicted = jnp.concatenate([(h @ state.mean)[None, :], jnp.einsum("a,qam->qm", h, state.response)])
    targets = jnp.concatenate([jnp.asarray(data.y)[None, :], jnp.asarray(data.design).T])
    values = jnp.where(seen[None, :], targets - predicted @ vectors.T, 0.0) @ vectors
    f = jnp.einsum("a,ram->rm", h, state.factor)
    weighted_rows, weighted_f = rows / variance[None, :], f / variance[None, :leading]
    corner = -weighted_f @ rows[:, :leading].T
    free = jnp.diag(jnp.where(index == len(seen), 1.0, 0.0))
    precision = jnp.block([[weighted_f @ f.T + jnp.eye(rank), corner], [corner.T, weighted_rows @ rows.T + free]])
    right = jnp.concatenate([weighted_f @ values[:, :leading].T, -weighted_rows @ values.T])
    chol = cholesky(precision)
    return Innovation(values, variance, cross / variance[None, :], rows, chol, solve_lower(chol, right))


def updated(state: LowRankState, found: Innovation, means: Float[Array, "1+q p M"]) -> LowRankState:
    """The state with its means moved, and with what the data say about the coefficients of the mean."""
    gram = (found.values / found.variance[None, :]) @ found.values.T - found.white.T @ found.white
    return state._replace(
        mean=state.mean + means[0],
        response=state.response + means[1:],
        precision=state.precision + gram[1:, 1:],
        information=state.information + gram[1:, 0],
    )


def log_increment(
    before: LowRankState,
    after: LowRankState,
    found: Innovation,
    noise: Float[ArrayLike, ""],
    data: SiteData,
    scales: Float[ArrayLike, " q"],
) -> Float[Array, ""]:
    """The log density of a snapshot given those before; NaN where it has more gaps than there is room for."""
    seen, e, white = jnp.asarray(data.seen), found.values[0], found.white[:, 0]
    missing, gaps = jnp.sum(~seen), found.rows.shape[0]
    count = len(seen) - missing - data.num_padding
    square = jnp.sum(e**2 / found.variance) - white @ white
    # Padding has the variance of the noise alone.
    logs = jnp.sum(jnp.log(found.variance)) - data.num_padding * 2 * jnp.log(noise)
    alone = -0.5 * (square + logs + count * jnp.log(2 * jnp.pi)) - jnp.sum(jnp.log(jnp.diagonal(found.chol)))
    whole = alone + log_explained(after, scales) - log_explained(before, scales)
    return jnp.where(missing > gaps, jnp.nan, whole)


def coefficient_posterior(
    state: LowRankState, scales: Float[ArrayLike, " q"]
) -> tuple[Float[Array, " q"], Float[Array, "q q"]]:
    """The mean of the coefficients of the mean (less their prior mean), and the Cholesky factor of their precision."""
    chol = cholesky(state.precision + jnp.diag(jnp.asarray(scales) ** -2.0))
    return solve_lower(chol, solve_lower(chol, state.information), transpose=True), chol


def log_explained(state: LowRankState, scales: Float[ArrayLike, " q"]) -> Float[Array, ""]:
    """What integrating the coefficients of the mean out adds to the log evidence."""
    if state.information.shape[0] == 0:
        return jnp.zeros(())
    _, chol = coefficient_posterior(state, scales)
    white = solve_lower(chol, state.information)
    return 0.5 * white @ white - jnp.sum(jnp.log(jnp.diagonal(chol))) - jnp.sum(jnp.log(jnp.asarray(scales)))


def compression_metric(
    state: LowRankState, noise: Float[ArrayLike, ""], stationary: tuple[Float[ArrayLike, "p_j p_j"], ...]
) -> Float[Array, "p r"]:
    """The weight of each entry of ``F`` when directions are compared: one over its variance in ``D`` plus noise."""
    variances = jnp.concatenate([jnp.diagonal(jnp.asarray(block)) for block in stationary])
    own = jnp.einsum("aam->am", state.block)[:, : state.factor.shape[2]]
    return 1 / (own + noise**2 * variances[:, None])


def compress(state: LowRankState, metric: Float[Array, "p r"], rank: int) -> tuple[LowRankState, Float[Array, ""]]:
    """``F`` with ``rank`` rows: the leading directions of ``F'F`` in the metric; the rest is folded into ``D``.

    Returns the state and the trace in the metric of what was folded: it keeps its variance in each mode, and loses its
    correlations between modes.
    """
    rows, p, r = state.factor.shape
    if rows <= rank:
        return state._replace(factor=jnp.pad(state.factor, ((0, rank - rows), (0, 0), (0, 0)))), jnp.zeros(())
    flat = (jnp.sqrt(metric)[None, :, :] * state.factor).reshape(rows, p * r)
    values, vectors = eigenvectors(flat @ flat.T)
    turned = jnp.tensordot(vectors.T, state.factor, axes=1)
    folded = turned[: rows - rank]
    block = state.block.at[:, :, :r].add(jnp.einsum("ram,rbm->abm", folded, folded))
    return state._replace(block=block, factor=turned[rows - rank :]), jnp.sum(jnp.maximum(values[: rows - rank], 0.0))
