"""Kernels: a stationary factor in time, any factor in space, and their separable product (eq. 1).

A kernel is evaluated in two parts. ``prepare`` computes what depends on the inputs alone, once per step (squared
differences for stationary kernels); ``covariance`` turns that into a matrix for given parameters, once per proposal.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from seqgp.models.errors import ModelError
from seqgp.models.priors import Slot, as_slot

Parameters = dict[str, Any]


class Kernel(eqx.Module):
    """A covariance function with unit variance in space or time."""

    @abc.abstractmethod
    def slots(self) -> dict[str, Slot]:
        """The kernel's parameters by name: numbers and priors."""

    @abc.abstractmethod
    def prepare(self, x: Float[Array, "n D"], other: Float[Array, "m D"]) -> Any:
        """What the covariance needs of the inputs, whatever the parameters."""

    @abc.abstractmethod
    def covariance(self, prepared: Any, parameters: Parameters) -> Float[Array, "n m"]:
        """The covariance matrix."""

    def check_dimension(self, dimension: int) -> None:
        """Raise if the kernel does not take inputs of this dimension."""

    def along(self, axis: int, dimension: int) -> tuple[Kernel, Callable[[Parameters], Parameters]] | None:
        """The factor along one axis and the choice of its parameters, where the kernel is a product over axes."""
        return None


class Stationary(Kernel):
    """A function of the distance scaled by one lengthscale, or one per dimension."""

    lengthscale: Slot

    def __init__(self, lengthscale: Slot = 1.0):
        self.lengthscale = as_slot(lengthscale, f"{type(self).__name__}: lengthscale")
        entries = self.lengthscale if isinstance(self.lengthscale, tuple) else (self.lengthscale,)
        for entry in entries:
            if isinstance(entry, float) and entry <= 0:
                raise ModelError(f"{type(self).__name__}: lengthscale = {entry} is not positive")

    def slots(self):  # noqa: D102
        return {"lengthscale": self.lengthscale}

    def prepare(self, x, other):  # noqa: D102
        return jnp.square(x.T[:, :, None] - other.T[:, None, :])

    def covariance(self, prepared, parameters):  # noqa: D102
        inverse = jnp.broadcast_to(parameters["lengthscale"] ** -2.0, prepared.shape[:1])
        squared = functools.reduce(jnp.add, [inverse[d] * prepared[d] for d in range(prepared.shape[0])])
        return self.profile(squared, parameters)

    @abc.abstractmethod
    def profile(self, squared: Float[Array, "n m"], parameters: Parameters) -> Float[Array, "n m"]:
        """The covariance as a function of the squared scaled distance."""

    def check_dimension(self, dimension):  # noqa: D102
        if isinstance(self.lengthscale, tuple) and len(self.lengthscale) != dimension:
            raise ModelError(
                f"{type(self).__name__} has {len(self.lengthscale)} lengthscales, but x has {dimension} columns: "
                "give one lengthscale, or one per column"
            )


def _distance(squared: Float[Array, "..."]) -> Float[Array, "..."]:
    """The square root, with a finite derivative at zero."""
    positive = squared > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squared, 1.0)), 0.0)


class SquaredExponential(Stationary):
    """``exp(−r²/2)``: infinitely smooth; a product over dimensions."""

    def profile(self, squared, parameters):  # noqa: D102
        return jnp.exp(-0.5 * squared)

    def along(self, axis, dimension):  # noqa: D102
        shared = not isinstance(self.lengthscale, tuple)

        def choose(parameters: Parameters) -> Parameters:
            return {"lengthscale": parameters["lengthscale"] if shared else parameters["lengthscale"][axis]}

        return SquaredExponential(1.0), choose


class Matern12(Stationary):
    """``exp(−r)``: continuous, nowhere differentiable; Markov in one dimension."""

    def profile(self, squared, parameters):  # noqa: D102
        return jnp.exp(-_distance(squared))


class Matern32(Stationary):
    """``(1 + √3 r) exp(−√3 r)``: once differentiable."""

    def profile(self, squared, parameters):  # noqa: D102
        r = 3**0.5 * _distance(squared)
        return (1 + r) * jnp.exp(-r)


class Matern52(Stationary):
    """``(1 + √5 r + 5r²/3) exp(−√5 r)``: twice differentiable."""

    def profile(self, squared, parameters):  # noqa: D102
        r = 5**0.5 * _distance(squared)
        return (1 + r + r**2 / 3) * jnp.exp(-r)


class RationalQuadratic(Stationary):
    """``(1 + r²/(2 alpha))^(−alpha)``: a mixture of squared exponentials of many lengthscales."""

    alpha: Slot = 1.0

    def __init__(self, lengthscale: Slot = 1.0, alpha: Slot = 1.0):
        super().__init__(lengthscale)
        self.alpha = as_slot(alpha, "RationalQuadratic: alpha")
        if isinstance(self.alpha, float) and self.alpha <= 0:
            raise ModelError(f"RationalQuadratic: alpha = {self.alpha} is not positive")

    def slots(self):  # noqa: D102
        return {"lengthscale": self.lengthscale, "alpha": self.alpha}

    def profile(self, squared, parameters):  # noqa: D102
        alpha = parameters["alpha"]
        return jnp.exp(-alpha * jnp.log1p(0.5 * squared / alpha))


