"""What passes from step to step: the moments of ``z``, and the window of the latent.

A carry turns the draws of a finished step into the prior of the next one. It decides what each draw of the chain
conditions on (``window_draws``), and how offset and root of the sites follow from the conditional prior of the present.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.base.errors import SamplerError
from seqgp.fields.protocol import Conditional, Root
from seqgp.linalg.types import Array, ArrayLike
from seqgp.mcmc.carried import Carried, WindowPrior
from seqgp.model import Model
from seqgp.samplers.sequential.state import SequentialState


@runtime_checkable
class Carry(WindowPrior, Protocol):
    """A way to pass the past on. Whatever keeps this protocol can be a sampler's ``carry=``."""

    @property
    def name(self) -> str:
        """What an info calls it."""
        ...

    def summarise(self, model: Model, state: SequentialState) -> Carried:
        """The prior of the next step from the draws of the last."""
        ...

    def report(self, model: Model, state: SequentialState) -> tuple[dict[str, float], list[str]]:
        """What a person wants to know of the carry after a step: numbers, and remarks in plain words."""
        ...

    def window_draws(self, model: Model, state: SequentialState) -> Float[ArrayLike, "draws tau S"]:
        """The window that each draw of the next step conditions on."""
        ...

    def slide(self, window: Float[Array, "draws tau S"], sites: Float[Array, "draws n"], mean: Array) -> Array:
        """The latents of window and present, ``(draws, tau+1, S)``, after the step (zero-mean)."""
        ...


def moments_of_z(model: Model, state: SequentialState) -> tuple[np.ndarray, np.ndarray]:
    """Mean and centred covariance of ``z`` over the draws (eq. 8).

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


def means_of(model: Model, state: SequentialState) -> np.ndarray:
    """The constant of the mean, known or inferred, of each draw of a state."""
    if "mean" in state.parameters:
        return np.asarray(state.parameters["mean"])
    return np.full(state.draws, np.asarray(model.mean_function.slots()["mean"], dtype=float))


class PaperCarry(eqx.Module):
    """The paper's: ``f`` of the window frozen, draw by draw, and independent Gaussian moments of ``z``."""

    @property
    def name(self) -> str:
        """``"paper"``."""
        return "paper"

    def summarise(self, model: Model, state: SequentialState) -> Carried:
        """``N(m_z, K_z)`` with the moments of the draws."""
        return Carried(*moments_of_z(model, state), window_moments=None)

    def report(self, model: Model, state: SequentialState) -> tuple[dict[str, float], list[str]]:
        """Nothing."""
        return {}, []

    def window_draws(self, model: Model, state: SequentialState) -> Float[ArrayLike, "draws tau S"]:
        """``f`` of the window, draw by draw."""
        return state.window.f

    def size(self, tau: int, sites: int) -> int:
        """The sites of the present: the window stays where it is."""
        return sites

    def prior_at(self, window_moments: None, conditional: Conditional, z: Float[Array, " d"]) -> Conditional:
        """The prior of the present given the window, ``N(A f_w, L_t L_t')``."""
        return conditional

    def offset(self, window_moments: None, window: Array, prior: Conditional, z: Array, mean: Array) -> Array:
        """``A f_w``."""
        return prior.mean(window)

    def root(self, window_moments: None, prior: Conditional) -> Root:
        """``L_t``."""
        return prior.root

    def slide(self, window: Array, sites: Array, mean: Array) -> Array:
        """The window as it was, and the present after it."""
        return jnp.concatenate([window, sites[:, None, :]], axis=1)


class LevelCarry(PaperCarry):
    """The level ``h = f + mu`` of the window frozen: ``f = h − mu`` for whatever ``mu`` is current."""

    @property
    def name(self) -> str:
        """``"level"``."""
        return "level"

    def window_draws(self, model: Model, state: SequentialState) -> Float[ArrayLike, "draws tau S"]:
        """``h = f + mu`` of the window, draw by draw."""
        return state.window.f + means_of(model, state)[:, None, None]

    def offset(self, window_moments: None, window: Array, prior: Conditional, z: Array, mean: Array) -> Array:
        """``A (h − mu)``."""
        return prior.mean(window - mean)

    def slide(self, window: Array, sites: Array, mean: Array) -> Array:
        """``h − mu`` of the window, with the mean of after the step, and the present after it."""
        return jnp.concatenate([window - mean[:, None, None], sites[:, None, :]], axis=1)
