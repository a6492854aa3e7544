"""Data simulated from the models of the paper."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import seqgp


class Truth(NamedTuple):
    """Simulated snapshots, and what they were simulated from."""

    snapshots: list[seqgp.Snapshot]
    f: np.ndarray  # (T, N)
    parameters: dict[str, np.ndarray]


def regression_model() -> seqgp.Model:
    """The model of section 4.1: a squared exponential in time and two dimensions of space, Gaussian noise."""
    reach = 10**0.5
    return seqgp.Model(
        kernel=seqgp.Separable(
            time=seqgp.kernels.SquaredExponential(lengthscale=seqgp.ScaledSigmoid(0, reach)),
            space=seqgp.kernels.SquaredExponential(lengthscale=[seqgp.ScaledSigmoid(0, reach)] * 2),
            scale=seqgp.ScaledSigmoid(0, 2),
        ),
        mean=seqgp.ScaledSigmoid(0, 1),
        likelihood=seqgp.likelihoods.Gaussian(noise=seqgp.ScaledSigmoid(0, 1)),
    )


def regression_data(seed: int, n: int = 200, steps: int = 20) -> Truth:
    """Section 4.1: inputs uniform on the unit square, lengthscales uniform on (0, √10), scale 1, mean .5, noise .3."""
    rng = np.random.default_rng(seed)
    lengthscales = rng.uniform(0, 10**0.5, 3)  # two of space, one of time
    times = np.linspace(0, 1, steps)
    x = rng.random((steps, n, 2))
    points = np.concatenate([np.column_stack([x[i], np.full(n, t)]) for i, t in enumerate(times)]) / lengthscales
    squared = (points**2).sum(axis=1)
    covariance = np.exp(points @ points.T - 0.5 * squared[:, None] - 0.5 * squared[None, :])
    covariance[np.diag_indices_from(covariance)] += 1e-8
    f = 0.5 + (np.linalg.cholesky(covariance) @ rng.standard_normal(steps * n)).reshape(steps, n)
    y = f + 0.3 * rng.standard_normal(f.shape)
    snapshots = [seqgp.Snapshot(t, x[i], y[i]) for i, t in enumerate(times)]
    parameters = {
        "time.lengthscale": lengthscales[2],
        "space.lengthscale": lengthscales[:2],
        "scale": np.array(1.0),
        "mean": np.array(0.5),
        "noise": np.array(0.3),
    }
    return Truth(snapshots, f, parameters)
