"""Kernels with a delay, ``k_t(|u − s·h|) k_x(h)``, for snapshots at any times: transitions of a state with a window.

A separable field ``g`` is seen by each place at its own local time: ``f(t, x) = g(t − s·x, x)``, with slowness ``s``
(time per distance). With delays ``d_i = s·x_i`` the state of each term at all ``M`` stations is kept at the local time
``t − max d``, and beside it a window: the term's value ``g_j`` at the local times of the stations at the last ``W``
snapshots. All data are conditioned on as they come. A new snapshot moves the state of each term by ``dt`` and adds its
own values, both drawn towards the values in the window that are later than the state. A snapshot leaves the window once
the states of all terms have passed it.

The vector is ``(s_1 … s_J, β, g_1 … g_J)``: term by term each component of the time state at the stations, ``q``
coefficients of the mean, then ``W M`` values of each term, the newest snapshot first. It is a linear Gaussian
state-space model: the smoother is any that takes one. Values in the window are noiseless, so their covariance given the
state is factored with ``NUGGET`` of each variance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.linalg.types import Array, ArrayLike

NUGGET = 1e-13
PASSED = 1e-12  # of a variance: a value in the window that the state determines up to this says nothing


class DelayedField(NamedTuple):
    """One term at one value of the parameters."""

    transition: Callable[[Float[Array, ""]], Float[Array, "p p"]]  # A(u), u ≥ 0
    stationary: Float[ArrayLike, "p p"]  # P
    observe: Float[ArrayLike, " p"]  # h
    space: Float[ArrayLike, "M M"]  # scale² k_x at the stations
    delay: Float[ArrayLike, " M"]  # d = s·x


class WindowStep(NamedTuple):
    """From one snapshot to the next: ``v' = move v + noise``; the latent is ``rows v'``."""

    move: Float[Array, "n n"]
    noise: Float[Array, "n n"]
    rows: Float[Array, "M n"]


def station_delays(
    slowness: Float[ArrayLike, " D"], x: Float[ArrayLike, "M D"], mask: Bool[ArrayLike, " M"] | None = None
) -> Float[Array, " M"]:
    """``s·x``; padding (where ``mask`` is false) has the delay of the first station, and so widens nothing."""
    delay = jnp.asarray(x) @ jnp.asarray(slowness)
    return delay if mask is None else jnp.where(jnp.asarray(mask), delay, delay[jnp.argmax(jnp.asarray(mask))])


def window_step(
    fields: Sequence[DelayedField],
    age: Float[Array, " W"],
    dt: Float[ArrayLike, ""],
    q: int,
    amplitudes: Float[ArrayLike, " J"] | None = None,
    lags: Float[ArrayLike, " J"] | None = None,
    known: Bool[ArrayLike, " M"] | None = None,
) -> WindowStep:
    """The transition to a snapshot ``dt`` later, 0 for the first.

    Args:
        fields: the terms of the kernel.
        age: of the snapshots in the window.
        dt: since the last snapshot.
        q: the number of coefficients of the mean.
        amplitudes: of each term at the time of the snapshot; 1 by default.
        lags: how far the state of each term lies behind the last snapshot, ``max d`` or more; ``max d`` by default.
        known: the stations whose values in the window are meant; all by default.
    """
    m, length = np.shape(fields[0].space)[0], len(age)
    orders = [np.shape(field.stationary)[0] for field in fields]
    first = sum(orders) * m + q
    n = first + len(fields) * length * m
    move, noise, rows = jnp.zeros((n, n)), jnp.zeros((n, n)), jnp.zeros((m, n))
    scales = jnp.ones(len(fields)) if amplitudes is None else jnp.asarray(amplitudes)
    at = 0
    for j, (field, order) in enumerate(zip(fields, orders)):
        here = jnp.arange(at, at + order * m)
        window = first + j * length * m + jnp.arange(length * m)
        targets, sources = jnp.concatenate([here, window[:m]]), jnp.concatenate([here, window])
        lag = jnp.max(jnp.asarray(field.delay)) if lags is None else jnp.asarray(lags)[j]
        weights, left = _bridge(field, age, dt, lag, jnp.ones(m, bool) if known is None else jnp.asarray(known))
        move = move.at[targets[:, None], sources[None, :]].set(weights)
        noise = noise.at[targets[:, None], targets[None, :]].set(left)
        move = move.at[window[m:], window[: (length - 1) * m]].set(1.0)
        rows = rows.at[jnp.arange(m), window[:m]].set(scales[j])
        at += order * m
    coefficients = jnp.arange(at, at + q)
    return WindowStep(move.at[coefficients, coefficients].set(1.0), noise, rows)


def _bridge(field: DelayedField, age, dt, lag, known) -> tuple[Float[Array, "pM+M pM+WM"], Float[Array, "pM+M pM+M"]]:
    """State and values of the new snapshot, from the old state and the values in the window: weights and covariance."""
    delay, space = jnp.asarray(field.delay), jnp.asarray(field.space)
    stationary, h = jnp.asarray(field.stationary), jnp.asarray(field.observe)
    order, m, length = stationary.shape[0], delay.shape[0], age.shape[0]
    reach = lag - delay  # local time of a value of the last snapshot, since that of the state
    old = (reach[None, :] - age[:, None]).ravel()  # (W M), since the old state
    alive, old = (old > 0) & jnp.tile(known, length), jnp.where(old > 0, old, 0.0)
    new, site = reach + dt, jnp.tile(jnp.arange(m), length)
    path = jax.vmap(field.transition)
    rows_old, rows_new = jnp.einsum("a,kab->kb", h, path(old)), jnp.einsum("a,kab->kb", h, path(new))
    moved = field.transition(jnp.asarray(dt))

    def rest(u, v, a, b):  # covariance in time of values at u and v since the state, given the state
        gap = jnp.abs(u[:, None] - v[None, :])
        return _time_cov(field, gap) - a @ stationary @ b.T

    # Given the old state: covariances of the window, of (state, new values) with it, and of these.
    within = space[site][:, site] * rest(old, old, rows_old, rows_old)
    own = jnp.diagonal(space)[site]
    alive = alive & (jnp.diagonal(within) > PASSED * own)
    scale = jnp.where(alive, jnp.sqrt(jnp.where(alive, jnp.diagonal(within), 1.0)), 1.0)
    both = alive[:, None] & alive[None, :]
    correlation = jnp.where(both, within / scale[:, None] / scale[None, :], 0.0)
    correlation = correlation.at[jnp.arange(len(site)), jnp.arange(len(site))].set(1.0 + NUGGET)
    state_old = _state_cov(field, dt - old) - stationary_after(moved, stationary, rows_old)  # (p, WM)
    state_new = _state_cov(field, dt - new) - stationary_after(moved, stationary, rows_new)
    cross = jnp.concatenate(
        [
            (state_old[:, None, :] * space[:, site][None]).reshape(order * m, -1),
            space[:, site] * rest(new, old, rows_new, rows_old),
        ]
    )
    top = jnp.kron(stationary - moved @ stationary @ moved.T, space)
    side = (state_new[:, None, :] * space[None]).reshape(order * m, m)
    prior = jnp.block([[top, side], [side.T, space * rest(new, new, rows_new, rows_new)]])
    half = solve_lower(cholesky(correlation), jnp.where(alive[:, None], cross.T / scale[:, None], 0.0))
    gain = jnp.where(alive[None, :], solve_lower(cholesky(correlation), half, transpose=True).T / scale[None, :], 0.0)
    plain = jnp.concatenate([jnp.kron(moved, jnp.eye(m)), _spread_rows(rows_new, jnp.arange(m), m)])
    return jnp.concatenate([plain - gain @ _spread_rows(rows_old, site, m), gain], axis=1), prior - half.T @ half


def stationary_after(moved, stationary, rows) -> Float[Array, "p K"]:
    """``A P a'``: what the old state has in common with the new one and with values."""
    return moved @ stationary @ rows.T


def _time_cov(field: DelayedField, gap: Float[Array, "K L"]) -> Float[Array, "K L"]:
    """``k_t``."""
    h, stationary = jnp.asarray(field.observe), jnp.asarray(field.stationary)
    return jax.vmap(jax.vmap(lambda u: h @ field.transition(u) @ stationary @ h))(gap)


def _state_cov(field: DelayedField, lead: Float[Array, " K"]) -> Float[Array, "p K"]:
    """Covariance of the state with values ``lead`` before it (after it where negative)."""
    h, stationary = jnp.asarray(field.observe), jnp.asarray(field.stationary)

    def one(u):
        move = field.transition(jnp.abs(u))
        return jnp.where(u >= 0, move @ stationary @ h, stationary @ move.T @ h)

    return jax.vmap(one)(lead).T


def _spread_rows(rows: Float[Array, "K p"], site, m: int) -> Float[Array, "K pM"]:
    """Rows of the time state as rows of the state at all stations."""
    return (rows[:, :, None] * jax.nn.one_hot(site, m, dtype=rows.dtype)[:, None, :]).reshape(rows.shape[0], -1)
