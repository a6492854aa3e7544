"""A noise for each station, learnt beside the particles.

Station ``i`` has noise ``noise / sqrt(λ_i)``, with precision ratios ``λ_i ~ Gamma(a, a)``: mean 1, relative variance
``1/a``. ``noise`` and the concentration ``a`` are entries of ``z``; the ratios are not. A particle is ``(z, λ)``:

- a snapshot reweights it by the exact density of the data given ``z`` and ``λ``;
- where too few particles are left, each is moved by a Gibbs sweep (:func:`gibbs_ratios`) that leaves its posterior
  invariant: draw the latent at all data given ``(z, λ)``, then ``λ`` given the latent, which is a Gamma distribution.

So the particles are exact as their number grows, as in IBIS. Moves of ``noise`` and ``a`` given the latent integrate
the ratios out (:func:`population_log_prob`). Stations that join draw their ratios from the population, which is their
prior (:func:`join_stations`). :func:`em_ratios` finds the mode of ``log λ`` given ``z``, for particles with a new
``z`` to start from; it is a starting value, not a draw.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Float, Key

from seqgp.linalg.types import Array, ArrayLike


class Residuals(NamedTuple):
    """What the data say about the noise of each station, given the latent: sufficient for ``λ``."""

    num_data: Float[ArrayLike, " M"]
    squares: Float[ArrayLike, " M"]


def residual_statistics(
    y: Float[ArrayLike, "T M"], latent: Float[ArrayLike, "T M"], amplitude: Float[ArrayLike, " T"] | None = None
) -> Residuals:
    """Counts and sums of squares of ``y − f`` (NaN where missing), over the noise's amplitude where it has a season."""
    error = jnp.asarray(y) - jnp.asarray(latent)
    if amplitude is not None:
        error = error / jnp.asarray(amplitude)[:, None]
    seen = ~jnp.isnan(error)
    return Residuals(jnp.sum(seen, axis=0, dtype=error.dtype), jnp.sum(jnp.where(seen, error, 0.0) ** 2, axis=0))


def station_noise(noise: Float[ArrayLike, ""], ratios: Float[ArrayLike, " M"]) -> Float[Array, " M"]:
    """The standard deviation of each station's noise."""
    return jnp.asarray(noise) / jnp.sqrt(jnp.asarray(ratios))


def ratios_log_prob(ratios: Float[ArrayLike, " M"], concentration: Float[ArrayLike, ""]) -> Float[Array, " M"]:
    """The log density of each ratio in the population."""
    a, ratios = jnp.asarray(concentration), jnp.asarray(ratios)
    return a * jnp.log(a) - gammaln(a) + (a - 1) * jnp.log(ratios) - a * ratios


def draw_population(key: Key[Array, ""], concentration: Float[ArrayLike, ""], num: int) -> Float[Array, " num"]:
    """Ratios of stations without data."""
    return jax.random.gamma(key, jnp.asarray(concentration), (num,)) / concentration


def join_stations(
    key: Key[Array, ""], ratios: Float[Array, "P M"], concentration: Float[ArrayLike, " P"], num: int
) -> Float[Array, "P M+num"]:
    """The ratios of all particles with ``num`` more stations, drawn from each particle's population."""
    keys = jax.random.split(key, ratios.shape[0])
    new = jax.vmap(lambda key, a: draw_population(key, a, num))(keys, jnp.asarray(concentration))
    return jnp.concatenate([ratios, new], axis=1)


def draw_ratios(
    key: Key[Array, ""], found: Residuals, noise: Float[ArrayLike, ""], concentration: Float[ArrayLike, ""]
) -> Float[Array, " M"]:
    """Ratios given the latent: ``Gamma(a + count/2, a + squares/(2 noise²))``."""
    shape, rate = _posterior(found, noise, concentration)
    return jax.random.gamma(key, shape) / rate


def gibbs_ratios(
    key: Key[Array, ""],
    draw_latent: Callable[[Key[Array, ""], Float[Array, " M"]], Float[Array, "T M"]],
    y: Float[ArrayLike, "T M"],
    noise: Float[ArrayLike, ""],
    concentration: Float[ArrayLike, ""],
    ratios: Float[Array, " M"],
    amplitude: Float[ArrayLike, " T"] | None = None,
) -> Float[Array, " M"]:
    """One sweep of one particle: the latent given its ratios and all data, then the ratios given the latent.

    Args:
        key: a random key.
        draw_latent: from a key and the noise of each station to a draw of the latent, its mean included, at all data.
        y: the data; NaN where missing.
        noise: of the population.
        concentration: ``a``.
        ratios: of the particle now.
        amplitude: of the noise at each time, where it has a season.
    """
    key_latent, key_ratios = jax.random.split(key)
    latent = draw_latent(key_latent, station_noise(noise, ratios))
    return draw_ratios(key_ratios, residual_statistics(y, latent, amplitude), noise, concentration)


def em_ratios(found: Residuals, noise: Float[ArrayLike, ""], concentration: Float[ArrayLike, ""]) -> Float[Array, " M"]:
    """One EM step towards the mode of ``log λ``; ``squares`` are expected ones, ``Σ (y − E f)² + Var f``."""
    shape, rate = _posterior(found, noise, concentration)
    return shape / rate


def population_log_prob(
    found: Residuals, noise: Float[ArrayLike, ""], concentration: Float[ArrayLike, ""]
) -> Float[Array, ""]:
    """The log density of the residuals given ``noise`` and ``a``, the ratios integrated out (Student's t)."""
    a = concentration
    shape, rate = _posterior(found, noise, a)
    each = gammaln(shape) - gammaln(a) + a * jnp.log(a) - shape * jnp.log(rate)
    return jnp.sum(each - 0.5 * found.num_data * jnp.log(2 * jnp.pi * noise**2))


def _posterior(found: Residuals, noise, concentration) -> tuple[Float[Array, " M"], Float[Array, " M"]]:
    return concentration + 0.5 * found.num_data, concentration + 0.5 * found.squares / noise**2
