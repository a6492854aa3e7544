"""Kernels with a delay, ``k_t(|u − s·h|) k_x(h)``, exactly, in a Kalman filter over stations that stay.

A separable field ``g`` is seen by each place at its own local time: ``f(t, x) = g(t − s·x, x)``, with slowness ``s``
(time per distance). With delays ``d_i = s·x_i`` the state of ``g`` at all ``M`` stations is kept at one local time:
``t − min d`` after the snapshot of time ``t``, and ``t − max d`` before it. In between the data of the snapshot see the
path of the state, whose law given the state before is Gaussian and known (:func:`forecast_snapshot`). A sum has one
:class:`DelayedField` for each term, each with its own delays; one without delay has zeros.

The state stacks, term by term, each component of the time state at the ``M`` stations; after these ``n_f`` entries come
``q`` coefficients of the mean. Between snapshots time must pass by at least ``max d − min d``
(:func:`check_interval`); :mod:`seqgp.statespace.delay_window` has no such bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from seqgp.base.errors import DataError
from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.components import apply_moves, latent_of, move_cov


class DelayedField(NamedTuple):
    """One term at one value of the parameters."""

    transition: Callable[[Float[Array, ""]], Float[Array, "p p"]]  # A(u), u ≥ 0
    stationary: Float[ArrayLike, "p p"]  # P
    observe: Float[ArrayLike, " p"]  # h
    space: Float[ArrayLike, "M M"]  # scale² k_x at the stations
    delay: Float[ArrayLike, " M"]  # d = s·x


class DelayArrays(NamedTuple):
    """What the delays of one term decide, whatever the times of the snapshots."""

    stationary: Float[Array, "p p"]  # P
    space: Float[Array, "M M"]  # K
    delay: Float[Array, " M"]  # d
    rows: Float[Array, "M p"]  # a_i = h'A(max d − d_i)
    ahead: Float[Array, "M p"]  # A(d_i − min d) P h
    time_cov: Float[Array, "M M"]  # k_t(d_i − d_j)
    across: Float[Array, "p p"]  # A(max d − min d)


class DelayedState(NamedTuple):
    """A Gaussian of the state given data; the local time of each term is ``lag`` before the last snapshot."""

    mean: Float[Array, " n"]
    cov: Float[Array, "n n"]
    lag: Float[Array, " J"]


class SnapshotForecast(NamedTuple):
    """The latent of a snapshot at the stations, and the state after it, before the snapshot's data."""

    latent_mean: Float[Array, " M"]
    latent_cov: Float[Array, "M M"]
    cross: Float[Array, "n M"]  # Cov(state, latent)
    state: DelayedState


class DelayedInnovation(NamedTuple):
    """The data of a snapshot against their forecast; those that are missing take no part."""

    residual: Float[Array, " N"]
    root: Float[Array, "N N"]  # of the covariance of the data
    state_cross: Float[Array, "n N"]  # Cov(state, data)
    latent_cross: Float[Array, "M N"]  # Cov(latent, data)
    log_prob: Float[Array, ""]


def station_delays(
    slowness: Float[ArrayLike, " D"], x: Float[ArrayLike, "M D"], mask: Bool[ArrayLike, " M"] | None = None
) -> Float[Array, " M"]:
    """``s·x``; padding (where ``mask`` is false) has the delay of the first station, and so widens nothing."""
    delay = jnp.asarray(x) @ jnp.asarray(slowness)
    return delay if mask is None else jnp.where(jnp.asarray(mask), delay, delay[jnp.argmax(jnp.asarray(mask))])


def delay_arrays(field: DelayedField) -> DelayArrays:
    """Once for each value of the parameters."""
    delay = jnp.asarray(field.delay)
    stationary, h = jnp.asarray(field.stationary), jnp.asarray(field.observe)
    first, last = jnp.min(delay), jnp.max(delay)
    move = jax.vmap(field.transition)
    between = jnp.abs(delay[:, None] - delay[None, :])
    time_cov = jax.vmap(lambda u: jnp.einsum("a,kab,b->k", h, move(u), stationary @ h))(between)
    rows = jnp.einsum("a,kab->kb", h, move(last - delay))
    ahead = move(delay - first) @ (stationary @ h)
    return DelayArrays(
        stationary, jnp.asarray(field.space), delay, rows, ahead, time_cov, field.transition(last - first)
    )


