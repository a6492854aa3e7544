"""Stationary kernels: of the distance scaled by lengthscales, and of the phase of a cycle."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable
from typing import ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from seqgp.base.errors import ModelError
from seqgp.base.priors import Kept, Parameter, Parameters, Prior, Slot, as_slot, check_positive
from seqgp.kernels.base import Kernel, positive_slot
from seqgp.kernels.compound_states import periodic_state
from seqgp.kernels.lasting import LastingState, lasting_share
from seqgp.kernels.rational import RationalState, rational_state
from seqgp.kernels.states import ORDER, MaternState
from seqgp.linalg.types import ArrayLike

__all__ = [
    "Matern12", "Matern32", "Matern52", "Periodic", "RationalQuadratic", "SquaredExponential", "StationaryCovariance",
]  # fmt: skip


class Stationary(Kernel):
    """A function of the distance scaled by one lengthscale, or one per dimension.

    Args:
        lengthscale: in units of the input; in space one, or one for each input.

    Attributes:
        smoothness: ``ν`` of a Matérn kernel, infinite for the squared exponential; ``None`` of others.
    """

    smoothness: ClassVar[float | None] = None
    lengthscale: Slot  # kept as numbers and priors

    def __init__(self, lengthscale: Slot = 1.0):
        kept = as_slot(lengthscale, f"{type(self).__name__}: lengthscale")
        check_positive(kept, f"{type(self).__name__}: lengthscale")
        self.lengthscale = kept

    def slots(self) -> dict[str, Kept]:
        """The parameters by name, each a number or a prior."""
        return {"lengthscale": cast(Kept, self.lengthscale)}

    def prepare(self, x, other):
        """What the covariance needs of the inputs, whatever the parameters."""
        return jnp.square(x.T[:, :, None] - other.T[:, None, :])

    def covariance(self, prepared, parameters):
        """The covariance matrix, from what ``prepare`` gave and the parameters."""
        inverse = jnp.broadcast_to(parameters["lengthscale"] ** -2.0, prepared.shape[:1])
        squared = functools.reduce(jnp.add, [inverse[d] * prepared[d] for d in range(prepared.shape[0])])
        return self.profile(squared, parameters)

    @property
    def stationary(self) -> bool:
        """Whether the covariance depends on differences of the inputs alone."""
        return True

    @abc.abstractmethod
    def profile(self, squared: Float[Array, "n m"], parameters: Parameters) -> Float[Array, "n m"]:
        """The covariance as a function of the squared scaled distance."""

    def check_dimension(self, dimension):
        """Raise unless inputs of this dimension fit."""
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
    """``exp(−r²/2)``: infinitely smooth; a product over dimensions.

    ``r`` is the distance divided by the lengthscale; the variance is 1.

    Args:
        lengthscale: in units of the input; in space one, or one for each input.
    """

    smoothness: ClassVar[float | None] = math.inf

    @property
    def smooth(self) -> bool:
        """Whether functions are smooth enough to be interpolated from few knots."""
        return True

    def profile(self, squared, parameters):
        """The correlation as a function of the squared scaled distance."""
        return jnp.exp(-0.5 * squared)

    def along(self, axis, dimension):
        """The factor along one axis where the kernel is a product over axes, else None."""
        shared = not isinstance(self.lengthscale, tuple)

        def choose(parameters: Parameters) -> Parameters:
            return {"lengthscale": parameters["lengthscale"] if shared else parameters["lengthscale"][axis]}

        return SquaredExponential(1.0), choose

    def state(self, order=ORDER):
        """A sum of decaying oscillations, near the best of its order."""
        return _gaussian_state(order)


@functools.cache
def _gaussian_state(order: int) -> RationalState:
    return rational_state(lambda u: np.exp(-0.5 * u**2), order, reach=6.0)


class Matern12(Stationary):
    """``exp(−r)``: continuous, nowhere differentiable; Markov in one dimension.

    ``r`` is the distance divided by the lengthscale; the variance is 1.

    Args:
        lengthscale: in units of the input; in space one, or one for each input.
    """

    smoothness: ClassVar[float | None] = 0.5

    def profile(self, squared, parameters):
        """The correlation as a function of the squared scaled distance."""
        return jnp.exp(-_distance(squared))

    def state(self, order=ORDER):
        """The process and its derivatives: exact."""
        return MaternState(1)


class Matern32(Stationary):
    """``(1 + √3 r) exp(−√3 r)``: once differentiable.

    ``r`` is the distance divided by the lengthscale; the variance is 1.

    Args:
        lengthscale: in units of the input; in space one, or one for each input.
    """

    smoothness: ClassVar[float | None] = 1.5

    def profile(self, squared, parameters):
        """The correlation as a function of the squared scaled distance."""
        r = 3**0.5 * _distance(squared)
        return (1 + r) * jnp.exp(-r)

    def state(self, order=ORDER):
        """The process and its derivatives: exact."""
        return MaternState(2)


class Matern52(Stationary):
    """``(1 + √5 r + 5r²/3) exp(−√5 r)``: twice differentiable.

    ``r`` is the distance divided by the lengthscale; the variance is 1.

    Args:
        lengthscale: in units of the input; in space one, or one for each input.
    """

    smoothness: ClassVar[float | None] = 2.5

    @property
    def smooth(self) -> bool:
        """Whether functions are smooth enough to be interpolated from few knots."""
        return True

    def profile(self, squared, parameters):
        """The correlation as a function of the squared scaled distance."""
        r = 5**0.5 * _distance(squared)
        return (1 + r + r**2 / 3) * jnp.exp(-r)

    def state(self, order=ORDER):
        """The process and its derivatives: exact."""
        return MaternState(3)


class RationalQuadratic(Stationary):
    """``(1 + r²/(2 alpha))^(−alpha)``: a mixture of squared exponentials of many lengthscales.

    Args:
        lengthscale: in units of the input; in space one, or one for each input.
        alpha: small for many lengthscales.
    """

    alpha: float | Prior

    def __init__(self, lengthscale: Slot = 1.0, alpha: Parameter = 1.0):
        super().__init__(lengthscale)
        self.alpha = positive_slot(alpha, "RationalQuadratic: alpha")

    def slots(self) -> dict[str, Kept]:
        """The parameters by name, each a number or a prior."""
        return {**super().slots(), "alpha": self.alpha}

    @property
    def smooth(self) -> bool:
        """Whether functions are smooth enough to be interpolated from few knots."""
        return True

    def profile(self, squared, parameters):
        """The correlation as a function of the squared scaled distance."""
        alpha = parameters["alpha"]
        return jnp.exp(-alpha * jnp.log1p(0.5 * squared / alpha))

    def state(self, order=ORDER):
        """A sum of decaying oscillations; fitted over the prior of ``alpha`` where that is inferred."""
        return _student_state(self.alpha, order) if isinstance(self.alpha, float) else super().state(order)


@functools.cache
def _student_state(alpha: float, order: int) -> RationalState:
    reach = min(math.sqrt(2 * alpha * (1e-4 ** (-1 / alpha) - 1)), 60.0)
    return rational_state(lambda u: (1 + 0.5 * u**2 / alpha) ** -alpha, order, reach=max(reach, 6.0))


class Periodic(Kernel):
    """``exp(−2 sin²(π r / period) / lengthscale²)``: a cycle that repeats exactly (MacKay 1998).

    The lengthscale is that of the shape within a cycle, in radians of half a turn: below one the cycle has several
    waves, far above one it is a sine. For a cycle whose shape drifts, multiply: ``Periodic(…) * Matern52(…)``.

    Args:
        lengthscale: how fast the shape changes within a cycle.
        period: the length of a cycle, in units of the input.
    """

    needed_in_files: ClassVar[tuple[str, ...]] = ("period",)
    lengthscale: float | Prior
    period: float | Prior

    def __init__(self, lengthscale: Parameter = 1.0, period: Parameter = 1.0):
        self.lengthscale = positive_slot(lengthscale, "Periodic: lengthscale")
        self.period = positive_slot(period, "Periodic: period")

    def slots(self) -> dict[str, Kept]:
        """The parameters by name, each a number or a prior."""
        return {"lengthscale": self.lengthscale, "period": self.period}

    def prepare(self, x, other):
        """What the covariance needs of the inputs, whatever the parameters."""
        return x[:, 0, None] - other[None, :, 0]

    def covariance(self, prepared, parameters):
        """The covariance matrix, from what ``prepare`` gave and the parameters."""
        wave = jnp.sin(jnp.pi * prepared / parameters["period"]) / parameters["lengthscale"]
        return jnp.exp(-2.0 * jnp.square(wave))

    @property
    def stationary(self) -> bool:
        """Whether the covariance depends on differences of the inputs alone."""
        return True

    @property
    def smooth(self) -> bool:
        """Whether functions are smooth enough to be interpolated from few knots."""
        return True

    def check_dimension(self, dimension):
        """Raise unless inputs of this dimension fit."""
        if dimension != 1:
            raise ModelError(
                f"Periodic takes one dimension, but x has {dimension} columns: in space use "
                "seqgp.kernels.PerColumn([…]) with one kernel per column"
            )

    def state(self, order=ORDER):
        """A rotation for each harmonic, of which there are at most ``order``."""
        return periodic_state(self.lengthscale, order)


class StationaryCovariance(Kernel):
    """A kernel of time from any function of the distance: ``function(r, **parameters)``.

    The online sampler fits a state-space form to it; ``info.extras["kernel_error"]`` is the largest error of the
    correlation. A lengthscale and a variance are exact, and up to two other parameters may be inferred.

    Args:
        function: from an array of distances ``r ≥ 0`` to covariances of the same shape, in operations of ``jax.numpy``.
        **priors: its parameters by name, numbers or priors.

    Example:
        ``kernels.StationaryCovariance(lambda r, reach: jnp.exp(-r / reach), reach=prior)``
    """

    in_files: ClassVar[bool] = False  # a function is code
    function: Callable[..., ArrayLike] = eqx.field(static=True)
    priors: dict[str, Kept]

    def __init__(self, function: Callable[..., ArrayLike], **priors: Slot):
        if not callable(function):
            raise ModelError(f"StationaryCovariance: expected a function of a distance, got {type(function).__name__}")
        self.function = function
        self.priors = {name: as_slot(value, f"StationaryCovariance: {name}") for name, value in priors.items()}
        self._check_function()

    def _check_function(self) -> None:
        """Raise unless the function takes distances and the parameters, and returns one covariance each."""
        distances = jax.ShapeDtypeStruct((2, 3), float)
        shapes = {
            name: jax.ShapeDtypeStruct((len(slot),) if isinstance(slot, tuple) else (), float)
            for name, slot in self.priors.items()
        }
        try:
            found = jax.eval_shape(lambda r, others: jnp.asarray(self.function(r, **others)), distances, shapes)
        except (TypeError, ValueError) as error:  # JAX's errors of tracing are such
            raise ModelError(
                f"StationaryCovariance: the function failed on an array of distances and {list(shapes) or 'no'} "
                f"parameters ({type(error).__name__}: {str(error).splitlines()[0]}); write it as function(r, "
                "**parameters) with jax.numpy"
            ) from error
        if found.shape != (2, 3):
            raise ModelError(
                f"StationaryCovariance: the function returned shape {found.shape} for distances of shape (2, 3); it "
                "must return one covariance for each distance"
            )

    def slots(self) -> dict[str, Kept]:
        """The parameters by name, each a number or a prior; sorted, as JAX sorts a dictionary."""
        return dict(sorted(self.priors.items()))

    def prepare(self, x, other):
        """What the covariance needs of the inputs, whatever the parameters."""
        return jnp.abs(x[:, 0, None] - other[None, :, 0])

    def covariance(self, prepared, parameters):
        """The covariance matrix, from what ``prepare`` gave and the parameters."""
        return jnp.asarray(self.function(prepared, **parameters))

    @property
    def stationary(self) -> bool:
        """Whether the covariance depends on differences of the inputs alone."""
        return True

    def state(self, order=ORDER):
        """A fit; where the correlation decays to a level above zero, the level is exact and the rest is fitted."""
        share = lasting_share(self)
        if not share:
            return super().state(order)
        decaying = StationaryCovariance(functools.partial(_above, self.function, share), **self.priors)
        return LastingState(decaying.state(order), share)

    def variance(self, parameters):
        """The covariance of a point with itself."""
        return jnp.asarray(self.function(jnp.zeros(()), **parameters))

    def check_dimension(self, dimension):
        """Raise unless inputs of this dimension fit."""
        if dimension != 1:
            raise ModelError(
                f"StationaryCovariance takes one dimension, but x has {dimension} columns: in space use "
                "seqgp.kernels.Covariance, a function of two points"
            )


def _above(function: Callable[..., ArrayLike], share: float, r: Array, **parameters: Array) -> Array:
    """What a covariance has above its level."""
    return jnp.asarray(function(r, **parameters)) - share * jnp.asarray(function(jnp.zeros(()), **parameters))
