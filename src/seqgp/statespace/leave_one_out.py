"""Leave-one-out predictions of Gaussian data, from the state given all of them.

Given one value of the parameters, all data of a snapshot and the past leave ``f_i ~ N(m, v)`` at datum ``i``. Dividing
the datum's own likelihood ``N(y_i; f_i, s²)`` out gives the cavity, and with the noise the prediction of ``y_i`` from
all other data of the snapshot and the past:

    mean  y_i − (y_i − m) s² / (s² − v)        variance  s⁴ / (s² − v)

Some data can be left out for all others, too. With the columns ``V_R`` that they have in the joint covariance ``V`` of
``f`` at the data,

    V' = V + V_R (D − V_RR)⁻¹ V_R'        m' = m − V_R (D − V_RR)⁻¹ (y_R − m_R)        D = diag(s²_R)

are the moments without them.

With the covariance ``S`` of the predicted data and the innovations ``r`` these are ``y_i − (S⁻¹r)_i / (S⁻¹)_ii`` and
``1 / (S⁻¹)_ii``; no inverse is needed here, and every filter has ``m`` and ``v``.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Float, Int

from seqgp.linalg.factor import cholesky, solve_lower
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


class Without(NamedTuple):
    """``f`` at all data, given all but some of them."""

    mean: Float[Array, " N"]
    variance: Float[Array, " N"]
    log_density: Float[Array, ""]  # of the data left out, jointly


def without(
    y: Float[ArrayLike, " N"],
    noise_variance: Float[ArrayLike, " N"],
    mean: Float[ArrayLike, " N"],
    variance: Float[ArrayLike, " N"],
    columns: Float[ArrayLike, "N k"],
    removed: Int[ArrayLike, " k"],
) -> Without:
    """Moments of ``f`` at each datum once some of the data are left out.

    Args:
        y: the data.
        noise_variance: ``s²`` of each.
        mean: ``m``, given all data.
        variance: ``v``, given all data.
        columns: ``V_R``.
        removed: the rows of the data that are left out; those beyond the data are padding.
    """
    rows, m = jnp.asarray(removed), jnp.asarray(mean)
    real = rows < m.shape[0]
    both = real[:, None] & real[None, :]

    def at_removed(values: ArrayLike, fill: float) -> Float[Array, " k"]:
        return jnp.asarray(values).at[rows].get(mode="fill", fill_value=fill)

    v, own = jnp.where(real[None, :], jnp.asarray(columns), 0.0), jnp.diag(at_removed(noise_variance, 1.0))
    corner = jnp.where(both, v.at[rows].get(mode="fill", fill_value=0.0), 0.0)
    root = cholesky(own - corner)
    part = solve_lower(root, v.T)
    white = solve_lower(root, at_removed(y, 0.0) - at_removed(m, 0.0))
    m, after = m - part.T @ white, jnp.asarray(variance) + jnp.sum(part**2, axis=0)
    at_rows = part.at[:, rows].get(mode="fill", fill_value=0.0)
    chol = cholesky(own + corner + at_rows.T @ at_rows)
    white = solve_lower(chol, at_removed(y, 0.0) - at_removed(m, 0.0))
    count = jnp.sum(real, dtype=float)
    log_density = -0.5 * white @ white - jnp.sum(jnp.log(jnp.diagonal(chol))) - 0.5 * count * jnp.log(2 * jnp.pi)
    return Without(m, after, log_density)
