"""What a kernel is, in time or in space, and how kernels add and multiply.

A kernel is evaluated in two parts. ``prepare`` computes what depends on the inputs alone, once per step (squared
differences for stationary kernels); ``covariance`` turns that into a matrix for given parameters, once per proposal.
"""

from __future__ import annotations

import abc
import functools
import numbers
from collections.abc import Callable, Mapping
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from seqgp.base.errors import ModelError
from seqgp.base.priors import Kept, Parameter, Parameters, Prior, as_entry, check_positive, within
from seqgp.kernels.compound_states import ConstantState, SumState, TimesState, WhiteState
from seqgp.kernels.fitted_states import kernel_state
from seqgp.kernels.rational import MAX_ORDER
from seqgp.kernels.states import ORDER, TimeState
from seqgp.linalg.types import ArrayLike

__all__ = ["Constant", "Kernel", "Product", "Sum", "WhiteNoise"]

Prepared = PyTree  # what a kernel computes of its inputs alone: a tree of arrays of its own kind
Along = tuple["Kernel", Callable[[Parameters], Parameters]]


def positive_slot(value: object, where: str) -> float | Prior:
    """One number or prior, of positive numbers."""
    entry = as_entry(value, where)
    check_positive(entry, where)
    return entry


class Kernel(eqx.Module):
    """A covariance function in space or time; kernels add and multiply.

    Attributes:
        in_files: whether a configuration can name it, with a key for each argument of its class.
        file_keys: the keys of arguments that have another name there.
        needed_in_files: the keys that must be there although the argument has a default.
    """

    in_files: ClassVar[bool] = True
    file_keys: ClassVar[Mapping[str, str]] = {"kernel": "of"}
    needed_in_files: ClassVar[tuple[str, ...]] = ()

    @abc.abstractmethod
    def slots(self) -> dict[str, Kept]:
        """The kernel's parameters by name: numbers and priors."""

    @abc.abstractmethod
    def prepare(self, x: Float[ArrayLike, "n D"], other: Float[ArrayLike, "m D"]) -> Prepared:
        """What the covariance needs of the inputs, whatever the parameters."""

    @abc.abstractmethod
    def covariance(self, prepared: Prepared, parameters: Parameters) -> Float[Array, "n m"]:
        """The covariance matrix."""

    @property
    def stationary(self) -> bool:
        """Whether the covariance depends on the difference of two points alone: what a kernel of time must."""
        return False

    @property
    def smooth(self) -> bool:
        """Whether draws are smooth enough to be interpolated from knots."""
        return False

    def variance(self, parameters: Parameters) -> Float[Array, ""]:
        """The variance at a point, of a kernel that is stationary."""
        return jnp.ones(())

    def state(self, order: int = ORDER) -> TimeState:
        """The state-space form of a kernel of time; one that is stationary, and has no form of its own, is fitted.

        Args:
            order: of the state, where it approximates the kernel; of a cycle, its harmonics.
        """
        if not self.stationary:
            raise ModelError(
                f"{type(self).__name__} in time is not known as a state (stationary kernels are, and sums and products "
                "of them): write it as seqgp.kernels.StationaryCovariance(function of the distance, …), or use "
                "seqgp.SequentialSampler"
            )
        if order > MAX_ORDER:
            raise ModelError(f"order = {order}: a state that approximates a kernel has an order from 1 to {MAX_ORDER}")
        # The lowest order that is accurate, or from the one that was asked for on where that is above the default.
        return kernel_state(self, order if order > ORDER else 1)

    def check_dimension(self, dimension: int) -> None:
        """Raise if the kernel does not take inputs of this dimension."""

    def check_inputs(self, x: Float[np.ndarray, "n D"]) -> None:
        """Raise if the kernel does not take these inputs."""
        self.check_dimension(x.shape[1])

    def along(self, axis: int, dimension: int) -> Along | None:
        """The factor along one axis and the choice of its parameters, where the kernel is a product over axes."""
        return None

    def __add__(self, other: object) -> Sum:
        """The kernel of a sum of independent processes."""
        return Sum((*_parts(self, Sum), *_parts(_checked(other, "+"), Sum)))

    def __radd__(self, other: object) -> Sum:
        """A number on the left is no kernel, and is refused as on the right."""
        return Sum((_checked(other, "+"), self))

    def __mul__(self, other: object) -> Product:
        """The kernel of a product of independent processes."""
        return Product((*_parts(self, Product), *_parts(_checked(other, "*"), Product)))

    def __rmul__(self, other: object) -> Product:
        """A number on the left is no kernel, and is refused as on the right."""
        return Product((_checked(other, "*"), self))


