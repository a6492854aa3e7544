"""Geweke's joint test, with independent replicates.

Parameters, latent and data are drawn from their joint distribution; then data are drawn anew and the update is applied,
a few times over. An update that leaves the posterior invariant leaves the joint distribution as it was. In standard
form (``z`` and the residuals whitened) that distribution is ``N(0, I)``, so all first and second moments are known,
and as replicates are independent, their errors too.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

import small

# Two-sided: 6e-5 for each of at most 100 moments. Seeds are fixed, so an alarm is looked into, not repeated.
BOUND = 4.0


def standard_form(key, update, build=small.target, replicates=4000, transitions=8):
    """``(z, nu, residuals)`` in standard form after resimulations and updates, one row a replicate.

    Args:
        key: a random key.
        update: ``(key, target, position) -> (position, info)``.
        build: the target that the update sees, from data; a mutant may give it another one than the true one.
        replicates: how many.
        transitions: resimulations of the data, each followed by one update.
    """
    root = np.linalg.cholesky(small.COVARIANCE)

    def residuals(y, sites, z):
        parameters = small.MODEL.parameters(z)
        return (y - sites - parameters["mean"]) / parameters["noise"]

    def transition(state, key):
        key_data, key_update = jax.random.split(key)
        z, nu, _ = state
        true = small.target(jnp.zeros(len(small.X)))
        parameters = small.MODEL.parameters(z)
        sites = small.position(true, z, nu).sites
        noise = jax.random.normal(key_data, nu.shape)
        y = sites + parameters["mean"] + parameters["noise"] * noise
        seen = build(y)
        moved, _ = update(key_update, seen, small.position(seen, z, nu))
        after = small.position(true, moved.z, moved.nu)
        return (moved.z, moved.nu, residuals(y, after.sites, moved.z)), None

    def replicate(key):
        key_z, key_nu, key_chain = jax.random.split(key, 3)
        z = small.MEAN + root @ jax.random.normal(key_z, (len(root),))
        nu = jax.random.normal(key_nu, (len(small.X),))
        keys = jax.random.split(key_chain, transitions)
        (z, nu, residual), _ = jax.lax.scan(transition, (z, nu, jnp.zeros_like(nu)), keys)
        return jnp.concatenate([solve_triangular(root, z - small.MEAN, lower=True), nu, residual])

    # JAX takes a scan over keys for reuse where it is vectorised; single chains are checked elsewhere.
    with jax.debug_key_reuse(False):
        return np.asarray(jax.jit(jax.vmap(replicate))(jax.random.split(key, replicates)))


def largest_score(values: np.ndarray) -> float:
    """The largest z-score of the first and second moments against those of ``N(0, I)``; infinite for NaN."""
    n, p = values.shape
    first = values.mean(axis=0) * n**0.5
    spread = np.where(np.eye(p, dtype=bool), 2**0.5, 1.0)
    second = (values.T @ values / n - np.eye(p)) / spread * n**0.5
    return float(np.nan_to_num(np.abs(np.append(first, second)).max(), nan=np.inf))
