"""What passes from step to step: the moments of ``z``, and the window of the latent.

A carry turns the draws of a finished step into the prior of the next one. It decides what is drawn anew with each draw
of the chain (``per_draw``), and how offset and root of the sites follow from the conditional prior of the present.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from seqgp.models.errors import SamplerError
from seqgp.models.model import Model
from seqgp.sequential.state import SequentialState
from seqgp.target.carry import Carried


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
