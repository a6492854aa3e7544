"""Kalman filter and smoother: known parameters, shared inputs, Gaussian noise, Markov time kernels. Exact.

A half-integer Matérn kernel in time is a linear stochastic differential equation of the latent and its derivatives;
with a separable kernel, every derivative is a field with the covariance of space.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve, expm

from seqgp.base.errors import DataError, ModelError
from seqgp.base.priors import Parameters
from seqgp.base.snapshot import Snapshot
from seqgp.kernels.base import within
from seqgp.kernels.separable import one_term
from seqgp.kernels.stationary import Matern12, Matern32, Matern52
from seqgp.model import Model
from seqgp.reference.marginal import require_gaussian


class Filtered(NamedTuple):
    """Gaussian distributions of ``f``, one per time."""

    times: Float[np.ndarray, " T"]
    mean: Float[np.ndarray, "T N"]
    covariance: Float[np.ndarray, "T N N"]
    log_likelihood: float  # of all the data; NaN where the method has none

    @property
    def sd(self) -> Float[np.ndarray, "T N"]:
        """Standard deviations of ``f``."""
        return np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))


class _Process(NamedTuple):
    """``df = drift f dt + …`` with a stationary covariance, in time and in space."""

    drift: Float[np.ndarray, "p p"]
    stationary: Float[np.ndarray, "p p"]
    space: Float[np.ndarray, "N N"]

    def transition(self, dt: float) -> tuple[np.ndarray, np.ndarray]:
        """``A`` and ``Q`` with ``state(t + dt) = A state(t) + N(0, Q)``."""
        a = expm(self.drift * dt)
        q = self.stationary - a @ self.stationary @ a.T
        return np.kron(a, np.eye(len(self.space))), np.kron(0.5 * (q + q.T), self.space)


def kalman_filter(model: Model, snapshots: Sequence[Snapshot]) -> Filtered:
    """The exact distribution of ``f`` at each time given the data up to then.

    Args:
        model: all parameters known, a Gaussian likelihood, ``Matern12``, ``Matern32`` or ``Matern52`` in time.
        snapshots: the data in the order of time, all at the same inputs; NaN where missing.
    """
    process, parameters = _process(model, snapshots)
    means, covariances, _, _, log_likelihood = _forward(model, process, parameters, snapshots)
    return _of_f(model, snapshots, process, parameters, means, covariances, log_likelihood)


def kalman_smoother(model: Model, snapshots: Sequence[Snapshot]) -> Filtered:
    """The exact distribution of ``f`` at each time given all the data (Rauch, Tung & Striebel).

    Args:
        model: as for :func:`kalman_filter`.
        snapshots: as for :func:`kalman_filter`.
    """
    process, parameters = _process(model, snapshots)
    means, covariances, ahead, transitions, log_likelihood = _forward(model, process, parameters, snapshots)
    for i in range(len(snapshots) - 2, -1, -1):
        predicted_mean, predicted = ahead[i + 1]
        # A least-squares solution: the predicted covariance is singular where space is sampled densely.
        gain = np.linalg.lstsq(predicted, transitions[i + 1] @ covariances[i], rcond=1e-13)[0].T
        means[i] = means[i] + gain @ (means[i + 1] - predicted_mean)
        covariances[i] = covariances[i] + gain @ (covariances[i + 1] - predicted) @ gain.T
    return _of_f(model, snapshots, process, parameters, means, covariances, log_likelihood)


def _forward(model: Model, process: _Process, parameters: Parameters, snapshots: Sequence[Snapshot]):
    n, p = len(process.space), len(process.drift)
    mean, covariance = np.zeros(n * p), np.kron(process.stationary, process.space)
    means, covariances, ahead, transitions, total = [], [], [], [], 0.0
    for i, snapshot in enumerate(snapshots):
        a = np.eye(n * p)
        if i:
            a, q = process.transition(snapshot.t - snapshots[i - 1].t)
            mean, covariance = a @ mean, a @ covariance @ a.T + q
        ahead.append((mean, covariance))
        transitions.append(a)
        seen = np.flatnonzero(~np.isnan(snapshot.y))  # the latent itself comes first in the state
        if len(seen):
            mu, noise = mean_at(model, snapshot, parameters), noise_at(model, snapshot, parameters)
            mean, covariance, term = _update(mean, covariance, seen, (snapshot.y - mu)[seen], noise[seen])
            total += term
        means.append(mean)
        covariances.append(covariance)
    return means, covariances, ahead, transitions, total


def _update(mean, covariance, seen: np.ndarray, y: np.ndarray, noise: np.ndarray):
    """Condition a Gaussian on noisy values of some of its entries; the log density of those."""
    cross = covariance[:, seen]
    s = cross[seen] + np.diag(noise**2)
    factor = cho_factor(s, lower=True)
    innovation = y - mean[seen]
    gain = cho_solve(factor, cross.T).T
    updated = covariance - gain @ cross.T
    log_det = 2 * np.sum(np.log(np.diag(factor[0])))
    quadratic = innovation @ cho_solve(factor, innovation)
    term = -0.5 * (quadratic + log_det + len(seen) * np.log(2 * np.pi))
    return mean + gain @ innovation, 0.5 * (updated + updated.T), term


def _of_f(model, snapshots, process, parameters, means, covariances, log_likelihood) -> Filtered:
    n = len(process.space)
    return Filtered(
        times=np.array([snapshot.t for snapshot in snapshots]),
        mean=np.stack([mean[:n] + mean_at(model, s, parameters) for mean, s in zip(means, snapshots)]),
        covariance=np.stack([covariance[:n, :n] for covariance in covariances]),
        log_likelihood=float(log_likelihood),
    )


def mean_at(model: Model, snapshot: Snapshot, parameters: Parameters) -> Float[np.ndarray, " N"]:
    """The mean at the inputs of a snapshot."""
    design = jnp.asarray(model.mean_function.design(snapshot.t, snapshot.x, snapshot.context))
    return np.asarray(model.mean_function.value(parameters, design))


def noise_at(model: Model, snapshot: Snapshot, parameters: Parameters) -> Float[np.ndarray, " N"]:
    """The standard deviation of each datum of a snapshot around ``f``."""
    context = model.likelihood.context_at(snapshot.t, snapshot.context)
    return np.broadcast_to(np.asarray(model.likelihood.noise(context, parameters)), snapshot.y.shape)


def known_parameters(model: Model, who: str) -> dict[str, Any]:
    """The parameters of a model that has none to infer."""
    require_gaussian(model, who)
    if model.names:
        raise ModelError(
            f"{who} needs known parameters, but {', '.join(model.names)} have priors; give numbers in their place"
        )
    return {name: np.asarray(value) for name, value in model.parameters(jnp.zeros(0)).items()}


def _process(model: Model, snapshots: Sequence[Snapshot]) -> tuple[_Process, dict[str, Any]]:
    parameters = known_parameters(model, "the Kalman filter")
    if not snapshots:
        raise DataError("snapshots: the list is empty, expected at least one seqgp.Snapshot")
    x = snapshots[0].x
    for snapshot in snapshots:
        if not np.array_equal(snapshot.x, x):
            raise DataError(
                f"the Kalman filter needs the same x at every time, but it differs at t = {snapshot.t}; missing data "
                "stay NaN in y (or use seqgp.reference.gaussian_posterior)"
            )
    term = one_term(model.kernel, "the Kalman filter")
    points = jnp.asarray(x)
    space = np.asarray(term.space.covariance(term.space.prepare(points, points), within(parameters, "space")))
    variance = float(parameters["scale"]) ** 2
    space = variance * (space + model.jitter[0] * np.eye(len(x)))
    drift, stationary = _state_space(term.time, parameters)
    return _Process(drift, stationary, space), parameters


def _state_space(kernel, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
    """Drift and stationary covariance of the latent and its derivatives (Hartikainen & Särkkä 2010)."""
    lengthscale = float(parameters.get("time.lengthscale", np.nan))
    if isinstance(kernel, Matern12):
        return np.array([[-1 / lengthscale]]), np.ones((1, 1))
    if isinstance(kernel, Matern32):
        rate = 3**0.5 / lengthscale
        return np.array([[0, 1], [-(rate**2), -2 * rate]]), np.diag([1, rate**2])
    if isinstance(kernel, Matern52):
        rate = 5**0.5 / lengthscale
        drift = np.array([[0, 1, 0], [0, 0, 1], [-(rate**3), -3 * rate**2, -3 * rate]])
        cross = rate**2 / 3
        return drift, np.array([[1, 0, -cross], [0, cross, 0], [-cross, 0, rate**4]])
    raise ModelError(
        f"the Kalman filter needs a Markov time kernel (Matern12, Matern32, Matern52), got {type(kernel).__name__}; "
        "use seqgp.reference.gaussian_posterior"
    )
