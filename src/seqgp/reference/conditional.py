"""Gaussian data given the parameters: log likelihood, and ``f`` at the last time, by code of its own.

For complete data at sites that stay, the eigenvectors of space turn the data into independent series. Each is a scalar
process: a small Kalman filter where time is Matérn, else a Cholesky factor over all times. Where data are missing or
sites change, Matérn kernels take a Kalman filter that updates with one value after the other; all else is dense.
The matrices of the Matérn states are derivatives of the covariance function, and nothing is shared with
:mod:`seqgp.statespace`, whose oracle this is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from numpy.polynomial import polynomial

from seqgp.base.priors import Parameters
from seqgp.base.snapshot import Snapshot
from seqgp.kernels.base import within
from seqgp.kernels.separable import Separable
from seqgp.kernels.stationary import Matern12, Matern32, Matern52
from seqgp.likelihoods.gaussian import CONSTANT, Gaussian
from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.model import Model
from seqgp.reference.marginal import Stack, data_root, stack

LOG_2PI = float(np.log(2 * np.pi))


class AtParameters(NamedTuple):
    """What the data say at one value of the parameters."""

    log_likelihood: Float[Array, ""]
    mean: Float[Array, " n"]  # of f at the last snapshot's inputs
    variance: Float[Array, " n"]


Given = Callable[[Float[Array, " d"]], AtParameters]


class Route(NamedTuple):
    """A way to the conditional."""

    name: str
    given: Given
    batch: int  # values of z at once, as memory allows


def conditional(model: Model, snapshots: Sequence[Snapshot]) -> Route:
    """The cheapest exact way for a model with Gaussian noise and its data."""
    terms = [term for _, term in model.kernel.terms()]
    constant = isinstance(model.likelihood, Gaussian) and model.likelihood.scatter == CONSTANT
    if len(terms) > 1 or model.kernel.moving or model.kernel.seasonal or model.mean_function.covariates or not constant:
        return Route("dense", _dense(model, snapshots), 4)
    term, y = terms[0], on_sites(snapshots)
    shared = all(np.array_equal(snapshot.x, snapshots[0].x) for snapshot in snapshots)
    if shared and not np.isnan(y.values).any():
        if type(term.time) in ORDERS:
            return Route("scalar filters", _scalar_filters(model, term, y), 500)
        return Route("scalar series", _scalar_series(model, term, y), 8)
    if type(term.time) in ORDERS and not y.repeated:
        return Route("one value after the other", _one_by_one(model, term, y), 100)
    return Route("dense", _dense(model, snapshots), 4)


class OnSites(NamedTuple):
    """All data on the sites that were ever seen, NaN where there are none."""

    times: Float[np.ndarray, " T"]
    x: Float[np.ndarray, "M D"]
    values: Float[np.ndarray, "T M"]
    last: np.ndarray  # the sites of the last snapshot's inputs
    repeated: bool  # whether an input occurs twice in a snapshot

    @property
    def waits(self) -> Float[np.ndarray, " T"]:
        """The time since the snapshot before; 0 for the first."""
        return np.diff(self.times, prepend=self.times[0])


def on_sites(snapshots: Sequence[Snapshot]) -> OnSites:
    """The data of all snapshots, laid on one set of sites."""
    rows = np.concatenate([snapshot.x for snapshot in snapshots])
    _, first, site = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # in the order in which they appeared
    site = np.argsort(order)[site.ravel()]
    ends = np.cumsum([len(snapshot.x) for snapshot in snapshots])
    values = np.full((len(snapshots), len(first)), np.nan)
    parts = np.split(site, ends[:-1])
    for i, (snapshot, part) in enumerate(zip(snapshots, parts)):
        values[i, part] = snapshot.y
    repeated = any(len(np.unique(part)) < len(part) for part in parts)
    times = np.array([snapshot.t for snapshot in snapshots], dtype=float)
    return OnSites(times, rows[first[order]], values, parts[-1], repeated)


# Matérn as a state: the process and its derivatives, time counted in lengthscales.
ORDERS: dict[type, int] = {Matern12: 1, Matern32: 2, Matern52: 3}


def _polynomials(order: int) -> tuple[float, list[np.ndarray]]:
    """``k(u) = p_0(u) exp(−rate u)`` and its derivatives, ``k^(i)(u) = p_i(u) exp(−rate u)``."""
    rate = float(np.sqrt(2 * order - 1))
    first = np.array([1.0, rate, rate**2 / 3])[:order]
    found = [first]
    for _ in range(2 * order - 2):
        found.append(polynomial.polysub(polynomial.polyder(found[-1]), rate * found[-1]))
    return rate, found


def _lagged(order: int, u: Float[Array, ""]) -> Float[Array, "p p"]:
    """``cov(f^(i)(t + u), f^(j)(t)) = (−1)^j k^(i+j)(u)``."""
    rate, parts = _polynomials(order)
    heights = [jnp.polyval(jnp.asarray(part[::-1]), u) * jnp.exp(-rate * u) for part in parts]
    return jnp.stack([jnp.stack([(-1.0) ** j * heights[i + j] for j in range(order)]) for i in range(order)])


def _transition(order: int, u: Float[Array, ""]) -> tuple[Float[Array, "p p"], Float[Array, "p p"]]:
    """``A = cov(s(t + u), s(t)) P⁻¹`` and the covariance of what is new, ``P − A P A'``."""
    stationary = jnp.asarray(_stationary(order))
    a = _lagged(order, u) @ jnp.asarray(np.linalg.inv(_stationary(order)))
    new = stationary - a @ stationary @ a.T
    return a, 0.5 * (new + new.T)


