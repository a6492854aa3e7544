"""States and their covariance a while later.

A state stacks its components, each a field at ``M`` sites (of several terms of the kernel, term by term), and after
them the coefficients of the mean, which stay. Fields move by a small matrix: one for the whole state
(:func:`moved`), or one for each term (:func:`apply_moves`).
"""

from __future__ import annotations

from collections.abc import Sequence

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
    return (_block_by_block if by_blocks else moved_from_both_sides)(transition, space, covariance)


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


def moved_from_both_sides(transition: Transition, space, covariance: Float[Array, "n n"]) -> Float[Array, "n n"]:
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


def apply_moves(moves: Sequence[Float[Array, "p p"]], columns: Float[Array, "n k"], m: int) -> Float[Array, "n k"]:
    """``A_j ⊗ I`` applied to each term of each column."""
    parts, start = [], 0
    for move in moves:
        size = move.shape[0] * m
        parts.append((move @ columns[start : start + size].reshape(move.shape[0], -1)).reshape(size, -1))
        start += size
    return jnp.concatenate([*parts, columns[start:]])


def move_cov(
    moves: Sequence[Float[Array, "p p"]],
    stationary: Sequence[Float[Array, "p p"]],
    spaces: Sequence[Float[Array, "M M"]],
    cov: Float[Array, "n n"],
) -> Float[Array, "n n"]:
    """``A C A'`` and the noise ``(P − A P A') ⊗ K`` of each term."""
    m, start = spaces[0].shape[0], 0
    cov = apply_moves(moves, apply_moves(moves, cov, m).T, m)
    for move, p, space in zip(moves, stationary, spaces):
        size = move.shape[0] * m
        here = slice(start, start + size)
        cov = cov.at[here, here].add(jnp.kron(p - move @ p @ move.T, space))
        start += size
    return cov


def latent_of(weights: Sequence[Float[Array, "p M"]], columns: Float[Array, "n k"]) -> Float[Array, "M k"]:
    """At each station, its own weighted sum of the components of all terms."""
    stacked = jnp.concatenate(list(weights))
    order, m = stacked.shape
    return jnp.einsum("am,amk->mk", stacked, columns[: order * m].reshape(order, m, -1))
