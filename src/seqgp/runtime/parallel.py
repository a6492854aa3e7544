"""One large run on several devices, or on several processes (``jax.distributed``).

Devices of a process share an axis of independent parts. Every process makes the same calls with the same arguments:
what is cheap (weights, random numbers, decisions) all of them compute alike; of independent parts each has its own, and
only what these say is passed around.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from seqgp.base.errors import SeqgpError

AXIS = "parts"


@functools.cache
def _mesh() -> Mesh:
    return Mesh(np.array(jax.local_devices()), (AXIS,))


def spread(count: int) -> bool:
    """Whether so many parts are spread over several devices: as many on each."""
    devices = len(jax.local_devices())
    return devices > 1 and count % devices == 0


def placed(tree: PyTree, count: int) -> PyTree:
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


def one_by_one(function: Callable, fixed: tuple, *parts: PyTree) -> PyTree:
    """``function(*fixed, *part)`` for each part of arrays ``(count, …)``: every device takes its own, in turn."""

    def share(*parts):
        return jax.lax.map(lambda part: function(*fixed, *part), parts)

    return on_each(share, len(jax.tree.leaves(parts)[0]))(*parts)


class ProcessLost(SeqgpError, ConnectionError):
    """Another process of the same run is gone."""


def share(count: int) -> slice:
    """Which of so many parts are those of this process: all, where it is alone or they cannot be shared out evenly."""
    each, rest = divmod(count, jax.process_count())
    return slice(0, count) if rest else slice(jax.process_index() * each, (jax.process_index() + 1) * each)


def gathered(tree: PyTree, count: int) -> PyTree:
    """Arrays of all ``count`` parts, ``(count, …)``, from those of this process; as they are where it has all."""
    if len(jax.tree.leaves(tree)[0]) == count:
        return tree
    try:
        return jax.tree.map(np.asarray, multihost_utils.process_allgather(tree, tiled=True))
    except (RuntimeError, ValueError) as error:  # as JAX passes on what the network said
        raise ProcessLost(
            f"another of the {jax.process_count()} processes of jax.distributed is gone, or cannot be reached; every "
            f"finished step is kept: start all of them again ({' '.join(str(error).split())[:200]})"
        ) from error


def same_everywhere(*trees: PyTree) -> bool:
    """Whether all processes call with the same arrays: otherwise they would wait for each other in vain."""
    processes = jax.process_count()
    if processes == 1:
        return True
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(trees):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    found = gathered(np.frombuffer(digest.digest()[:8], np.uint32)[None], processes)
    return bool((found == found[0]).all())