def _stationary(order: int) -> np.ndarray:
    _, parts = _polynomials(order)
    return np.array([[(-1.0) ** j * parts[i + j][0] for j in range(order)] for i in range(order)])


def _space(model: Model, term: Separable, between: PyTree, parameters: Parameters) -> Float[Array, "M M"]:
    matrix = term.space.covariance(between, within(parameters, "space"))
    return parameters["scale"] ** 2 * (matrix + model.jitter[0] * jnp.eye(matrix.shape[0]))


def _scalar_filters(model: Model, term: Separable, data: OnSites) -> Given:
    """Complete data, Matérn in time: a filter for each eigenvector of space."""
    order, x = ORDERS[type(term.time)], jnp.asarray(data.x)
    between, y, waits = term.space.prepare(x, x), jnp.asarray(data.values), jnp.asarray(data.waits)

    def given(z):
        parameters = model.parameters(z)
        values, vectors = jnp.linalg.eigh(_space(model, term, between, parameters))
        noise = parameters["noise"] ** 2

        def step(carry, now):
            (state, cov), (wait, row) = carry, now
            a, new = _transition(order, wait / parameters["time.lengthscale"])
            state = a @ state
            cov = jnp.einsum("ij,jkn,lk->iln", a, cov, a) + new[:, :, None] * values[None, None, :]
            seen = cov[0, 0] + noise
            gain, miss = cov[:, 0] / seen[None, :], row - state[0]
            state = state + gain * miss[None, :]
            cov = cov - gain[:, None, :] * cov[0][None, :, :]
            return (state, cov), -0.5 * jnp.sum(miss**2 / seen + jnp.log(seen) + LOG_2PI)

        start = (jnp.zeros((order, len(values))), jnp.asarray(_stationary(order))[:, :, None] * values[None, None, :])
        (state, cov), terms = jax.lax.scan(step, start, (waits, (y - parameters["mean"]) @ vectors))
        mean, variance = vectors @ state[0] + parameters["mean"], vectors**2 @ cov[0, 0]
        return AtParameters(jnp.sum(terms), mean[data.last], variance[data.last])

    return given


