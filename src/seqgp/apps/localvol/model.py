"""The model: local volatility at knots that stay from day to day, seen through the prices of a day's quotes."""

from __future__ import annotations

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

import seqgp
from seqgp.apps.localvol.grid import GridSize, Mesh
from seqgp.apps.localvol.quotes import Quotes
from seqgp.apps.localvol.solver import PricingPlan, knot_prices
from seqgp.apps.localvol.surface import Surface
from seqgp.apps.localvol.tables import Table

Noise = Literal["price", "spread", "volatility"]
_EPOCH = np.datetime64("1970-01-01", "ns")
_YEAR = np.timedelta64(8766, "h").astype("timedelta64[ns]")
_SHORT = 0.01  # years that the knots span where there is one expiration
_CAPACITY = 32  # quotes a day are padded to a multiple, so that days share one compilation
_NOISES: dict[str, Any] = {
    "price": dist.LogNormal(math.log(0.05), 1.5),  # in units of price
    "spread": dist.LogNormal(math.log(0.5), 0.7),  # in half-spreads
    "volatility": dist.LogNormal(math.log(0.001), 1.0),  # in implied volatility: 10 bp
}
DEGREES = 4.0  # of freedom, of robust noise


class LocalVolatility:
    """Local volatility `softplus(f + mu)` at knots, its prior, and the noise of prices.

    Attributes:
        model: the `seqgp.Model` behind it.
        maturities: of the knots, in years.
        log_moneyness: of the knots, `log(K/F)`.
        x: the knots in the unit square, `(a·b, 2)`, maturity varying slowest.
    """

    def __init__(
        self,
        maturities: ArrayLike,
        log_moneyness: ArrayLike,
        noise: Noise = "volatility",
        robust: bool = False,
        *,
        time: Any = None,
        lengthscales: tuple[Any, Any] | None = None,
        scale: Any = None,
        level: Any = None,
        noise_prior: Any = None,
        coordinates: Literal["linear", "knots"] = "linear",
        grid: GridSize | tuple[int, int] = (73, 48),
        volatility: float = 0.25,
        capacity: int = 0,
        least_vega: float = 1e-3,
    ):
        """Build the model.

        Args:
            maturities: knots in years, increasing.
            log_moneyness: knots of `log(K/F)`, increasing.
            noise: what is constant over quotes: the noise of the `"price"`, its ratio to the half-`"spread"`, or the
                noise of the implied `"volatility"`.
            robust: Student-t noise with 4 degrees of freedom instead of Gaussian, against outliers.
            time: the kernel over quote dates, in years.
            lengthscales: along maturity and log-moneyness, in the unit square: numbers or priors.
            scale: standard deviation of the latent: a number or a prior.
            level: the level of volatility, `softplus(mu)`: a number or a prior.
            noise_prior: a number or a prior, in the units of `noise`.
            coordinates: how knots lie in the unit square: as they are, or at equal distances.
            grid: sizes of the pricer's mesh, the same for all days.
            volatility: a typical level, which only places the mesh.
            capacity: quotes that a day is padded to, so that nothing is compiled anew; raised where a day has more.
            least_vega: for `"volatility"`, a floor of vega, relative to the discounted forward.
        """
        self.maturities = _increasing("maturities", maturities)
        self.log_moneyness = _increasing("log_moneyness", log_moneyness)
        if noise not in _NOISES:
            raise ValueError(f"noise = {noise!r}: expected one of {', '.join(map(repr, _NOISES))}")
        self.noise, self.robust = noise, robust
        self.grid, self.volatility = GridSize(*grid), volatility
        self.capacity, self.least_vega = capacity, least_vega
        self.x = _unit_square(self.maturities, self.log_moneyness, coordinates)
        sigmoid = seqgp.ScaledSigmoid(0.0, 1.0)
        inner = sigmoid if level is None else level
        known = isinstance(inner, (int, float))
        self.model = seqgp.Model(
            kernel=seqgp.Separable(
                time=seqgp.Matern12(lengthscale=dist.LogNormal(math.log(0.2), 1.0)) if time is None else time,
                space=seqgp.SquaredExponential(lengthscale=list(lengthscales or (sigmoid, sigmoid))),
                scale=sigmoid if scale is None else scale,
            ),
            mean=float(seqgp.inverse_softplus(jnp.asarray(inner))) if known else _through(inner),
            likelihood=_likelihood(robust, _NOISES[noise] if noise_prior is None else noise_prior),
            jitter=(1e-8, 1e-7, 1e-6),
        )

    @classmethod
    def for_quotes(cls, quotes: Quotes, shape: tuple[int, int] = (6, 24), **options: Any) -> LocalVolatility:
        """A model with knots that span the quotes of all days, and room for the largest day.

        More knots in maturity than a day has expirations leave volatilities that no quote tells apart, and a posterior
        that is hard to sample; so do lengthscales below the spacing of the knots, which their prior leaves out here.

        Args:
            quotes: of one day or several.
            shape: how many knots in maturity and in log-moneyness.
            **options: as for the class.
        """
        table: Table = quotes.table
        if table.empty:
            out = quotes.excluded["reason"]
            why = f": all {len(out)} were left out, the last because {out.iloc[-1]}" if len(out) else ""
            raise ValueError(f"for_quotes: there are no quotes{why}")
        if min(shape) < 2:
            raise ValueError(f"for_quotes: {shape[0]} and {shape[1]} knots, expected at least two each")
        y = table["log_moneyness"].to_numpy()
        shortest, longest = float(table["maturity"].min()), float(table["maturity"].max())
        maturities = shortest + max(longest - shortest, _SHORT) * np.linspace(0.0, 1.0, shape[0]) ** 1.5
        counts = table.groupby("quote_date").size()
        options.setdefault("capacity", _CAPACITY * math.ceil(int(counts.max()) / _CAPACITY))
        options.setdefault("volatility", float(table["implied_volatility"].median()))
        return cls.at_knots(maturities, _spread_strikes(float(y.min()), float(y.max()), shape[1]), **options)

    @classmethod
    def at_knots(cls, maturities: ArrayLike, log_moneyness: ArrayLike, **options: Any) -> LocalVolatility:
        """As `for_quotes`, at given knots: `LocalVolatility.at_knots(**model.knots())` is the model of other days.

        Args:
            maturities: knots in years, increasing.
            log_moneyness: knots of `log(K/F)`, increasing.
            **options: as for the class.
        """
        options.setdefault("coordinates", "knots")
        counts = (len(np.atleast_1d(maturities)), len(np.atleast_1d(log_moneyness)))
        spacings = (min(0.5, 1 / max(n - 1, 1)) for n in counts)
        options.setdefault("lengthscales", tuple(seqgp.ScaledSigmoid(spacing, 1.0) for spacing in spacings))
        return cls(maturities, log_moneyness, **options)

    def knots(self) -> dict[str, Any]:
        """What places knots and mesh, for JSON: days that are added later must keep it."""
        return {
            "maturities": self.maturities.tolist(),
            "log_moneyness": self.log_moneyness.tolist(),
            "volatility": self.volatility,
            "capacity": self.capacity,
            "grid": list(self.grid),
        }

    def snapshot(self, day: Quotes) -> seqgp.Snapshot:
        """The quotes of one date as data: prices, and what pricing them needs as the context."""
        y, unit = day.table["price"].to_numpy(float), self.units(day)
        size = max(self.capacity, _CAPACITY * math.ceil(len(y) / _CAPACITY)) if self.capacity else len(y)
        plan = self.plan(day, size)
        return self.planned(years(day.dates[0]), plan, y, unit)

    def planned(self, t: float, plan: PricingPlan, prices: ArrayLike, unit: ArrayLike = 1.0) -> seqgp.Snapshot:
        """Prices of planned quotes as data; what they lack to the size of the plan is padding.

        Args:
            t: the time.
            plan: of `plan_quotes`, with this model's knots.
            prices: one per quote.
            unit: what the noise is multiplied with, one per quote.
        """
        y, size = np.asarray(prices, dtype=float), len(plan.step)
        units = np.broadcast_to(np.asarray(unit, dtype=float), y.shape)
        context = {"plan": as_tree(plan), "unit": _padded(units, size, 1.0)}
        return seqgp.Snapshot(t, self.x, _padded(y, size, np.nan), context)

    def plan(self, day: Quotes, pad_to: int | None = None) -> PricingPlan:
        """What pricing the quotes of a day needs."""
        if day.table.empty:
            raise ValueError("no quotes are left: look at .excluded for the reasons")
        return day.plan(self.grid, self.volatility, pad_to, (self.maturities, self.log_moneyness))

    def units(self, day: Quotes) -> Float[np.ndarray, " quotes"]:
        """What the noise is multiplied with: one, the half-spread, or vega."""
        table = day.table
        if self.noise == "price":
            return np.ones(len(table))
        if self.noise == "spread":
            half = table["half_spread"].to_numpy(float)
            if not np.all(half > 0):
                raise ValueError(
                    f"noise='spread': {np.sum(~(half > 0))} of {len(half)} quotes have no positive bid-ask spread; "
                    "use noise='volatility' or 'price'"
                )
            return half
        unit = (table["discount"] * table["forward"]).to_numpy(float)
        return np.maximum(np.nan_to_num(table["vega"].to_numpy(float)), self.least_vega * unit)

    def values(self, level: Float[ArrayLike, "... n"]) -> Float[Array, "... a b"]:
        """Local volatility at the knots from the level `f + mu`."""
        sigma = jax.nn.softplus(jnp.asarray(level))
        return sigma.reshape(*sigma.shape[:-1], len(self.maturities), len(self.log_moneyness))

    def surface(self, level: Float[ArrayLike, " n"]) -> Surface:
        """One surface from one level at the knots."""
        return Surface(self.maturities, self.log_moneyness, self.values(level))


