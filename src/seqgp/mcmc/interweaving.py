"""Interweaving of the mean: its constant and its weights at fixed ``f``, where the likelihood does not change.

The mean and the zero-mean part ``f − mean`` are nearly confounded, so updates of one at fixed other hardly move. At
fixed ``f`` only the prior of the zero-mean part changes: ``exp(−½ |A − B beta|²) · N(z_beta)``, a few triangular solves
for the whole update.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Key

from seqgp.fields.operators import Events
from seqgp.mcmc.charts import Whitened
from seqgp.mcmc.elliptical import Evaluation, SliceInfo, elliptical_slice, random_numbers
from seqgp.mcmc.target import Position, Target


def interweave_mean(key: Key[Array, ""], target: Target, position: Position) -> tuple[Position, SliceInfo]:
    """Move the mean while ``f`` at every site stays where it is."""
    block = target.mean_block
    assert block is not None
    root = target.root(position.place.conditional)
    covariates = target.covariates()

    def mean_at(z):
        return target.constant_mean(z) + covariates @ target.covariate_weights(z)

    f = position.sites + mean_at(position.z)
    centre = block.mean(position.z)
    white, uniform = random_numbers(key, centre.shape[0])
    drawn = block.root @ white

    # nu = root⁻¹ (f − offset − mean − covariates · weights): as many columns are solved for, once.
    now, base = position.z, f - position.place.offset
    constant = jnp.stack([base, -jnp.ones_like(base)], axis=1)
    columns = root.solve(jnp.concatenate([constant, -covariates], axis=1))
    gram = columns.T @ columns

    def weights(z):
        intercept = jnp.stack([jnp.ones((), z.dtype), target.constant_mean(z)])
        return jnp.concatenate([intercept, target.covariate_weights(z)])

    def evaluate(centred) -> Evaluation:
        z = block.insert(now, centre + centred)
        w = weights(z)
        return Evaluation(-0.5 * w @ gram @ w, z, Events.none())

    w = weights(now)
    start = Evaluation(-0.5 * w @ gram @ w, now, Events.none())
    _, kept, info = elliptical_slice(uniform[0], now[block.index] - centre, drawn, start, evaluate)
    z = kept.kept
    nu = columns @ weights(z)
    sites = f - mean_at(z)
    # f has not moved, but padding and rounding have: the likelihood is that of the same f.
    return Position(z, nu, sites, Whitened(position.place), position.log_likelihood), info
