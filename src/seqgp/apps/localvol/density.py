"""The posterior density of each draw, for the choice of the most probable one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import seqgp


def log_densities(model: seqgp.Model, snapshot: seqgp.Snapshot, state: seqgp.State) -> Float[np.ndarray, " draws"]:
    """Log density of data, latent and parameters at each draw, up to a constant.

    The priors are those before any data: what earlier days say is not counted.
    """
    y = jnp.asarray(np.nan_to_num(snapshot.y))
    missing = jnp.asarray(np.isnan(snapshot.y))
    x, context = jnp.asarray(snapshot.x), jax.tree.map(jnp.asarray, snapshot.context)
    centre, covariance = model.prior_of_z()
    sd = jnp.sqrt(jnp.diagonal(jnp.asarray(covariance)))
    prepared = model.kernel.prepare(jnp.full(len(x), snapshot.t), x)

    def one(inputs: tuple[Array, Array]) -> Array:
        f, z = inputs
        parameters = model.parameters(z)
        jitter = model.jitter[-1] * model.kernel.variance(parameters) * jnp.eye(len(x))
        chol = jnp.linalg.cholesky(model.kernel.covariance(prepared, parameters) + jitter)
        white = jax.scipy.linalg.solve_triangular(chol, f - parameters["mean"], lower=True)
        latent = -0.5 * jnp.dot(white, white) - jnp.sum(jnp.log(jnp.diagonal(chol)))
        data = model.likelihood.log_prob(f, y, missing, context, parameters)
        return data + latent - 0.5 * jnp.sum(((z - centre) / sd) ** 2)

    return np.asarray(jax.jit(lambda both: jax.lax.map(one, both))((state.latent, state.z)))
