"""Priors as deterministic transforms of a Gaussian: ``theta = value(z)``, ``z ~ N(loc, scale²)``.

Every parameter of a model is a number (known) or a prior (inferred). Because each prior is a transform
of a Gaussian, all parameters together are one Gaussian vector ``z``, and slices on ellipses apply to them.
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.distributions.transforms import biject_to
from scipy.special import expit, log_ndtr, ndtr

from seqgp.base.errors import ModelError
from seqgp.base.validation import is_number

REACH = 8.0  # standard deviations of ``z`` that count: a normal variable is beyond with probability 1e-15


class Prior(eqx.Module):
    """A transform of ``z ~ N(loc, scale²)``; subclasses say which, and have ``loc`` and ``scale``."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @abc.abstractmethod
    def value(self, z: Float[Array, "..."]) -> Float[Array, "..."]:
        """The parameter in natural units at ``z``."""

    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value, as far as double precision can tell."""
        with jax.enable_x64(True), jax.ensure_compile_time_eval():  # a model may be made inside a trace
            values = np.asarray(self.value(jnp.asarray(self.loc + REACH * self.scale * np.array([-1.0, 1.0]))))
        return float(values.min()), float(values.max())

    def through(self, function: Callable[[Array], Array]) -> Through:
        """This prior passed through a monotone function: the parameter is ``function(value(z))``."""
        return Through(self, function)


class ScaledSigmoid(Prior):
    """``low + (high − low) / (1 + exp(−z))`` with ``z ~ N(loc, scale²)``: a prior between two bounds.

    It is the choice of the paper (eq. 9). With the defaults its density is nearly flat in the middle and falls to zero
    at the bounds.

    Args:
        low: the lower bound.
        high: the upper bound.
        loc: the mean of the Gaussian behind it; 0 puts the median in the middle.
        scale: the standard deviation of the Gaussian behind it.
    """

    low: float
    high: float
    loc: float = 0.0
    scale: float = 1.5

    def __check_init__(self):
        for name in ("low", "high", "loc", "scale"):
            value = getattr(self, name)
            if not is_number(value):
                raise ModelError(f"ScaledSigmoid: {name} = {value!r} is not a number")
            if not abs(value) <= sys.float_info.max:
                raise ModelError(f"ScaledSigmoid: {name} = {value} is not finite")
        if not self.low < self.high:
            raise ModelError(f"ScaledSigmoid: low = {self.low} is not below high = {self.high}")
        if not np.isfinite(float(self.high) - float(self.low)):
            raise ModelError(
                f"ScaledSigmoid: low = {self.low} and high = {self.high} are further apart than double precision goes"
            )
        if not self.scale > 0:
            raise ModelError(f"ScaledSigmoid: scale = {self.scale} is not positive")

    def value(self, z):
        """The parameter in natural units at ``z``."""
        return self.low + (self.high - self.low) * jax.nn.sigmoid(z)

    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value, as far as double precision can tell."""
        low, high = expit(self.loc + REACH * self.scale * np.array([-1.0, 1.0]))
        return float(self.low + (self.high - self.low) * low), float(self.low + (self.high - self.low) * high)


class Through(Prior):
    """A prior passed through a monotone function, whose value is the function's."""

    prior: Prior
    function: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(self, prior: Prior, function: Callable[[Array], Array]):
        if not callable(function):
            raise ModelError(f"through: expected a function, got {function!r}")
        self.prior, self.function = prior, function

    @property
    def loc(self) -> float:
        """The mean of the underlying ``z``."""
        return self.prior.loc

    @property
    def scale(self) -> float:
        """The standard deviation of the underlying ``z``."""
        return self.prior.scale

    def value(self, z):
        """The parameter in natural units at ``z``."""
        return self.function(self.prior.value(z))


