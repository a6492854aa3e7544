"""SequentialState: draws of the posterior, and what the next step needs of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, PyTree

from seqgp.base.errors import SamplerError
from seqgp.base.snapshot import Snapshot
from seqgp.fields.protocol import Latent
from seqgp.fields.sites import Window
from seqgp.linalg.types import ArrayLike
from seqgp.model import Model
from seqgp.samplers.base import described
from seqgp.samplers.sequential.conditioning import Conditioning, conditioning_of


class SequentialState(NamedTuple):
    """Equally weighted posterior draws after a snapshot, and what the next step needs of them.

    Attributes:
        t: the time of the snapshot.
        step: its number, from 1.
        latent: the latent function ``f`` at the inputs of the snapshot, its mean included, ``(draws, N)``.
        parameters: the inferred parameters in natural units by name, each ``(draws,)`` or ``(draws, entries)``.
        z: the same parameters as standard-form Gaussians, ``(draws, d)``.
        window: the last ``tau`` times, this one included, with the zero-mean part of ``f`` there.
        representation: the representation of the latent function.
        fingerprint: of the model.
    """

    t: float
    step: int
    latent: Float[ArrayLike, "draws N"]
    parameters: Mapping[str, ArrayLike]
    z: Float[ArrayLike, "draws d"]
    window: Window
    representation: Latent
    fingerprint: str

    def __repr__(self) -> str:
        return described(self)

    @property
    def draws(self) -> int:
        """The number of draws."""
        return self.z.shape[0]

    @property
    def dimension(self) -> int:
        """The number of columns of the inputs."""
        return self.window.x.shape[2]

    def thinned(self, draws: int) -> SequentialState:
        """A state of fewer draws, evenly spread over those there are."""
        if self.draws <= draws:
            return self
        chosen = np.linspace(0, self.draws - 1, draws).round().astype(int)
        return self._replace(
            latent=np.asarray(self.latent)[chosen],
            parameters={name: np.asarray(values)[chosen] for name, values in self.parameters.items()},
            z=np.asarray(self.z)[chosen],
            window=self.window._replace(f=np.asarray(self.window.f)[chosen]),
        )

    def predictive(self, model: Model, x: Float[np.ndarray, "n D"], t: float, context: PyTree = None) -> Conditioning:
        """``f`` at new inputs, now or later, given the window of each draw."""
        return conditioning_of(self, model, x, t, context)

    def ready(self, model: Model) -> SequentialState:
        """As it is."""
        return self

    def packed(self) -> SequentialState:
        """All of it is kept on disk."""
        return self

    def beside_data(self) -> None:
        """Nothing: a step needs the state before it alone."""

    def unpacked(self, kept: Callable[[int], Sequence[tuple[Snapshot, PyTree]]]) -> SequentialState:
        """The state as it was kept."""
        return self


def moments_of_z(model: Model, state: SequentialState) -> tuple[np.ndarray, np.ndarray]:
    """Mean and centred covariance of ``z`` over the draws (eq. 8): what passes to the next step beside the window.

    After the first snapshot, which says nothing about the time kernel, its parameters keep their prior.
    """
    prior_mean, prior_covariance = model.prior_of_z()
    z = np.asarray(state.z)
    if z.shape[1] == 0:
        return prior_mean, prior_covariance
    if len(z) < 2:
        raise SamplerError("step: a state of 1 draw has no covariance of the parameters to carry; use draws >= 2")
    mean = z.mean(axis=0)
    # A trace of the prior keeps the covariance regular with fewer draws than parameters.
    covariance = np.atleast_2d(np.cov(z, rowvar=False)) + 1e-9 * prior_covariance
    if state.step == 1:
        time = model.layout().time
        mean[time] = prior_mean[time]
        covariance[time, :] = covariance[:, time] = 0.0
        covariance[np.ix_(time, time)] = prior_covariance[np.ix_(time, time)]
    return mean, covariance
