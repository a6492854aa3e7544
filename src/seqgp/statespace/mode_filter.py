"""The Kalman filter and smoother of Fourier modes, for data at any points: costs grow with modes, not with data.

A time's data enter through ``G = H'R⁻¹H`` and ``H'R⁻¹y`` (:class:`DataInformation`), so a time with many data costs as
much as one with few, and a time without data is one with ``G = 0``.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from seqgp.linalg.factor import RELATIVE_ROUNDING, cholesky, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.advection import FourierModes


class DataInformation(NamedTuple):
    """The data of one time as their likelihood sees them, ``R = noise²``."""

    information: Float[Array, "*T n n"]  # H'H
    score: Float[Array, "*T n"]  # H'y
    square: Float[Array, "*T"]  # y'y
    num_data: Float[Array, "*T"]


class FilteredModes(NamedTuple):
    """Before and after the data of each time."""

    predicted_mean: Float[Array, "T n"]
    predicted_cov: Float[Array, "T n n"]
    mean: Float[Array, "T n"]
    cov: Float[Array, "T n n"]


class SmoothedModes(NamedTuple):
    """Given all data."""

    mean: Float[Array, "T n"]
    cov: Float[Array, "T n n"]


def data_information(basis: Float[ArrayLike, "N n"], y: Float[ArrayLike, " N"]) -> DataInformation:
    """The data of one time with noise 1; NaN where missing."""
    basis, y = jnp.asarray(basis), jnp.asarray(y)
    seen = ~jnp.isnan(y)
    rows, values = jnp.where(seen[:, None], basis, 0.0), jnp.where(seen, y, 0.0)
    return DataInformation(rows.T @ rows, rows.T @ values, values @ values, jnp.sum(seen, dtype=values.dtype))


def advance_rows(modes: FourierModes, dt: Float[ArrayLike, ""], rows: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """``A(dt)`` applied to columns: each mode fades and turns by ``k·v dt``."""
    m = len(modes.rate)
    fade = jnp.exp(-modes.rate * dt)
    cos = (fade * jnp.cos(modes.frequency * dt))[:, None]
    sin = (fade * jnp.sin(modes.frequency * dt))[:, None]
    c, s = rows[:m], rows[m:]
    return jnp.concatenate([cos * c - sin * s, sin * c + cos * s])


def retreat_rows(modes: FourierModes, dt: Float[ArrayLike, ""], rows: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """``A(dt)'`` applied to columns."""
    return advance_rows(modes._replace(frequency=-jnp.asarray(modes.frequency)), dt, rows)


def predict_modes(
    modes: FourierModes, dt: Float[ArrayLike, ""], mean: Float[Array, " n"], cov: Float[Array, "n n"]
) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """The state a time ``dt`` later."""
    noise = modes.variance * -jnp.expm1(-2 * modes.rate * dt)
    moved = advance_rows(modes, dt, advance_rows(modes, dt, cov).T)
    return advance_rows(modes, dt, mean[:, None])[:, 0], moved + jnp.diag(jnp.concatenate([noise, noise]))


def update_modes(
    mean: Float[Array, " n"], cov: Float[Array, "n n"], data: DataInformation, noise: Float[ArrayLike, ""]
) -> tuple[Float[Array, " n"], Float[Array, "n n"], Float[Array, ""]]:
    """Mean and covariance given one time's data, and the log density of these: ``C⁺ = L (I + L'GL)⁻¹ L'``."""
    precision = 1.0 / noise**2
    root = _root(cov)
    inner = cholesky(jnp.eye(len(mean)) + precision * root.T @ data.information @ root)
    half = solve_lower(inner, root.T)  # C⁺ = half' half
    residual = precision * (data.score - data.information @ mean)
    pull = half @ residual
    square = precision * (data.square - 2 * mean @ data.score + mean @ data.information @ mean)
    log_prob = -0.5 * (
        data.num_data * jnp.log(2 * jnp.pi * noise**2)
        + 2 * jnp.sum(jnp.log(jnp.diagonal(inner)))
        + square
        - pull @ pull
    )
    return mean + half.T @ pull, half.T @ half, log_prob


def _root(cov: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """A lower root of a covariance that may be singular; it has a gradient, as the evidence is maximised by it."""
    sd = jnp.sqrt(jnp.maximum(jnp.diagonal(cov), 1e-300))
    correlation = 0.5 * (cov + cov.T) / (sd[:, None] * sd[None, :])
    return sd[:, None] * cholesky(correlation + RELATIVE_ROUNDING * jnp.eye(len(cov)))


def filter_modes(
    modes: FourierModes, dts: Float[ArrayLike, " T"], data: DataInformation, noise: Float[ArrayLike, ""]
) -> tuple[FilteredModes, Float[Array, " T"]]:
    """All times; the log density of each time's data given those before.

    Args:
        modes: the state's dynamics.
        dts: the time since the last snapshot; the first is not used, the state starts stationary.
        data: of all times, stacked.
        noise: of the data, a standard deviation.
    """
    variance = jnp.concatenate([jnp.asarray(modes.variance)] * 2)

    def step(state, inputs):
        dt, now = inputs
        predicted = predict_modes(modes, dt, *state)
        mean, cov, log_prob = update_modes(*predicted, now, noise)
        return (mean, cov), (FilteredModes(*predicted, mean, cov), log_prob)

    start = (jnp.zeros_like(variance), jnp.diag(variance))
    _, (filtered, log_prob) = jax.lax.scan(step, start, (jnp.asarray(dts), data))
    return filtered, log_prob


def smooth_modes(
    modes: FourierModes,
    dts: Float[ArrayLike, " T"],
    data: DataInformation,
    noise: Float[ArrayLike, ""],
    filtered: FilteredModes,
) -> SmoothedModes:
    """All times given all data, by the modified Bryson–Frazier recursion: no covariance is inverted.

    Backward, ``m + C r`` and ``C − C N C`` smooth the prediction ``(m, C)``, where ``r`` and ``N`` collect what later
    data say.
    """
    precision, n = 1.0 / noise**2, filtered.mean.shape[1]

    def step(later, inputs):
        dt_next, now, one = inputs
        r, big = later  # of the next prediction
        r = retreat_rows(modes, dt_next, r[:, None])[:, 0]
        big = retreat_rows(modes, dt_next, retreat_rows(modes, dt_next, big).T)
        smoothed = SmoothedModes(one.mean + one.cov @ r, one.cov - one.cov @ big @ one.cov)
        information = precision * now.information
        kept = jnp.eye(n) - one.cov @ information  # I − K H
        own = information @ kept
        r = precision * (now.score - now.information @ one.mean) + kept.T @ r
        big = 0.5 * (own + own.T) + kept.T @ big @ kept
        return (r, big), smoothed

    after = jnp.concatenate([jnp.asarray(dts)[1:], jnp.zeros(1)])
    start = (jnp.zeros(n), jnp.zeros((n, n)))
    return jax.lax.scan(step, start, (after, data, filtered), reverse=True)[1]