class FromDistribution(Prior):
    """``F⁻¹(Phi(z))`` with ``z ~ N(0, 1)``: any continuous one-dimensional distribution, exactly.

    The quantile function is tabulated once, on the unconstrained scale of the distribution's support, with its
    exact slope ``phi(z) / p(theta)`` at the nodes, and evaluated by cubic Hermite interpolation: accurate to 1e-10,
    differentiable, and as cheap inside a compiled loop as a polynomial.
    """

    distribution: dist.Distribution
    height: np.ndarray
    slope: np.ndarray
    loc: float = 0.0
    scale: float = 1.0

    nodes = 3201  # beyond the last, the unconstrained quantile continues along its slope there

    def __init__(self, distribution: dist.Distribution):
        _check_distribution(distribution)
        self.distribution = distribution
        z = np.linspace(-REACH, REACH, self.nodes)
        self.height, self.slope = _tabulate(distribution, z)

    def value(self, z):
        """The parameter in natural units at ``z``."""
        step = 2 * REACH / (self.nodes - 1)
        inside = jnp.clip(z, -REACH, REACH)
        cell = jnp.clip(((inside + REACH) / step).astype(int), 0, self.nodes - 2)
        s = (inside + REACH) / step - cell.astype(inside.dtype)
        height, slope = jnp.asarray(self.height), jnp.asarray(self.slope) * step
        left, right = height[cell], height[cell + 1]
        unconstrained = (
            (1 + 2 * s) * (1 - s) ** 2 * left
            + s * (1 - s) ** 2 * slope[cell]
            + s**2 * (3 - 2 * s) * right
            + s**2 * (s - 1) * slope[cell + 1]
        )
        beyond = (z - inside) * jnp.where(z < 0, self.slope[0], self.slope[-1])
        return biject_to(self.distribution.support)(unconstrained + beyond)

    def ends(self) -> tuple[float, float]:
        """The smallest and the largest value, as far as double precision can tell: at the ends of the table."""
        with jax.enable_x64(True), jax.ensure_compile_time_eval():  # a model may be made inside a trace
            values = np.asarray(biject_to(self.distribution.support)(jax.device_put(self.height[[0, -1]])))
        return float(values.min()), float(values.max())


def _check_distribution(distribution: dist.Distribution) -> None:
    name = type(distribution).__name__
    if distribution.event_shape or distribution.batch_shape:
        shape = distribution.batch_shape + distribution.event_shape
        raise ModelError(f"{name} of shape {shape} as a prior: expected one dimension; give a list of priors")
    if distribution.support is None or distribution.support.is_discrete:
        raise ModelError(f"{name} as a prior: only continuous distributions are transforms of a Gaussian")


