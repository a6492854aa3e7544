"""A Gauss–Markov prior of fields at sites, and the observation operator through which data see it.

For one value of the parameters,

    s_1 ~ N(mean, cov)      s_t = A_t s_{t−1} + N(0, Q_t)      f_t = H_t s_t + offset_t

The state stacks ``p`` fields at ``M`` sites and ``q`` coefficients of the mean that stay: ``n = p M + q``. Its
structure is kept: ``A_t`` acts as ``move ⊗ I`` on the fields, ``Q_t`` is ``Σ_j noise_j ⊗ space_j`` plus ``floor`` on
the diagonal. The floor is part of the model, so that predicted covariances can be factored and nothing is sampled from
another law than the one that is evaluated.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from seqgp.linalg.factor import cholesky, eigenvectors
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.model import Transition
from seqgp.statespace.transition import moved_from_both_sides

WRITTEN_OUT = 4  # order up to which Cholesky factors are written out entry by entry
FLOOR = 1e-10  # variance added at each step, relative to the mean prior variance


class GaussMarkov(NamedTuple):
    """The prior of the states at ``T`` times. ``move[t]`` and ``noise[t]`` lead from ``t`` to ``t + 1``."""

    mean: Float[Array, " n"]
    cov: Float[Array, "n n"]
    move: Float[Array, "T p p"]  # the last entry is not used
    noise: tuple[Float[Array, "T p_j p_j"], ...]
    space: tuple[Float[Array, "M M"], ...]
    floor: Float[Array, " T"]


class ObservationOperator(NamedTuple):
    """``H_t``: the latent function at data ``i`` is ``weights_i · (h · fields) + design_i · coefficients + offset_i``.

    Data lie at chosen sites (``index``) or between them (``weights``); where ``seen`` is false there is only padding.
    """

    h: Float[ArrayLike, "T p"]
    index: Int[ArrayLike, "T N"] | None  # pyright: ignore[reportIncompatibleMethodOverride]
    weights: Float[ArrayLike, "T N M"] | None
    design: Float[ArrayLike, "T N q"]
    offset: Float[ArrayLike, "T N"]
    seen: Bool[ArrayLike, "T N"]


def gauss_markov(
    cov: Float[Array, "n n"],
    move: Float[Array, "T p p"],
    noise: tuple[Float[Array, "T p_j p_j"], ...],
    space: tuple[Float[Array, "M M"], ...],
) -> GaussMarkov:
    """A prior of mean zero from what leads *to* each time; the first of ``move`` and ``noise`` is not used."""

    def shifted(array, last):
        return jnp.concatenate([array[1:], jnp.broadcast_to(last, array[:1].shape)])

    floor = jnp.full(move.shape[0], FLOOR * jnp.mean(jnp.diagonal(cov)))
    return GaussMarkov(
        jnp.zeros(cov.shape[0], cov.dtype),
        cov,
        shifted(move, jnp.eye(move.shape[1], dtype=move.dtype)),
        tuple(shifted(part, jnp.zeros(part.shape[1:], part.dtype)) for part in noise),
        space,
        floor.at[-1].set(0.0),
    )


def sites_seen_by(operator: ObservationOperator, n: int) -> int:
    """How many sites the operator of one time sees; the prior may move the state as a whole, as that of one site."""
    return (n - operator.design.shape[1]) // operator.h.shape[0]


def observe(operator: ObservationOperator, rows: Float[Array, "k n"]) -> Float[Array, "k N"]:
    """``H`` applied to each row, a state, for the operator of one time; without the offset."""
    order, sites = operator.h.shape[0], sites_seen_by(operator, rows.shape[1])
    h = jnp.asarray(operator.h)
    latent = sum((h[a] * rows[:, a * sites : (a + 1) * sites] for a in range(1, order)), start=h[0] * rows[:, :sites])
    if operator.weights is None:
        at_data = latent[:, operator.index]
    else:
        at_data = latent @ jnp.asarray(operator.weights).T
    return at_data + rows[:, order * sites :] @ jnp.asarray(operator.design).T


def observe_adjoint(operator: ObservationOperator, rows: Float[Array, "k N"], sites: int) -> Float[Array, "k n"]:
    """``H'`` applied to each row, for the operator of one time."""
    if operator.weights is None:
        at_sites = jnp.zeros((rows.shape[0], sites), rows.dtype).at[:, operator.index].add(rows)
    else:
        at_sites = rows @ jnp.asarray(operator.weights)
    fields = jnp.asarray(operator.h)[None, :, None] * at_sites[:, None, :]
    return jnp.concatenate([fields.reshape(rows.shape[0], -1), rows @ jnp.asarray(operator.design)], axis=1)


