"""A sequence of days: each is predicted, then learnt from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike

import seqgp
from seqgp.apps.localvol.density import log_densities
from seqgp.apps.localvol.forwards import ForwardCurve
from seqgp.apps.localvol.laplace import Laplace, LaplaceState
from seqgp.apps.localvol.likelihood import DEGREES
from seqgp.apps.localvol.model import LocalVolatility
from seqgp.apps.localvol.posterior import QuotedRegion, SurfaceDraws, central, price_draws, volatility_draws
from seqgp.apps.localvol.quotes import Quotes
from seqgp.apps.localvol.scores import QuoteDraws
from seqgp.apps.localvol.solver import plan_quotes
from seqgp.apps.localvol.surface import Surface
from seqgp.apps.localvol.tables import Table

FORECASTS, QUOTES = 10**6, 2 * 10**6  # where the keys of forecasts and of new quotes begin; those of steps are below
BEYOND = 0.05  # how far smiles reach past the outermost quotes, in log-moneyness relative to their range


class DayFit(NamedTuple):
    """A day after its update.

    Attributes:
        date: the quote date.
        quotes: those learnt from.
        snapshot: the same as data of the model.
        state: draws of the posterior.
        info: of the sampler.
        forecast: the day as predicted before its update, by expiration; None on the first day.
    """

    date: pd.Timestamp
    quotes: Quotes
    snapshot: seqgp.Snapshot
    state: seqgp.State
    info: seqgp.Info
    forecast: Table | None

    @property
    def flagged(self) -> list[pd.Timestamp]:
        """Expirations that did not fit what the days before had led to expect."""
        if self.forecast is None:
            return []
        return [date for date, row in self.forecast.iterrows() if row["flagged"] and isinstance(date, pd.Timestamp)]


class LocalVolFit:
    """Local volatility, day after day.

    Each day is predicted, then learnt from: surface, kernel and noise follow from all days so far.

    Args:
        model: knots, priors and noise.
        draws: how many draws to keep of each day, without a sampler of your own.
        seed: of the random numbers.
        store: the folder of a run on disk. Every day is there before the next one begins; a fit with the same store
            goes on where another was interrupted, with the same draws, bit for bit.
        sampler: another sampler of `model.model`, with its own settings, such as `Laplace(model.model)`: the most
            probable surface, with bands.
        **settings: of `seqgp.OnlineSampler`, such as `particles`.
    """

    def __init__(
        self,
        model: LocalVolatility,
        draws: int = 1000,
        seed: int = 0,
        store: str | Path | None = None,
        sampler: seqgp.Sampler | Laplace | None = None,
        **settings: Any,
    ):
        self.model = model
        if sampler is not None and settings:
            raise ValueError(f"LocalVolFit: {', '.join(settings)}: settings of the sampler that is given")
        if sampler is not None and sampler.model is not model.model:
            raise ValueError("LocalVolFit: the sampler is of another model: make it with that of this fit, model.model")
        if store is not None and isinstance(sampler, Laplace):
            raise ValueError("LocalVolFit: a Laplace fit is quick and is not stored: leave out store=")
        self.sampler = seqgp.OnlineSampler(model.model, draws=draws, **settings) if sampler is None else sampler
        self.days: list[DayFit] = []
        self.store = None if store is None else seqgp.Store(store)
        self._key = jax.random.key(seed)

    @property
    def last(self) -> DayFit:
        """The last day."""
        if not self.days:
            raise ValueError("nothing has been fitted yet: call update(day) first")
        return self.days[-1]

    @property
    def state(self) -> seqgp.State:
        """The draws of the last day."""
        return self.last.state

    def update(self, day: Quotes) -> DayFit:
        """Predict the quotes of a day, then learn from them; a day that the store holds is read from it."""
        snapshot = self.model.snapshot(day)
        before = self._before(snapshot.t)
        forecast = None if before is None else self._forecast(day, snapshot, before).by_expiration()
        state, info = self._learn(snapshot, before)
        self.days.append(DayFit(day.dates[0], day, snapshot, state, info, forecast))
        return self.last

    def forecast(self, day: Quotes) -> QuoteDraws:
        """Draws of the quotes of a later day, from what is known now."""
        return self._forecast(day, self.model.snapshot(day), self.state)

    def quote_draws(self, quotes: Quotes | None = None, state: seqgp.State | None = None) -> QuoteDraws:
        """Model prices and new quotes under the posterior: of the day's own quotes, or of others of the same day."""
        state = self.state if state is None else state
        day = self._day_of(state).quotes if quotes is None else quotes
        key = jax.random.fold_in(self._key, QUOTES + state.step)
        return self._quote_draws(key, day, state.latent, state)

    def table(self, quotes: Quotes | None = None, probability: float = 0.95) -> Table:
        """By expiration: RMSE in bp of implied volatility, share inside bid-ask, coverage."""
        return self.quote_draws(quotes).by_expiration(probability)

    def surface(self, state: seqgp.State | None = None) -> SurfaceDraws:
        """The draws of the local-volatility surface."""
        state = self.state if state is None else state
        parameters = jax.vmap(self.model.model.parameters)(jnp.asarray(state.z))
        variance = jax.vmap(self.model.model.kernel.variance)(parameters)
        spread = float(np.sqrt(np.mean(variance) + np.var(parameters["mean"])))
        day = self._day_of(state)
        curve, region = ForwardCurve.from_table(day.quotes.forwards), QuotedRegion.from_table(day.quotes.table)
        shifts = self.model.shifts(state, self.model.move(day.quotes))
        knots = (self.model.maturities, self.model.log_moneyness)
        return SurfaceDraws(*knots, self.model.values(state.latent), spread, curve, shifts, region)

    def smiles(
        self,
        points: int = 41,
        probability: float = 0.95,
        maturities: ArrayLike | None = None,
        around: Quotes | None = None,
    ) -> Table:
        """Implied volatility with bands, over the strikes of each expiration.

        Args:
            points: strikes in a smile.
            probability: of the bands.
            maturities: others than those of the day's expirations.
            around: further quotes of the day that the strikes should reach to.
        """
        places = self._smile_places(points, maturities, around)
        T, K, F, D, call = (places[n].to_numpy() for n in ("maturity", "strike", "forward", "discount", "is_call"))
        model = self.model
        plan = plan_quotes(
            T, K, F, D, call, model.grid, model.volatility, knots=(model.maturities, model.log_moneyness)
        )
        shifts = model.shifts(self.state, model.move(self.last.quotes))
        prices = price_draws(plan, model.values(self.state.latent), model.log_moneyness, shifts)
        draws = volatility_draws(places.assign(option_type=np.where(call, "C", "P")), prices)
        low, high = central(draws, probability)
        return places.assign(mean=draws.mean(axis=0), low=low, high=high).drop(columns="is_call")

    def map_draw(self) -> int:
        """The index of the draw with the highest posterior density, latent and parameters together."""
        return int(np.argmax(log_densities(self.model.model, self.last.snapshot, self.state)))

    def map_surface(self) -> Surface:
        """The most probable surface: of the mode for `Laplace`, else of the draw with the highest posterior density."""
        move = self.model.move(self.last.quotes)
        if isinstance(self.state, LaplaceState):
            stickiness = self.model.model.parameters(jnp.asarray(self.state.mode))["stickiness"]
            return self.model.surface(self.state.f, move * float(stickiness))
        best = self.map_draw()
        return self.model.surface(jnp.asarray(self.state.latent)[best], self.model.shifts(self.state, move)[best])

    def parameters(self) -> Table:
        """Each parameter on each day: mean, sd and the central 95 %; the level as a volatility, `softplus(mu)`."""
        rows = []
        for day in self.days:
            for name, draws in volatility_parameters(day.state).items():
                low, high = central(draws, 0.95)
                rows.append((day.date, name, draws.mean(), draws.std(), low, high))
        return pd.DataFrame(rows, columns=pd.Index(["quote_date", "parameter", "mean", "sd", "low", "high"]))

    def to_datatree(self) -> Any:
        """The last day for ArviZ."""
        if isinstance(self.sampler, Laplace):
            raise ValueError("to_datatree: a Laplace fit has no chains; use fit.state.latent and fit.state.z")
        infos = [day.info for day in self.days]
        return seqgp.to_datatree(seqgp.Run(self.state, infos, self.last.snapshot, self.model.model))

    def _quote_draws(self, key, day: Quotes, f: Float[ArrayLike, "draws n"], state: seqgp.State) -> QuoteDraws:
        shifts = self.model.shifts(state, self.model.move(day))
        plan, count = self.model.plan(day, self.model.size(day)), len(day.table)
        padded = price_draws(plan, self.model.values(f), self.model.log_moneyness, shifts)
        noise = np.asarray(jax.vmap(self.model.model.parameters)(jnp.asarray(state.z))["noise"])
        robust = self.model.robust
        drawn = jax.random.t(key, DEGREES, padded.shape) if robust else jax.random.normal(key, padded.shape)
        prices, white = padded[:, :count], np.asarray(drawn)[:, :count]
        return QuoteDraws(day.table, prices, prices + noise[:, None] * self.model.units(day) * white)

    def _before(self, t: float) -> seqgp.State | None:
        """The draws of the day before: of this fit, or of the store."""
        if self.days:
            return self.state
        if self.store is None or not self.store.exists:
            return None
        earlier = [step for step in self.store if step.t < t]
        return earlier[-1].state if earlier else None

    def _learn(self, snapshot: seqgp.Snapshot, before: Any) -> tuple[Any, Any]:
        """One turn of `seqgp.run`, in memory or on disk: the keys of the steps are the same."""
        if isinstance(self.sampler, Laplace):
            key = jax.random.fold_in(self._key, 0 if before is None else before.step)
            return self.sampler.init(key, snapshot) if before is None else self.sampler.step(key, before, snapshot)
        if self.store is None:
            done = seqgp.run(self.sampler, [snapshot], self._key, before, progress=False, forecast=False)
            return done.state, done.infos[-1]
        configuration = {"localvol": self.model.knots()}
        seqgp.run(
            self.sampler,
            [snapshot],
            self._key,
            progress=False,
            forecast=False,
            store=self.store,
            configuration=configuration,
            late="refuse",
        )
        step = self.store[snapshot.t]
        return step.state, step.info

    def _forecast(self, day: Quotes, snapshot: seqgp.Snapshot, before: Any) -> QuoteDraws:
        key_latent, key_noise = jax.random.split(jax.random.fold_in(self._key, FORECASTS + before.step))
        if isinstance(self.sampler, Laplace):
            return self._quote_draws(key_noise, day, self.sampler.predict(key_latent, before, snapshot), before)
        predicted = seqgp.predict(
            key_latent, self.model.model, before, self.model.x, snapshot.t, context=snapshot.context
        )
        return self._quote_draws(key_noise, day, predicted.f, before)

    def _day_of(self, state: seqgp.State) -> DayFit:
        for day in self.days:
            if day.state.t == state.t:
                return day
        raise ValueError(f"the state at t = {state.t:g} is not of a day of this fit")

    def _smile_places(self, points: int, maturities: ArrayLike | None, around: Quotes | None) -> Table:
        table: Table = self.last.quotes.table
        if around is not None:
            table = pd.concat([table, around.table])
        curve = ForwardCurve.from_table(self.last.quotes.forwards)
        if maturities is None:
            slices = [(g["maturity"].iloc[0], g["log_moneyness"]) for _, g in table.groupby("expiration")]
        else:
            slices = [(T, table["log_moneyness"]) for T in np.atleast_1d(np.asarray(maturities, float))]
        parts = []
        for T, y in slices:
            reach = BEYOND * (y.max() - y.min())
            at = np.linspace(y.min() - reach, y.max() + reach, points)
            forward = float(curve.forward(T)[0])
            part = {"maturity": T, "log_moneyness": at, "strike": forward * np.exp(at), "forward": forward}
            parts.append(pd.DataFrame(part | {"discount": float(curve.discount(T)[0]), "is_call": at >= 0}))
        return pd.concat(parts, ignore_index=True)


def volatility_parameters(state: seqgp.State) -> dict[str, Float[np.ndarray, " draws"]]:
    """The parameters one by one, the level as a volatility."""
    found: dict[str, np.ndarray] = {}
    for name, values in state.parameters.items():
        draws = np.asarray(values)
        if name == "mean":
            found["level"] = np.logaddexp(draws, 0.0)
        elif draws.ndim == 1:
            found[name] = draws
        else:
            found |= {f"{name}[{i}]": column for i, column in enumerate(draws.T)}
    return found
