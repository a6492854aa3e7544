"""Random keys for what is drawn beside a run: apart from those of its steps, whatever the seed.

``fold_in(key, i)`` and ``split(key, n)[i]`` are the same key, so a key is either numbered or split, never both. The
steps of a run are numbered from 0, its forecasts from ``2**31``; who draws something else takes a stream of its own.
"""

from __future__ import annotations

import hashlib
import struct
import zlib

import jax
from jaxtyping import Key

from seqgp.linalg.types import Array

FORECASTS = 2**31  # the keys of forecasts are numbered from here, those of the steps from 0
REFRESH = 3 * 2**30 - 1  # the key of the refresh at the end of a run, folded into that of its last step
STREAMS = 3 * 2**30  # the streams lie above: neither steps nor forecasts are ever so many


def stream(seed: int, purpose: str) -> Key[Array, ""]:
    """A key for one purpose: the same for the same seed, and no other than this one's."""
    return jax.random.fold_in(jax.random.key(seed), STREAMS + zlib.crc32(purpose.encode()) % 2**30)


def named(seed: int, purpose: str, name: str) -> Key[Array, ""]:
    """The key of one of many: all of the name counts, so that no two of a hundred thousand share one by chance."""
    key = stream(seed, purpose)
    for word in struct.unpack("<4I", hashlib.sha256(name.encode()).digest()[:16]):
        key = jax.random.fold_in(key, word)
    return key
