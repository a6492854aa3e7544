"""Kernels of fields that move with a velocity and spread: ``f(t, x) = g(t, x − v t)``, and more with a diffusion."""

from __future__ import annotations

import equinox as eqx
import numpy as np
from jaxtyping import Float

from seqgp.base.errors import ModelError
from seqgp.base.priors import Kept, Parameter, Prior, Slot, as_entry, as_slot
from seqgp.base.validation import is_number
from seqgp.kernels.separable import Advection, LatentKernel, Separable
from seqgp.kernels.spectral import check_density

__all__ = ["Advected"]

MAX_COLUMNS = 3  # of x: Fourier modes are as many as the volume of the box in lengthscales


class Advected(LatentKernel):
    """A field that moves with a velocity ``v`` and spreads with a diffusion ``κ``, as storms and ocean eddies do.

    A wave ``k`` of the field moves by ``v`` and fades by ``exp(−κ |k|² |t − t'|)`` beside what the kernel of time
    says. Without diffusion the kernel is ``scale² · time(|t − t'|) · space(x − x' − v (t − t'))``; with ``v = 0`` too
    it is the one inside. ``OnlineSampler`` represents the field by Fourier modes of a periodic box around the data, so
    inputs may be many and may move; ``info.extras["truncation_error"]`` is the largest error of the covariance, as a
    share of the variance.

    Args:
        kernel: a separable kernel, or a sum of them that share the velocity; other terms are added outside. Kernels of
            space are ``Matern12``, ``Matern32``, ``Matern52``, ``SquaredExponential``, ``PerColumn`` of these, or one
            of them ``Rotated``.
        velocity: ``v``, distance per time, a number or a prior for each column of ``x``.
        diffusion: ``κ``, distance² per time.
        shortest: the shortest wavelength of the modes; from the priors of the lengthscales by default.
        margin: the distance from the data to their periodic images, beyond which the box repeats itself; from the
            priors of the lengthscales by default. Predictions reach up to a quarter of it beyond the data.
    """

    kernel: LatentKernel
    velocity: tuple[float | Prior, ...]
    diffusion: float | Prior
    shortest: float | None = eqx.field(static=True)
    margin: float | None = eqx.field(static=True)

    def __init__(
        self,
        kernel: LatentKernel,
        velocity: Slot,
        diffusion: Parameter = 0.0,
        shortest: float | None = None,
        margin: float | None = None,
    ):
        if not isinstance(kernel, LatentKernel):
            raise ModelError(
                f"Advected: kernel must be seqgp.Separable(time, space, scale) or a sum of them, got "
                f"{type(kernel).__name__}"
            )
        if kernel.delayed or kernel.advected:
            raise ModelError(
                "Advected: the kernel inside moves already (seqgp.Delayed or seqgp.Advected); add the terms instead"
            )
        self.kernel = kernel
        slot = as_slot(velocity, "Advected: velocity")
        self.velocity = slot if isinstance(slot, tuple) else (slot,)
        self.diffusion = as_entry(diffusion, "Advected: diffusion")
        least = self.diffusion.ends()[0] if isinstance(self.diffusion, Prior) else self.diffusion
        if least < 0:
            raise ModelError(
                f"Advected: diffusion reaches down to {least:.3g}; give a number or a prior that is not negative"
            )
        self.shortest, self.margin = _length(shortest, "shortest"), _length(margin, "margin")
        for prefix, term in self.terms():
            check_density(term.space, f"Advected: {prefix}space")

    def slots(self) -> dict[str, Kept]:
        """The parameters of the kernel inside, under their names, ``velocity`` and ``diffusion``."""
        return self.kernel.slots() | {"velocity": self.velocity, "diffusion": self.diffusion}

    def terms(self) -> tuple[tuple[str, Separable], ...]:
        """The separable terms inside, each with the prefix of its parameters."""
        return self.kernel.terms()

    def drifts(self) -> tuple[Advection | None, ...]:
        """The velocity and the diffusion, which all terms share."""
        spreads = isinstance(self.diffusion, Prior) or self.diffusion > 0
        return (Advection("velocity", "diffusion", spreads, self.shortest, self.margin),) * len(self.terms())

    def check_inputs(self, x: Float[np.ndarray, "n D"]) -> None:
        """Raise unless there is a velocity for each column."""
        if x.shape[1] != len(self.velocity):
            raise ModelError(
                f"Advected: velocity has {len(self.velocity)} entries, but x has {x.shape[1]} columns: give one for "
                "each column, 0 for a column along which nothing moves"
            )
        if x.shape[1] > MAX_COLUMNS:
            raise ModelError(f"Advected: x has {x.shape[1]} columns, and Fourier modes take at most {MAX_COLUMNS}")
        super().check_inputs(x)


def _length(value: object, name: str) -> float | None:
    if value is None:
        return None
    if not is_number(value) or not 0 < float(value) < np.inf:  # type: ignore[arg-type]
        raise ModelError(f"Advected: {name} = {value!r} is not a positive length")
    return float(value)  # type: ignore[arg-type]
