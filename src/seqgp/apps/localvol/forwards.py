"""The forwards and discounts of a day, at any maturity."""

from __future__ import annotations

from collections.abc import Iterable

import equinox as eqx
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from seqgp.apps.localvol.tables import Table


class ForwardCurve(eqx.Module):
    """Forwards and discounts between the expirations of a day.

    The logarithms of both are linear in maturity between expirations, and continue with the yield of the nearest ones.
    At maturity zero the discount is one and the forward the spot that the first two forwards point to. Where cash
    dividends are known, this holds for the forward with its dividends reinvested, and the forward itself falls by each
    of them on its day.
    """

    maturities: Float[np.ndarray, " n"]
    forwards: Float[np.ndarray, " n"]
    discounts: Float[np.ndarray, " n"]
    dividends: tuple[tuple[float, float], ...] = ()

    @classmethod
    def from_table(cls, forwards: Table) -> ForwardCurve:
        """From the `forwards` of one day's `Quotes`."""
        ordered = forwards.sort_values("maturity")
        return cls(*(ordered[name].to_numpy(float) for name in ("maturity", "forward", "discount")))

    def with_dividends(self, dividends: Iterable[tuple[float, float]]) -> ForwardCurve:
        """The same forwards at the expirations, with cash dividends between them.

        Args:
            dividends: the time of each, in years, and its amount in the currency of the underlying.
        """
        known = tuple(sorted((float(time), float(amount)) for time, amount in dividends))
        for time, amount in known:
            if not (np.isfinite(time) and time > 0 and np.isfinite(amount) and amount >= 0):
                raise ValueError(f"dividends: {amount:g} at {time:g} years; expected a time above 0 and an amount >= 0")
        curve = ForwardCurve(self.maturities, self.forwards, self.discounts, known)
        after = [curve.forward(time)[0] for time, _ in known]
        if known and min(after) <= 0:
            raise ValueError(
                f"dividends: they leave a forward of {min(after):.4g}; are the amounts those of one share?"
            )
        return curve

    @property
    def spot(self) -> float:
        """The forward at maturity zero."""
        return float(self.forward(0.0)[0])

    def forward(self, maturities: ArrayLike) -> Float[np.ndarray, " m"]:
        """Forwards at any maturities; on the day of a dividend, the one after it."""
        t = np.atleast_1d(np.asarray(maturities, float))
        reinvested = np.log(self.forwards + self._paid(self.maturities))
        return np.exp(_linear(t, self.maturities, reinvested)) - self._paid(t)

    def discount(self, maturities: ArrayLike) -> Float[np.ndarray, " m"]:
        """Discounts at any maturities."""
        at, values = np.append(0.0, self.maturities), np.append(0.0, np.log(self.discounts))
        return np.exp(_linear(np.atleast_1d(maturities), at, values))

    def _paid(self, t: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """The dividends up to each time, with interest until then."""
        paid = np.zeros(len(t))
        for time, amount in self.dividends:
            paid += np.where(t >= time, amount * self.discount(time)[0] / self.discount(t), 0.0)
        return paid


def _linear(x: np.ndarray, at: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Linear between the points, and with the first and the last slope beyond."""
    if len(at) == 1:
        return np.full(len(x), values[0])
    cell = np.clip(np.searchsorted(at, x) - 1, 0, len(at) - 2)
    slope = (values[cell + 1] - values[cell]) / (at[cell + 1] - at[cell])
    return values[cell] + slope * (x - at[cell])
