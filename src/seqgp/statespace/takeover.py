"""From the state of one filter to that of another: on the same sites, or on more of them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Float, PyTree

from seqgp.linalg.types import Array
from seqgp.statespace.eigenbasis import RotatedFilter, RotatedMatrices, RotatedState
from seqgp.statespace.low_rank import LowRankState
from seqgp.statespace.low_rank_extend import complete_blocks, low_rank_from_dense
from seqgp.statespace.network import NetworkFilter, NetworkMatrices, NetworkState
from seqgp.statespace.protocol import Filter

RECENT = 32  # snapshots from which a filter that takes over knows what complete data would have left


def take_over(before: Filter, after: Filter, matrices: PyTree, state: Any, found: Any = None) -> tuple[Any, Any]:
    """matrices and state of the filter ``after``, whose first sites are those of the filter ``before``.

    Exact, except where the covariance is compressed to the rank of a :class:`NetworkFilter`, which adds to what it
    folded. ``found`` are the matrices of that, where they are known.
    """
    if not isinstance(after, NetworkFilter):
        dense, matrices, state = before.as_dense(matrices, state)
        return dense.extended(after, matrices, state)  # pyright: ignore[reportArgumentType]
    if isinstance(before, RotatedFilter) and before.sites == after.sites:
        return _rotated_to_low_rank(before, after, matrices, state, found)
    return _dense_to_low_rank(before, after, matrices, state, found)


def _rotated_to_low_rank(
    before: RotatedFilter, after: NetworkFilter, matrices: RotatedMatrices, state: RotatedState, found: Any
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


def _dense_to_low_rank(before: Filter, after: NetworkFilter, matrices: PyTree, state: Any, found: Any):
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