def _parts(kernel: Kernel, kind: type[Combined]) -> tuple[Kernel, ...]:
    """The parts of a sum of sums, or of a product of products, in one row: their names stay short."""
    return kernel.parts if isinstance(kernel, kind) else (kernel,)


def _checked(other: object, sign: str) -> Kernel:
    if isinstance(other, Kernel):
        return other
    remedy = "; a constant is seqgp.kernels.Constant(scale=…)" if isinstance(other, numbers.Real) else ""
    raise ModelError(f"kernel {sign} {type(other).__name__}: expected another kernel of time or of space{remedy}")


class Combined(Kernel):
    """Several kernels of the same inputs as one; parameter names are those of the parts, ``0.…``, ``1.…``."""

    in_files: ClassVar[bool] = False  # but as sum = […] and product = […]
    parts: tuple[Kernel, ...]

    def slots(self) -> dict[str, Kept]:
        """The parameters by name, each a number or a prior."""
        return {f"{i}.{name}": slot for i, part in enumerate(self.parts) for name, slot in part.slots().items()}

    def prepare(self, x, other):
        """What the covariance needs of the inputs, whatever the parameters."""
        return tuple(part.prepare(x, other) for part in self.parts)

    def matrices(self, prepared, parameters) -> list[Float[Array, "n m"]]:
        """The covariance of each part."""
        return [
            part.covariance(one, within(parameters, str(i))) for i, (part, one) in enumerate(zip(self.parts, prepared))
        ]

    @property
    def stationary(self) -> bool:
        """Whether the covariance depends on differences of the inputs alone."""
        return all(part.stationary for part in self.parts)

    @property
    def smooth(self) -> bool:
        """Whether functions are smooth enough to be interpolated from few knots."""
        return all(part.smooth for part in self.parts)

    def variances(self, parameters) -> list[Float[Array, ""]]:
        """The variance of each part."""
        return [part.variance(within(parameters, str(i))) for i, part in enumerate(self.parts)]

    def check_dimension(self, dimension):
        """Raise unless inputs of this dimension fit."""
        for part in self.parts:
            part.check_dimension(dimension)

    def check_inputs(self, x):
        """Raise unless these inputs fit."""
        for part in self.parts:
            part.check_inputs(x)


class Sum(Combined):
    """``a + b + …``: the kernel of the sum of independent processes.

    Example:
        ``kernels.Matern32(prior) + kernels.WhiteNoise(scale=prior)``
    """

    def covariance(self, prepared, parameters):
        """The covariance matrix, from what ``prepare`` gave and the parameters."""
        return functools.reduce(jnp.add, self.matrices(prepared, parameters))

    def variance(self, parameters):
        """The covariance of a point with itself."""
        return functools.reduce(jnp.add, self.variances(parameters))

    def state(self, order=ORDER):
        """The states of the parts beside each other."""
        return SumState(tuple(part.state(order) for part in self.parts))


