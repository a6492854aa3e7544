"""The filter for inputs that move: on knots, along the leading eigenvectors of the space kernel there."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.fields.sites import round_size
from seqgp.kernels.base import Parameters
from seqgp.linalg.factor import eigenvectors
from seqgp.linalg.types import ArrayLike
from seqgp.statespace.dense import DenseFilter, DenseMatrices
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.observation import Observation, padded


class ModeFilter(DenseFilter):
    """A filter whose state is coefficients of modes in space: it takes data at any inputs."""

    def takes(self, sites: int, complete: bool) -> bool:
        """Any inputs."""
        return True

    def sized(self, observation: Observation) -> Observation:
        """Padded to one of a few sizes; linearised data keep their number."""
        return observation if observation.line is not None else padded(observation, round_size(len(observation.y)))


class ModalFilter(ModeFilter):
    """The filter on knots, in the coordinates of the leading eigenvectors of the space kernel there."""

    knots: Float[ArrayLike, "K D"]

    def __init__(self, ssm: StateSpaceModel, knots: Float[ArrayLike, "K D"], modes: int):
        self.ssm, self.knots = ssm, knots
        self.x, self.mask = np.zeros((modes, knots.shape[1])), np.ones(modes, bool)

    @property
    def name(self) -> str:
        """In a word, for people."""
        return "modes of knots"

    def matrices_at(self, parameters: Parameters) -> DenseMatrices:
        """Eigenvectors of the space kernel; of several terms, those of their sum.

        Those of one term would leave out what another, less smooth one needs.
        """
        knots = jnp.asarray(self.knots)
        spaces = self.ssm.space(parameters, self.ssm.distances(knots, knots))
        values, vectors = eigenvectors(functools.reduce(jnp.add, spaces))
        basis = vectors[:, -self.sites :]
        if len(spaces) == 1:
            return DenseMatrices(parameters, (jnp.diag(values[-self.sites :]),), basis)
        return DenseMatrices(parameters, tuple(basis.T @ space @ basis for space in spaces), basis)
