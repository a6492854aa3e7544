"""The surrogate of a snapshot whose likelihood sees all of the latent: kept with its data for as long as the run.

It is found once, at the centre of the particles, when the snapshot arrives. Filters of particles to come take the data
through it, so that running them calls no solver. What it leaves over, the mean ratio of likelihood to surrogate, is
estimated by draws for every particle of the particles at that time, and kept as a quadratic of the parameters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from seqgp.samplers.online.memory import QuadraticFit
from seqgp.statespace.linearise import Linearisation

MAX_SDS = 4.0  # standard deviations of the particles that the correction was fitted to


class SnapshotSurrogate(NamedTuple):
    """How filters take a snapshot, and what corrects the evidence."""

    line: Linearisation
    correction: QuadraticFit | None = None

    def log_correction(self, z: Float[np.ndarray, "S d"]) -> Float[np.ndarray, " S"]:
        """The log of the mean ratio of likelihood to surrogate at values of the parameters."""
        return np.zeros(len(z)) if self.correction is None else self.correction.at(z, MAX_SDS)
