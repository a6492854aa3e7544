"""Gaussian data: what a likelihood gains where the data are normal around ``f``.

The log likelihood is then a quadratic of ``f``: data seen through interpolation shrink to sums, planes cost a few
inner products, the approximation of the informed updates is exact, and the latent can be integrated out.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float

from seqgp.base.bound import Bound
from seqgp.base.errors import DataError, ModelError
from seqgp.base.modulated import Modulated, Season
from seqgp.base.priors import Parameter, Parameters
from seqgp.base.snapshot import Context
from seqgp.likelihoods.base import Likelihood, Plane
from seqgp.likelihoods.context import Requirement, positive_parameter
from seqgp.linalg.types import Array, ArrayLike

__all__ = ["Gaussian"]

LOST = 0.01  # of a log likelihood may be rounding


class GaussianSums(NamedTuple):
    """Sufficient statistics of Gaussian data seen through interpolation: sums over the observed data."""

    count: Float[ArrayLike, ""]  # pyright: ignore[reportIncompatibleMethodOverride]
    gram: Float[ArrayLike, "S S"]  # W'PW, with the precisions P of the data at unit noise
    weighted: Float[ArrayLike, " S"]  # W'Py
    ones: Float[ArrayLike, " S"]  # W'P1
    total: Float[ArrayLike, ""]  # 1'P1
    y: Float[ArrayLike, ""]  # 1'Py
    yy: Float[ArrayLike, ""]  # y'Py
    log_root: Float[ArrayLike, ""]  # ½ log |P|

    def log_likelihood(self, sites, mean, parameters):
        """``Σ log N(y_i; (W s)_i + mean, noise² / P_i)``."""
        squares = self._squares(sites, mean, self.gram @ sites)
        return gaussian_log_density(squares, self.count, parameters["noise"]) + self.log_root

    def on_planes(self, middle, columns, mean, parameters) -> Plane:
        """The same at ``middle + columns @ (c u + s v)``, for any ``u`` and ``v``."""
        curved = self.gram @ middle
        slope = self.weighted - mean * self.ones - curved
        squares = Squares(self._squares(middle, mean, curved), slope @ columns, columns.T @ (self.gram @ columns))
        return squares.log_densities(self.count, parameters["noise"], self.log_root)

    def quadratic(self):
        """``H = W'PW`` and ``b = W'Py``, those of unit noise."""
        return jnp.asarray(self.gram), jnp.asarray(self.weighted)

    def _squares(self, sites, mean, curved):
        squares = self.yy - 2 * self.weighted @ sites + sites @ curved
        return squares + mean * (self.total * mean - 2 * (self.y - self.ones @ sites))


class Squares(NamedTuple):
    """A sum of squares ``|r − A w|²`` as a function of ``w``: a few inner products, whatever the size of the data."""

    constant: Float[Array, ""]  # r'r
    slope: Float[Array, " k"]  # A'r
    gram: Float[Array, "k k"]  # A'A

    def on_plane(self, u: Float[Array, " k"], v: Float[Array, " k"]) -> Callable[[Array, Array], Array]:
        """The sum of squares at ``w = c u + s v``, as a function of ``(c, s)``: six numbers."""
        pair = jnp.stack([u, v])
        (ru, rv), ((uu, uv), (_, vv)) = pair @ self.slope, pair @ self.gram @ pair.T
        return lambda c, s: self.constant - 2 * (c * ru + s * rv) + c**2 * uu + 2 * c * s * uv + s**2 * vv

    def log_densities(self, count, noise, log_root) -> Plane:
        """The log density of the ``count`` residuals on planes of ``w``; ``log_root`` is what weighting them adds."""

        def quadratic(u, v):
            along = self.on_plane(u, v)
            return lambda c, s: gaussian_log_density(along(c, s), count, noise) + log_root

        return quadratic


def gaussian_log_density(squares, count, noise):
    """``log N`` of ``count`` residuals from the sum of their squares."""
    return -0.5 * squares / noise**2 - count * (jnp.log(noise) + 0.5 * jnp.log(2 * jnp.pi))


TIME = "snapshot.t"  # where the time of a snapshot stands in its context, for noise with a trend
INFLATION = "snapshot.inflation"  # where a sampler says by how much it inflates the noise of each datum
STATION = "snapshot.station"  # where the number of each datum's station does, for a noise of each station
RATIOS = "noise.ratio"  # the precision of each station over 1 / noise², among the parameters
CONCENTRATION = "noise.concentration"  # of the population of ratios
POPULATION = dist.LogNormal(1.5, 1.0)  # of the concentration, where none is given: stations differ by about 30%


class Scatter(NamedTuple):
    """How the standard deviation of the data is made of noise, known errors and a trend."""

    errors: str | None  # their name in the context
    combine: str
    trending: bool
    since: float

    def sd(self, context: Context, noise: Array, trend: Array | None = None) -> Array:
        """One number, or one for each datum."""
        if self.trending:
            noise = noise * jnp.exp(trend * (context[TIME] - self.since))
        if self.errors is None:
            return noise
        known = context[self.errors]
        return noise * known if self.combine == "times" else jnp.sqrt(noise**2 + known**2)


CONSTANT = Scatter(errors=None, combine="times", trending=False, since=0.0)


def inflated_context(context: Context, factors: Float[np.ndarray, " N"]) -> Context:
    """A context in which the noise of each datum is so many times as large."""
    if context is not None and not isinstance(context, Mapping):
        raise DataError(f'robust = "downweight": the context must be a dictionary, got {type(context).__name__}')
    return {**(context or {}), INFLATION: np.asarray(factors, float)}


def nominal_context(context: Context) -> Context:
    """The context with the noise that the model says."""
    if not isinstance(context, Mapping) or INFLATION not in context:
        return context
    return {name: value for name, value in context.items() if name != INFLATION} or None


def _gaussian(f, context, noise):
    return dist.Normal(f, noise)


def _scattered(f, context, noise, trend=None, *, scatter: Scatter):
    return dist.Normal(f, scatter.sd(context, noise, trend))


def _seasonal(f, context, noise, trend=None, *, scatter: Scatter, season: Season, **weights):
    (own,) = weights.values()
    return dist.Normal(f, scatter.sd(context, noise * season.amplitude(own, context[TIME]), trend))


class Gaussian(Likelihood):
    """``y ~ N(f, noise²)`` at each input; ``noise`` is a standard deviation.

    Args:
        noise: a standard deviation; with a season, ``seqgp.means.Modulated``.
        errors: the name of an entry of the context with known standard errors, one for each datum.
        combine: with errors, ``times`` for a standard deviation ``noise · error``, ``squares`` for
            ``√(noise² + error²)``.
        trend: of the log of the noise, per unit of time: the noise is ``noise · exp(trend · (t − since))``.
        since: the time at which the noise is ``noise``.
        by: ``"station"`` for a noise of each station, a place that data come from: station ``i`` has the variance
            ``noise² / λ_i`` with ``λ_i ~ Gamma(a, a)``. Names may stand in the context, under ``"station"``.
        concentration: with by, ``a``: the larger, the more alike are stations; inferred by default.

    Example:
        ``likelihoods.Gaussian(noise=prior, errors="se")``
    """

    in_units_of_data = True
    only_with: ClassVar[Mapping[str, str]] = {"combine": "errors", "since": "trend", "concentration": "by"}

    def __init__(
        self,
        noise: Parameter | Modulated,
        errors: str | None = None,
        combine: Literal["times", "squares"] = "times",
        trend: Parameter | None = None,
        since: float = 0.0,
        by: str | None = None,
        concentration: Parameter | None = None,
    ):
        if combine not in ("times", "squares"):
            raise ModelError(f"Gaussian: combine = {combine!r}: expected 'times' or 'squares'")
        if errors is not None and not isinstance(errors, str):
            raise ModelError(f"Gaussian: errors = {errors!r}: expected the name of an entry of the context")
        if not isinstance(since, numbers.Real) or not np.isfinite(since):
            raise ModelError(f"Gaussian: since = {since} is not one finite number")
        slots = noise.slots("noise") if isinstance(noise, Modulated) else {"noise": noise}
        slots |= {} if trend is None else {"trend": trend}
        slots |= _population(by, concentration, errors is not None and combine == "squares")
        scatter = Scatter(errors, combine, trend is not None, float(since))
        plain = errors is None and trend is None
        function = _gaussian if plain else Bound(_scattered, scatter=scatter)
        if isinstance(noise, Modulated):
            function = Bound(_seasonal, scatter=scatter, season=noise.season)
        super().__init__(function, pointwise=True, **slots)
        if self.priors["noise"] == 0.0:
            raise ModelError(
                "Gaussian: noise = 0.0 is not positive: data without noise are interpolated, which leaves nothing to "
                "draw at them; give the noise that the numbers are rounded by, or a small one (1e-4 of the scale, say)"
            )
        positive_parameter(self.priors["noise"], "Gaussian: noise")
        if by is not None:
            positive_parameter(self.priors[CONCENTRATION], "Gaussian: concentration")
        if isinstance(self.priors.get("trend"), tuple):
            raise ModelError("Gaussian: trend takes one number or prior, not a list")

    def arguments(self):  # noqa: D102
        scatter = self.scatter
        slots, season = dict(self.priors), self.season
        if season is not None:
            weights = slots.pop(f"noise.{season.name}")
            assert isinstance(weights, tuple)
            slots["noise"] = Modulated(slots["noise"], season, weights)  # type: ignore[arg-type]
        if self.by_station:
            slots |= {"by": "station", "concentration": slots.pop(CONCENTRATION)}
        errors = {} if scatter.errors is None else {"errors": scatter.errors, "combine": scatter.combine}
        return slots | errors | ({"since": scatter.since} if scatter.trending else {})

    @property
    def scatter(self) -> Scatter:
        """How the standard deviation of the data is made."""
        return getattr(self.function, "keywords", {}).get("scatter", CONSTANT)

    @property
    def season(self) -> Season | None:
        """Of the noise."""
        return getattr(self.function, "keywords", {}).get("season")

    @property
    def by_station(self) -> bool:
        """Whether each station has a noise of its own."""
        return CONCENTRATION in self.priors

    def distribution(self, f, context, parameters):  # noqa: D102
        if not self.by_station:
            return super().distribution(f, context, parameters)
        return dist.Normal(f, self.noise(context, parameters))

    def typical(self, n, context, parameters):  # noqa: D102
        if not self.by_station:
            return context, parameters
        return {**(context or {}), STATION: np.zeros(n, int)}, parameters | {RATIOS: jnp.ones(1)}

    @property
    def _dated(self) -> bool:
        """Whether the noise depends on the time of the snapshot."""
        return self.scatter.trending or self.season is not None

    def needs(self, context):  # noqa: D102
        return () if self.scatter.errors is None else (Requirement("errors", self.scatter.errors),)

    def context_at(self, t: float, context: Context) -> Context:
        """The context without gaps, with the time where the noise has a trend or a season."""
        context = super().context_at(t, context)
        if self.by_station and isinstance(context, Mapping):  # names are no numbers
            context = {name: value for name, value in context.items() if name != "station"}
        if not self._dated:
            return context
        if context is not None and not isinstance(context, Mapping):
            raise DataError(
                "Gaussian: where the noise has a trend or a season the context must be a dictionary, got "
                f"{type(context).__name__}"
            )
        return {**(context or {}), TIME: np.asarray(t, dtype=float)}

    @property
    def conjugate(self) -> bool:
        """Whether the latent can be integrated out exactly: yes."""
        return True

    @property
    def quadratic(self) -> bool:
        """Whether the noise multiplies all of the log likelihood's quadratic in the latent."""
        return self.scatter.combine == "times" and not self._dated and not self.by_station

    def noise(self, context: Context, parameters: Parameters) -> Array:
        """The standard deviation of the noise."""
        noise, season = parameters["noise"], self.season
        if season is not None:
            noise = noise * season.amplitude(parameters[f"noise.{season.name}"], context[TIME])
        if self.by_station:
            noise = noise / jnp.sqrt(_ratios_of(context, parameters))
        sd = self.scatter.sd(context, noise, parameters.get("trend"))
        return sd * context[INFLATION] if isinstance(context, Mapping) and INFLATION in context else sd

    def log_precision(self, parameters: Parameters) -> Array:
        """``−2 log noise``, where that is all there is to it."""
        return -2.0 * jnp.log(parameters["noise"]) if self.quadratic else jnp.zeros(())

    def exact_quadratic(self, y, missing, context):
        """``(h, b)`` of ``Σ −½ h_i u_i² + b_i u_i`` at unit noise."""
        if not self.quadratic:
            return None
        precision = jnp.where(missing, 0.0, self._unit_precision(y, context))
        return precision, precision * y

    def sums(self, weights: np.ndarray, y: np.ndarray, missing: np.ndarray, context: Context):
        """The data summed up as the sites see them: sufficient statistics."""
        if not self.quadratic:
            return None
        precision = np.asarray(self._unit_precision(y, context))[~missing]
        w, values = weights[~missing], y[~missing]
        pw = precision[:, None] * w
        parts = (
            len(values), pw.T @ w, pw.T @ values, pw.sum(0), precision.sum(), precision @ values,
            values @ (precision * values), 0.5 * np.log(precision).sum(),
        )  # fmt: skip
        self._check_rounding(float(values @ (precision * values)))
        return GaussianSums(*(np.asarray(part, dtype=float) for part in parts))

    def _check_rounding(self, squares: float) -> None:
        """Raise where a known noise is so small that the rounding of sums of squares would count as misfit."""
        noise = self.priors["noise"]
        if isinstance(noise, float) and np.finfo(float).eps * squares > LOST * noise**2:
            least = np.sqrt(np.finfo(float).eps * squares / LOST)
            raise ModelError(
                f"Knots: noise = {noise:g} is lost in the rounding of sums of squares of the data; use "
                f"latent=seqgp.Dense(), or noise above {least:.1g}"
            )

    def on_planes(self, f, columns, y, missing, context, parameters) -> Plane:
        """The log likelihood on planes, from a few inner products."""
        root = jnp.where(missing, 0.0, 1.0 / jnp.broadcast_to(self.noise(context, parameters), y.shape))
        residual, seen = root * (y - f), root[:, None] * columns
        squares = Squares(residual @ residual, residual @ seen, seen.T @ seen)
        log_root = jnp.sum(jnp.where(missing, 0.0, jnp.log(jnp.where(missing, 1.0, root))))
        return squares.log_densities(jnp.sum(~missing, dtype=float), 1.0, log_root)

    def _unit_precision(self, y: ArrayLike, context: Context) -> Array:
        """The precision of each datum at unit noise, where noise multiplies the known errors."""
        known = 1.0 if self.scatter.errors is None else context[self.scatter.errors]
        return jnp.broadcast_to(1.0 / jnp.square(jnp.asarray(known, dtype=float)), y.shape)


def _population(by: str | None, concentration: Parameter | None, squares: bool) -> dict[str, Parameter]:
    """The parameter of the population of stations, where there is one."""
    if by is None:
        if concentration is not None:
            raise ModelError("Gaussian: concentration has no effect without by='station'; leave it out")
        return {}
    if by != "station":
        raise ModelError(f"Gaussian: by = {by!r}: expected 'station'")
    if squares:
        raise ModelError("Gaussian: by='station' does not take combine='squares': use combine='times', or errors alone")
    return {CONCENTRATION: POPULATION if concentration is None else concentration}


def _ratios_of(context: Context, parameters: Parameters) -> Array:
    """The ratio of each datum's station."""
    if RATIOS not in parameters or not isinstance(context, Mapping) or STATION not in context:
        raise ModelError(
            "Gaussian: only seqgp.OnlineSampler, and predictions from its states, know the noise of each station "
            "(by='station'): use it, or leave by out"
        )
    return jnp.asarray(parameters[RATIOS])[jnp.asarray(context[STATION])]
