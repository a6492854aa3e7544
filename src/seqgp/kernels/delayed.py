"""Kernels with a delay: each place sees the latent process at its own local time, so that patterns move."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from seqgp.base.errors import ModelError
from seqgp.base.priors import Kept, Prior, Slot, as_slot
from seqgp.kernels.separable import LatentKernel, Separable

__all__ = ["Delayed"]


class Delayed(LatentKernel):
    """``k((t − t') − s·(x − x'), x, x')``: patterns that move, ``f(t, x) = g(t − s·x, x)`` with ``g`` separable.

    What happens at ``x`` happens at ``x + h`` a time ``s·h`` later: patterns move in the direction of ``s``, with speed
    ``1 / |s|``. With ``s = 0`` the kernel is the one inside. The kernel is valid for every ``s``.

    Args:
        kernel: a separable kernel, or a sum of them that share the slowness; other terms are added outside.
        slowness: ``s``, time per distance, a number or a prior for each column of ``x``. Where delays between stations
            may spread further than the time between two snapshots, filters of ``OnlineSampler`` are larger: tighter
            priors make them smaller.
    """

    kernel: LatentKernel
    slowness: tuple[float | Prior, ...]

    def __init__(self, kernel: LatentKernel, slowness: Slot):
        if not isinstance(kernel, LatentKernel):
            raise ModelError(
                f"Delayed: kernel must be seqgp.Separable(time, space, scale) or a sum of them, got "
                f"{type(kernel).__name__}"
            )
        if kernel.delayed or kernel.advected:
            what = "slowness" if kernel.delayed else "velocity"
            raise ModelError(f"Delayed: the kernel inside has a {what} already; give one, or add the terms")
        self.kernel = kernel
        slot = as_slot(slowness, "Delayed: slowness")
        self.slowness = slot if isinstance(slot, tuple) else (slot,)
        for i, (low, high) in enumerate(self.bounds()):
            if not np.isfinite([low, high]).all():
                raise ModelError(
                    f"Delayed: slowness[{i}]: its prior reaches from {low:.3g} to {high:.3g}; take one on an interval, "
                    "such as seqgp.ScaledSigmoid(-b, b)"
                )

    def bounds(self) -> Float[np.ndarray, "D 2"]:
        """The smallest and the largest slowness along each column of ``x``, as far as double precision can tell."""
        return np.array([entry.ends() if isinstance(entry, Prior) else (entry, entry) for entry in self.slowness])

    def slots(self) -> dict[str, Kept]:
        """The parameters of the kernel inside, under their names, and ``slowness``."""
        return self.kernel.slots() | {"slowness": self.slowness}

    def terms(self) -> tuple[tuple[str, Separable], ...]:
        """The separable terms inside, each with the prefix of its parameters."""
        return self.kernel.terms()

    def slowness_names(self) -> tuple[str | None, ...]:
        """The name of the slowness, which all terms share."""
        return ("slowness",) * len(self.terms())

    def slowness_bounds(self) -> tuple[Float[np.ndarray, "D 2"] | None, ...]:
        """The bounds of the slowness, which all terms share."""
        return (self.bounds(),) * len(self.terms())

    def check_inputs(self, x: Float[np.ndarray, "n D"]) -> None:
        """Raise unless there is a slowness for each column."""
        if x.shape[1] != len(self.slowness):
            raise ModelError(
                f"Delayed: slowness has {len(self.slowness)} entries, but x has {x.shape[1]} columns: give one for "
                "each column, 0 for a column without delay"
            )
        super().check_inputs(x)


def delay_spread(kernel: LatentKernel, x: Float[np.ndarray, "M D"]) -> float:
    """The largest ``s·(x_i − x_j)`` of any two stations, over all terms and all slowness that the priors allow."""
    widest = 0.0
    for bounds in kernel.slowness_bounds():
        if bounds is not None:
            apart = x[:, None, :] - x[None, :, :]
            widest = max(widest, float(np.maximum(apart * bounds[:, 0], apart * bounds[:, 1]).sum(axis=-1).max()))
    return widest


def refuse_moving(kernel: LatentKernel, who: str) -> None:
    """Raise where a kernel has a delay or a velocity, in the name of those who compute with separable terms alone."""
    if kernel.delayed:
        raise ModelError(
            f"{who} does not take seqgp.Delayed: use seqgp.OnlineSampler, whose filters take the delay, or "
            "seqgp.FullSampler for all times at once"
        )
    if kernel.advected:
        raise ModelError(
            f"{who} does not take seqgp.Advected: use seqgp.OnlineSampler, whose filters move Fourier modes, or, with "
            "diffusion=0, seqgp.FullSampler for all times at once"
        )
