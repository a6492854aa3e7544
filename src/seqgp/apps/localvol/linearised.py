"""Days of quotes as Gaussian data of the surface: prices linearised in `f` at the knots and in the stickiness.

With `price(f, s) ≈ A f + b s + c` and Gaussian noise, the evidence of the parameters and the posterior of `f` on any
date are those of Gaussian-process regression on the data of the last few days.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

import seqgp
from seqgp.apps.localvol.likelihood import DEGREES, model_prices

RANK = 64  # rows that a day is compressed to: prices see a surface through fewer combinations than there are quotes


class Days(NamedTuple):
    """The last `W` days, the present one last, each compressed to the combinations of prices that see the surface.

    Prices are divided by the unit of their noise and rotated by the left singular vectors of their slopes. The first
    `R` combinations are data of the surface, `y ≈ slope f + tilt s` up to noise; the others are noise alone, and
    their sum of squares is `rest · (1, −2 s, s²)`. Days without data have zeros.

    Attributes:
        t: times.
        y: combinations of prices, what slope and tilt leave over taken off.
        slope: derivatives in `f` at the knots.
        tilt: derivatives in the stickiness.
        rest: of the sum of squares of the other combinations.
        num_rest: how many these are, less the rows of zeros that pad the first: what the noise is a factor of.
        noise: of the earlier days, as it was found; the last entry is not used.
        design: columns of the mean at the knots.
    """

    t: Float[Any, " W"]
    y: Float[Any, "W R"]
    slope: Float[Any, "W R N"]
    tilt: Float[Any, "W R"]
    rest: Float[Any, "W 3"]
    num_rest: Float[Any, " W"]
    noise: Float[Any, " W"]
    design: Float[Any, "W N q"]


def compressed(
    t: float,
    y: np.ndarray,
    slope: np.ndarray,
    tilt: np.ndarray,
    unit: np.ndarray,
    design: np.ndarray,
    rank: int = RANK,
) -> Days:
    """One day from prices `y ≈ slope f + tilt s` with noise in proportion to `unit`."""
    y, slope, tilt = y / unit, slope / unit[:, None], tilt / unit
    left = np.linalg.svd(slope, full_matrices=False)[0][:, :rank]
    fitted, tilted = left.T @ y, left.T @ tilt
    off, bent = y - left @ fitted, tilt - left @ tilted
    rows = left.shape[1]
    pad = [(0, rank - rows)]
    return Days(
        np.array([t]),
        np.pad(fitted, pad)[None],
        np.pad(left.T @ slope, [*pad, (0, 0)])[None],
        np.pad(tilted, pad)[None],
        np.array([[off @ off, off @ bent, bent @ bent]]),
        np.array([float(len(y) - rank)]),
        np.ones(1),
        design[None],
    )


class Regression(NamedTuple):
    """Gaussian-process regression of the days at one value of the parameters."""

    chol: Float[Array, "M M"]
    solved: Float[Array, " M"]
    residual: Float[Array, " M"]
    parameters: dict[str, Any]
    log_rest: Float[Array, ""]


@jax.jit
def linearise(f: Array, context: Any, stickiness: Array) -> tuple[Array, Array, Array]:
    """Prices, and their derivatives in `f` and in the stickiness."""

    def price(f, s):
        mean = model_prices(f, context, s)
        return mean, mean

    (slope, tilt), mean = jax.jacfwd(price, argnums=(0, 1), has_aux=True)(f, stickiness)
    return mean, slope, tilt


def regress(model: seqgp.Model, x: Array, days: Days, z: Array) -> Regression:
    """Factor the covariance of all data, `A K A' + R`, and solve it for what the mean leaves over."""
    parameters = model.parameters(z)
    count, size, _ = days.slope.shape
    noise = jnp.asarray(days.noise).at[-1].set(parameters["noise"])
    flat = days.slope.reshape(count * size, -1)
    covariance = jnp.diag(jnp.repeat(noise**2, size))
    for of_time, of_space in _factors(model, x, days.t, days.t, parameters):
        covariance = covariance + jnp.repeat(jnp.repeat(of_time, size, 0), size, 1) * (flat @ of_space @ flat.T)
    s = parameters["stickiness"]
    mean = jnp.einsum("wrn,wn->wr", days.slope, model.mean_function.value(parameters, days.design))
    residual = (days.y - mean - days.tilt * s).ravel()
    chol = jnp.linalg.cholesky(covariance)
    squares = days.rest @ jnp.stack([jnp.ones(()), -2 * s, s**2])
    log_rest = -jnp.sum(0.5 * squares / noise**2 + days.num_rest * jnp.log(noise))
    return Regression(chol, cho_solve((chol, True), residual), residual, parameters, log_rest)


def log_posterior(model: seqgp.Model, x: Array, days: Days, z: Array) -> Float[Array, ""]:
    """Log evidence of the linearised days and log prior of the parameters, up to a constant."""
    found = regress(model, x, days, z)
    mean, cov = model.prior_of_z()
    prior = -0.5 * jnp.sum((z - mean) ** 2 / jnp.diagonal(cov))
    value = prior + found.log_rest - 0.5 * found.residual @ found.solved - jnp.sum(jnp.log(jnp.diagonal(found.chol)))
    return jnp.where(jnp.isfinite(value), value, -1e10)


def posterior_at(
    model: seqgp.Model, x: Array, days: Days, z: Array, t: Array, design: Array
) -> tuple[Float[Array, " N"], Float[Array, "N N"]]:
    """Mean and covariance of `f` at the knots on a date, given the days."""
    found = regress(model, x, days, z)
    count, size, knots = days.slope.shape
    flat = days.slope.reshape(count * size, -1)
    cross, prior = jnp.zeros((knots, count * size)), jnp.zeros((knots, knots))
    at = jnp.atleast_1d(t)
    here = _factors(model, x, at, at, found.parameters)
    for (of_time, of_space), (now, _) in zip(_factors(model, x, at, days.t, found.parameters), here):
        cross = cross + jnp.repeat(of_time[0], size) * (of_space @ flat.T)
        prior = prior + now[0, 0] * of_space
    half = solve_triangular(found.chol, cross.T, lower=True)
    mean = model.mean_function.value(found.parameters, design)
    return mean + cross @ found.solved, prior - half.T @ half


def widened(y: Any, mean: Any, scale: Any) -> Any:
    """What Student-t noise multiplies the variance of each datum with, from how far it is off."""
    return (DEGREES + ((y - mean) / scale) ** 2) / (DEGREES + 1)


def _factors(model: seqgp.Model, x, t, other, parameters) -> list[tuple[Array, Array]]:
    """For each separable term, its covariance in time, scaled, and in space."""
    if model.kernel.moving:
        raise seqgp.ModelError("the linearised surface does not take a delay or a velocity: use separable terms")
    found = []
    for prefix, term in model.kernel.terms():
        own = {name.removeprefix(prefix): value for name, value in parameters.items() if name.startswith(prefix)}
        of_space = {name.removeprefix("space."): value for name, value in own.items() if name.startswith("space.")}
        time = term.time_covariance(term.prepare_time(t[:, None], other[:, None]), own)
        space = term.space.covariance(term.space.prepare(x, x), of_space)
        found.append((own["scale"] ** 2 * time, space + model.jitter[-1] * jnp.eye(len(x))))
    return found


@eqx.filter_jit
def value_and_gradient(model: seqgp.Model, x: Array, days: Days, z: Array) -> tuple[Array, Array]:
    """Of the negative log posterior in the parameters, compiled once for all days."""
    return jax.value_and_grad(lambda z: -log_posterior(model, x, days, z))(z)


@eqx.filter_jit
def compiled_posterior(model: seqgp.Model, x: Any, days: Days, z: Array, t: Array, design: Any) -> tuple[Array, Array]:
    """As `posterior_at`, compiled once for all days: `t` is an array, for a number would be compiled in."""
    return posterior_at(model, x, days, z, t, design)


def blank(window: int, knots: int, t: float, columns: int = 1, rank: int = RANK) -> Days:
    """Days without data."""
    zeros = np.zeros((window, rank))
    return Days(
        np.full(window, t),
        zeros,
        np.zeros((window, rank, knots)),
        zeros,
        np.zeros((window, 3)),
        np.zeros(window),
        np.ones(window),
        np.zeros((window, knots, columns)),
    )
