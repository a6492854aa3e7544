"""A stationary correlation as the output of a small linear system, near the best that its order can do."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.linalg import hankel, solve_continuous_lyapunov, solve_triangular

from seqgp.base.errors import ModelError


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
    if not 1 <= order <= 10:
        raise ModelError(f"order = {order}: a state that approximates a kernel has an order from 1 to 10")
    distance = np.linspace(0.0, reach, 801)
    values = correlation(distance)
    rates = _oscillation_rates(values, distance[1], order)
    weights = _fitted_weights(correlation, rates, reach)
    upper = rates[np.imag(rates) > 1e-9]
    rates = np.concatenate([upper, upper.conj(), rates[np.abs(np.imag(rates)) <= 1e-9]])  # in the order of the weights
    numerator = _positive(_numerator(rates, weights))
    drift, output = _realised(rates, numerator)
    grid = np.linspace(0.0, 2 * reach, 1601)
    eigenvalues, vectors = np.linalg.eig(drift)
    shown = (output @ vectors) * np.linalg.solve(vectors, output.astype(complex))
    achieved = np.real(np.exp(np.outer(grid, eigenvalues)) @ shown)
    error = float(np.abs(achieved - correlation(grid)).max())
    return RationalState(tuple(map(tuple, drift.tolist())), tuple(output.tolist()), error)


def _oscillation_rates(values: np.ndarray, step: float, order: int) -> np.ndarray:
    """The rates in ``values[j] ≈ Re Σ weights_k exp(−rates_k j step)``, in pairs of conjugates and real ones."""
    half = len(values) // 2
    size, vectors = np.linalg.eigh(hankel(values[: half + 1], values[half:]))
    leading = vectors[:, np.argsort(-np.abs(size))[:order]]
    shift = np.linalg.lstsq(leading[:-1], leading[1:], rcond=None)[0]
    return -np.log(np.linalg.eigvals(shift).astype(complex)) / step


def _fitted_weights(correlation: Callable, rates: np.ndarray, reach: float) -> np.ndarray:
    """The weights of the oscillations with the least largest error among those with a spectral density above zero."""
    upper, real = rates[np.imag(rates) > 1e-9], np.real(rates[np.abs(np.imag(rates)) <= 1e-9]).astype(complex)
    if 2 * len(upper) + len(real) != len(rates):
        raise ModelError("the correlation cannot be written as real oscillations; choose another order")

    def columns(function: Callable[[complex], np.ndarray]) -> np.ndarray:
        pairs = [part for rate in upper for part in (np.real(function(rate)), -np.imag(function(rate)))]
        return np.stack(pairs + [np.real(function(rate)) for rate in real], axis=1)

    distance = np.linspace(0.0, 2 * reach, 600)
    squared = np.concatenate([[0.0], np.logspace(-3, 6, 1500)])  # frequencies
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


def _realised(rates: np.ndarray, numerator: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drift and output of a state with the spectral density ``N(ω²) / |Π (iω + rates)|²``, of unit variance."""
    order = len(rates)
    zeros = np.sqrt(-np.roots(numerator).astype(complex))
    # A double root on the positive half line stands for a pair of zeros on the imaginary axis: take one of each sign.
    on_axis = np.abs(np.real(zeros)) < 1e-6 * np.abs(zeros)
    axis = np.sort(np.abs(np.imag(zeros[on_axis])))
    axis = axis.reshape(-1, 2).mean(axis=1) if len(axis) else axis
    stable = np.concatenate([-np.where(np.real(zeros) > 0, zeros, -zeros)[~on_axis], 1j * axis, -1j * axis])
    polynomial = np.atleast_1d(np.real(np.poly(stable)))[::-1]  # increasing powers
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