def _tabulate(distribution: dist.Distribution, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The quantile function on the unconstrained scale at the nodes ``z``, and its slope in ``z``."""
    with jax.enable_x64(True):
        w = _polished(distribution, z, _unconstrained_quantiles(distribution, z))
        log_slope = (-0.5 * (z**2 + np.log(2 * np.pi))) - np.asarray(_log_density(distribution, w))
    slope = np.exp(log_slope)
    # In the far tails rounding can spoil the cdf: keep the longest stretch around the middle that is clean.
    ok = np.isfinite(w) & np.isfinite(slope) & (slope > 0)
    middle = len(z) // 2
    if not ok[middle]:
        raise ModelError(f"{type(distribution).__name__} as a prior: its median cannot be computed")
    first = middle - int(np.argmin(np.append(ok[middle::-1], False))) + 1
    last = middle + int(np.argmin(np.append(ok[middle:], False))) - 1
    if z[first] > -5 or z[last] < 5:
        raise ModelError(
            f"{type(distribution).__name__} as a prior: its quantiles cannot be computed beyond "
            f"z = {z[first]:.2f} and {z[last]:.2f}; use another parametrisation"
        )
    inner = slice(first, last + 1)
    height = np.interp(z, z[inner], w[inner])
    height += np.where(z < z[first], (z - z[first]) * slope[first], 0)
    height += np.where(z > z[last], (z - z[last]) * slope[last], 0)
    return height, np.interp(z, z[inner], slope[inner])


# What NumPyro raises where a distribution has no cdf or inverse cdf (or needs a package for it that is not there).
_NO_CDF = (NotImplementedError, AttributeError, ImportError)


def _unconstrained_quantiles(distribution: dist.Distribution, z: np.ndarray) -> np.ndarray:
    """``w`` with ``F(to_support(w)) = Phi(z)``: by the inverse cdf where there is one, else by bisection."""
    probability = ndtr(z)
    try:
        return np.array(_by_inverse(distribution, probability))
    except _NO_CDF:
        pass
    try:
        return np.array(_by_bisection(distribution, probability))
    except _NO_CDF as error:
        raise ModelError(
            f"{type(distribution).__name__} as a prior: it has neither icdf nor cdf, so it cannot be written as a "
            "transform of a Gaussian"
        ) from error


def _polished(distribution: dist.Distribution, z: np.ndarray, w: np.ndarray) -> np.ndarray:
    """One Newton step on the log of the cdf in the lower half, where the cdf keeps its relative accuracy."""
    lower = (z < 0) & np.isfinite(w)
    at = np.where(lower, w, np.median(w[np.isfinite(w)]))
    try:
        cdf, log_density = np.asarray(_cdf(distribution, at)), np.asarray(_log_density(distribution, at))
    except _NO_CDF:
        return w
    with np.errstate(divide="ignore", invalid="ignore"):
        step = (np.log(cdf) - log_ndtr(z)) * cdf / np.exp(log_density)
    usable = lower & np.isfinite(step) & (np.abs(step) < 1e-6)
    return np.where(usable, w - step, w)


# Compiled once for each kind of distribution: its parameters are arguments.


@jax.jit
def _by_inverse(distribution: dist.Distribution, probability: Array) -> Array:
    return biject_to(distribution.support).inv(distribution.icdf(probability))


@jax.jit
def _by_bisection(distribution: dist.Distribution, probability: Array) -> Array:
    to_support = biject_to(distribution.support)
    far = 8e8 if distribution.support is dist.constraints.real else 800.0

    def halved(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        below = distribution.cdf(to_support(middle)) < probability
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    ends = jnp.full_like(probability, -far), jnp.full_like(probability, far)
    low, high = jax.lax.fori_loop(0, 110, halved, ends)
    return 0.5 * (low + high)


@jax.jit
def _cdf(distribution: dist.Distribution, w: Array) -> Array:
    return distribution.cdf(biject_to(distribution.support)(w))


@jax.jit
def _log_density(distribution: dist.Distribution, w: Array) -> Array:
    """Of ``w`` on the unconstrained scale."""
    to_support = biject_to(distribution.support)
    theta = to_support(w)
    return distribution.log_prob(theta) + to_support.log_abs_det_jacobian(w, theta)


Parameter = float | Prior | dist.Distribution
"""A number that is known, or a prior: one of seqgp's, or a one-dimensional NumPyro distribution."""
Slot = Parameter | Sequence[Parameter]
"""A parameter, or (where a name has several entries) a sequence of them."""
Parameters = dict[str, Array]
"""The parameters of a model or of a part of it at one ``z``: values in natural units, by name."""
Kept = float | Prior | tuple[float | Prior, ...]
"""A slot as a model keeps it."""


def as_entry(value: object, where: str) -> float | Prior:
    """A number or a prior from what a user gave in one slot."""
    if isinstance(value, Prior):
        return value
    if isinstance(value, dist.Distribution):
        return FromDistribution(value)
    if is_number(value):
        try:
            number = float(value)  # type: ignore[arg-type]
        except OverflowError:  # of a whole number
            number = np.inf
        if not np.isfinite(number):
            raise ModelError(f"{where} = {number} is not finite")
        return number
    raise ModelError(
        f"{where}: expected a number, a prior or a one-dimensional NumPyro distribution, got {type(value).__name__}"
    )


def as_slot(value: object, where: str) -> Kept:
    """One entry, or a tuple of entries from a sequence."""
    if isinstance(value, (list, tuple)) or (isinstance(value, (np.ndarray, jax.Array)) and np.ndim(value) == 1):
        if len(value) == 0:
            raise ModelError(f"{where}: an empty list")
        return tuple(as_entry(entry, f"{where}[{i}]") for i, entry in enumerate(value))
    return as_entry(value, where)


def known_numbers(value: object, where: str) -> tuple[float, ...]:
    """One number or several, where nothing is inferred."""
    slot = as_slot(value, where)
    entries = slot if isinstance(slot, tuple) else (slot,)
    known = tuple(entry for entry in entries if not isinstance(entry, Prior))
    if len(known) < len(entries):
        raise ModelError(f"{where} must be numbers that are known, not priors")
    return known


def check_positive(slot: Kept, where: str) -> None:
    """Raise unless a number is positive, or a prior has no mass below zero (as far as double precision can tell)."""
    for entry in slot if isinstance(slot, tuple) else (slot,):
        if isinstance(entry, Prior):
            lowest, highest = entry.ends()
            if np.isnan(lowest) or np.isnan(highest):
                raise ModelError(f"{where}: its prior reaches from {lowest:.3g} to {highest:.3g}; take a narrower one")
            if lowest < 0:
                raise ModelError(
                    f"{where}: its prior reaches below zero (to {lowest:.3g}); take one of positive numbers, such as "
                    "ScaledSigmoid(0, …), HalfNormal, Gamma or LogNormal"
                )
        elif entry <= 0:
            prior = ""
            if isinstance(slot, tuple) and len(slot) == 2 and not any(isinstance(one, Prior) for one in slot):
                prior = f"; a prior between two bounds is seqgp.ScaledSigmoid({slot[0]}, {slot[1]})"
            raise ModelError(f"{where} = {entry} is not positive{prior}")


def inverse_softplus(value: Float[Array, "..."]) -> Float[Array, "..."]:
    """``log(exp(value) − 1)``, the inverse of ``softplus``, accurate for large and small values."""
    return value + jnp.log(-jnp.expm1(-value))


def within(parameters: Parameters, prefix: str) -> Parameters:
    """The entries below ``prefix``, with the prefix dropped."""
    start = prefix + "."
    return {name[len(start) :]: value for name, value in parameters.items() if name.startswith(start)}