def years(date: Any) -> float:
    """A date as a time of the model: years of 365.25 days since 1970."""
    moment: Any = pd.Timestamp(date)
    return float((moment.to_datetime64().astype("datetime64[ns]") - _EPOCH) / _YEAR)


def date_of(t: float) -> pd.Timestamp:
    """The date of a time of the model."""
    moment: Any = pd.Timestamp(_EPOCH + np.timedelta64(round(t * _YEAR.astype(int)), "ns"))
    return moment.round("s")


def as_tree(plan: PricingPlan) -> dict[str, Any]:
    """A plan as a tree of arrays, which a run on disk can hold."""
    fields = dict(vars(plan))
    return fields | {"grid": dict(vars(plan.grid))}


def from_tree(tree: dict[str, Any]) -> PricingPlan:
    """The plan again."""
    fields: dict[str, Any] = {**tree, "grid": Mesh(**tree["grid"])}
    return PricingPlan(**fields)


def _model_prices(level: Float[Array, " n"], context: dict[str, Any]) -> Float[Array, " quotes"]:
    plan = from_tree(context["plan"])
    shape = (plan.in_time.shape[1], plan.in_strike.shape[1])
    return knot_prices(plan, jax.nn.softplus(level).reshape(shape))


def _gaussian(level, context, noise):
    return dist.Normal(_model_prices(level, context), noise * context["unit"])


