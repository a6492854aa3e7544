"""Algorithm 2 of the paper in NumPy and SciPy, as a researcher would write it for the regression model, ``tau = 1``.

Nothing is wasted on purpose: squared differences are computed once, a Cholesky factor is kept while the kernel's
parameters do not change, and the linear algebra library has all its threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular

HIGH = np.array([10**0.5, 10**0.5, 10**0.5, 2.0, 1.0, 1.0])  # time and space lengthscales, scale, mean, noise
KERNEL, LIKELIHOOD = np.arange(4), np.arange(4, 6)
JITTER = 1e-8


def natural(z: np.ndarray) -> np.ndarray:
    """Parameters from ``z``: scaled sigmoids."""
    return HIGH / (1 + np.exp(-z))


class Inputs(NamedTuple):
    """Squared differences of the two times, and of all inputs."""

    lag: float
    old: np.ndarray  # (2, N, N): the window's inputs with themselves
    cross: np.ndarray
    new: np.ndarray

    @classmethod
    def of(cls, t_old: float, x_old: np.ndarray, t_new: float, x_new: np.ndarray) -> Inputs:
        """From the inputs of two snapshots."""

        def squared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return (a.T[:, :, None] - b.T[:, None, :]) ** 2

        return cls((t_new - t_old) ** 2, squared(x_old, x_old), squared(x_old, x_new), squared(x_new, x_new))


def conditional_prior(inputs: Inputs, theta: np.ndarray, f_old: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and Cholesky factor of ``f_t`` given ``f_{t−1}`` (equation 6)."""
    time, first, second, scale = theta[:4]

    def kernel(squared: np.ndarray, lag: float) -> np.ndarray:
        return scale**2 * np.exp(-0.5 * (squared[0] / first**2 + squared[1] / second**2 + lag / time**2))

    jitter = JITTER * scale**2 * np.eye(len(f_old))
    root_old = cholesky(kernel(inputs.old, 0.0) + jitter, lower=True, check_finite=False)
    gain = solve_triangular(root_old, kernel(inputs.cross, inputs.lag), lower=True, check_finite=False)
    mean = gain.T @ solve_triangular(root_old, f_old, lower=True, check_finite=False)
    covariance = kernel(inputs.new, 0.0) - gain.T @ gain + jitter
    return mean, cholesky(covariance, lower=True, check_finite=False)


def elliptical_slice(
    rng: np.random.Generator,
    value: np.ndarray,
    mean: np.ndarray,
    root: np.ndarray,
    current: float,
    log_likelihood: Callable[[np.ndarray], float],
) -> tuple[np.ndarray, float]:
    """One elliptical slice of a value with prior ``N(mean, root root')``."""
    centred, drawn = value - mean, root @ rng.standard_normal(len(value))
    level = current + np.log(rng.uniform())
    angle = rng.uniform(0, 2 * np.pi)
    low, high = angle - 2 * np.pi, angle
    while True:
        proposal = mean + centred * np.cos(angle) + drawn * np.sin(angle)
        found = log_likelihood(proposal)
        if found > level:
            return proposal, found
        low, high = (angle, high) if angle < 0 else (low, angle)
        if high - low < 1e-12:
            return value, current
        angle = rng.uniform(low, high)


def block_of(mean: np.ndarray, covariance: np.ndarray, block: np.ndarray, given: np.ndarray):
    """The Gaussian of some elements of ``z`` given the others: a mean that is linear in them, and a factor."""
    gain = np.linalg.solve(covariance[np.ix_(given, given)], covariance[np.ix_(given, block)]).T
    left = covariance[np.ix_(block, block)] - gain @ covariance[np.ix_(given, block)]
    return lambda z: mean[block] + gain @ (z[given] - mean[given]), np.linalg.cholesky(left)


def step(
    rng: np.random.Generator, inputs: Inputs, y: np.ndarray, f_old: np.ndarray, z_old: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Draws of ``f_t`` and ``z``, one for each of ``f_old`` (draws, N); moments of ``z`` from ``z_old``."""
    mean, covariance = z_old.mean(axis=0), np.cov(z_old, rowvar=False)
    kernel_mean, kernel_root = block_of(mean, covariance, KERNEL, LIKELIHOOD)
    noise_mean, noise_root = block_of(mean, covariance, LIKELIHOOD, KERNEL)

    def log_likelihood(f: np.ndarray, theta: np.ndarray) -> float:
        residual = (y - f - theta[4]) / theta[5]
        return -0.5 * residual @ residual - len(y) * np.log(theta[5])

    def replaced(z: np.ndarray, block: np.ndarray, values: np.ndarray) -> np.ndarray:
        z = z.copy()
        z[block] = values
        return z

    z, all_f, all_z = z_old[0], [], []
    for window in f_old:
        theta = natural(z)
        m, root = conditional_prior(inputs, theta, window)
        f = m + root @ rng.standard_normal(len(m))
        current = log_likelihood(f, theta)

        def latent(f, current, times, m, root, theta):
            for _ in range(times):
                f, current = elliptical_slice(rng, f, m, root, current, lambda f: log_likelihood(f, theta))
            return f, current

        f, current = latent(f, current, 5, m, root, theta)
        nu = solve_triangular(root, f - m, lower=True, check_finite=False)
        kept = {}

        def whitened(values, z=z, nu=nu, window=window, kept=kept):
            theta = natural(replaced(z, KERNEL, values))
            try:
                m, root = conditional_prior(inputs, theta, window)
            except np.linalg.LinAlgError:
                return -np.inf
            kept["conditional"] = m, root
            return log_likelihood(m + root @ nu, theta)

        values, current = elliptical_slice(rng, z[KERNEL], kernel_mean(z), kernel_root, current, whitened)
        z = replaced(z, KERNEL, values)
        theta = natural(z)
        m, root = kept["conditional"]  # the last proposal is the one that was accepted
        f = m + root @ nu
        f, current = latent(f, current, 5, m, root, theta)
        values, current = elliptical_slice(
            rng,
            z[LIKELIHOOD],
            noise_mean(z),
            noise_root,
            current,
            lambda values, z=z, f=f: log_likelihood(f, natural(replaced(z, LIKELIHOOD, values))),
        )
        z = replaced(z, LIKELIHOOD, values)
        theta = natural(z)
        f, current = latent(f, current, 1, m, root, theta)
        all_f.append(f + theta[4])
        all_z.append(z)
    return np.array(all_f), np.array(all_z)
