"""What a user gave: is it a number, a whole one?"""

from __future__ import annotations

import numbers
from typing import Any

import jax
import numpy as np


def is_number(value: Any) -> bool:
    """Whether it is one real number: of Python, NumPy or JAX."""
    return isinstance(value, numbers.Real) or (isinstance(value, (np.ndarray, jax.Array)) and value.ndim == 0)


def is_whole(value: Any, least: int = 1) -> bool:
    """Whether it is one whole number that is large enough, of Python or NumPy; ``True`` is none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least
