"""The kernel of the latent process: a factor in time times a factor in space, and sums of such terms (eq. 1)."""

from __future__ import annotations

import abc
import functools
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from seqgp.base.errors import ModelError
from seqgp.base.modulated import Modulated
from seqgp.base.priors import Kept, Slot, as_slot
from seqgp.base.validation import is_number
from seqgp.kernels.base import Kernel, Parameters, Prepared, positive_slot, within
from seqgp.kernels.spatial import DotProduct, as_space_kernel
from seqgp.linalg.types import ArrayLike

__all__ = ["Separable", "SeparableSum"]


class Advection(NamedTuple):
    """How a term moves and spreads (``seqgp.Advected``)."""

    velocity: str  # the names of the parameters
    diffusion: str
    spreads: bool  # whether there is a diffusion
    shortest: float | None  # of the wavelengths that represent the field, where the user says so
    margin: float | None  # from the data to their periodic images, where the user says so


class LatentKernel(eqx.Module):
    """The covariance of the latent process in time and space: one separable term, or a sum of them."""

    @abc.abstractmethod
    def terms(self) -> tuple[tuple[str, Separable], ...]:
        """The separable terms, each after the prefix of its parameters' names (``""``, or ``"0."``, ``"1."``, …)."""

    @abc.abstractmethod
    def slots(self) -> dict[str, Kept]:
        """All parameters by name."""

    @property
    def delayed(self) -> bool:
        """Whether places see a term at local times of their own (``seqgp.Delayed``)."""
        return any(name is not None for name in self.slowness_names())

    def slowness_names(self) -> tuple[str | None, ...]:
        """For each term the name of its slowness; ``None`` where it has no delay."""
        return (None,) * len(self.terms())

    def slowness_bounds(self) -> tuple[Float[np.ndarray, "D 2"] | None, ...]:
        """For each term the smallest and the largest slowness that priors allow; ``None`` where it has no delay."""
        return (None,) * len(self.terms())

    @property
    def advected(self) -> bool:
        """Whether a term moves with a velocity (``seqgp.Advected``)."""
        return any(drift is not None for drift in self.drifts())

    @property
    def moving(self) -> bool:
        """Whether time and space do not separate in a term, because it has a delay or a velocity."""
        return self.delayed or self.advected

    def drifts(self) -> tuple[Advection | None, ...]:
        """For each term how it moves and spreads; ``None`` where it does not."""
        return (None,) * len(self.terms())

    def summands(self) -> tuple[LatentKernel, ...]:
        """What a sum that this kernel is added to takes up, part by part."""
        return (self,)

    def __add__(self, other: object) -> SeparableSum:
        """The kernel of the sum of independent latent processes."""
        return SeparableSum([self, other])

    def __radd__(self, other: object) -> LatentKernel:
        """``sum(terms)`` begins with zero; anything else on the left is refused as on the right."""
        return self if is_number(other) and other == 0 else SeparableSum([other, self])

    def __mul__(self, other: object) -> LatentKernel:
        """Refused: terms add, what multiplies is inside of them."""
        raise ModelError(
            f"Separable and {type(other).__name__} do not multiply: kernels of time and of space do, inside of "
            "seqgp.Separable(time, space, scale), whose scale is a standard deviation"
        )

    __rmul__ = __mul__

    def time_names(self) -> set[str]:
        """The names of the parameters that a single time says nothing about: those of the kernels of time."""
        return {f"{prefix}time.{name}" for prefix, term in self.terms() for name in term.time.slots()}

    def variance(self, parameters: Parameters) -> Float[Array, ""]:
        """``Σ scale²``: what the jitter of covariance matrices is relative to."""
        return functools.reduce(jnp.add, [parameters[f"{prefix}scale"] ** 2 for prefix, _ in self.terms()])

    @property
    def seasonal(self) -> bool:
        """Whether the scale of a term has a season (``seqgp.means.Modulated``)."""
        return any(term.seasonal for _, term in self.terms())

    def check_inputs(self, x: Float[np.ndarray, "n D"]) -> None:
        """Raise if the kernels of space do not take these inputs."""
        for _, term in self.terms():
            term.space.check_inputs(x)

    def prepare(self, t: Float[Array, " n"], x: Float[Array, "n D"]) -> tuple[Prepared, ...]:
        """What the covariance of a row of points in time and space needs of them, term by term.

        Of a term with a delay, times and inputs: its local times depend on parameters; so do inputs that move along
        with a velocity. With a diffusion there is no closed form.
        """
        times = t[:, None]
        if any(drift is not None and drift.spreads for drift in self.drifts()):
            raise ModelError(
                "the covariance of seqgp.Advected with a diffusion has no closed form: take diffusion=0, or "
                "seqgp.OnlineSampler, which represents the field by Fourier modes"
            )
        return tuple(
            (
                term.prepare_time(times, times) if slowness is None else (t, x),
                term.space.prepare(x, x) if drift is None else (t, x),
            )
            for (_, term), slowness, drift in zip(self.terms(), self.slowness_names(), self.drifts())
        )

    def covariance(self, prepared: tuple[Prepared, ...], parameters: Parameters) -> Float[Array, "n n"]:
        """The covariance matrix of a row of points in time and space."""
        found = []
        flows = zip(self.terms(), self.slowness_names(), self.drifts(), prepared)
        for (prefix, term), slowness, drift, (of_time, of_space) in flows:
            if drift is not None:
                t, x = of_space
                along = x - t[:, None] * parameters[drift.velocity]
                of_space = term.space.prepare(along, along)
            if slowness is not None:
                t, x = of_time
                local = (t - x @ parameters[slowness])[:, None]
                of_time = term.prepare_time(t[:, None], t[:, None], local)
            found.append(term.combined(of_time, of_space, dropped(parameters, prefix)))
        return functools.reduce(jnp.add, found)


