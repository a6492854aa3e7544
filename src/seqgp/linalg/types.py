"""The arrays of annotations: what functions return, and what they take.

Records that travel into compiled code are filled with NumPy arrays outside and hold JAX's inside: their fields, and
what is done with these, are of either kind. What is computed is an ``Array``.
"""

import jax
import numpy as np

Array = jax.Array
ArrayLike = jax.Array | np.ndarray