def _scalar_series(model: Model, term: Separable, data: OnSites) -> Given:
    """Complete data, any kernel in time: a Cholesky factor over all times for each eigenvector of space."""
    x, t = jnp.asarray(data.x), jnp.asarray(data.times)[:, None]
    of_space, of_time, y = term.space.prepare(x, x), term.time.prepare(t, t), jnp.asarray(data.values)

    def given(z):
        parameters = model.parameters(z)
        values, vectors = jnp.linalg.eigh(_space(model, term, of_space, parameters))
        in_time = term.time.covariance(of_time, within(parameters, "time"))

        def series(value, row):
            root = cholesky(value * in_time + parameters["noise"] ** 2 * jnp.eye(len(row)))
            white, half = solve_lower(root, row), solve_lower(root, value * in_time[:, -1])
            height = -0.5 * (white @ white + len(row) * LOG_2PI) - jnp.sum(jnp.log(jnp.diagonal(root)))
            return height, half @ white, value * in_time[-1, -1] - half @ half

        heights, means, variances = jax.vmap(series)(values, ((y - parameters["mean"]) @ vectors).T)
        mean, variance = vectors @ means + parameters["mean"], vectors**2 @ variances
        return AtParameters(jnp.sum(heights), mean[data.last], variance[data.last])

    return given


def _one_by_one(model: Model, term: Separable, data: OnSites) -> Given:
    """Any data, Matérn in time: the state at all sites, updated with one value after the other."""
    order, x = ORDERS[type(term.time)], jnp.asarray(data.x)
    between, size = term.space.prepare(x, x), len(data.x)
    missing = np.isnan(data.values)
    rows = (jnp.asarray(data.waits), jnp.asarray(np.where(missing, 0.0, data.values)), jnp.asarray(~missing))

    def given(z):
        parameters = model.parameters(z)
        space = _space(model, term, between, parameters)
        noise, mu = parameters["noise"] ** 2, parameters["mean"]

        def update(carry, now):
            (state, cov), (site, y, there) = carry, now
            cross = cov[:, :, 0, site]
            seen, miss = cov[0, site, 0, site] + noise, y - mu - state[0, site]
            gain = jnp.where(there, cross / seen, 0.0)
            cov = cov - gain[:, :, None, None] * cross[None, None, :, :]
            height = jnp.where(there, -0.5 * (miss**2 / seen + jnp.log(seen) + LOG_2PI), 0.0)
            return (state + gain * miss, cov), height

        def step(carry, now):
            (state, cov), (wait, y, there) = carry, now
            a, new = _transition(order, wait / parameters["time.lengthscale"])
            cov = jnp.einsum("ij,jmkn,lk->imln", a, cov, a) + jnp.einsum("il,mn->imln", new, space)
            carry, terms = jax.lax.scan(update, (a @ state, cov), (jnp.arange(size), y, there))
            return carry, jnp.sum(terms)

        start = (jnp.zeros((order, size)), jnp.einsum("il,mn->imln", jnp.asarray(_stationary(order)), space))
        (state, cov), terms = jax.lax.scan(step, start, rows)
        variance = jnp.diagonal(cov[0, :, 0])
        return AtParameters(jnp.sum(terms), (state[0] + mu)[data.last], variance[data.last])

    return given


def _dense(model: Model, snapshots: Sequence[Snapshot]) -> Given:
    """All data at once."""
    data: Stack = stack(model, snapshots)
    between, count = model.kernel.prepare(data.t, data.x), len(snapshots[-1].x)

    def given(z):
        parameters = model.parameters(z)
        prior = model.kernel.covariance(between, parameters)
        cross = prior[-count:, data.observed]
        root = data_root(model, data, prior[data.observed][:, data.observed], parameters)
        mean = data.mean(model, parameters)
        white, half = solve_lower(root, data.y - mean[data.observed]), solve_lower(root, cross.T)
        height = -0.5 * (white @ white + len(data.y) * LOG_2PI) - jnp.sum(jnp.log(jnp.diagonal(root)))
        variance = jnp.diagonal(prior)[-count:] - jnp.sum(half**2, axis=0)
        return AtParameters(height, mean[-count:] + half.T @ white, variance)

    return given
