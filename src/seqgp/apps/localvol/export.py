"""Surfaces for other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from seqgp import extra
from seqgp.apps.localvol.forwards import ForwardCurve
from seqgp.apps.localvol.surface import Surface


def to_quantlib(
    surface: Surface, curve: ForwardCurve, date: Any, strikes: ArrayLike, maturities: ArrayLike | None = None
) -> Any:
    """QuantLib's `FixedLocalVolSurface`, which is linear between the given maturities and strikes.

    Args:
        surface: a draw, the mean, or any other surface in log-moneyness.
        curve: forwards of the day, which turn log-moneyness into strikes.
        date: of the quotes, the surface's reference date.
        strikes: where the surface is tabulated, the same at all maturities.
        maturities: likewise, in years; the surface's knots by default.
    """
    with extra("localvol"):
        import QuantLib as ql
    T = np.atleast_1d(np.asarray(surface.maturities if maturities is None else maturities, dtype=float))
    K = np.atleast_1d(np.asarray(strikes, dtype=float))
    if np.any(np.diff(K) <= 0) or np.any(np.diff(T) <= 0):
        raise ValueError("to_quantlib: strikes and maturities must increase")
    values = np.asarray(surface(T[:, None], np.log(K / curve.forward(T)[:, None])))
    matrix = ql.Matrix(len(K), len(T))
    for i in range(len(K)):
        for j in range(len(T)):
            matrix[i][j] = float(values[j, i])
    when = pd.Timestamp(date)
    reference = ql.Date(when.day, when.month, when.year)
    return ql.FixedLocalVolSurface(reference, T.tolist(), K.tolist(), matrix, ql.Actual365Fixed())