class Product(Combined):
    """``a * b * …``: the kernel of a product of independent processes, such as a cycle whose shape drifts.

    Example:
        ``kernels.Periodic(prior, period=24.0) * kernels.Matern52(prior)``
    """

    identity: ClassVar[str] = "Times"

    def covariance(self, prepared, parameters):
        """The covariance matrix, from what ``prepare`` gave and the parameters."""
        return functools.reduce(jnp.multiply, self.matrices(prepared, parameters))

    def variance(self, parameters):
        """The covariance of a point with itself."""
        return functools.reduce(jnp.multiply, self.variances(parameters))

    def state(self, order=ORDER):
        """The Kronecker product of the states of the parts."""
        return TimesState(tuple(part.state(order) for part in self.parts))

    def along(self, axis, dimension):
        """The factor along one axis where the kernel is a product over axes, else None."""
        found = [part.along(axis, dimension) for part in self.parts]
        if any(one is None for one in found):
            return None
        factors = [one for one in found if one is not None]

        def choose(parameters: Parameters) -> Parameters:
            chosen = [pick(within(parameters, str(i))) for i, (_, pick) in enumerate(factors)]
            return {f"{i}.{name}": value for i, one in enumerate(chosen) for name, value in one.items()}

        return Product(tuple(factor for factor, _ in factors)), choose


class Constant(Kernel):
    """``scale²`` everywhere: an unknown constant; in a product, the scale of the other factor.

    Give the scale by name, ``Constant(scale=…)``: other libraries expect a variance here.

    Args:
        scale: a standard deviation.
    """

    scale: float | Prior

    def __init__(self, *args: object, scale: Parameter = 1.0, **others: object):
        if args or others:
            given = ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in others.items())])
            raise ModelError(
                f"Constant({given}): give its standard deviation, Constant(scale=…), the square root of its variance"
            )
        self.scale = positive_slot(scale, "Constant: scale (a standard deviation)")

    def slots(self) -> dict[str, Kept]:
        """The parameters by name, each a number or a prior."""
        return {"scale": self.scale}

    def prepare(self, x, other):
        """What the covariance needs of the inputs, whatever the parameters."""
        return jnp.ones((x.shape[0], other.shape[0]))

    def covariance(self, prepared, parameters):
        """The covariance matrix, from what ``prepare`` gave and the parameters."""
        return parameters["scale"] ** 2 * prepared

    @property
    def stationary(self) -> bool:
        """Whether the covariance depends on differences of the inputs alone."""
        return True

    @property
    def smooth(self) -> bool:
        """Whether functions are smooth enough to be interpolated from few knots."""
        return True

    def variance(self, parameters):
        """The covariance of a point with itself."""
        return parameters["scale"] ** 2

    def state(self, order=ORDER):
        """One number that never moves."""
        return ConstantState()

    def along(self, axis, dimension):
        """The factor along one axis where the kernel is a product over axes, else None."""
        if axis == 0:
            return Constant(scale=1.0), lambda parameters: parameters
        return Constant(scale=1.0), lambda parameters: {"scale": jnp.ones_like(parameters["scale"])}


class WhiteNoise(Kernel):
    """``scale²`` at one point, zero between any two: a nugget.

    Args:
        scale: a standard deviation.
    """

    scale: float | Prior

    def __init__(self, scale: Parameter = 1.0):
        self.scale = positive_slot(scale, "WhiteNoise: scale")

    def slots(self) -> dict[str, Kept]:
        """The parameters by name, each a number or a prior."""
        return {"scale": self.scale}

    def prepare(self, x, other):
        """What the covariance needs of the inputs, whatever the parameters."""
        same = jnp.asarray(x)[:, None, :] == jnp.asarray(other)[None, :, :]
        return same.all(axis=-1).astype(float)

    def covariance(self, prepared, parameters):
        """The covariance matrix, from what ``prepare`` gave and the parameters."""
        return parameters["scale"] ** 2 * prepared

    @property
    def stationary(self) -> bool:
        """Whether the covariance depends on differences of the inputs alone."""
        return True

    def variance(self, parameters):
        """The covariance of a point with itself."""
        return parameters["scale"] ** 2

    def state(self, order=ORDER):
        """One number that is new at every time."""
        return WhiteState()
