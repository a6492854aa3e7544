"""The stream: stations in the unit square, Matérn-1/2 in time times Matérn-3/2 in space, Gaussian noise.

All scripts import this file, so it needs NumPy only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

NAMES = ("time.lengthscale", "space.lengthscale", "scale", "noise")
# The priors are log-normal: mean and sd of the logarithm of each parameter.
PRIOR = np.array([[1.5, 1.0], [-0.7, 0.7], [0.0, 0.5], [-1.5, 0.7]])
TRUTH = np.array([5.0, 0.4, 1.0, 0.3])


class Stream(NamedTuple):
    """Complete data at times 0, 1, 2, …."""

    x: np.ndarray  # (N, 2)
    y: np.ndarray  # (T, N)

    def save(self, path: Path) -> None:
        """Write both arrays."""
        np.savez(path, x=self.x, y=self.y)


def simulate(seed: int, stations: int, steps: int) -> Stream:
    """Data of the model at the true parameters."""
    rng = np.random.default_rng(seed)
    x = rng.random((stations, 2))
    lengthscale, _, _, noise = TRUTH
    root = np.linalg.cholesky(space_covariance(x, TRUTH) + 1e-10 * np.eye(stations))
    decay = np.exp(-1 / lengthscale)
    f = root @ rng.standard_normal(stations)
    rows = []
    for _ in range(steps):
        rows.append(f + noise * rng.standard_normal(stations))
        f = decay * f + np.sqrt(1 - decay**2) * (root @ rng.standard_normal(stations))
    return Stream(x, np.array(rows))


def space_covariance(x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """``scale² K_space`` at one value of the parameters, or at many: ``(…, N, N)`` for ``(…, 4)``."""
    distance = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))
    lengthscale, scale = np.asarray(theta)[..., 1, None, None], np.asarray(theta)[..., 2, None, None]
    r = np.sqrt(3) * distance / lengthscale
    return scale**2 * (1 + r) * np.exp(-r)


def some_values(count: int) -> np.ndarray:
    """Logarithms of parameters ``(count, 4)`` near the centre of the prior, at which all filters are compared."""
    return PRIOR[:, 0] + 0.2 * np.random.default_rng(0).standard_normal((count, 4))


def load() -> Stream:
    """The stream whose file is the script's argument."""
    with np.load(sys.argv[1]) as kept:
        return Stream(kept["x"], kept["y"])


def tell(**found: Any) -> None:
    """One line of JSON: what the driver reads."""
    print(json.dumps({key: np.asarray(value).tolist() for key, value in found.items()}))


def summary(theta: np.ndarray, weights: np.ndarray | None = None) -> dict[str, Any]:
    """Mean and sd of the logarithm of each parameter, over draws ``(draws, 4)``."""
    logs = np.log(theta)
    mean = np.average(logs, axis=0, weights=weights)
    return {"mean": mean, "sd": np.sqrt(np.average((logs - mean) ** 2, axis=0, weights=weights))}
