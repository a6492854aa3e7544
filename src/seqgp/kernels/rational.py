"""A stationary correlation as the output of a small linear system, near the best that its order can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Complex, Float
from scipy.linalg import hankel, solve_continuous_lyapunov, solve_triangular

from seqgp.base.errors import ModelError

MAX_ORDER = 10  # of a state that approximates a kernel


class RationalState(eqx.Module):
    """A state with a rational spectral density, in coordinates where its stationary covariance is the identity."""

    drift: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    output: tuple[float, ...] = eqx.field(static=True)
    error: float = eqx.field(static=True)

    @property
    def order(self) -> int:
        """The number of components."""
        return len(self.output)

    def observe(self, parameters):
        """A mixture of all components."""
        return jnp.asarray(np.array(self.output))

    def stationary(self, parameters):
        """The identity."""
        return jnp.eye(self.order)

    def transition(self, parameters, dt):
        """``V exp(D u) V⁻¹`` with the eigenvalues ``D`` of the drift."""
        rates, vectors = np.linalg.eig(np.array(self.drift))
        inverse = np.linalg.inv(vectors)
        growth = jnp.exp(rates * (dt / parameters["lengthscale"]).astype(complex))
        return jnp.real((vectors * growth[None, :]) @ inverse)


def rational_state(correlation: Callable[[np.ndarray], np.ndarray], order: int, reach: float) -> RationalState:
    """The state of an order whose correlation is close to a given one.

    The correlation is written as a sum of decaying oscillations. Their rates come from the leading eigenvectors of a
    Hankel matrix of its values (ESPRIT), which is near the best that so few terms can do; their weights from a linear
    programme, which keeps the spectral density above zero. Then the density is factored.

    Args:
        correlation: of the distance in lengthscales, an even function that decays.
        order: the number of oscillations.
        reach: the distance up to which the correlation is matched.
    """
    if not 1 <= order <= MAX_ORDER:
        raise ModelError(f"order = {order}: a state that approximates a kernel has an order from 1 to {MAX_ORDER}")
    distance = np.linspace(0.0, reach, 801)
    rates = _oscillation_rates([correlation(distance)], distance[1], order)
    weights = _fitted_weights(correlation, rates, reach)
    numerator = _positive(_numerator(rates, weights))
    drift, output = _realised(rates, numerator)
    grid = np.linspace(0.0, 2 * reach, 1601)
    eigenvalues, vectors = np.linalg.eig(drift)
    shown = (output @ vectors) * np.linalg.solve(vectors, output.astype(complex))
    achieved = np.real(np.exp(np.outer(grid, eigenvalues)) @ shown)
    error = float(np.abs(achieved - correlation(grid)).max())
    return RationalState(tuple(map(tuple, drift.tolist())), tuple(output.tolist()), error)


class SharedDrift(NamedTuple):
    """States of several correlations with the same drift and output, and each its own stationary covariance."""

    rates: Complex[np.ndarray, " p"]
    basis: Complex[np.ndarray, "p p"]  # V, with the drift −V diag(rates) V⁻¹
    inverse: Complex[np.ndarray, "p p"]
    output: Float[np.ndarray, " p"]  # h
    stationary: list[Float[np.ndarray, "p p"]]  # of unit variance; their average is the identity


def shared_drift(correlations: Sequence[Callable], order: int, reach: float) -> SharedDrift:
    """The states of an order, with one drift, whose correlations are close to given ones.

    In the coordinates of the drift's eigenvectors the state with the transfer function ``Σ_k b_k / (s + rates_k)`` has
    the stationary covariance ``b_j conj(b_k) / (rates_j + conj(rates_k))``. Convex combinations of such covariances
    are stationary covariances for the same drift, and their correlations are those combinations.

    Args:
        correlations: each as in ``rational_state``.
        order: the number of oscillations.
        reach: the distance up to which the correlations are matched.
    """
    distance = np.linspace(0.0, reach, 801)
    rates = _oscillation_rates([one(distance) for one in correlations], distance[1], order)
    if np.real(rates).min() <= 0:
        raise ModelError(f"an oscillation of the state of order {order} grows; choose another order")
    apart = np.array([np.prod(np.delete(rates, k) - rates[k]) for k in range(order)])
    to_real = _real_coordinates(rates)
    found = []
    for correlation in correlations:
        zeros = _stable_zeros(_positive(_numerator(rates, _fitted_weights(correlation, rates, reach))))
        inputs = np.prod(-rates[:, None] - zeros[None, :], axis=1) / apart
        modal = np.outer(inputs, inputs.conj()) / (rates[:, None] + rates.conj()[None, :])
        found.append(np.real(to_real @ modal @ to_real.conj().T) / np.real(modal.sum()))
    root = np.linalg.cholesky(np.mean(found, axis=0))
    white = np.linalg.inv(root)
    inverse = to_real.conj().T @ root
    output = np.real(inverse.sum(axis=0))
    return SharedDrift(rates, white @ to_real, inverse, output, [white @ one @ white.T for one in found])


def _real_coordinates(rates: np.ndarray) -> np.ndarray:
    """The unitary matrix from pairs of conjugates to ``√2`` times their real and imaginary parts."""
    pairs, matrix = int(np.sum(np.imag(rates) > 1e-9)), np.eye(len(rates), dtype=complex)
    for k in range(pairs):
        both = [k, pairs + k]
        matrix[np.ix_(both, both)] = np.array([[1, 1], [-1j, 1j]]) / np.sqrt(2)
    return matrix


def _oscillation_rates(values: Sequence[np.ndarray], step: float, order: int) -> np.ndarray:
    """The rates in ``values[i][j] ≈ Re Σ weights_ik exp(−rates_k j step)``: upper ones, their conjugates, real ones."""
    half = len(values[0]) // 2
    each = [hankel(one[: half + 1], one[half:]) for one in values]
    if len(each) == 1:
        size, vectors = np.linalg.eigh(each[0])
    else:
        size, vectors = np.linalg.eigh(sum(one @ one for one in each))
    leading = vectors[:, np.argsort(-np.abs(size))[:order]]
    shift = np.linalg.lstsq(leading[:-1], leading[1:], rcond=None)[0]
    rates = -np.log(np.linalg.eigvals(shift).astype(complex)) / step
    upper = rates[np.imag(rates) > 1e-9]
    found = np.concatenate([upper, upper.conj(), rates[np.abs(np.imag(rates)) <= 1e-9]])
    if len(found) != order:
        raise ModelError("the correlation cannot be written as real oscillations; choose another order")
    return found


def _fitted_weights(correlation: Callable, rates: np.ndarray, reach: float) -> np.ndarray:
    """The weights of the oscillations with the least largest error among those with a spectral density above zero."""
    upper, real = rates[np.imag(rates) > 1e-9], np.real(rates[np.abs(np.imag(rates)) <= 1e-9]).astype(complex)

    def columns(function: Callable[[complex], np.ndarray]) -> np.ndarray:
        pairs = [part for rate in upper for part in (np.real(function(rate)), -np.imag(function(rate)))]
        return np.stack(pairs + [np.real(function(rate)) for rate in real], axis=1)

    distance = np.linspace(0.0, 2 * reach, 600)
    slowest = min(1e-3, 1e-2 * float(np.abs(rates).min()) ** 2)
    squared = np.concatenate([[0.0], np.geomspace(slowest, 1e6, 1500)])  # frequencies
    shown = columns(lambda rate: np.exp(-rate * distance))
    density = columns(lambda rate: 2 * rate / (rate**2 + squared))
    density /= np.abs(density).max(axis=1, keepdims=True)
    from scipy.optimize import linprog  # a tenth of a second to import, and few kernels need it

    slack, target = np.ones((len(distance), 1)), correlation(distance)
    least = linprog(
        np.append(np.zeros(len(rates)), 1.0),
        A_ub=np.block([[shown, -slack], [-shown, -slack], [-density, np.zeros((len(squared), 1))]]),
        b_ub=np.concatenate([target, -target, np.zeros(len(squared))]),
        bounds=[(None, None)] * len(rates) + [(0, None)],
    )
    if least.status != 0:
        raise ModelError(f"the correlation has no state of order {len(rates)} ({least.message}); choose another order")
    both = least.x[: 2 * len(upper)].reshape(-1, 2) @ np.array([1.0, 1j]) / 2
    return np.concatenate([both, both.conj(), least.x[2 * len(upper) : -1].astype(complex)])


def _numerator(rates: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The polynomial ``N`` in ``x = ω²`` of the spectral density ``N(x) / Π (rates² + x)``."""
    numerator = np.zeros(1, complex)
    for k in range(len(rates)):
        term = np.array([2 * weights[k] * rates[k]])
        for other in np.delete(rates, k):
            term = np.polymul(term, [1.0, other**2])
        numerator = np.polyadd(numerator, term)
    return np.real(numerator)


