"""Leave-one-out predictions of Gaussian data, from the state given all of them.

Given one value of the parameters, all data of a snapshot and the past leave ``f_i ~ N(m, v)`` at datum ``i``. Dividing
the datum's own likelihood ``N(y_i; f_i, s²)`` out gives the cavity, and with the noise the prediction of ``y_i`` from
all other data of the snapshot and the past:

    mean  y_i − (y_i − m) s² / (s² − v)        variance  s⁴ / (s² − v)

With the covariance ``S`` of the predicted data and the innovations ``r`` these are ``y_i − (S⁻¹r)_i / (S⁻¹)_ii`` and
``1 / (S⁻¹)_ii``; no inverse is needed here, and every filter has ``m`` and ``v``.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Float

from seqgp.linalg.types import Array, ArrayLike

LOST = 1e-8  # of the noise variance, by which v must stay below it: nearer than that, rounding decides


def leave_one_out(
    y: Float[ArrayLike, " N"],
    noise_variance: Float[ArrayLike, " N"],
    mean: Float[ArrayLike, " N"],
    variance: Float[ArrayLike, " N"],
) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
    """Mean and variance of each datum given all others and the past; NaN where rounding leaves no digits.

    Args:
        y: the data.
        noise_variance: ``s²`` of each.
        mean: ``m``, of ``f`` at each datum given all data.
        variance: ``v`` of it.
    """
    s2 = jnp.asarray(noise_variance)
    left = s2 - jnp.asarray(variance)
    left = jnp.where(left > LOST * s2, left, jnp.nan)
    return jnp.asarray(y) - (jnp.asarray(y) - jnp.asarray(mean)) * s2 / left, s2**2 / left