def scale_term(term: DelayArrays, amplitude: Float[ArrayLike, ""]) -> DelayArrays:
    """The term as a snapshot sees it whose time has its own amplitude: ``h`` becomes ``amplitude h``."""
    return term._replace(
        rows=amplitude * term.rows, ahead=amplitude * term.ahead, time_cov=amplitude**2 * term.time_cov
    )


def check_interval(dt: float, last: Float[ArrayLike, " J"], now: Float[ArrayLike, " J"]) -> None:
    """Refuse a snapshot that comes too soon: state and data of one local time would be out of order.

    Args:
        dt: since the last snapshot.
        last: ``min d`` of each term at the last snapshot.
        now: ``max d`` at this one, of all stations in the state.
    """
    spread = float(np.max(np.asarray(now) - np.asarray(last)))
    if dt < spread:
        raise DataError(
            f"dt = {dt:g} is shorter than the spread of delays, {spread:g}, over the stations: use the windowed filter "
            "(seqgp.statespace.delay_window), or bound the slowness"
        )


def start_delayed(terms: Sequence[DelayArrays], coefficient_scales: Float[ArrayLike, " q"]) -> DelayedState:
    """Before any data: stationary, at the local time of the first snapshot."""
    blocks = [jnp.kron(term.stationary, term.space) for term in terms]
    cov = jax.scipy.linalg.block_diag(*blocks, jnp.diag(jnp.asarray(coefficient_scales) ** 2))
    return DelayedState(jnp.zeros(cov.shape[0]), cov, jnp.stack([jnp.max(term.delay) for term in terms]))


def elapsed(terms: Sequence[DelayArrays], state: DelayedState, dt: Float[ArrayLike, ""]) -> Float[Array, " J"]:
    """The local time that passes, for each term, until the earliest data of a snapshot ``dt`` after the last."""
    return jnp.asarray(dt) + state.lag - jnp.stack([jnp.max(term.delay) for term in terms])


def advance_delayed(
    terms: Sequence[DelayArrays], moves: Sequence[Float[Array, "p p"]], state: DelayedState
) -> DelayedState:
    """Predict: the state at the earliest local time of the snapshot.

    Args:
        terms: of the kernel.
        moves: ``A(u)`` of each term, with ``u`` of :func:`elapsed`.
        state: after the last snapshot.
    """
    mean, cov = _moved(terms, moves, state)
    return DelayedState(mean, cov, jnp.stack([jnp.max(term.delay) for term in terms]))


def _moved(terms: Sequence[DelayArrays], moves: Sequence[Float[Array, "p p"]], state: DelayedState):
    stationary, spaces = [term.stationary for term in terms], [term.space for term in terms]
    mean = apply_moves(moves, state.mean[:, None], spaces[0].shape[0])[:, 0]
    return mean, move_cov(moves, stationary, spaces, state.cov)


def forecast_snapshot(terms: Sequence[DelayArrays], state: DelayedState) -> SnapshotForecast:
    """Latent and state at the end of a snapshot, from the state at its beginning (:func:`advance_delayed`)."""
    weights = [term.rows.T for term in terms]  # (p, M)
    seen = latent_of(weights, state.cov.T).T  # Cov(state, a's), (n, M)
    across = [term.across for term in terms]
    start_row, m = 0, seen.shape[1]
    latent_cov, cross = latent_of(weights, seen), apply_moves(across, seen, m)
    for term in terms:
        known = term.stationary @ term.rows.T  # P a', (p, M)
        latent_cov = latent_cov + term.space * (term.time_cov - term.rows @ known)
        own = (term.ahead.T - term.across @ known)[:, None, :] * term.space[None]
        size = own.shape[0] * m
        cross = cross.at[start_row : start_row + size].add(own.reshape(size, m))
        start_row += size
    after = DelayedState(*_moved(terms, across, state), jnp.stack([jnp.min(term.delay) for term in terms]))
    return SnapshotForecast(latent_of(weights, state.mean[:, None])[:, 0], latent_cov, cross, after)