class Covariance(Kernel):
    """Any function of two points as a kernel in space: ``function(x, x', **parameters)``."""

    function: Callable[..., Any] = eqx.field(static=True)
    priors: dict[str, Slot]

    def __init__(self, function: Callable[..., Any], **priors: Slot):
        if not callable(function):
            raise ModelError(f"Covariance: expected a function of two points, got {type(function).__name__}")
        self.function = function
        self.priors = {name: as_slot(value, f"Covariance: {name}") for name, value in priors.items()}

    def slots(self):  # noqa: D102
        return dict(self.priors)

    def prepare(self, x, other):  # noqa: D102
        return x, other

    def covariance(self, prepared, parameters):  # noqa: D102
        x, other = prepared

        def one(a, b):
            return jnp.asarray(self.function(a, b, **parameters)).reshape(())

        return jax.vmap(lambda a: jax.vmap(lambda b: one(a, b))(other))(x)


class Product(Kernel):
    """A product of one-dimensional kernels, one per dimension of space: ``Product([Matern52(…), Matern32(…)])``."""

    factors: tuple[Stationary, ...]

    def __init__(self, factors):
        self.factors = tuple(factors)
        if not self.factors or not all(isinstance(factor, Stationary) for factor in self.factors):
            raise ModelError("Product: expected a list of stationary kernels, one per dimension")
        for i, factor in enumerate(self.factors):
            if isinstance(factor.lengthscale, tuple):
                raise ModelError(f"Product: factor {i} has several lengthscales, expected one")

    def slots(self):  # noqa: D102
        return {f"{i}.{name}": slot for i, factor in enumerate(self.factors) for name, slot in factor.slots().items()}

    def prepare(self, x, other):  # noqa: D102
        return tuple(f.prepare(x[:, i, None], other[:, i, None]) for i, f in enumerate(self.factors))

    def covariance(self, prepared, parameters):  # noqa: D102
        terms = [
            factor.covariance(part, within(parameters, str(i)))
            for i, (factor, part) in enumerate(zip(self.factors, prepared))
        ]
        return functools.reduce(jnp.multiply, terms)

    def check_dimension(self, dimension):  # noqa: D102
        if len(self.factors) != dimension:
            raise ModelError(f"Product has {len(self.factors)} factors, but x has {dimension} columns")

    def along(self, axis, dimension):  # noqa: D102
        return self.factors[axis], lambda parameters: within(parameters, str(axis))


def within(parameters: Parameters, prefix: str) -> Parameters:
    """The entries below ``prefix``, with the prefix dropped."""
    start = prefix + "."
    return {name[len(start) :]: value for name, value in parameters.items() if name.startswith(start)}


class Separable(eqx.Module):
    """``scale² · time(|t − t'|) · space(x, x')``: the kernel of the latent process (eq. 1).

    Args:
        time: a stationary kernel with one lengthscale.
        space: a kernel of this module, any tinygp kernel, or any function of two points.
        scale: the standard deviation of the latent.
    """

    time: Stationary
    space: Kernel
    scale: Slot

    def __init__(self, time: Stationary, space: Any, scale: Slot = 1.0):
        if not isinstance(time, Stationary):
            raise ModelError(f"Separable: time must be a stationary kernel, got {type(time).__name__}")
        time.check_dimension(1)
        self.time = time
        self.space = as_space_kernel(space)
        self.scale = as_slot(scale, "Separable: scale")
        if isinstance(self.scale, tuple):
            raise ModelError("Separable: scale takes one number or prior, not a list")
        if isinstance(self.scale, float) and self.scale <= 0:
            raise ModelError(f"Separable: scale = {self.scale} is not positive")

    def slots(self) -> dict[str, Slot]:
        """All parameters of the kernel, by name: ``time.…``, ``space.…``, ``scale``."""
        slots = {f"time.{name}": slot for name, slot in self.time.slots().items()}
        slots |= {f"space.{name}": slot for name, slot in self.space.slots().items()}
        return slots | {"scale": self.scale}


def as_space_kernel(space: Any) -> Kernel:
    """A kernel from what a user gave: ours, tinygp's, or a function of two points."""
    if isinstance(space, Kernel):
        return space
    evaluate: Any = getattr(space, "evaluate", None)  # tinygp: one pair of points
    if callable(evaluate):
        return Covariance(evaluate)
    if callable(space):
        return Covariance(space)
    raise ModelError(f"Separable: space must be a kernel or a function of two points, got {type(space).__name__}")