def _positive(numerator: np.ndarray) -> np.ndarray:
    """The polynomial with its few places below zero lifted: roots on the positive half line become double or none."""
    roots = np.roots(numerator)
    real = (np.abs(np.imag(roots)) < 1e-9 * np.abs(roots)) & (np.real(roots) > 0)
    crossing, others = np.sort(np.real(roots[real])), roots[~real]
    if len(crossing) % 2:  # beyond the last one the density would be negative for good
        crossing = crossing[:-1]
    pairs = crossing.reshape(-1, 2).mean(axis=1)
    lifted = np.atleast_1d(np.real(np.poly(np.concatenate([others, np.repeat(pairs, 2)]))))
    return lifted * (numerator[-1] / lifted[-1])  # the density at frequency 0 stays


def _stable_zeros(numerator: np.ndarray) -> np.ndarray:
    """The zeros ``s`` of a polynomial with ``|Π (iω − s)|² ∝ N(ω²)``, none of them in the right half plane."""
    zeros = np.sqrt(-np.roots(numerator).astype(complex))
    # A double root on the positive half line stands for a pair of zeros on the imaginary axis: take one of each sign.
    on_axis = np.abs(np.real(zeros)) < 1e-6 * np.abs(zeros)
    axis = np.sort(np.abs(np.imag(zeros[on_axis])))
    axis = axis.reshape(-1, 2).mean(axis=1) if len(axis) else axis
    return np.concatenate([-np.where(np.real(zeros) > 0, zeros, -zeros)[~on_axis], 1j * axis, -1j * axis])


def _realised(rates: np.ndarray, numerator: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drift and output of a state with the spectral density ``N(ω²) / |Π (iω + rates)|²``, of unit variance."""
    order = len(rates)
    polynomial = np.atleast_1d(np.real(np.poly(_stable_zeros(numerator))))[::-1]  # increasing powers
    output = np.zeros(order)
    output[: len(polynomial)] = polynomial
    drift = np.diag(np.ones(order - 1), 1)
    drift[-1] = -np.real(np.poly(-rates))[1:][::-1]
    noise = np.zeros((order, order))
    noise[-1, -1] = 1.0
    balance = np.diag(np.abs(rates).mean() ** -np.arange(order, dtype=float))  # powers of the rates grow fast
    drift = balance @ drift @ np.linalg.inv(balance)
    covariance = solve_continuous_lyapunov(drift, -noise)
    root = np.linalg.cholesky(0.5 * (covariance + covariance.T))
    drift = solve_triangular(root, drift @ root, lower=True)
    output = (output @ np.linalg.inv(balance)) @ root
    return drift, output / np.linalg.norm(output)
