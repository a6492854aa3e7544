"""Elliptical slice sampling (Murray, Adams & MacKay 2010), for targets ``N(v; 0, C) · exp(log_density(v))``."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from seqgp.fields.operators import Events

Tree = TypeVar("Tree")

MAX_SHRINKS = 100


class SliceInfo(NamedTuple):
    """What one or several slices cost: counts, to be added up."""

    updates: Int[Array, ""]
    evaluations: Int[Array, ""]
    capped: Int[Array, ""]
    spread: Float[Array, ""]  # half the squared change of the log density: its variance, where draws are independent
    events: Events

    @classmethod
    def none(cls) -> SliceInfo:
        """No slice yet."""
        zero = jnp.zeros((), int)
        return cls(zero, zero, zero, jnp.zeros(()), Events.none())

    def __add__(self, other):  # type: ignore[override]
        """Counts added up."""
        return jax.tree.map(jnp.add, self, other)


class Evaluation(NamedTuple):
    """A proposal evaluated: its log density, what is worth keeping if it is accepted, and what happened."""

    log_density: Float[Array, ""]
    kept: PyTree
    events: Events


class _Loop(NamedTuple):
    low: Float[Array, ""]
    high: Float[Array, ""]
    angle: Float[Array, ""]
    evaluation: Evaluation
    accepted: Bool[Array, ""]
    shrinks: Int[Array, ""]


def random_numbers(
    key: Key[Array, ""], normals: int, slices: int = 1, max_shrinks: int = MAX_SHRINKS
) -> tuple[Float[Array, " normals"], Float[Array, "slices m"]]:
    """The numbers of some slices, and normal ones for their ellipses, at once: calls of the generator are dear.

    A slice takes one uniform number for its threshold, one for its first angle, and one a shrink.
    """
    numbers = max_shrinks + 3
    least = np.nextafter(-1.0, 0.0)
    symmetric = jax.random.uniform(key, (normals + slices * numbers,), float, minval=least, maxval=1.0)
    white = np.sqrt(2.0) * jax.scipy.special.erfinv(symmetric[:normals])
    return white, (0.5 * (1.0 + symmetric[normals:])).reshape(slices, numbers)


def elliptical_slice(
    uniform: Float[Array, " m"],
    current: Tree,
    ellipse: Tree,
    start: Evaluation,
    evaluate: Callable[[Tree], Evaluation],
) -> tuple[Tree, Evaluation, SliceInfo]:
    """One update of ``v``, centred at zero.

    A proposal is accepted only where its log density exceeds the threshold of the slice, so NaN never
    is. At the cap the current value is kept, and the event is counted.

    Args:
        uniform: a row of :func:`random_numbers`; the bracket may shrink as often as there are numbers.
        current: the centred value, a tree of arrays (a vector and its linear images, say).
        ellipse: a draw from ``N(0, C)``, in the same form: the root of ``C`` is the caller's.
        start: the evaluation of the current value.
        evaluate: the log density of a centred value, the Gaussian not counted.

    Returns:
        The new centred value, its evaluation, and what the slice cost.
    """
    max_shrinks = uniform.shape[0] - 3
    threshold = start.log_density + jnp.log(uniform[0])
    angle = 2 * jnp.pi * uniform[1]

    def propose(angle):
        return jax.tree.map(lambda v, e: v * jnp.cos(angle) + e * jnp.sin(angle), current, ellipse)

    def unfinished(loop: _Loop):
        return ~loop.accepted & (loop.shrinks <= max_shrinks)

    def shrink(loop: _Loop) -> _Loop:
        evaluation = evaluate(propose(loop.angle))
        accepted = evaluation.log_density > threshold
        low = jnp.where(loop.angle < 0, loop.angle, loop.low)
        high = jnp.where(loop.angle < 0, loop.high, loop.angle)
        drawn = low + (high - low) * uniform[loop.shrinks + 2]
        events = loop.evaluation.events + evaluation.events
        return _Loop(
            low=low,
            high=high,
            angle=jnp.where(accepted, loop.angle, drawn),
            evaluation=evaluation._replace(events=events),
            accepted=accepted,
            shrinks=loop.shrinks + 1,
        )

    first = _Loop(
        low=angle - 2 * jnp.pi,
        high=angle,
        angle=angle,
        evaluation=start._replace(events=Events.none()),
        accepted=jnp.zeros((), bool),
        shrinks=jnp.zeros((), int),
    )
    last = jax.lax.while_loop(unfinished, shrink, first)
    value = jax.tree.map(lambda new, old: jnp.where(last.accepted, new, old), propose(last.angle), current)
    kept = jax.tree.map(lambda new, old: jnp.where(last.accepted, new, old), last.evaluation, start)
    change = kept.log_density - start.log_density
    spread = jnp.where(jnp.isfinite(change), 0.5 * change**2, 0.0)
    info = SliceInfo(jnp.ones((), int), last.shrinks, (~last.accepted).astype(int), spread, last.evaluation.events)
    return value, kept, info
