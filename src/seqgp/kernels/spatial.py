"""Kernels of space: one per column, rotated axes, the sphere, linear, and any function of two points."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from seqgp.base.errors import DataError, ModelError
from seqgp.base.priors import Kept, Parameter, Prior, Slot, as_entry, as_slot, check_positive
from seqgp.kernels.base import Kernel, within
from seqgp.kernels.stationary import Matern12, Stationary
from seqgp.linalg.types import ArrayLike

__all__ = ["Covariance", "DotProduct", "GreatCircle", "PerColumn", "Rotated"]


class Covariance(Kernel):
    """Any function of two points as a kernel in space: ``function(x, x', **parameters)``.

    Args:
        function: from two points, each ``(D,)``, to their covariance, in operations of ``jax.numpy``.
        **priors: its parameters by name, numbers or priors.

    Example:
        ``kernels.Covariance(lambda x, y, reach: jnp.exp(-jnp.sum((x - y) ** 2) / reach), reach=prior)``
    """

    in_files: ClassVar[bool] = False  # a function is code
    function: Callable[..., ArrayLike] = eqx.field(static=True)
    priors: dict[str, Kept]

    def __init__(self, function: Callable[..., ArrayLike], **priors: Slot):
        if not callable(function):
            raise ModelError(f"Covariance: expected a function of two points, got {type(function).__name__}")
        self.function = function
        self.priors = {name: as_slot(value, f"Covariance: {name}") for name, value in priors.items()}

    def slots(self):
        """The parameters by name, each a number or a prior; sorted, as JAX sorts a dictionary."""
        return dict(sorted(self.priors.items()))

    def prepare(self, x, other):
        """What the covariance needs of the inputs, whatever the parameters."""
        return x, other

    def covariance(self, prepared, parameters):
        """The covariance matrix, from what ``prepare`` gave and the parameters."""
        x, other = prepared

        def one(a, b):
            return jnp.asarray(self.function(a, b, **parameters)).reshape(())

        return jax.vmap(lambda a: jax.vmap(lambda b: one(a, b))(other))(x)


class PerColumn(Kernel):
    """A product of one-dimensional kernels, one per dimension of space.

    Args:
        factors: a kernel for each column of ``x``.

    Example:
        ``kernels.PerColumn([kernels.Matern32(prior), kernels.Periodic(prior, period=24.0)])``
    """

    identity: ClassVar[str] = "Product"
    in_files: ClassVar[bool] = False  # but as a list, space = […]
    factors: tuple[Kernel, ...]

    def __init__(self, factors: Sequence[Kernel]):
        self.factors = tuple(factors)
        if not self.factors or not all(isinstance(one, Kernel) and one.stationary for one in self.factors):
            raise ModelError("PerColumn: expected a list of stationary kernels, one per dimension")
        for i, factor in enumerate(self.factors):
            if isinstance(factor, Stationary) and isinstance(factor.lengthscale, tuple):
                raise ModelError(f"PerColumn: factor {i} has several lengthscales, expected one")
            factor.check_dimension(1)

    def slots(self):
        """The parameters by name, each a number or a prior."""
        return {f"{i}.{name}": slot for i, factor in enumerate(self.factors) for name, slot in factor.slots().items()}

    def prepare(self, x, other):
        """What the covariance needs of the inputs, whatever the parameters."""
        return tuple(f.prepare(x[:, i, None], other[:, i, None]) for i, f in enumerate(self.factors))

    def covariance(self, prepared, parameters):
        """The covariance matrix, from what ``prepare`` gave and the parameters."""
        terms = [
            factor.covariance(part, within(parameters, str(i)))
            for i, (factor, part) in enumerate(zip(self.factors, prepared))
        ]
        return functools.reduce(jnp.multiply, terms)

    def check_dimension(self, dimension):
        """Raise unless inputs of this dimension fit."""
        if len(self.factors) != dimension:
            raise ModelError(f"PerColumn has {len(self.factors)} factors, but x has {dimension} columns")

    @property
    def stationary(self) -> bool:
        """Whether the covariance depends on differences of the inputs alone."""
        return True

    @property
    def smooth(self) -> bool:
        """Whether functions are smooth enough to be interpolated from few knots."""
        return all(factor.smooth for factor in self.factors)

    def variance(self, parameters):
        """The covariance of a point with itself."""
        parts = [factor.variance(within(parameters, str(i))) for i, factor in enumerate(self.factors)]
        return functools.reduce(jnp.multiply, parts)

    def along(self, axis, dimension):
        """The factor along one axis where the kernel is a product over axes, else None."""
        return self.factors[axis], lambda parameters: within(parameters, str(axis))


class DotProduct(Kernel):
    """``Σ scale² (x − centre)(x' − centre)``: a plane of unknown slopes, one standard deviation of slope per column.

    Add ``seqgp.kernels.Constant`` for its unknown height at the centre.
    (``seqgp.means.Linear`` is a mean with covariates.)

    Args:
        scale: the standard deviation of the slopes, one for all inputs or one each.
        centre: where the plane is zero, one number for all inputs or one each.
    """

    identity: ClassVar[str] = "LinearKernel"

    scale: Kept
    centre: tuple[float | Prior, ...]

    def __init__(self, scale: Slot = 1.0, centre: float | Sequence[float] = 0.0):
        self.scale = as_slot(scale, "DotProduct: scale")
        check_positive(self.scale, "DotProduct: scale")
        place = as_slot(centre, "DotProduct: centre")
        self.centre = place if isinstance(place, tuple) else (place,)
        if any(isinstance(entry, Prior) for entry in self.centre):
            raise ModelError("DotProduct: centre takes numbers; an unknown height is seqgp.kernels.Constant(scale=…)")

    def slots(self):
        """The parameters by name, each a number or a prior."""
        return {"scale": self.scale}

    def prepare(self, x, other):
        """What the covariance needs of the inputs, whatever the parameters."""
        centre = jnp.asarray(self.centre)[None, :]
        return (x - centre).T[:, :, None] * (other - centre).T[:, None, :]

    def covariance(self, prepared, parameters):
        """The covariance matrix, from what ``prepare`` gave and the parameters."""
        variance = jnp.broadcast_to(parameters["scale"] ** 2, prepared.shape[:1])
        return functools.reduce(jnp.add, [variance[d] * prepared[d] for d in range(prepared.shape[0])])

    @property
    def smooth(self) -> bool:
        """Whether functions are smooth enough to be interpolated from few knots."""
        return True

    def check_dimension(self, dimension):
        """Raise unless inputs of this dimension fit."""
        for what, given in (("scales", self.scale), ("centres", self.centre)):
            if isinstance(given, tuple) and len(given) not in (1, dimension):
                raise ModelError(
                    f"DotProduct has {len(given)} {what}, but x has {dimension} columns: give one, or one per column"
                )


class Rotated(Kernel):
    """A kernel with two lengthscales, along axes that are turned by an angle: anisotropy in any direction.

    Args:
        kernel: a stationary kernel with two lengthscales, along the angle and across.
        angle: from the first input towards the second, in radians, counter-clockwise.

    Example:
        ``kernels.Rotated(kernels.Matern32([prior, prior]), angle=prior)``
    """

    kernel: Stationary
    angle: Kept

    def __init__(self, kernel: Stationary, angle: Parameter):
        if not isinstance(kernel, Stationary):
            raise ModelError(f"Rotated: expected a stationary kernel such as Matern32, got {type(kernel).__name__}")
        if not isinstance(kernel.lengthscale, tuple) or len(kernel.lengthscale) != 2:
            raise ModelError("Rotated: the kernel needs two lengthscales, one along the angle and one across")
        self.kernel = kernel
        self.angle = as_entry(angle, "Rotated: angle")

    def slots(self):
        """The parameters by name, each a number or a prior."""
        return self.kernel.slots() | {"angle": self.angle}

    def prepare(self, x, other):
        """What the covariance needs of the inputs, whatever the parameters."""
        return x.T[:, :, None] - other.T[:, None, :]

    def covariance(self, prepared, parameters):
        """The covariance matrix, from what ``prepare`` gave and the parameters."""
        cos, sin = jnp.cos(parameters["angle"]), jnp.sin(parameters["angle"])
        along, across = cos * prepared[0] + sin * prepared[1], cos * prepared[1] - sin * prepared[0]
        return self.kernel.covariance(jnp.stack([along**2, across**2]), parameters)

    @property
    def stationary(self) -> bool:
        """Whether the covariance depends on differences of the inputs alone."""
        return True

    @property
    def smooth(self) -> bool:
        """Whether functions are smooth enough to be interpolated from few knots."""
        return self.kernel.smooth

    def check_dimension(self, dimension):
        """Raise unless inputs of this dimension fit."""
        if dimension != 2:
            raise ModelError(f"Rotated turns two columns, but x has {dimension}")


class GreatCircle(Kernel):
    """A kernel of the distance on the globe, for longitude and latitude in degrees; lengthscales are in kilometres.

    The distance is that of the great circle for ``seqgp.kernels.Matern12``. The smoother kernels are not positive
    definite in it (Gneiting 2013), and take the straight line through the globe, which is shorter by the share
    ``r² / (24 radius²)``: one in a thousand at 1000 km.

    Args:
        kernel: a stationary kernel with one lengthscale.
        radius: of the sphere, in the units of lengthscales (the Earth's in kilometres).

    Example:
        ``kernels.GreatCircle(kernels.Matern32(prior))``
    """

    kernel: Stationary
    radius: float = eqx.field(static=True)

    def __init__(self, kernel: Stationary, radius: float = 6371.0):
        if not isinstance(kernel, Stationary) or isinstance(kernel.lengthscale, tuple):
            raise ModelError("GreatCircle: expected a stationary kernel with one lengthscale, such as Matern32(500.0)")
        if not radius > 0:
            raise ModelError(f"GreatCircle: radius = {radius} is not positive")
        self.kernel, self.radius = kernel, float(radius)

    def slots(self):
        """The parameters by name, each a number or a prior."""
        return self.kernel.slots()

    def prepare(self, x, other):
        """What the covariance needs of the inputs, whatever the parameters."""
        difference = _on_sphere(x).T[:, :, None] - _on_sphere(other).T[:, None, :]
        chord = jnp.sum(jnp.square(difference), axis=0)  # on the unit sphere, squared
        if isinstance(self.kernel, Matern12):
            half = jnp.sqrt(jnp.clip(0.25 * chord, 0.0, 1.0))
            chord = jnp.square(2.0 * jnp.arcsin(half))
        return self.radius**2 * chord[None]

    def covariance(self, prepared, parameters):
        """The covariance matrix, from what ``prepare`` gave and the parameters."""
        return self.kernel.covariance(prepared, parameters)

    @property
    def smooth(self) -> bool:
        """Whether functions are smooth enough to be interpolated from few knots."""
        return self.kernel.smooth

    def check_dimension(self, dimension):
        """Raise unless inputs of this dimension fit."""
        if dimension != 2:
            raise ModelError(f"GreatCircle takes longitude and latitude, but x has {dimension} columns")


def check_globe(kernel: object, x: Float[np.ndarray, "n D"]) -> None:
    """Raise where data for a ``GreatCircle``, anywhere in a kernel, lie beyond a pole: the columns are swapped."""
    parts = jax.tree.leaves(kernel, is_leaf=lambda part: isinstance(part, GreatCircle))
    if not any(isinstance(part, GreatCircle) for part in parts):
        return
    for name, column, most in (("latitude", -1, 90.0), ("longitude", -2, 360.0)):
        far = np.abs(x[:, column]) > most
        if far.any():
            row = int(np.argmax(far))
            raise DataError(
                f"GreatCircle: {name} = {x[row, column]:g} (row {row} of {len(x)}) is not between {-most:g} and "
                f"{most:g} degrees; the inputs are longitude and latitude, in this order: are they swapped?"
            )


def _on_sphere(x: Float[ArrayLike, "n 2"]) -> Float[Array, "n 3"]:
    longitude, latitude = jnp.deg2rad(x[:, 0]), jnp.deg2rad(x[:, 1])
    return jnp.stack(
        [jnp.cos(latitude) * jnp.cos(longitude), jnp.cos(latitude) * jnp.sin(longitude), jnp.sin(latitude)], axis=1
    )


def as_space_kernel(space: object) -> Kernel:
    """A kernel from what a user gave: ours, tinygp's, or a function of two points."""
    if isinstance(space, Kernel):
        return space
    evaluate: Callable[..., ArrayLike] | None = getattr(space, "evaluate", None)  # tinygp: one pair of points
    if callable(evaluate):
        return Covariance(evaluate)
    if callable(space):
        return Covariance(space)  # pyright: ignore[reportArgumentType]
    raise ModelError(f"Separable: space must be a kernel or a function of two points, got {type(space).__name__}")
