"""Particles: values of the parameters with weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp


class Particles(NamedTuple):
    """Values of ``z``, each with ``log weight = log prior + log evidence − log proposal``."""

    z: Float[np.ndarray, "S d"]
    log_prior: Float[np.ndarray, " S"]
    log_evidences: Float[np.ndarray, " S"]  # of all data before the last snapshot; −inf where a filter failed
    log_increment: Float[np.ndarray, " S"]  # of the last snapshot given those before
    log_proposal: Float[np.ndarray, " S"]
    variance: float  # of the log evidence of the whole, from before the weights were made equal

    def log_weights(self, power: float = 1.0) -> Float[np.ndarray, " S"]:
        """With the last snapshot's likelihood raised to a power."""
        increment = power * self.log_increment if power else np.where(np.isneginf(self.log_increment), -np.inf, 0.0)
        return self.log_prior + self.log_evidences + increment - self.log_proposal

    def weights(self, power: float = 1.0) -> Float[np.ndarray, " S"]:
        """Normalised."""
        logs = self.log_weights(power)
        return np.exp(logs - logsumexp(logs))

    def ess(self, power: float = 1.0) -> float:
        """The effective number of particles, ``1 / Σ weights²``."""
        return float(1 / np.sum(self.weights(power) ** 2))

    def distinct_ess(self) -> float:
        """The effective number of different particles: copies count as one.

        After resampling all weights are equal, also where every particle is a copy of one that no move has changed.
        """
        _, group = np.unique(self.z, axis=0, return_inverse=True)
        return float(1 / np.sum(np.bincount(group.reshape(-1), self.weights()) ** 2))

    def log_evidence(self, power: float = 1.0) -> float:
        """The log evidence of the model: the mean weight."""
        return float(logsumexp(self.log_weights(power)) - np.log(len(self.z)))

    def log_evidence_variance(self) -> float:
        """The variance of ``log_evidence``."""
        size = len(self.z)
        return self.variance + max(size / self.ess() - 1, 0.0) / size

    def temper(self, from_power: float, min_ess: float) -> float:
        """The largest power of the last snapshot, up to 1, at which the ESS is ``min_ess``."""
        if self.ess() >= min_ess:
            return 1.0
        low, high = from_power, 1.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.ess(middle) >= min_ess else (low, middle)
        return max(low, from_power + 1e-4 * (1 - from_power))

    def advanced(self, forget: float) -> Particles:
        """The last snapshot becomes one of those before, whose evidence is discounted by ``forget``."""
        return self._replace(
            log_evidences=forget * (self.log_evidences + self.log_increment)
            if forget != 1
            else self.log_evidences + self.log_increment,
            log_increment=np.zeros_like(self.log_increment),
        )


def systematic(rng: np.random.Generator, weights: Float[np.ndarray, " S"], count: int) -> np.ndarray:
    """Indices drawn in proportion to weights, each as often as its share says, up to one."""
    positions = (rng.random() + np.arange(count)) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), positions), len(weights) - 1)