def predict_covariance(prior: GaussMarkov, cov: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """``A P A' + Q``, for the prior of one time."""
    moved = moved_from_both_sides(Transition(prior.move, prior.noise), prior.space, cov)
    return moved + prior.floor * jnp.eye(cov.shape[0], dtype=cov.dtype)


class Directions(NamedTuple):
    """Eigenvalues and eigenvectors of each ``space_j``."""

    values: tuple[Float[Array, " M"], ...]
    vectors: tuple[Float[Array, "M M"], ...]


def directions(prior: GaussMarkov) -> Directions:
    """Once for each value of the parameters: draws of the process noise then need no root of a large matrix."""
    found = [eigenvectors(k) for k in prior.space]
    return Directions(tuple(jnp.maximum(values, 0.0) for values, _ in found), tuple(vectors for _, vectors in found))


def noise_of(prior: GaussMarkov, along: Directions, white: Float[Array, "K n"]) -> Float[Array, "K n"]:
    """Draws of ``N(0, Q_t)`` from standard normal numbers, for the prior of one time.

    Along an eigenvector of ``space_j``, the noise has the covariance ``value · noise_j + floor``.
    """
    parts, start, count = [], 0, white.shape[0]
    for noise, values, vectors in zip(prior.noise, along.values, along.vectors):
        order, sites = noise.shape[0], values.shape[0]
        covariance = values[:, None, None] * noise + prior.floor * jnp.eye(order, dtype=noise.dtype)
        block = white[:, start : start + order * sites].reshape(count, order, sites)
        parts.append((_times_root(covariance, block) @ vectors.T).reshape(count, -1))
        start += order * sites
    return jnp.concatenate([*parts, jnp.sqrt(prior.floor) * white[:, start:]], axis=1)


def _times_root(covariance: Float[Array, "M p p"], white: Float[Array, "K p M"]) -> Float[Array, "K p M"]:
    """The Cholesky factor of each small matrix times columns; what has no variance has no noise."""
    order = covariance.shape[1]
    if order > WRITTEN_OUT:
        live = jnp.diagonal(covariance, axis1=1, axis2=2) > 0
        factor = jax.vmap(cholesky)(jnp.where(jnp.all(live), covariance, jnp.eye(order)))
        return jnp.einsum("mab,kbm->kam", jnp.where(jnp.all(live), factor, 0.0), white)
    root: list[list[Array]] = []
    for a in range(order):
        row: list[Array] = []
        for b in range(a + 1):
            left = covariance[:, a, b] - sum((row[c] * (root[b][c] if b < a else row[c]) for c in range(b)), start=0.0)
            if a == b:
                row.append(jnp.sqrt(jnp.maximum(left, 0.0)))
            else:
                row.append(jnp.where(root[b][b] > 0, left / jnp.where(root[b][b] > 0, root[b][b], 1.0), 0.0))
        root.append(row)
    drawn = [
        sum((root[a][b] * white[:, b] for b in range(1, a + 1)), start=root[a][0] * white[:, 0]) for a in range(order)
    ]
    return jnp.stack(drawn, axis=1)
