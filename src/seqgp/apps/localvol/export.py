"""Surfaces for other libraries."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from seqgp.apps.localvol.forwards import ForwardCurve
from seqgp.apps.localvol.surface import Surface
from seqgp.base.errors import extra


def to_quantlib(
    surface: Surface, curve: ForwardCurve, date: object, strikes: ArrayLike, maturities: ArrayLike | None = None
) -> Any:
    """QuantLib's `FixedLocalVolSurface`, which is linear between the given maturities and strikes.

    Args:
        surface: a draw, the mean, or any other surface in log-moneyness.
        curve: forwards of the day, which turn log-moneyness into strikes.
        date: of the quotes, the surface's reference date.
        strikes: where the surface is tabulated, the same at all maturities.
        maturities: likewise, in years; the surface's knots by default.
    """
    return from_json(to_json(surface, curve, date, strikes, maturities))


def to_json(
    surface: Surface, curve: ForwardCurve, date: Any, strikes: ArrayLike, maturities: ArrayLike | None = None
) -> str:
    """What `to_quantlib` needs, as JSON: `date, maturities, strikes, volatility` (a row a strike), forwards, discounts.

    Arguments as in `to_quantlib`.
    """
    T = np.atleast_1d(np.asarray(surface.maturities if maturities is None else maturities, dtype=float))
    K = np.atleast_1d(np.asarray(strikes, dtype=float))
    if np.any(np.diff(K) <= 0) or np.any(np.diff(T) <= 0):
        raise ValueError("to_quantlib: strikes and maturities must increase")
    values = np.asarray(surface(T[:, None], np.log(K / curve.forward(T)[:, None])))
    kept = {
        "date": f"{pd.Timestamp(date):%Y-%m-%d}",
        "day_counter": "Actual365Fixed",
        "maturities": T.tolist(),
        "strikes": K.tolist(),
        "volatility": values.T.tolist(),
        "spot": curve.spot,
        "forwards": curve.forward(T).tolist(),
        "discounts": curve.discount(T).tolist(),
    }
    return json.dumps(kept, indent=1, allow_nan=False)


def from_json(text: str) -> Any:
    """QuantLib's `FixedLocalVolSurface` from the JSON of `to_json`."""
    with extra("localvol"):
        import QuantLib as ql
    kept = json.loads(text)
    T, K, values = kept["maturities"], kept["strikes"], kept["volatility"]
    matrix = ql.Matrix(len(K), len(T))
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            matrix[i][j] = value
    when = pd.Timestamp(kept["date"])
    return ql.FixedLocalVolSurface(ql.Date(when.day, when.month, when.year), T, K, matrix, ql.Actual365Fixed())
