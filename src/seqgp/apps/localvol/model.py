"""The model: local volatility at knots that stay from day to day, seen through the prices of a day's quotes."""

from __future__ import annotations

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

import seqgp
from seqgp.apps.localvol.clock import Clock, years
from seqgp.apps.localvol.forwards import ForwardCurve
from seqgp.apps.localvol.grid import GridSize
from seqgp.apps.localvol.likelihood import as_tree, make_likelihood
from seqgp.apps.localvol.prior import SurfacePrior, spacings_of, surface_prior
from seqgp.apps.localvol.quotes import Quotes
from seqgp.apps.localvol.solver import PricingPlan
from seqgp.apps.localvol.surface import Surface
from seqgp.apps.localvol.tables import Table, batches

Noise = Literal["price", "spread", "volatility"]
_SHORT = 0.01  # years that the knots span where there is one expiration
_NOISES: dict[str, Any] = {
    "price": dist.LogNormal(math.log(0.05), 1.5),  # in units of price
    "spread": dist.LogNormal(math.log(0.5), 0.7),  # in half-spreads
    "volatility": dist.LogNormal(math.log(0.001), 1.0),  # in implied volatility: 10 bp
}


class LocalVolatility:
    """Local volatility `softplus(f + mu)` at knots, its prior, and the noise of prices.

    Attributes:
        model: the `seqgp.Model` behind it.
        maturities: of the knots, in years.
        log_moneyness: of the knots, `log(K/F)` on the reference day.
        reference: the spot of the reference day, from which moves of the spot are counted; NaN: they are not.
        surface_prior: the name of the prior, of `at_knots`.
        x: the knots in the unit square, `(a·b, 2)`, maturity varying slowest.
    """

    def __init__(
        self,
        maturities: ArrayLike,
        log_moneyness: ArrayLike,
        noise: Noise = "volatility",
        robust: bool = False,
        *,
        kernel: Any = None,
        time: Any = None,
        lengthscales: tuple[Any, Any] | None = None,
        scale: Any = None,
        level: Any = None,
        noise_prior: Any = None,
        stickiness: Any = 0.0,
        leverage: Any = 0.0,
        reference: float = math.nan,
        clock: Clock = "calendar",
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
            kernel: of the latent, all of it; `time`, `lengthscales` and `scale` make a separable one otherwise.
            time: the kernel over quote dates, in years.
            lengthscales: along maturity and log-moneyness, in the unit square: numbers or priors.
            scale: standard deviation of the latent: a number or a prior.
            level: the level of volatility, `softplus(mu)`: a number or a prior.
            noise_prior: a number or a prior, in the units of `noise`.
            stickiness: at which coordinate the surface stays when the spot moves: 0 at its moneyness, 1 at its strike;
                a number or a prior.
            leverage: what the level changes by when the log of the spot moves by one, at the same coordinate; a number
                or a prior.
            reference: the spot that moves are counted from, which stickiness and leverage need.
            clock: time between quote dates, `"calendar"` or `"business"` (weekends do not count).
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
        self.reference = float(reference)
        self.clock: Clock = clock
        self.surface_prior: SurfacePrior = "separable"
        if (stickiness != 0.0 or leverage != 0.0) and not self.reference > 0:
            raise ValueError(
                f"LocalVolatility: stickiness and leverage need reference=, the spot of the first day; got {reference}"
            )
        self.x = _unit_square(self.maturities, self.log_moneyness, coordinates)
        sigmoid = seqgp.ScaledSigmoid(0.0, 1.0)
        inner = sigmoid if level is None else level
        known = isinstance(inner, (int, float))
        middle = float(seqgp.means.inverse_softplus(jnp.asarray(inner))) if known else _through(inner)
        self.model = seqgp.Model(
            kernel=kernel
            or seqgp.Separable(
                time=seqgp.kernels.Matern12(lengthscale=dist.LogNormal(math.log(0.2), 1.0)) if time is None else time,
                space=seqgp.kernels.SquaredExponential(lengthscale=list(lengthscales or (sigmoid, sigmoid))),
                scale=sigmoid if scale is None else scale,
            ),
            mean=middle if leverage == 0.0 else seqgp.means.Linear(["spot"], weights=leverage, intercept=middle),
            likelihood=make_likelihood(robust, _NOISES[noise] if noise_prior is None else noise_prior, stickiness),
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
            **options: as for the class, and `surface=` of `at_knots`.
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
        options.setdefault("capacity", batches(int(counts.max())))
        options.setdefault("volatility", float(table["implied_volatility"].median()))
        reach = 0.0
        if options.get("surface") == "sticky" or {"stickiness", "leverage", "reference"} & set(options):
            spots = [ForwardCurve.from_table(part).spot for _, part in quotes.forwards.groupby("quote_date")]
            reference = options.setdefault("reference", spots[0])
            reach = max(abs(math.log(spot / reference)) for spot in spots)  # the spot takes the quotes along
        strikes = _spread_strikes(float(y.min()) - reach, float(y.max()) + reach, shape[1])
        return cls.at_knots(maturities, strikes, **options)

    @classmethod
    def at_knots(
        cls, maturities: ArrayLike, log_moneyness: ArrayLike, surface: SurfacePrior = "separable", **options: Any
    ) -> LocalVolatility:
        """As `for_quotes`, at given knots: `LocalVolatility.at_knots(**model.knots())` is the model of other days.

        Args:
            maturities: knots in years, increasing.
            log_moneyness: knots of `log(K/F)`, increasing.
            surface: `"separable"`, one kernel, or `"sticky"`: a mean surface plus innovations, in business time, with
                stickiness and leverage inferred; it needs `reference=`, which `for_quotes` takes from the first date.
            **options: as for the class.
        """
        options.setdefault("coordinates", "knots")
        shape = (len(np.atleast_1d(maturities)), len(np.atleast_1d(log_moneyness)))
        options = surface_prior(surface, shape, options) | options
        if "kernel" not in options:
            options.setdefault("lengthscales", tuple(seqgp.ScaledSigmoid(low, 1.0) for low in spacings_of(shape)))
        options["reference"] = options.get("reference") or math.nan
        model = cls(maturities, log_moneyness, **options)
        model.surface_prior = surface
        return model

    def knots(self) -> dict[str, Any]:
        """What places knots and mesh, for JSON: days that are added later must keep it."""
        return {
            "maturities": self.maturities.tolist(),
            "log_moneyness": self.log_moneyness.tolist(),
            "volatility": self.volatility,
            "capacity": self.capacity,
            "grid": list(self.grid),
            "reference": self.reference if self.reference > 0 else None,
            "clock": self.clock,
            "surface": self.surface_prior,
        }

    def snapshot(self, day: Quotes) -> seqgp.Snapshot:
        """The quotes of one date as data: prices, and what pricing them needs as the context."""
        y, unit = day.table["price"].to_numpy(float), self.units(day)
        plan = self.plan(day, self.size(day))
        return self.planned(years(day.dates[0], self.clock), plan, y, unit, self.move(day))

    def size(self, day: Quotes) -> int:
        """The number of quotes that a day is padded to."""
        return max(self.capacity, batches(len(day.table))) if self.capacity else len(day.table)

    def move(self, day: Quotes) -> float:
        """How far the log of the spot lies from that of the reference day."""
        if not self.reference > 0:
            return 0.0
        return math.log(ForwardCurve.from_table(day.forwards).spot / self.reference)

    def planned(
        self, t: float, plan: PricingPlan, prices: ArrayLike, unit: ArrayLike = 1.0, move: float = 0.0
    ) -> seqgp.Snapshot:
        """Prices of planned quotes as data; what they lack to the size of the plan is padding.

        Args:
            t: the time.
            plan: of `plan_quotes`, with this model's knots.
            prices: one per quote.
            unit: what the noise is multiplied with, one per quote.
            move: of the log spot since the reference day.
        """
        y, size = np.asarray(prices, dtype=float), len(plan.step)
        units = np.broadcast_to(np.asarray(unit, dtype=float), y.shape)
        context = {"plan": as_tree(plan), "unit": _padded(units, size, 1.0)}
        context |= {"knots": self.log_moneyness, "move": np.asarray(move), "spot": np.full(len(self.x), float(move))}
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

    def values(self, f: Float[ArrayLike, "... n"]) -> Float[Array, "... a b"]:
        """Local volatility at the knots from the latent function `f`."""
        sigma = jax.nn.softplus(jnp.asarray(f))
        return sigma.reshape(*sigma.shape[:-1], len(self.maturities), len(self.log_moneyness))

    def surface(self, f: Float[ArrayLike, " n"], shift: float = 0.0) -> Surface:
        """One surface from `f` at the knots, which have moved down by the shift in log-moneyness."""
        return Surface(self.maturities, self.log_moneyness - shift, self.values(f))

    def shifts(self, state: seqgp.State, move: float) -> Float[np.ndarray, " draws"]:
        """How far each draw's stickiness moves the knots down in log-moneyness, after a move of the log spot."""
        parameters = jax.vmap(self.model.parameters)(jnp.asarray(state.z))
        return float(move) * np.broadcast_to(np.asarray(parameters["stickiness"]), len(np.asarray(state.z)))


def _through(level: Any) -> Any:
    """A prior of the level of volatility, as one of `mu`."""
    if not hasattr(level, "through"):
        raise ValueError(f"level: expected a number or a seqgp.ScaledSigmoid, got {type(level).__name__}")
    return level.through(seqgp.means.inverse_softplus)


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
