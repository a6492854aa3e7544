"""Checks of what a user gave, before anything is compiled."""

from __future__ import annotations

import numbers

import jax
import numpy as np

from seqgp.base.errors import SamplerError

MAX_COUNT = 10_000_000  # draws, sweeps, chains: more is a slip of the pen, and would be found out after hours


def is_number(value: object) -> bool:
    """Whether it is one real number: of Python, NumPy or JAX."""
    return isinstance(value, numbers.Real) or (isinstance(value, (np.ndarray, jax.Array)) and value.ndim == 0)


def is_whole(value: object, least: int = 1) -> bool:
    """Whether it is one whole number that is large enough, of Python or NumPy; ``True`` is none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least


def require_x64() -> None:
    """Raise unless JAX computes in double precision."""
    if not jax.config.read("jax_enable_x64"):
        raise SamplerError(
            "seqgp needs double precision (the Cholesky factor of a smooth kernel fails in single): call "
            "seqgp.enable_x64() before anything else"
        )


def positive(name: str, value: object, least: int = 1) -> int:
    """A whole number that is large enough, and not absurdly large."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise SamplerError(f"{name} = {value!r} is not a whole number >= {least}")
    if int(value) > MAX_COUNT:
        raise SamplerError(f"{name} = {value!r} is above {MAX_COUNT}")
    return int(value)


def lacking(protocol: type, value: object) -> str:
    """The end of an error about an object of a user's own: which members of the protocol it does not have."""
    if isinstance(value, (str, type)):
        return ""
    wanted = {
        name: None
        for base in reversed(protocol.__mro__)
        if getattr(base, "_is_protocol", False)
        for name in (*vars(base), *base.__annotations__)
        if not name.startswith("_")
    }
    missing = [name for name in wanted if not hasattr(value, name)]
    return f"; as an object of your own it lacks {', '.join(missing)}" if missing else ""