def _student(level, context, noise):
    return dist.StudentT(DEGREES, _model_prices(level, context), noise * context["unit"])


def _likelihood(robust: bool, noise: Any) -> seqgp.Likelihood:
    return seqgp.Likelihood(_student if robust else _gaussian, noise=noise)


def _through(level: Any) -> Any:
    """A prior of the level of volatility, as one of `mu`."""
    if not hasattr(level, "through"):
        raise ValueError(f"level: expected a number or a seqgp.ScaledSigmoid, got {type(level).__name__}")
    return level.through(seqgp.inverse_softplus)


def _increasing(name: str, values: ArrayLike) -> Float[np.ndarray, " n"]:
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or len(array) < 2 or not np.all(np.isfinite(array)) or np.any(np.diff(array) <= 0):
        raise ValueError(f"LocalVolatility: {name}: expected at least two numbers, increasing")
    return array


def _unit_square(maturities: np.ndarray, log_moneyness: np.ndarray, coordinates: str) -> Float[np.ndarray, "n 2"]:
    if coordinates not in ("linear", "knots"):
        raise ValueError(f"coordinates = {coordinates!r}: expected 'linear' or 'knots'")
    axes = []
    for knots in (maturities, log_moneyness):
        place = knots if coordinates == "linear" else np.arange(len(knots), dtype=float)
        axes.append((place - place[0]) / (place[-1] - place[0]))
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)


def _spread_strikes(low: float, high: float, count: int) -> Float[np.ndarray, " count"]:
    """Knots from `low` to `high`, denser near the money."""
    width = max(high - low, 1e-3) / 6
    return width * np.sinh(np.linspace(np.arcsinh(low / width), np.arcsinh(high / width), count))


def _padded(values: np.ndarray, size: int, fill: float) -> np.ndarray:
    return np.concatenate([values, np.full(size - len(values), fill)])
