"""The forwards and discounts of a day, at any maturity."""

from __future__ import annotations

import equinox as eqx
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from seqgp.apps.localvol.tables import Table


class ForwardCurve(eqx.Module):
    """Forwards and discounts between the expirations of a day.

    The logarithms of both are linear in maturity between expirations, and continue with the yield of the nearest ones.
    At maturity zero the discount is one and the forward the spot that the first two forwards point to.
    """

    maturities: Float[np.ndarray, " n"]
    forwards: Float[np.ndarray, " n"]
    discounts: Float[np.ndarray, " n"]

    @classmethod
    def from_table(cls, forwards: Table) -> ForwardCurve:
        """From the `forwards` of one day's `Quotes`."""
        ordered = forwards.sort_values("maturity")
        return cls(*(ordered[name].to_numpy(float) for name in ("maturity", "forward", "discount")))

    @property
    def spot(self) -> float:
        """The forward at maturity zero."""
        return float(self.forward(0.0)[0])

    def forward(self, maturities: ArrayLike) -> Float[np.ndarray, " m"]:
        """Forwards at any maturities."""
        return np.exp(_linear(np.atleast_1d(maturities), self.maturities, np.log(self.forwards)))

    def discount(self, maturities: ArrayLike) -> Float[np.ndarray, " m"]:
        """Discounts at any maturities."""
        at, values = np.append(0.0, self.maturities), np.append(0.0, np.log(self.discounts))
        return np.exp(_linear(np.atleast_1d(maturities), at, values))


def _linear(x: np.ndarray, at: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Linear between the points, and with the first and the last slope beyond."""
    if len(at) == 1:
        return np.full(len(x), values[0])
    cell = np.clip(np.searchsorted(at, x) - 1, 0, len(at) - 2)
    slope = (values[cell + 1] - values[cell]) / (at[cell + 1] - at[cell])
    return values[cell] + slope * (x - at[cell])
