"""Likelihoods: a function from the latent function ``f`` to a NumPyro distribution of the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Bool, Float

from seqgp.base.errors import DataError, ModelError
from seqgp.base.priors import Kept, Parameters, Slot, as_slot
from seqgp.base.snapshot import Context
from seqgp.likelihoods.context import Requirement, check_amount, without_gaps
from seqgp.linalg.types import ArrayLike

__all__ = ["Likelihood"]

# (u, v): a log density along middle + columns @ (c u + s v), as a function of (c, s)
Plane = Callable[[Float[Array, " k"], Float[Array, " k"]], Callable[[Array, Array], Array]]


class Likelihood(eqx.Module):
    """``y ~ function(f, context, **parameters)``, where ``f`` is the latent function at the snapshot's inputs.

    The function returns a NumPyro distribution with the shape of ``y``. It may use all of ``f`` at once, for example in
    a solver, and ``y`` may have more or fewer elements than ``x`` has rows.

    Args:
        function: from ``(f, context, **parameters)`` to a distribution.
        pointwise: whether element ``i`` of the distribution depends on ``f[i]`` and row ``i`` of the context alone.
            Snapshots of changing size then share one compilation.
        **priors: the parameters, each a number or a prior.

    Attributes:
        in_units_of_data: whether ``f`` is in the units of ``y``, so that a figure may show one beside the other; it is
            not where ``f`` is a log rate or log odds, and not known for a function of your own.
        bell_shaped: whether a Gaussian of ``f[i]`` times the density of a datum always has one peak and no cliff, so
            that a filter finds its moments with few evaluations; not known for a function of your own.
        only_with: arguments of a ready-made likelihood that have no effect without another one.
    """

    in_units_of_data: ClassVar[bool] = False
    bell_shaped: ClassVar[bool] = False
    only_with: ClassVar[Mapping[str, str]] = {}
    function: Callable[..., dist.Distribution] = eqx.field(static=True)
    priors: dict[str, Kept]
    pointwise: bool = eqx.field(static=True)

    def __init__(self, function: Callable[..., dist.Distribution], *, pointwise: bool = False, **priors: Slot):
        if not callable(function):
            raise ModelError(f"Likelihood: expected a function, got {type(function).__name__}")
        self.function = function
        self.pointwise = pointwise
        self.priors = {name: as_slot(value, f"Likelihood: {name}") for name, value in priors.items()}

    def distribution(self, f: Float[ArrayLike, " N"], context: Context, parameters: Parameters) -> dist.Distribution:
        """The distribution of the data given ``f``."""
        return self.function(f, context, **{name: parameters[name] for name in self.priors})

    def log_prob(
        self,
        f: Float[ArrayLike, " N"],
        y: Float[ArrayLike, "*data"],
        missing: Bool[ArrayLike, "*data"],
        context: Context,
        parameters: Parameters,
    ) -> Float[Array, ""]:
        """The log density of the observed elements of ``y``; what is missing drops out."""
        distribution = self.distribution(f, context, parameters)
        return masked_log_prob(distribution, y, missing)

    def arguments(self) -> dict[str, Any]:
        """What a ready-made likelihood was made with: its class, called with them, gives the same one."""
        settings = getattr(self.function, "keywords", {})
        return dict(self.priors) | {name: value for name, value in settings.items() if value is not None}

    def covariates(self) -> tuple[str, ...]:
        """The entries of the context without which it has no density."""
        return tuple(one.amount for one in self.needs(None) if isinstance(one.amount, str))

    def optional_covariates(self) -> tuple[str, ...]:
        """The entries of the context that it uses where they are there."""
        return ()

    def needs(self, context: Context) -> tuple[Requirement, ...]:
        """What the likelihood takes besides the latent, of each datum: trials, exposures, standard errors."""
        return ()

    def check_data(self, y: Float[np.ndarray, "*data"], context: Context) -> None:
        """Raise, by name, if the data are not what the likelihood takes; NaN is missing, and passes."""
        self.check_context(~np.isnan(y), context)

    def check_context(self, wanted: Bool[np.ndarray, "*data"], context: Context) -> None:
        """Raise, by name, unless the context has what the likelihood needs for the data that are wanted."""
        for requirement in self.needs(context):
            check_amount(type(self).__name__, requirement, wanted, context)

    def context_at(self, t: float, context: Context) -> Context:
        """The context of a snapshot as the likelihood sees it: without gaps, and with the time if it needs that."""
        return without_gaps(self.needs(context), context)

    @property
    def by_station(self) -> bool:
        """Whether each station has a noise of its own, learnt beside the parameters."""
        return False

    def typical(self, n: int, context: Context, parameters: Parameters) -> tuple[Context, dict[str, Any]]:
        """Context and parameters of ``n`` data at stations like all others, to try a distribution on."""
        return context, parameters

    @property
    def conjugate(self) -> bool:
        """Whether the data are Gaussian around ``f``, so that ``f`` can be integrated out exactly."""
        return False

    @property
    def quadratic(self) -> bool:
        """Whether the log likelihood is ``exp(log_precision)`` times a quadratic of ``f`` that never changes."""
        return False

    def noise(self, context: Context, parameters: Parameters) -> Array:
        """The standard deviation of Gaussian data around ``f``: one number, or one per datum."""
        raise ModelError(f"{type(self).__name__}: the data are not Gaussian around f, so they have no noise")

    def log_precision(self, parameters: Parameters) -> Array:
        """The log of what multiplies the curvature of the log likelihood as the parameters move, where it is known."""
        return jnp.zeros(())

    def exact_quadratic(self, y: ArrayLike, missing: ArrayLike, context: Context) -> tuple[Array, Array] | None:
        """``(h, b)`` of a log likelihood that is ``exp(log_precision) Σ (−½ h_i u_i² + b_i u_i)`` in ``u = f``."""
        return None

    def sums(self, weights: np.ndarray, y: np.ndarray, missing: np.ndarray, context: Context) -> Sums | None:
        """Sufficient statistics of data that see the sites through ``weights``; ``None`` where there are none."""
        return None

    def on_planes(
        self,
        f: Float[ArrayLike, " N"],
        columns: Float[ArrayLike, "N k"],
        y: ArrayLike,
        missing: ArrayLike,
        context: Context,
        parameters: Parameters,
    ) -> Plane:
        """The log density of the data at ``f + columns @ (c u + s v)``, for any ``u`` and ``v``."""

        def on_plane(u, v):
            a, b = columns @ u, columns @ v
            return lambda c, s: self.log_prob(f + c * a + s * b, y, missing, context, parameters)

        return on_plane


class Sums(Protocol):
    """Sufficient statistics of data that see the sites ``s`` through interpolation: the data themselves can go."""

    def log_likelihood(self, sites: Float[Array, " S"], mean: Array, parameters: Parameters) -> Float[Array, ""]:
        """The log density of the data given the sites."""
        ...

    def on_planes(
        self, middle: Float[Array, " S"], columns: Float[Array, "S k"], mean: Array, parameters: Parameters
    ) -> Plane:
        """The same at ``middle + columns @ (c u + s v)``, for any ``u`` and ``v``."""
        ...

    def quadratic(self) -> tuple[Float[Array, "S S"], Float[Array, " S"]]:
        """``(H, b)`` of the log likelihood in ``f`` at the sites, as in ``Likelihood.exact_quadratic``."""
        ...


def masked_log_prob(distribution: dist.Distribution, y: ArrayLike, missing: ArrayLike) -> Array:
    """The log density of the observed elements; the missing ones must hold a value in the support."""
    log_prob = distribution.log_prob(y)
    if distribution.event_shape:
        return jnp.sum(log_prob)
    return jnp.sum(jnp.where(missing, 0.0, log_prob))


def fill_missing(y: Float[np.ndarray, "*data"]) -> tuple[np.ndarray, np.ndarray]:
    """``y`` with every NaN replaced by an observed value (which the support contains), and where they were."""
    missing = np.isnan(y)
    observed = y[~missing]
    filled = np.where(missing, observed.flat[0] if observed.size else 1.0, y)
    return filled, missing


def check_distribution(distribution: object, y: np.ndarray) -> None:
    """Raise unless the likelihood returned a distribution of the shape of ``y``."""
    if not isinstance(distribution, dist.Distribution):
        raise ModelError(
            f"likelihood returned {type(distribution).__name__}, expected a NumPyro distribution "
            "(numpyro.distributions.Normal(f, noise), say)"
        )
    shape = distribution.shape()
    if shape != y.shape:
        raise ModelError(f"likelihood returned a distribution of shape {shape}, but y has shape {y.shape}")
    if distribution.event_shape and np.isnan(y).any():
        raise DataError(
            f"y has missing values, but the likelihood's {type(distribution).__name__} is joint over elements "
            f"(event_shape {distribution.event_shape}), so they cannot drop out; leave them out of y instead"
        )