def dropped(parameters: Parameters, prefix: str) -> Parameters:
    """The parameters of one term: those whose names begin with its prefix, without it."""
    return within(parameters, prefix[:-1]) if prefix else parameters


class SeasonalTimes(NamedTuple):
    """What a kernel of time prepared of two rows of times, and the times, at which the scale has a season."""

    prepared: Prepared
    t: Float[Array, " n"]
    other: Float[Array, " m"]


class Separable(LatentKernel):
    """``scale² · time(|t − t'|) · space(x, x')``: the kernel of the latent process (eq. 1).

    Kernels of time and of space add and multiply; separable terms add. With a season in the scale the kernel is
    ``scale(t) · scale(t') · time(|t − t'|) · space(x, x')``.

    Args:
        time: a stationary kernel of one dimension, or sums and products of them.
        space: a kernel of ``seqgp.kernels``, any tinygp kernel, or any function of two points.
        scale: the standard deviation of the latent function, if the kernels of time and space have unit variance; with
            a season, ``seqgp.means.Modulated``.
    """

    time: Kernel
    space: Kernel
    scale: Kept | Modulated

    def __init__(self, time: Kernel, space: object, scale: Slot | Modulated = 1.0):
        if not isinstance(time, Kernel) or not time.stationary:
            name = "DotProduct, which grows with time; a trend is a feature of the mean, seqgp.means.Linear"
            got = name if isinstance(time, DotProduct) else type(time).__name__
            raise ModelError(f"Separable: time must be a stationary kernel, got {got}")
        time.check_dimension(1)
        self.time = time
        self.space = as_space_kernel(space)
        self.scale = scale if isinstance(scale, Modulated) else as_slot(scale, "Separable: scale")
        if isinstance(self.scale, tuple):
            raise ModelError("Separable: scale takes one number or prior, not a list")
        positive_slot(self.scale.base if isinstance(self.scale, Modulated) else self.scale, "Separable: scale")

    def slots(self) -> dict[str, Kept]:
        """All parameters of the kernel, by name: ``time.…``, ``space.…``, ``scale``."""
        slots = {f"time.{name}": slot for name, slot in self.time.slots().items()}
        slots |= {f"space.{name}": slot for name, slot in self.space.slots().items()}
        return slots | (self.scale.slots("scale") if isinstance(self.scale, Modulated) else {"scale": self.scale})

    def terms(self) -> tuple[tuple[str, Separable], ...]:
        """The separable terms, each with the prefix of its parameters."""
        return (("", self),)

    def combined(self, of_time: Prepared, of_space: Prepared, parameters: Parameters) -> Float[Array, "n n"]:
        """``scale² · time · space`` from what was prepared of the same points."""
        time = self.time_covariance(of_time, parameters)
        space = self.space.covariance(of_space, within(parameters, "space"))
        return parameters["scale"] ** 2 * time * space

    @property
    def seasonal(self) -> bool:
        """Whether the scale has a season."""
        return isinstance(self.scale, Modulated)

    def amplitude(self, parameters: Parameters, t: ArrayLike) -> Float[Array, "*T"] | None:
        """The factor of the scale at times ``t``; ``None`` without a season."""
        return self.scale.amplitude("scale", parameters, t) if isinstance(self.scale, Modulated) else None

    def prepare_time(
        self, t: Float[ArrayLike, "n 1"], other: Float[ArrayLike, "m 1"], local: Float[Array, "n 1"] | None = None
    ) -> Prepared:
        """What ``time_covariance`` needs of two columns of times, which are the same where there is a delay.

        Args:
            t: times.
            other: times.
            local: with a delay, the local times at which the process is seen at ``t``.
        """
        prepared = self.time.prepare(t, other) if local is None else self.time.prepare(local, local)
        return SeasonalTimes(prepared, jnp.asarray(t)[:, 0], jnp.asarray(other)[:, 0]) if self.seasonal else prepared

    def time_covariance(self, of_time: Prepared, parameters: Parameters) -> Float[Array, "n m"]:
        """``time(|t − t'|)``, times the amplitudes at both times where the scale has a season."""
        if not self.seasonal:
            return self.time.covariance(of_time, within(parameters, "time"))
        prepared, t, other = of_time
        found = self.time.covariance(prepared, within(parameters, "time"))
        return self.amplitude(parameters, t)[:, None] * found * self.amplitude(parameters, other)[None, :]  # type: ignore[index]


