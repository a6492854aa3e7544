"""Arrays at the boundary: NumPy's outside, JAX's inside what is compiled, the same code for both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

if TYPE_CHECKING:
    Array = Any
else:
    Array = jax.Array | np.ndarray
