"""The latent at all snapshots given all data, for kernels with a delay.

Forward, the filter of :mod:`seqgp.statespace.delay`, with how the data of a snapshot depend on the state after the one
before. Backward, ``r`` and ``N`` collect what later data say about that state (modified Bryson–Frazier recursion):
``m + C r`` and ``C − C N C`` smooth a state ``(m, C)``. Only covariances of data are factored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Key

from seqgp.linalg.factor import covariance_root, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.components import apply_moves
from seqgp.statespace.delay import (
    DelayArrays,
    DelayedField,
    advance_delayed,
    delay_arrays,
    elapsed,
    forecast_snapshot,
    innovate,
    nowcast,
    scale_term,
    start_delayed,
    update_delayed,
)


class StationData(NamedTuple):
    """The data of ``T`` snapshots at stations that stay: ``y = operator f + design β + noise``; NaN where missing."""

    dt: Float[ArrayLike, " T"]  # since the last snapshot; the first is not used
    y: Float[ArrayLike, "T N"]
    variance: Float[ArrayLike, "T N"]
    operator: Float[ArrayLike, "N M"]
    design: Float[ArrayLike, "T N q"]
    amplitude: Float[ArrayLike, "T J"] | None = None  # of each term at each time; 1 by default


class FilterPass(NamedTuple):
    """What the forward pass leaves for the backward one."""

    latent_mean: Float[Array, "T M"]  # given the data up to each snapshot
    latent_cov: Float[Array, "T M M"]
    latent_state: Float[Array, "T M n"]  # its covariance with the state after the snapshot
    white: Float[Array, "T N"]  # S⁻½ (y − its mean)
    white_rows: Float[Array, "T N n"]  # S⁻½ H, from the state after the snapshot before
    white_cross: Float[Array, "T N n"]  # S⁻½ Cov(data, state)
    moves: tuple[Float[Array, "T p p"], ...]  # of each term, from state to state


class Latents(NamedTuple):
    """The latent at the stations given all data."""

    mean: Float[Array, "T M"]
    cov: Float[Array, "T M M"]


def filter_pass(
    fields: Sequence[DelayedField], data: StationData, coefficient_scales: Float[ArrayLike, " q"]
) -> tuple[FilterPass, Float[Array, " T"]]:
    """The filter over all snapshots, and the log density of each one's data given those before."""
    plain = [delay_arrays(field) for field in fields]
    operator = jnp.asarray(data.operator)

    def step(state, inputs):
        dt, y, variance, design, amplitude = inputs
        terms = [scale_term(term, one) for term, one in zip(plain, amplitude)]
        moves = [field.transition(u) for field, u in zip(fields, elapsed(terms, state, dt))]
        ahead = forecast_snapshot(terms, advance_delayed(terms, moves, state))
        found = innovate(ahead, operator, design, y, variance)
        rows = _data_rows(terms, moves, jnp.where(~jnp.isnan(y)[:, None], operator, 0.0), design, y)
        kept = FilterPass(
            *nowcast(ahead, found),
            solve_lower(found.root, found.residual),
            solve_lower(found.root, rows),
            solve_lower(found.root, found.state_cross.T),
            tuple(term.across @ move for term, move in zip(terms, moves)),
        )
        return update_delayed(ahead, found), (kept, found.log_prob)

    dts = jnp.asarray(data.dt).at[0].set(0.0)
    inputs = (dts, *(jnp.asarray(one) for one in (data.y, data.variance, data.design, _amplitudes(data, len(fields)))))
    return jax.lax.scan(step, start_delayed(plain, coefficient_scales), inputs)[1]


def _amplitudes(data: StationData, terms: int) -> Float[ArrayLike, "T J"]:
    return jnp.ones((len(data.y), terms)) if data.amplitude is None else data.amplitude


def _data_rows(terms: Sequence[DelayArrays], moves, operator, design, y) -> Float[Array, "N n"]:
    """``H``: the mean of the data as a function of the state after the snapshot before."""
    m = operator.shape[1]
    at_stations = [operator[:, None, :] * term.rows.T[None] for term in terms]  # (N, p, M)
    rows = jnp.concatenate([one.reshape(len(y), -1) for one in at_stations], axis=1)
    rows = jnp.concatenate([rows, jnp.where(~jnp.isnan(y)[:, None], design, 0.0)], axis=1)
    return apply_moves([move.T for move in moves], rows.T, m).T