class SeparableSum(LatentKernel):
    """``Separable(…) + Separable(…)``: independent latent processes, seen as their sum.

    Parameters are called ``0.time.lengthscale``, ``1.scale``, …, in the order of the terms. A part with a delay stays
    whole: its parameters are ``0.slowness`` and ``0.time.lengthscale``, or ``0.0.time.lengthscale`` of a sum inside.
    """

    parts: tuple[LatentKernel, ...]

    def __init__(self, parts):
        found: list[LatentKernel] = []
        for part in parts:
            if not isinstance(part, LatentKernel):
                raise ModelError(
                    f"Separable + {type(part).__name__}: expected another seqgp.Separable(time, space, scale); kernels "
                    "of time or of space are added inside it"
                )
            found += part.summands()
        self.parts = tuple(found)

    def summands(self) -> tuple[LatentKernel, ...]:
        """Its parts."""
        return self.parts

    def terms(self) -> tuple[tuple[str, Separable], ...]:
        """The separable terms, each with the prefix of its parameters."""
        return tuple((f"{i}.{prefix}", term) for i, part in enumerate(self.parts) for prefix, term in part.terms())

    def slots(self) -> dict[str, Kept]:
        """The parameters by name, each a number or a prior."""
        return {f"{i}.{name}": slot for i, part in enumerate(self.parts) for name, slot in part.slots().items()}

    def slowness_names(self) -> tuple[str | None, ...]:
        """For each term the name of its slowness; ``None`` where it has no delay."""
        found = [(i, name) for i, part in enumerate(self.parts) for name in part.slowness_names()]
        return tuple(None if name is None else f"{i}.{name}" for i, name in found)

    def slowness_bounds(self) -> tuple[Float[np.ndarray, "D 2"] | None, ...]:
        """For each term the smallest and the largest slowness that priors allow; ``None`` where it has no delay."""
        return tuple(bounds for part in self.parts for bounds in part.slowness_bounds())

    def drifts(self) -> tuple[Advection | None, ...]:
        """For each term how it moves and spreads; ``None`` where it does not."""
        found = [(f"{i}.", drift) for i, part in enumerate(self.parts) for drift in part.drifts()]
        return tuple(
            None if one is None else one._replace(velocity=prefix + one.velocity, diffusion=prefix + one.diffusion)
            for prefix, one in found
        )

    def check_inputs(self, x: Float[np.ndarray, "n D"]) -> None:
        """Raise if a part does not take these inputs."""
        for part in self.parts:
            part.check_inputs(x)


def one_term(kernel: LatentKernel, who: str) -> Separable:
    """The kernel as one separable term, or an error that says who needs it to be one, and what does not."""
    terms = kernel.terms()
    if kernel.delayed:
        raise ModelError(f"{who} does not take seqgp.Delayed: use seqgp.OnlineSampler with latent='auto'")
    if kernel.advected:
        raise ModelError(f"{who} does not take seqgp.Advected: use seqgp.OnlineSampler with latent='auto'")
    if len(terms) != 1:
        raise ModelError(
            f"{who} needs one separable term, and the kernel is a sum of {len(terms)}: use latent=seqgp.Dense(), which "
            "takes any sum"
        )
    return terms[0][1]
