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

from seqgp.linalg.factor import covariance_root, eigenvectors
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.model import Transition
from seqgp.statespace.transition import moved_from_both_sides

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


class NoiseRoots(NamedTuple):
    """Roots of ``noise_j`` at each time and of ``space_j``: a draw of the process noise needs no root of size ``n``."""

    noise: tuple[Float[Array, "T p_j p_j"], ...]
    space: tuple[Float[Array, "M M"], ...]


def noise_roots(prior: GaussMarkov) -> NoiseRoots:
    """Once for each value of the parameters; noise and space may be singular, as over a time of 0."""

    def root(noise):
        values, vectors = eigenvectors(0.5 * (noise + noise.T))
        return vectors * jnp.sqrt(jnp.maximum(values, 0.0))[None, :]

    return NoiseRoots(
        tuple(jax.vmap(root)(part) for part in prior.noise), tuple(covariance_root(k) for k in prior.space)
    )


def draw_noise(key, roots: NoiseRoots, floor: Float[Array, ""], paths: int, n: int) -> Float[Array, "K n"]:
    """Draws of ``N(0, Q_t)``, for the roots of one time."""
    key_fields, key_floor = jax.random.split(key)
    parts, sites = [], roots.space[0].shape[0]
    for term, (noise, space) in enumerate(zip(roots.noise, roots.space)):
        white = jax.random.normal(jax.random.fold_in(key_fields, term), (paths, noise.shape[0], sites), floor.dtype)
        parts.append(jnp.einsum("ab,kbm,im->kai", noise, white, space).reshape(paths, -1))
    fields = jnp.concatenate(parts, axis=1)
    fields = jnp.pad(fields, ((0, 0), (0, n - fields.shape[1])))
    return fields + jnp.sqrt(floor) * jax.random.normal(key_floor, (paths, n), floor.dtype)
