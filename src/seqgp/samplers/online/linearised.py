"""The linearisation of a snapshot whose likelihood sees all of the latent: kept with its data for as long as the run.

It is found once, at the mean of the particles, when the snapshot arrives. Filters of later particles take the data
through it, so that they call no solver. What it leaves over is the mean ratio of the likelihood to its linearisation:
estimated by draws for every particle of that time, and kept as a quadratic of the parameters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from seqgp.samplers.online.memory import QuadraticFit
from seqgp.statespace.linearise import Linearisation

MAX_SDS = 4.0  # standard deviations of the particles that the correction was fitted to


class LinearisedSnapshot(NamedTuple):
    """How filters take a snapshot, and what corrects the evidence."""

    line: Linearisation
    correction: QuadraticFit | None = None

    def log_correction(self, z: Float[np.ndarray, "S d"]) -> Float[np.ndarray, " S"]:
        """The log of the mean ratio of likelihood to its linearisation at values of the parameters."""
        return np.zeros(len(z)) if self.correction is None else self.correction.at(z, MAX_SDS)
