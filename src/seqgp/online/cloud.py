"""The cloud: values of the parameters with weights. It knows nothing of space and time, only densities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp


class Cloud(NamedTuple):
    """Values of ``z``, each with ``log weight = log prior + log evidence − log proposal``."""

    z: Float[np.ndarray, "S d"]
    log_prior: Float[np.ndarray, " S"]
    log_evidence: Float[np.ndarray, " S"]  # of all data before the last snapshot; −inf where a filter failed
    last: Float[np.ndarray, " S"]  # of the last snapshot given those before
    log_proposal: Float[np.ndarray, " S"]
    variance: float  # of the log evidence of the whole, from before the weights were made equal

    def log_weights(self, power: float = 1.0) -> Float[np.ndarray, " S"]:
        """With the last snapshot's likelihood raised to a power."""
        last = power * self.last if power else np.where(np.isneginf(self.last), -np.inf, 0.0)
        return self.log_prior + self.log_evidence + last - self.log_proposal

    def weights(self, power: float = 1.0) -> Float[np.ndarray, " S"]:
        """Normalised."""
        logs = self.log_weights(power)
        return np.exp(logs - logsumexp(logs))

    def effective(self, power: float = 1.0) -> float:
        """The effective number of particles, ``1 / Σ weights²``."""
        return float(1 / np.sum(self.weights(power) ** 2))

    def distinct(self) -> float:
        """The effective number of different particles: copies count as one.

        After resampling all weights are equal, also where every particle is a copy of one that no move has changed.
        """
        _, group = np.unique(self.z, axis=0, return_inverse=True)
        return float(1 / np.sum(np.bincount(group.reshape(-1), self.weights()) ** 2))

    def log_total(self, power: float = 1.0) -> float:
        """The log evidence of the model: the mean weight."""
        return float(logsumexp(self.log_weights(power)) - np.log(len(self.z)))

    def total_variance(self) -> float:
        """The variance of ``log_total``."""
        size = len(self.z)
        return self.variance + max(size / self.effective() - 1, 0.0) / size

    def temper(self, from_power: float, least: float) -> float:
        """The largest power of the last snapshot, up to 1, at which ``least`` particles are effective."""
        if self.effective() >= least:
            return 1.0
        low, high = from_power, 1.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.effective(middle) >= least else (low, middle)
        return max(low, from_power + 1e-4 * (1 - from_power))

    def absorbed(self, forget: float) -> Cloud:
        """The last snapshot becomes one of those before, whose evidence is discounted by ``forget``."""
        return self._replace(
            log_evidence=forget * (self.log_evidence + self.last) if forget != 1 else self.log_evidence + self.last,
            last=np.zeros_like(self.last),
        )


def systematic(rng: np.random.Generator, weights: Float[np.ndarray, " S"], count: int) -> np.ndarray:
    """Indices drawn in proportion to weights, each as often as its share says, up to one."""
    positions = (rng.random() + np.arange(count)) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), positions), len(weights) - 1)
