"""Functions of the parameters kept as quadratics: the bounded past, and what linearisations leave over.

Of a stream without end, the data of the last few hundred snapshots are kept. What those before them said about the
parameters is remembered as a quadratic of ``z``, fitted to the log evidences of the particles at one time, the anchor:
the posterior contracts, and on a small region every smooth function is a quadratic. A new particle's filter begins at
its stationary state ``history`` snapshots before the anchor, long enough for that to be forgotten.

A snapshot whose likelihood sees all of the latent is linearised once, at the mean of the particles, when it arrives.
Filters of later particles take the data through its linearisation, so that they call no solver. What it leaves over is
the mean ratio of the likelihood to its linearisation: estimated by draws for every particle of that time, and kept as a
quadratic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from seqgp.statespace.linearise import Linearisation

RIDGE = 1e-6


class QuadraticFit(NamedTuple):
    """A quadratic of ``z``: the nearest to a function that is known at the values of particles."""

    centre: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    coefficients: Float[np.ndarray, " k"]  # of 1, u, and the products of u, where u = (z − centre) / scale
    residual: float  # sd of what it leaves over

    @classmethod
    def fitted(
        cls,
        z: Float[np.ndarray, "S d"],
        values: Float[np.ndarray, " S"],
        weights: Float[np.ndarray, " S"],
        ridge: float = RIDGE,
    ) -> QuadraticFit:
        """To values at the points of particles, where its weights are; a larger ``ridge`` keeps it flatter."""
        alive = np.isfinite(values)
        z, values = z[alive], values[alive]
        weights = weights[alive] / weights[alive].sum()
        centre = weights @ z
        scale = np.sqrt(weights @ (z - centre) ** 2) + 1e-12
        features = _features((z - centre) / scale)
        # Tails count too: new particles are proposed from a distribution that is wider than the particles.
        root = np.sqrt(weights + 0.1 / len(weights))[:, None]
        top = values.max()
        penalty = np.diag([RIDGE] + [ridge] * (features.shape[1] - 1))
        gram = (features * root**2).T @ features + penalty
        coefficients = np.linalg.solve(gram, (features * root**2).T @ (values - top))
        left = values - top - features @ coefficients
        coefficients[0] += top
        return cls(centre, scale, coefficients, float(np.sqrt(weights @ left**2)))

    def at(self, z: Float[np.ndarray, "S d"], within: float = np.inf) -> Float[np.ndarray, " S"]:
        """Its values; beyond ``within`` standard deviations of the particles, those at the edge."""
        return _features(np.clip((z - self.centre) / self.scale, -within, within)) @ self.coefficients


class Memory(NamedTuple):
    """What the data up to the anchor said about the parameters."""

    anchor: int  # the step
    log_evidence: QuadraticFit  # of all data up to the anchor


def discounted_evidence(
    z: Float[np.ndarray, "S d"],
    increments: Float[np.ndarray, "S T"],
    forget: float,
    memory: Memory | None,
    dropped: int,
) -> Float[np.ndarray, " S"]:
    """The log evidence of data, each step further back counting less by ``forget``.

    Args:
        z: the parameters.
        increments: of the log evidence, of each snapshot that is kept.
        forget: the discount.
        memory: what stands for the data up to its anchor.
        dropped: how many snapshots are not kept.
    """
    since = increments if memory is None else increments[:, memory.anchor - dropped :]
    ages = np.arange(since.shape[1], 0, -1)
    found = since @ forget ** ages.astype(float)
    return found if memory is None else found + forget ** float(len(ages)) * memory.log_evidence.at(z)


def _features(u: np.ndarray) -> np.ndarray:
    i, j = np.triu_indices(u.shape[1])
    return np.concatenate([np.ones((len(u), 1)), u, u[:, i] * u[:, j]], axis=1)


MAX_SDS = 4.0  # standard deviations of the particles that the correction was fitted to


class LinearisedSnapshot(NamedTuple):
    """How filters take a snapshot, and what corrects the evidence."""

    line: Linearisation
    correction: QuadraticFit | None = None

    def log_correction(self, z: Float[np.ndarray, "S d"]) -> Float[np.ndarray, " S"]:
        """The log of the mean ratio of likelihood to its linearisation at values of the parameters."""
        return np.zeros(len(z)) if self.correction is None else self.correction.at(z, MAX_SDS)
