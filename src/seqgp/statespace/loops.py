"""Scans over the first of many times: arrays have one of a few lengths, and times that are padding cost nothing."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Int, PyTree

from seqgp.linalg.types import Array


def scan_first(
    body: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]],
    carry: PyTree,
    inputs: PyTree,
    length: Int[Array, ""] | None = None,
    reverse: bool = False,
) -> tuple[PyTree, PyTree]:
    """``jax.lax.scan`` over the first ``length`` entries; outputs of the others are zero. All of them by default.

    A given length may be traced. Reverse mode differentiates through scans of all entries only.
    """
    if length is None:
        return jax.lax.scan(body, carry, inputs, reverse=reverse)
    inputs = jax.tree.map(jnp.asarray, inputs)
    size = jax.tree.leaves(inputs)[0].shape[0]

    def at(t):
        return jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, t, keepdims=False), inputs)

    _, found = jax.eval_shape(body, carry, jax.eval_shape(at, 0))
    outputs = jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), found)

    def step(i, state):
        carry, outputs = state
        t = length - 1 - i if reverse else i
        carry, found = body(carry, at(t))
        put = jax.lax.dynamic_update_index_in_dim
        return carry, jax.tree.map(lambda whole, one: put(whole, one, t, 0), outputs, found)

    return jax.lax.fori_loop(0, length, step, (carry, outputs))
