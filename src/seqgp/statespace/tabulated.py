"""Likelihoods known by their values alone, tabulated once for each datum.

A black box whose log likelihood ``log p(y_i | f_i)`` has no inferred parameters has the same values for all particles.
:func:`tabulate` calls it at nodes that it places where a cubic through them is worst, and measures what is left between
them; :func:`interpolate` stands for the black box from then on, with derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from seqgp.linalg.types import Array, ArrayLike

FIRST = 17  # nodes, evenly spread
ROUNDS, SPLIT = 28, 4  # rounds of refinement, and the intervals that each of them divides
INSIDE = 0.42  # of an interval, where it is tried and divided: at its middle an error may cancel
FAR = 100.0  # a drop from the peak of the log likelihood, beyond which errors count less
DROP = 1e4  # of the log likelihood, below its lowest finite value, where it is -inf or NaN


class Table(NamedTuple):
    """A piecewise cubic of the log likelihood of each datum: values and slopes at ``K`` nodes that rise."""

    nodes: Float[ArrayLike, "*data K"]
    values: Float[ArrayLike, "*data K"]
    slopes: Float[ArrayLike, "*data K"]
    error: Float[ArrayLike, "*data"]  # the largest measured, over (1 + drop) (1 + drop / FAR), the drop from the peak


def tabulate(
    log_prob: Callable[[np.ndarray], np.ndarray], low: Float[np.ndarray, " N"], high: Float[np.ndarray, " N"]
) -> Table:
    """The table of each datum on its interval.

    Each round divides the intervals with the largest errors, relative to the drop of the log likelihood from its peak;
    an end of the support is an error without bound. The last values that were tried become nodes too, so that the
    measured error is that of a table with half as many.

    Args:
        log_prob: of all data; from values of the latent ``(N,)`` to log likelihoods ``(N,)``. Where they are not finite
            the likelihood is taken to be negligible.
        low: ends of the intervals, such that the latent lies within; beyond, the log likelihood goes on as a line.
        high: the other ends.
    """
    low, high = np.asarray(low, float), np.asarray(high, float)
    if not np.all(low < high):
        raise ValueError("tabulate: every interval needs low < high; give the range that the latent can reach")

    def at(f: np.ndarray) -> np.ndarray:
        return np.stack([np.asarray(log_prob(row), float) for row in f])

    f = low + (high - low) * np.linspace(0.0, 1.0, FIRST)[:, None]
    middle = _inside(f[:-1], f[1:])
    value, at_middle = at(f), at(middle)
    for _ in range(ROUNDS):
        error = _error(f, value, middle, at_middle, split=True)
        worst = np.argsort(-error, axis=0, kind="stable")[:SPLIT]
        new, below, above = (np.take_along_axis(*one, 0) for one in ((middle, worst), (f, worst), (f, worst + 1)))
        halves = np.concatenate([_inside(below, new), _inside(new, above)])
        f, value = _merged(f, value, new, np.take_along_axis(at_middle, worst, 0))
        np.put_along_axis(middle, worst, halves[:SPLIT], 0)
        fresh = at(halves)
        np.put_along_axis(at_middle, worst, fresh[:SPLIT], 0)
        middle, at_middle = _merged(middle, at_middle, halves[SPLIT:], fresh[SPLIT:])
    error = _error(f, value, middle, at_middle, split=False).max(axis=0)
    f, value = _merged(f, value, middle, at_middle)
    finite, value = np.isfinite(value), _filled(value)
    return Table(f.T, value.T, _slopes(f, value, finite).T, error)


def interpolate(f: Float[Array, "*data"], table: Table) -> Float[Array, "*data"]:
    """The log likelihood of each datum; a ``LogProb`` whose data are the table. Linear beyond the ends of the table."""
    nodes, values, slopes = (jnp.asarray(leaf) for leaf in table[:3])
    last = nodes.shape[-1] - 2
    inside = jnp.clip(f, nodes[..., 0], nodes[..., -1])

    def at(leaf: Array, index: Array) -> Array:
        return jnp.take_along_axis(leaf, index[..., None], axis=-1)[..., 0]

    below = jnp.zeros(inside.shape, int)
    for step in 2 ** np.arange(last.bit_length())[::-1]:  # by halving
        further = jnp.minimum(below + step, last)
        below = jnp.where(at(nodes, further) <= inside, further, below)
    ends = [at(leaf, below + i) for leaf in (nodes, values, slopes) for i in (0, 1)]
    cubic, slope = _hermite(inside, *ends)
    return cubic + slope * (f - inside)


def _inside(a, b):
    return a + INSIDE * (b - a)


def _hermite(f, a, b, value_a, value_b, slope_a, slope_b):
    """The cubic with given values and slopes at two nodes, and its slope."""
    h = b - a
    x = (f - a) / h
    rise = value_b - value_a
    bend, twist = 3 * rise - h * (2 * slope_a + slope_b), h * (slope_a + slope_b) - 2 * rise
    return value_a + x * (h * slope_a + x * (bend + x * twist)), slope_a + x * (2 * bend + 3 * x * twist) / h


def _merged(f, value, more, its_value):
    """More nodes among those there are, in order."""
    f, value = np.concatenate([f, more]), np.concatenate([value, its_value])
    order = np.argsort(f, axis=0, kind="stable")
    return np.take_along_axis(f, order, 0), np.take_along_axis(value, order, 0)


def _filled(value: np.ndarray) -> np.ndarray:
    """With values far below all others where they are not finite."""
    finite = np.isfinite(value)
    lowest = np.where(finite, value, np.inf).min(axis=0)
    return np.where(finite, value, np.where(np.isfinite(lowest), lowest, 0.0) - DROP)


def _error(f, value, middle, at_middle, split: bool) -> np.ndarray:
    """Of each interval at its middle. An interval in which the support ends is to be split, and is not measured."""
    finite = [np.isfinite(one) for one in (value[:-1], at_middle, value[1:])]
    every, some = np.logical_and.reduce(finite), np.logical_or.reduce(finite)
    known = _filled(np.concatenate([value, at_middle]))
    slope = _slopes(f, known[: len(value)], np.isfinite(value))
    value, true = known[: len(value)], known[len(value) :]
    found, _ = _hermite(middle, f[:-1], f[1:], value[:-1], value[1:], slope[:-1], slope[1:])
    drop = np.maximum(value.max(axis=0), true.max(axis=0)) - true
    return np.where(every, np.abs(found - true) / (1 + drop) / (1 + drop / FAR), np.where(some & split, np.inf, 0.0))


def _slopes(
    f: Float[np.ndarray, "K N"], value: Float[np.ndarray, "K N"], finite: Bool[np.ndarray, "K N"]
) -> np.ndarray:
    """From the parabola through each node and its neighbours; 0 where a neighbour is beyond the support.

    Far below the peak they are never so steep that the cubic could overshoot.
    """
    h = np.diff(f, axis=0)
    rise = np.diff(value, axis=0) / h
    inner = (h[1:] * rise[:-1] + h[:-1] * rise[1:]) / (h[1:] + h[:-1])
    first = ((2 * h[0] + h[1]) * rise[0] - h[0] * rise[1]) / (h[0] + h[1])
    last = ((2 * h[-1] + h[-2]) * rise[-1] - h[-1] * rise[-2]) / (h[-1] + h[-2])
    slope = np.concatenate([first[None], inner, last[None]])
    beside = np.concatenate([finite[:1], finite, finite[-1:]])
    sides = np.abs(np.concatenate([rise[:1], rise, rise[-1:]]))
    most = 3 * np.minimum(sides[:-1], sides[1:])
    slope = np.where(value < value.max(axis=0) - FAR, np.clip(slope, -most, most), slope)
    return np.where(beside[:-2] & beside[2:] & finite, slope, 0.0)
