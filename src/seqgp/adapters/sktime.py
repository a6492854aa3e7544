"""An sktime forecaster whose ``update`` runs the filters on the new values and never refits (``seqgp[sktime]``)."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist

import seqgp
from seqgp.base.errors import extra

with extra("sktime"):
    import pandas as pd
    from sktime.forecasting.base import BaseForecaster  # pyright: ignore[reportMissingImports]

PLACE = np.zeros((1, 1))  # a series is one station


class SeqgpForecaster(BaseForecaster):
    """A Gaussian process in time with all its hyperparameters inferred online.

    ``fit`` runs the online sampler over the series, ``update`` over the new values only: after both, forecasts are what
    a fit to the whole series gives, up to Monte Carlo error. Missing values (NaN) drop out.

    Args:
        model: a ``seqgp.Model`` of one station, with times in steps of the index (days where the index is of dates
            without a frequency). By default a Matérn-3/2 in time with a constant mean and Gaussian noise, whose priors
            are as wide as the series that ``fit`` sees.
        particles: of the online sampler.
        draws: of the forecasts.
        history: how many values are kept, for series without end; all by default.
        forget: 1 for parameters that stay, 0.99 for ones that drift over about a hundred values.
        seed: of all random numbers; the same seed gives the same forecasts.

    Example:
        >>> import numpy as np, pandas as pd, seqgp
        >>> from seqgp.adapters.sktime import SeqgpForecaster
        >>> seqgp.enable_x64()
        >>> y = pd.Series(np.sin(np.arange(12.0)))
        >>> forecaster = SeqgpForecaster(particles=32, draws=100).fit(y[:10], fh=[1, 2])
        >>> forecaster.update(y[10:]).predict().index.tolist()
        [12, 13]
    """

    _tags = {  # noqa: RUF012
        "authors": ["seqgp"],
        "python_dependencies": ["seqgp"],
        "y_inner_mtype": "pd.Series",
        "X_inner_mtype": "pd.DataFrame",
        "scitype:y": "univariate",
        "capability:exogenous": False,
        "capability:missing_values": True,
        "capability:pred_int": True,
        "capability:update": True,
        "capability:insample": False,
        "capability:pred_int:insample": False,
        "requires-fh-in-fit": False,
        "capability:random_state": False,
    }

    def __init__(
        self,
        model: seqgp.Model | None = None,
        particles: int = 128,
        draws: int = 1000,
        history: int | None = None,
        forget: float = 1.0,
        seed: int = 0,
    ):
        self.model = model
        self.particles = particles
        self.draws = draws
        self.history = history
        self.forget = forget
        self.seed = seed
        super().__init__()

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Small settings, for sktime's own checks."""
        return [{"particles": 16, "draws": 40}, {"particles": 16, "draws": 20, "history": 10, "seed": 1}]

    def _fit(self, y: pd.Series, X: object, fh: object) -> SeqgpForecaster:
        model = default_model(y.to_numpy(dtype=float)) if self.model is None else self.model
        self._sampler = seqgp.OnlineSampler(
            model, particles=self.particles, draws=self.draws, history=self.history, forget=self.forget
        )
        self._posterior: Any = None
        self._origin, self._name = _times(y.index)[0], y.name
        self._take(y)
        return self

    def _update(self, y: pd.Series, X: object = None, update_params: bool = True) -> SeqgpForecaster:
        """Parameters and latent have one posterior, so ``update_params`` makes no difference."""
        self._take(y)
        return self

    def _take(self, y: pd.Series) -> None:
        """Step through the values that are later than all before; sktime may hand on some that were seen."""
        times, values = _times(y.index) - self._origin, y.to_numpy(dtype=float)
        later = np.ones(len(times), bool) if self._posterior is None else times > self._posterior.t
        snapshots = [seqgp.Snapshot(float(t), PLACE, [v]) for t, v in zip(times[later], values[later])]
        key, begun = jax.random.key(self.seed), self._posterior
        for state, info in seqgp.steps(key, self._sampler, snapshots, state=begun, progress=False):
            self._posterior, self.info_ = state, info

    def _forecasts(self, fh: Any) -> tuple[pd.Index, np.ndarray]:
        """The index of the horizon, and draws of new values at each of its times, ``(draws, horizons)``."""
        index = fh.to_absolute_index(self.cutoff)
        drawn = []
        for t in _times(index) - self._origin:
            key = jax.random.fold_in(jax.random.key(self.seed + 1), round(1e3 * t) % 2**32)
            prediction = seqgp.predict(key, self._sampler.model, self._posterior, PLACE, t=float(t))
            drawn.append(np.asarray(prediction.y)[:, 0])
        return index, np.stack(drawn, axis=1)

    def _predict(self, fh: object, X: object = None) -> pd.Series:
        index, drawn = self._forecasts(fh)
        return pd.Series(drawn.mean(axis=0), index=index, name=self._name)

    def _predict_quantiles(self, fh: object, X: object, alpha: list[float]) -> pd.DataFrame:
        index, drawn = self._forecasts(fh)
        columns = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        return pd.DataFrame(np.quantile(drawn, alpha, axis=0).T, index=index, columns=columns)

    def _predict_var(self, fh: object, X: object = None, cov: bool = False) -> pd.DataFrame:
        if cov:
            raise NotImplementedError("SeqgpForecaster: cov=True; forecasts of different times are drawn independently")
        index, drawn = self._forecasts(fh)
        return pd.DataFrame(drawn.var(axis=0, ddof=1)[:, None], index=index, columns=self._get_varnames())

    def _predict_proba(self, fh: object, X: object, marginal: bool = True) -> Any:
        """The draws themselves, as an empirical distribution of skpro."""
        with extra("sktime"):
            from skpro.distributions.empirical import Empirical  # pyright: ignore[reportMissingImports]

        index, drawn = self._forecasts(fh)
        samples = pd.concat(
            {i: pd.DataFrame(row[:, None], index=index, columns=self._get_varnames()) for i, row in enumerate(drawn)}
        )
        return Empirical(samples, index=index, columns=self._get_varnames(), time_indep=marginal)


def default_model(y: np.ndarray) -> seqgp.Model:
    """A Matérn-3/2 in time around a constant, with priors on the scale of the series."""
    seen = y[np.isfinite(y)]
    if not len(seen):
        raise seqgp.DataError("SeqgpForecaster: fit: all values of y are missing; give at least one")
    spread = float(np.std(seen)) or max(abs(float(seen[0])), 1.0)
    return seqgp.Model(
        kernel=seqgp.Separable(
            time=seqgp.kernels.Matern32(dist.LogNormal(np.log(10.0), 1.0)),
            space=seqgp.kernels.Matern32(1.0),
            scale=dist.LogNormal(np.log(spread), 1.0),
        ),
        mean=dist.Normal(float(np.mean(seen)), 2 * spread),
        likelihood=seqgp.likelihoods.Gaussian(noise=dist.LogNormal(np.log(spread / 3), 1.0)),
    )


def _times(index: pd.Index) -> np.ndarray:
    """An index as numbers: ordinals of periods, and of dates with a frequency; else days, or the values themselves."""
    if isinstance(index, pd.DatetimeIndex):
        if index.freq is None:
            days = (index - pd.Timestamp(0, tz=index.tz)) / pd.Timedelta(days=1)
            return np.asarray(days, dtype=float)
        index = index.tz_localize(None).to_period()
    if isinstance(index, pd.PeriodIndex):
        return index.astype("int64").to_numpy().astype(float)
    return np.asarray(index, dtype=float)
