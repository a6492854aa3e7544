"""States and their covariance a while later: fields move by a small matrix, coefficients of the mean stay."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Float

from seqgp.linalg.types import Array
from seqgp.statespace.model import Transition

BY_BLOCKS = 3  # components of a state up to which its covariance moves block by block


def moved(move: Float[Array, "p p"], columns: Float[Array, "n k"], sites: int) -> Float[Array, "n k"]:
    """``A`` applied to the fields of each column, a state; coefficients stay."""
    order = move.shape[0]
    fields = move @ columns[: order * sites].reshape(order, -1)
    return jnp.concatenate([fields.reshape(order * sites, -1), columns[order * sites :]])


def moved_covariance(
    transition: Transition, space: tuple[Float[Array, "M M"], ...], covariance: Float[Array, "n n"]
) -> Float[Array, "n n"]:
    """``A C A' + Q``, where the noise of each term is ``Q_j ⊗ K_j``."""
    by_blocks = transition.move.shape[0] <= BY_BLOCKS
    return (_block_by_block if by_blocks else _from_both_sides)(transition, space, covariance)


def _block_by_block(transition: Transition, space, covariance: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """One pair of components after the other: each is a sum of a few blocks, which one pass computes."""
    move, m = transition.move, space[0].shape[0]
    orders = range(move.shape[0])
    fields = len(orders) * m
    old = [[covariance[a * m : (a + 1) * m, b * m : (b + 1) * m] for b in orders] for a in orders]
    added, start = {}, 0
    for noise, kernel in zip(transition.noise, space):
        own = range(noise.shape[0])
        added |= {(start + a, start + b): noise[a, b] * kernel for a in own for b in own}
        start += noise.shape[0]

    def block(a, b):
        sums = (move[a, c] * move[b, d] * old[c][d] for c in orders for d in orders)
        return sum(sums, start=added.get((a, b), 0.0))

    rows = [[block(a, b) for b in orders] for a in orders]
    if len(covariance) > fields:  # what fields and coefficients have in common moves with the fields
        side = moved(move, covariance[:, fields:], m)
        parts = [side[a * m : (a + 1) * m] for a in orders]
        rows = [[*row, part] for row, part in zip(rows, parts)] + [[*(part.T for part in parts), side[fields:]]]
    return jnp.block(rows)


def _from_both_sides(transition: Transition, space, covariance: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """For states of many components, products with ``A``."""
    m = space[0].shape[0]
    covariance = moved(transition.move, moved(transition.move, covariance, m).T, m)
    start = 0
    for noise, kernel in zip(transition.noise, space):
        block = jnp.kron(noise, kernel)
        end = start + block.shape[0]
        covariance = covariance.at[start:end, start:end].add(block)
        start = end
    return covariance
