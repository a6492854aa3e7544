"""What passes from step to step: the moments of ``z``, and the window of the latent.

A carry turns the draws of a finished step into the prior of the next one. It decides what is drawn anew with each draw
of the chain (``per_draw``), and how offset and root of the sites follow from the conditional prior of the present.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.latents.protocol import Conditional, Root
from seqgp.models.errors import SamplerError
from seqgp.models.model import Model
from seqgp.models.types import Array
from seqgp.sequential.state import State


class Carried(NamedTuple):
    """The prior of a step, as arrays."""

    mean: Float[Array, "d"]  # of z
    covariance: Float[Array, "d d"]
    shared: Any  # what the carry needs besides, the same for every draw


class Carry(Protocol):
    """A way to pass the past on."""

    @property
    def name(self) -> str: ...  # noqa: D102

    def summarise(self, model: Model, state: State) -> Carried:
        """The prior of the next step from the draws of the last."""
        ...

    def report(self, model: Model, state: State) -> tuple[dict[str, Any], list[str]]:
        """What a person wants to know of the carry after a step: numbers, and remarks in plain words."""
        ...

    def per_draw(self, model: Model, state: State) -> Float[Array, "draws tau S"]:
        """What each draw of the next step conditions on."""
        ...

    def size(self, tau: int, sites: int) -> int:
        """The number of sites that a step samples: those of the present, and of the window if it moves."""
        ...

    def given(self, shared: Any, conditional: Conditional, z: Float[Array, "d"]) -> Any:
        """What the kernel's parameters decide: the prior of the present given the window, and whatever is more."""
        ...

    def offset(
        self,
        shared: Any,
        window: Float[Array, "tau S"],
        given: Any,
        z: Float[Array, "d"],
        mean: Array,
    ) -> Float[Array, "n"]:
        """The prior mean of the sites."""
        ...

    def root(self, shared: Any, given: Any) -> Root:
        """The square root of the prior covariance of the sites."""
        ...

    def slide(self, window: Float[Array, "draws tau S"], sites: Float[Array, "draws n"], mean: Array) -> Array:
        """The latents of window and present, ``(draws, tau+1, S)``, after the step (zero-mean)."""
        ...


def moments_of_z(model: Model, state: State) -> tuple[np.ndarray, np.ndarray]:
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


def means_of(model: Model, state: State) -> np.ndarray:
    """The mean, known or inferred, of each draw of a state."""
    if "mean" in state.parameters:
        return np.asarray(state.parameters["mean"])
    return np.full(state.draws, float(model.mean))


class PaperCarry(eqx.Module):
    """The paper's: ``f`` of the window frozen, draw by draw, and independent Gaussian moments of ``z``."""

    @property
    def name(self) -> str:  # noqa: D102
        return "paper"

    def summarise(self, model, state):  # noqa: D102
        return Carried(*moments_of_z(model, state), shared=None)

    def report(self, model, state):  # noqa: D102
        return {}, []

    def per_draw(self, model, state):  # noqa: D102
        return state.window.f

    def size(self, tau, sites):  # noqa: D102
        return sites

    def given(self, shared, conditional, z):  # noqa: D102
        return conditional

    def offset(self, shared, window, given, z, mean):  # noqa: D102
        return given.mean(window)

    def root(self, shared, given):  # noqa: D102
        return given.root

    def slide(self, window, sites, mean):  # noqa: D102
        return jnp.concatenate([window, sites[:, None, :]], axis=1)


class LevelCarry(PaperCarry):
    """The level ``h = f + mu`` of the window frozen: ``f = h − mu`` for whatever ``mu`` is current."""

    @property
    def name(self) -> str:  # noqa: D102
        return "level"

    def per_draw(self, model, state):  # noqa: D102
        return state.window.f + means_of(model, state)[:, None, None]

    def offset(self, shared, window, given, z, mean):  # noqa: D102
        return given.mean(window - mean)

    def slide(self, window, sites, mean):  # noqa: D102
        return jnp.concatenate([window - mean[:, None, None], sites[:, None, :]], axis=1)
