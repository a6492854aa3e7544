"""Likelihoods known by their values alone: called back from compiled code, or tabulated once for each datum.

A black box ``log p(y_i | f_i)`` of NumPy runs inside JAX through :func:`callback_log_prob`. Where it has no parameters,
its values are the same for all particles: :func:`tabulate` calls it on a grid, a cubic spline stands for it, and the
error of the spline is measured between the nodes and bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from scipy.interpolate import CubicSpline

from seqgp.linalg.types import Array, ArrayLike

FIRST, MOST = 33, 4097  # nodes


class Table(NamedTuple):
    """A cubic spline of the log likelihood of each datum; ``*data`` is ``(T, N)`` for a history."""

    low: Float[ArrayLike, "*data"]
    step: Float[ArrayLike, "*data"]  # between nodes
    coefficients: Float[ArrayLike, "*data nodes-1 4"]  # of increasing powers of the distance from the node below
    error: Float[ArrayLike, "*data"]  # the largest measured, over 1 + the drop of the log likelihood from its peak


def callback_log_prob(function: Callable[..., np.ndarray]) -> Callable[[Float[Array, "..."], Any], Float[Array, "..."]]:
    """A log likelihood of NumPy as one of JAX, without derivatives.

    Args:
        function: ``(f, data)`` to log likelihoods of the shape of ``f``; under ``vmap`` both have more leading axes.
    """

    def log_prob(f, data):
        def host(f, data):
            return np.asarray(function(np.asarray(f), jax.tree.map(np.asarray, data)), f.dtype)

        return jax.pure_callback(host, jax.ShapeDtypeStruct(f.shape, f.dtype), f, data, vmap_method="broadcast_all")

    return log_prob


def tabulate(
    log_prob: Callable[[np.ndarray], np.ndarray],
    low: Float[np.ndarray, "*data"],
    high: Float[np.ndarray, "*data"],
    tolerance: float = 1e-6,
) -> Table:
    """The table of each datum on its interval, with as many nodes as the tolerance needs.

    Args:
        log_prob: of all data; from values of the latent ``(*data)`` to log likelihoods ``(*data)``.
        low: ends of the intervals; what the latent can reach (ten prior standard deviations) should lie within.
        high: the other ends.
        tolerance: of the error between nodes, over ``1 + drop`` with the drop of the log likelihood from its peak.
    """
    low, high = np.asarray(low, float), np.asarray(high, float)
    if not np.all(low < high):
        raise ValueError("tabulate: every interval needs low < high; give the range that the latent can reach")

    def at(share: np.ndarray) -> np.ndarray:
        values = np.stack([np.asarray(log_prob(low + s * (high - low)), float) for s in share])
        _check(values, low, high, share)
        return values

    share = np.linspace(0.0, 1.0, FIRST)
    values = at(share)
    while True:
        between = 0.5 * (share[1:] + share[:-1])
        true = at(between)
        drop = values.max(axis=0) - true
        error = np.max(np.abs(CubicSpline(share, values)(between) - true) / (1 + np.maximum(drop, 0.0)), axis=0)
        share = np.concatenate([share, between])
        order = np.argsort(share)
        share, values = share[order], np.concatenate([values, true])[order]
        if np.all(error <= tolerance):
            break
        if len(share) >= MOST:
            worst = np.unravel_index(int(np.argmax(error)), error.shape)
            raise ValueError(
                f"tabulate: the log likelihood of datum {tuple(map(int, worst))} is known to {error[worst]:.1e} only "
                f"with {MOST} nodes between {low[worst]:.3g} and {high[worst]:.3g} (tolerance {tolerance:.0e}); give a "
                "narrower interval or a larger tolerance, or have it called with callback_log_prob"
            )
    powers = CubicSpline(share, values).c[::-1]  # in units of the interval
    powers = np.moveaxis(powers, (0, 1), (-1, -2)) / (high - low)[..., None, None] ** np.arange(4)
    return Table(low, (high - low) / (len(share) - 1), powers, error)


def _check(values: np.ndarray, low: np.ndarray, high: np.ndarray, share: np.ndarray) -> None:
    if np.all(np.isfinite(values)):
        return
    node, *datum = np.argwhere(~np.isfinite(values))[0]
    where = tuple(datum)
    f = low[where] + share[node] * (high - low)[where]
    raise ValueError(
        f"tabulate: the log likelihood of datum {tuple(map(int, where))} is {values[(node, *where)]} at f = {f:.3g}; "
        "give an interval within its support, or have it called with callback_log_prob"
    )


def interpolate(f: Float[Array, "*data"], table: Table) -> Float[Array, "*data"]:
    """The log likelihood of each datum; a ``LogProb`` whose data are the table. Linear beyond the ends of the table."""
    coefficients = jnp.asarray(table.coefficients)
    count = coefficients.shape[-2]
    inside = jnp.clip(f, table.low, table.low + count * table.step)
    index = jnp.clip(jnp.floor((inside - table.low) / table.step).astype(int), 0, count - 1)
    own = jnp.take_along_axis(coefficients, index[..., None, None], axis=-2)[..., 0, :]
    x = inside - table.low - index * table.step
    value = own[..., 0] + x * (own[..., 1] + x * (own[..., 2] + x * own[..., 3]))
    slope = own[..., 1] + x * (2 * own[..., 2] + 3 * x * own[..., 3])
    return value + slope * (f - inside)


def covered(f: Float[Array, "*data"], table: Table) -> Bool[Array, "*data"]:
    """Whether values lie within the table, where its error is bounded."""
    return (f >= table.low) & (f <= table.low + table.coefficients.shape[-2] * table.step)