def smooth_latent(passed: FilterPass) -> Latents:
    """The latent at all snapshots given all data."""
    n, m = passed.latent_state.shape[2], passed.latent_mean.shape[1]

    def step(later, one: FilterPass):
        r, big = later
        smoothed = Latents(
            one.latent_mean + one.latent_state @ r, one.latent_cov - one.latent_state @ big @ one.latent_state.T
        )
        back = [move.T for move in one.moves]
        r = apply_moves(back, r[:, None], m)[:, 0] + one.white_rows.T @ (one.white - one.white_cross @ r)
        # L = A − K H: how the error of one state becomes that of the next
        half = apply_moves(back, big, m) - one.white_rows.T @ (one.white_cross @ big)  # L'N
        big = apply_moves(back, half.T, m).T - half @ one.white_cross.T @ one.white_rows
        return (r, 0.5 * (big + big.T) + one.white_rows.T @ one.white_rows), smoothed

    return jax.lax.scan(step, (jnp.zeros(n), jnp.zeros((n, n))), passed, reverse=True)[1]


def draw_delayed(
    key: Key[Array, ""],
    fields: Sequence[DelayedField],
    data: StationData,
    coefficient_scales: Float[ArrayLike, " q"],
) -> Float[Array, "T M"]:
    """One draw of the latent at all snapshots given all data: a draw of the prior, corrected (Matheron's rule)."""
    key_path, key_noise, key_mean = jax.random.split(key, 3)
    path = simulate_latent(key_path, fields, jnp.asarray(data.dt), jnp.asarray(_amplitudes(data, len(fields))))
    scales, y = jnp.asarray(coefficient_scales), jnp.asarray(data.y)
    beta = scales * jax.random.normal(key_mean, scales.shape, y.dtype)
    noise = jnp.sqrt(jnp.asarray(data.variance)) * jax.random.normal(key_noise, y.shape, y.dtype)
    made = path @ jnp.asarray(data.operator).T + jnp.asarray(data.design) @ beta + noise
    passed, _ = filter_pass(fields, data._replace(y=y - made), coefficient_scales)
    return path + smooth_latent(passed).mean


def simulate_latent(
    key: Key[Array, ""], fields: Sequence[DelayedField], dts: Float[Array, " T"], amplitude: Float[Array, "T J"]
) -> Float[Array, "T M"]:
    """One draw of the latent at the stations, without data."""
    plain = [delay_arrays(field) for field in fields]
    none = start_delayed(plain, jnp.zeros(0))
    root = covariance_root(none.cov)
    key_start, key_steps = jax.random.split(key)
    first = none._replace(
        mean=root @ jax.random.normal(key_start, none.mean.shape, none.mean.dtype), cov=jnp.zeros_like(none.cov)
    )
    n, m = none.mean.shape[0], plain[0].space.shape[0]

    def step(state, inputs):
        key, dt, now = inputs
        terms = [scale_term(term, one) for term, one in zip(plain, now)]
        key_move, key_snapshot = jax.random.split(key)
        moves = [field.transition(u) for field, u in zip(fields, elapsed(terms, state, dt))]
        begun = advance_delayed(terms, moves, state)
        s = begun.mean + covariance_root(begun.cov) @ jax.random.normal(key_move, (n,), begun.mean.dtype)
        ahead = forecast_snapshot(terms, begun._replace(mean=s, cov=jnp.zeros((n, n))))
        both = jnp.block([[ahead.latent_cov, ahead.cross.T], [ahead.cross, ahead.state.cov]])
        white = jax.random.normal(key_snapshot, (m + n,), s.dtype)
        drawn = jnp.concatenate([ahead.latent_mean, ahead.state.mean]) + covariance_root(both) @ white
        return ahead.state._replace(mean=drawn[m:], cov=jnp.zeros((n, n))), drawn[:m]

    keys = jax.random.split(key_steps, dts.shape[0])
    return jax.lax.scan(step, first, (keys, dts.at[0].set(0.0), amplitude))[1]