def innovate(
    ahead: SnapshotForecast,
    operator: Float[ArrayLike, "N M"],
    design: Float[ArrayLike, "N q"],
    y: Float[ArrayLike, " N"],
    variance: Float[ArrayLike, " N"],
) -> DelayedInnovation:
    """Compare data ``y = operator f + design β + noise`` (NaN where missing) with the forecast."""
    operator, design = jnp.asarray(operator), jnp.asarray(design)
    seen, q = ~jnp.isnan(jnp.asarray(y)), design.shape[1]
    operator, design = jnp.where(seen[:, None], operator, 0.0), jnp.where(seen[:, None], design, 0.0)
    first = ahead.cross.shape[0] - q
    state_cross = ahead.cross @ operator.T + ahead.state.cov[:, first:] @ design.T
    latent_cross = ahead.latent_cov @ operator.T + ahead.cross[first:].T @ design.T
    cov = operator @ latent_cross + design @ state_cross[first:]
    root = cholesky(cov + jnp.diag(jnp.where(seen, variance, 1.0)))
    residual = jnp.where(seen, jnp.asarray(y) - operator @ ahead.latent_mean - design @ ahead.state.mean[first:], 0.0)
    white = solve_lower(root, residual)
    count = jnp.sum(seen, dtype=white.dtype)
    log_prob = -0.5 * (white @ white + count * jnp.log(2 * jnp.pi)) - jnp.sum(jnp.log(jnp.diagonal(root)))
    return DelayedInnovation(residual, root, state_cross, latent_cross, log_prob)


def update_delayed(ahead: SnapshotForecast, innovation: DelayedInnovation) -> DelayedState:
    """The state after the snapshot, given its data."""
    half = solve_lower(innovation.root, innovation.state_cross.T)
    white = solve_lower(innovation.root, innovation.residual)
    return DelayedState(ahead.state.mean + half.T @ white, ahead.state.cov - half.T @ half, ahead.state.lag)


def nowcast(
    ahead: SnapshotForecast, innovation: DelayedInnovation
) -> tuple[Float[Array, " M"], Float[Array, "M M"], Float[Array, "M n"]]:
    """The latent of the snapshot given its data: mean, covariance, and covariance with the state after it.

    At new places: extend the state of *before* the snapshot to them (:func:`extend_stations`), then forecast again.
    """
    half = solve_lower(innovation.root, innovation.latent_cross.T)
    white = solve_lower(innovation.root, innovation.residual)
    state_half = solve_lower(innovation.root, innovation.state_cross.T)
    return ahead.latent_mean + half.T @ white, ahead.latent_cov - half.T @ half, ahead.cross.T - half.T @ state_half


def extend_stations(
    state: DelayedState,
    stationary: Sequence[Float[ArrayLike, "p p"]],
    spaces: Sequence[Float[ArrayLike, "M2 M2"]],
    old: int,
) -> DelayedState:
    """The state at more stations, the old ones first, at the local time of each term: exact.

    Given the state at the old stations, that at new ones is ``K(new, old) K(old)⁻¹ s`` and a part unseen by any data.

    Args:
        state: at ``M`` stations.
        stationary: ``P`` of each term.
        spaces: ``scale² k_x`` of each term at the old and new stations.
        old: the number ``M`` of old stations.
    """
    new = np.shape(spaces[0])[0]
    q = state.mean.shape[0] - old * sum(np.shape(one)[0] for one in stationary)
    maps, parts = [], []
    for one, space in zip(stationary, spaces):
        space = jnp.asarray(space)
        root = cholesky(space[:old, :old])
        half = solve_lower(root, space[:old, old:])
        weights = jnp.concatenate([jnp.eye(old), solve_lower(root, half, transpose=True).T])
        unseen = jnp.zeros((new, new)).at[old:, old:].set(space[old:, old:] - half.T @ half)
        maps.append(jnp.kron(jnp.eye(np.shape(one)[0]), weights))
        parts.append(jnp.kron(jnp.asarray(one), unseen))
    whole = jax.scipy.linalg.block_diag(*maps, jnp.eye(q))
    cov = whole @ state.cov @ whole.T + jax.scipy.linalg.block_diag(*parts, jnp.zeros((q, q)))
    return DelayedState(whole @ state.mean, cov, state.lag)
