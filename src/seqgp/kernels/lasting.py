"""Kernels of time whose correlation decays to a level and stays there: a fitted state, and a constant beside it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Float

from seqgp.base.priors import Parameters, Prior
from seqgp.kernels.fitted_states import correlation_at, values_at
from seqgp.kernels.states import TimeState

if TYPE_CHECKING:
    from seqgp.kernels.base import Kernel

FAR = np.geomspace(1e9, 1e12, 5)  # distances at which nothing changes any more
EQUAL = 1e-7  # of a correlation: differences that count as none
MAX_SHARE = 0.999  # beyond, nothing is left to fit
PRIOR_SDS = (-2.0, 0.0, 2.0)  # of each inferred parameter, at which the level is looked at
MAX_INFERRED = 4


class LastingState(eqx.Module):
    """A state, and a level that never moves with so large a ``share`` of the variance."""

    part: TimeState
    share: float = eqx.field(static=True)

    @property
    def order(self) -> int:
        """One for the level."""
        return self.part.order + 1

    @property
    def error(self) -> float:
        """That of the part, which has the rest of the variance."""
        return (1 - self.share) * self.part.error

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The values of parameters that the part covers."""
        return getattr(self.part, "ranges", {})

    def observe(self, parameters: Parameters) -> Float[Array, " p"]:
        """The part and the level."""
        return jnp.append(self.part.observe(parameters), 1.0)

    def stationary(self, parameters: Parameters) -> Float[Array, "p p"]:
        """Block by block: the part has the variance ``1 − share`` of the whole."""
        covariance, h = self.part.stationary(parameters), self.part.observe(parameters)
        level = self.share / (1 - self.share) * (h @ covariance @ h)
        return block_diag(covariance, level[None, None])

    def transition(self, parameters: Parameters, dt) -> Float[Array, "p p"]:
        """Block by block; the level stays."""
        return block_diag(self.part.transition(parameters, dt), jnp.ones((1, 1)))


def lasting_share(kernel: Kernel) -> float:
    """The level to which the correlation decays; 0 where it changes with a parameter, or is not reached."""
    inferred = [name for name, slot in kernel.slots().items() if isinstance(slot, Prior)]
    if len(inferred) > MAX_INFERRED:
        return 0.0
    with jax.enable_x64(True), jax.ensure_compile_time_eval():  # a model may be made inside a trace
        each = {sds: values_at(kernel, sds) for sds in PRIOR_SDS}
        ends = []
        for shifts in itertools.product(PRIOR_SDS, repeat=len(inferred)):
            moved = {name: each[sds][name] for name, sds in zip(inferred, shifts)}
            ends.append(correlation_at(kernel, each[0.0] | moved)(FAR))
    found = np.array(ends)
    share = float(found[0, -1])
    converged = bool(np.all(np.isfinite(found))) and float(np.abs(found - share).max()) < EQUAL
    return share if converged and EQUAL < share < MAX_SHARE else 0.0
