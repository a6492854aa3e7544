"""One large run on several processes (``jax.distributed``): each computes its share, and hears of the others'.

Every process makes the same calls with the same arguments. What is cheap (weights, random numbers, decisions) all of
them compute alike; of independent parts each has its own, and only what these say is passed around.
"""

from __future__ import annotations

import hashlib
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jaxtyping import PyTree

from seqgp.base.errors import SeqgpError


class ProcessLost(SeqgpError, ConnectionError):
    """Another process of the same run is gone."""


def share(count: int) -> slice:
    """Which of so many parts are those of this process: all, where it is alone or they cannot be shared out evenly."""
    each, rest = divmod(count, jax.process_count())
    return slice(0, count) if rest else slice(jax.process_index() * each, (jax.process_index() + 1) * each)


def gathered(tree: PyTree, count: int) -> Any:
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
