"""One large run on all visible devices: an axis of independent parts, sharded over them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

AXIS = "parts"


@functools.cache
def _mesh() -> Mesh:
    return Mesh(np.array(jax.local_devices()), (AXIS,))


def spread(count: int) -> bool:
    """Whether so many parts are spread over several devices: as many on each."""
    devices = len(jax.local_devices())
    return devices > 1 and count % devices == 0


def placed(tree: PyTree, count: int) -> Any:
    """Arrays of ``(count, …)`` on all devices, a share on each; as they are where there is one device."""
    if not spread(count):
        return tree
    # Of an array without elements there is nothing to share: compiled functions return it as one that is not.
    share, whole = (NamedSharding(_mesh(), spec) for spec in (PartitionSpec(AXIS), PartitionSpec()))
    return jax.tree.map(lambda leaf: jax.device_put(leaf, share if leaf.size else whole), tree)


def on_each(function: Callable, count: int) -> Callable:
    """A function of arrays ``(count, …)`` that treats each part alone, run by each device on its own share."""
    if not spread(count):
        return function
    share = PartitionSpec(AXIS)
    return jax.shard_map(function, mesh=_mesh(), in_specs=share, out_specs=share, check_vma=False)


def one_by_one(function: Callable, fixed: tuple, *parts: PyTree) -> Any:
    """``function(*fixed, *part)`` for each part of arrays ``(count, …)``: every device takes its own, in turn."""

    def share(*parts):
        return jax.lax.map(lambda part: function(*fixed, *part), parts)

    return on_each(share, len(jax.tree.leaves(parts)[0]))(*parts)
