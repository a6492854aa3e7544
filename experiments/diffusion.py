"""A nonlinear inverse problem: the coefficient field of a one-dimensional diffusion, from measured concentrations.

``−(exp(u(x)) p'(x))' = s(x)`` on (0, 1), ``p(0) = p(1) = 0``. The log coefficient ``u`` is the latent, at 60 inputs;
``p`` is measured at 20 sensors for each of two sources ``s``. The likelihood runs the solver on all of the latent;
``docs/inverse_problem.md`` goes through it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

import seqgp

KNOTS = 60
SENSORS = 20
NOISE = 0.01  # of the signal's root mean square

inputs = (np.arange(KNOTS) + 0.5) / KNOTS  # where the log coefficient lives: the middle of each cell
sensors = np.linspace(0, 1, SENSORS + 2)[1:-1]


class Truth(NamedTuple):
    """Simulated snapshots, and what they were simulated from."""

    snapshots: list[seqgp.Snapshot]
    f: np.ndarray  # (T, KNOTS): the log coefficient
    noise: float


def concentration(u: Float[Array, " cells"]) -> Float[Array, "faces 2"]:
    """The concentration at the inner faces of the cells, one column for each source."""
    cells = u.shape[0]
    conductance = jnp.exp(u) * cells**2
    place = jnp.arange(1, cells) / cells
    source = jnp.stack([jnp.ones(cells - 1), jnp.where(place < 0.5, 2.0, 0.0)], axis=1)
    diagonal = conductance[:-1] + conductance[1:]
    beside = -conductance[1:-1]
    lower, upper = jnp.pad(beside, (1, 0)), jnp.pad(beside, (0, 1))
    return jax.lax.linalg.tridiagonal_solve(lower, diagonal, upper, source)


def measured(u: Float[Array, " cells"]) -> Float[Array, " data"]:
    """What the sensors see: for each source, the concentration interpolated to their places."""
    faces = jnp.arange(1, u.shape[0]) / u.shape[0]
    return jnp.concatenate([jnp.interp(sensors, faces, column) for column in concentration(u).T])


def _noisy(u: Array, context: Any, noise: Array) -> dist.Distribution:
    return dist.Normal(measured(u), noise)


def model() -> seqgp.Model:
    """A smooth log coefficient that drifts in time, and noise of unknown size."""
    return seqgp.Model(
        kernel=seqgp.Separable(
            time=seqgp.kernels.SquaredExponential(lengthscale=seqgp.ScaledSigmoid(0, 5)),
            space=seqgp.kernels.Matern52(lengthscale=seqgp.ScaledSigmoid(0.02, 1)),
            scale=seqgp.ScaledSigmoid(0, 2),
        ),
        mean=dist.Normal(0.0, 1.0),
        likelihood=seqgp.likelihoods.Likelihood(_noisy, noise=seqgp.ScaledSigmoid(0, 0.005)),
    )


def simulate(seed: int = 0, steps: int = 1) -> Truth:
    """Data from a coefficient that varies sixfold and drifts slowly."""
    rng = np.random.default_rng(seed)
    phases = rng.uniform(0, 2 * np.pi, 2)
    values, snapshots, noise = [], [], 0.0
    for t in 0.1 * np.arange(steps):
        u = 0.6 * np.sin(2 * np.pi * inputs + phases[0] + t) + 0.3 * np.sin(5 * np.pi * inputs + phases[1] - t)
        clean = np.asarray(measured(jnp.asarray(u)))
        noise = noise or NOISE * float(np.sqrt(np.mean(clean**2)))
        values.append(u)
        snapshots.append(seqgp.Snapshot(t, inputs[:, None], clean + noise * rng.standard_normal(len(clean))))
    return Truth(snapshots, np.array(values), noise)
