"""Interweaving of the mean: ``mu`` at fixed ``f + mu``, where the likelihood does not change.

``mu`` and ``f`` are nearly confounded, so updates of one at fixed other hardly move. At fixed level only the prior of
the latent changes: ``exp(−½ |A − mu B|²) · N(z_mu)``, a few triangular solves for the whole update.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from seqgp.latents.operators import Events
from seqgp.mcmc.elliptical import Evaluation, SliceInfo, elliptical_slice
from seqgp.mcmc.target import Position, Target
from seqgp.mcmc.whitened import whitened_shifted


def interweave_mean(key: Key[Array, ""], target: Target, position: Position) -> tuple[Position, SliceInfo]:
    """Move the mean while the level at every site stays where it is."""
    block = target.level
    assert block is not None
    key_ellipse, key_slice = jax.random.split(key)
    root = target.root(position.place.conditional)
    level = position.sites + target.mean_level(position.z)
    centre = block.mean(position.z)
    drawn = block.root @ jax.random.normal(key_ellipse, centre.shape, centre.dtype)

    def residual(z):
        """What ``nu`` must whiten for the level to stay: affine in the mean and in ``z``."""
        return level - target.mean_level(z) - target.offset(position.place.conditional, z)

    def evaluate(centred) -> Evaluation:
        z = block.insert(position.z, centre + centred)
        nu = root.solve(residual(z))
        return Evaluation(-0.5 * jnp.dot(nu, nu), (z, nu), Events.none())

    start = Evaluation(-0.5 * jnp.dot(position.nu, position.nu), (position.z, position.nu), Events.none())
    current = position.z[block.index] - centre
    _, kept, info = elliptical_slice(key_slice, current, drawn, start, evaluate)
    z, nu = kept.kept
    sites = level - target.mean_level(z)
    chart = whitened_shifted(target, position.chart, z)
    # The level has not moved, but padding and rounding have: the likelihood is that of the same level.
    return Position(z, nu, sites, chart, position.log_likelihood), info
