"""Simulated networks of stations with gaps, and their dense Kalman filter in NumPy: what filters are compared with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag, cholesky, expm, solve_continuous_lyapunov, solve_triangular

import seqgp

JITTER = 1e-6
ORDERS = {"Matern12": 1, "Matern32": 2, "Matern52": 3}


def correlation(kernel: str, distance: np.ndarray) -> np.ndarray:
    """Of points at a distance in units of the lengthscale."""
    if kernel == "SquaredExponential":
        return np.exp(-0.5 * distance**2)
    u = distance * (2 * ORDERS[kernel] - 1) ** 0.5
    polynomial = {"Matern12": 1.0, "Matern32": 1 + u, "Matern52": 1 + u + u**2 / 3}[kernel]
    return polynomial * np.exp(-u)


class TimeTerm(NamedTuple):
    """The state of a time kernel of lengthscale one, over equal steps."""

    transition: np.ndarray  # (p, p)
    stationary: np.ndarray  # (p, p)
    observe: np.ndarray  # (p,)


def time_term(kernel: str, dt: float) -> TimeTerm:
    """Matérn kernels from their stochastic differential equation; the squared exponential as the library's state."""
    if kernel == "SquaredExponential":
        state, known = seqgp.kernels.SquaredExponential(1.0).state(), {"lengthscale": np.asarray(1.0)}
        parts = state.transition(known, np.asarray(dt)), state.stationary(known), state.observe(known)
        return TimeTerm(*(np.asarray(part) for part in parts))
    order = ORDERS[kernel]
    drift = np.diag(np.ones(order - 1), 1)
    drift[-1] = -np.poly(np.full(order, -((2 * order - 1) ** 0.5)))[1:][::-1]
    noise = np.zeros((order, order))
    noise[-1, -1] = 1.0
    stationary = solve_continuous_lyapunov(drift, -noise)
    return TimeTerm(np.asarray(expm(drift * dt)), stationary / stationary[0, 0], np.eye(order)[0])


class Network(NamedTuple):
    """The state-space model of one term, or of several with the same sites, at equal time steps."""

    x: np.ndarray  # (M, 2)
    spaces: tuple[np.ndarray, ...]  # scale² K of each term
    terms: tuple[TimeTerm, ...]
    noise: float

    @property
    def transition(self) -> np.ndarray:
        return np.asarray(block_diag(*(term.transition for term in self.terms)))

    @property
    def stationaries(self) -> tuple[np.ndarray, ...]:
        return tuple(term.stationary for term in self.terms)

    @property
    def noises(self) -> tuple[np.ndarray, ...]:
        return tuple(p - a @ p @ a.T for a, p, _ in self.terms)

    @property
    def observe(self) -> np.ndarray:
        return np.concatenate([term.observe for term in self.terms])

    @property
    def order(self) -> int:
        return len(self.observe)


def network(
    num_sites: int,
    time: str = "Matern32",
    space: str = "Matern32",
    lengthscale: float = 0.3,
    dt: float = 0.2,
    noise: float = 0.3,
    seed: int = 0,
    scale: float = 1.0,
) -> Network:
    """Stations at random in the unit square; ``dt`` in units of the time lengthscale."""
    x = np.random.default_rng(seed).random((num_sites, 2))
    return Network(x, (space_covariance(x, x, space, lengthscale, scale),), (time_term(time, dt),), noise)


def space_covariance(x: np.ndarray, other: np.ndarray, kernel: str, lengthscale: float, scale: float = 1.0):
    """``scale² K``, with jitter where the points are the same."""
    distance = np.sqrt(np.sum((x[:, None] - other[None]) ** 2, axis=-1))
    found = scale**2 * correlation(kernel, distance / lengthscale)
    return found + (scale**2 * JITTER * np.eye(len(x)) if x is other else 0.0)


def simulate(net: Network, steps: int, seed: int = 1) -> np.ndarray:
    """Data at all sites, ``(T, M)``."""
    rng = np.random.default_rng(seed)
    roots = [np.linalg.cholesky(k) for k in net.spaces]

    def draw(blocks):
        parts = []
        for block, root in zip(blocks, roots):
            values, vectors = np.linalg.eigh(block)
            half = vectors * np.sqrt(np.maximum(values, 0.0))
            parts.append(half @ rng.normal(size=(len(block), len(root))) @ root.T)
        return np.concatenate(parts)

    state, found = draw(net.stationaries), []
    for t in range(steps):
        if t:
            state = net.transition @ state + draw(net.noises)
        found.append(net.observe @ state + net.noise * rng.normal(size=len(net.x)))
    return np.array(found)


class DenseKalman:
    """The textbook filter of the stacked state ``(component, site)``, then coefficients of the mean."""

    def __init__(self, net: Network, scales: tuple[float, ...] | np.ndarray = ()):
        self.net, self.q = net, len(scales)
        start = block_diag(*(np.kron(p, k) for p, k in zip(net.stationaries, net.spaces)))
        coefficients = np.diag(np.square(np.asarray(scales, float)))
        self.cov = np.asarray(block_diag(start, coefficients) if self.q else start)
        self.mean = np.zeros(len(self.cov))

    def predict(self) -> None:
        """One step."""
        n, fields = len(self.mean), len(self.mean) - self.q

        def moved(rows):  # (n, k)
            by_component = rows[:fields].reshape(self.net.order, -1)
            return np.concatenate([(self.net.transition @ by_component).reshape(fields, -1), rows[fields:]])

        self.mean = moved(self.mean[:, None])[:, 0]
        self.cov = moved(moved(self.cov).T).reshape(n, n)
        start = 0
        for noise, space in zip(self.net.noises, self.net.spaces):
            end = start + len(noise) * len(space)
            self.cov[start:end, start:end] += np.kron(noise, space)
            start = end

    def operator(self, design: np.ndarray | None = None) -> np.ndarray:
        """From the state to the data."""
        h = np.kron(self.net.observe[None, :], np.eye(len(self.net.x)))
        return h if design is None or not self.q else np.concatenate([h, design], axis=1)

    def update(self, y: np.ndarray, seen: np.ndarray, design: np.ndarray | None = None) -> float:
        """One snapshot; its log density."""
        h = self.operator(design)[seen]
        cross = h @ self.cov
        root = cholesky(cross @ h.T + self.net.noise**2 * np.eye(len(h)), lower=True)
        white = solve_triangular(root, y[seen] - h @ self.mean, lower=True)
        half = solve_triangular(root, cross, lower=True)
        self.mean = self.mean + half.T @ white
        self.cov = self.cov - half.T @ half
        return float(-0.5 * white @ white - np.log(np.diag(root)).sum() - 0.5 * len(white) * np.log(2 * np.pi))

    def latent(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the latent (without mean function) at the sites."""
        h = np.pad(self.operator(), ((0, 0), (0, self.q)))[:, : len(self.mean)]
        return h @ self.mean, np.sum((h @ self.cov) * h, axis=1)
