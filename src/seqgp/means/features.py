"""Columns of the design of a mean: entries of the snapshot's context, and functions of time and place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import equinox as eqx
import numpy as np
from jaxtyping import Float

from seqgp.base.bound import Bound
from seqgp.base.errors import DataError, ModelError
from seqgp.base.modulated import Modulated
from seqgp.base.snapshot import Context, as_floats
from seqgp.base.validation import is_number, is_whole
from seqgp.linalg.types import ArrayLike

__all__ = ["Feature", "Modulated", "harmonics"]


class Feature(eqx.Module):
    """Columns of a design from time and place: ``function(t, x)`` gives ``(N,)``, or ``(N, width)``.

    Args:
        function: of the time and of the inputs ``(N, D)``.
        name: the name of its weights, after ``mean.``; the function's name by default.
        width: the number of columns.
    """

    function: Callable[[float, Float[np.ndarray, "N D"]], ArrayLike] = eqx.field(static=True)
    name: str = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def __init__(self, function: Callable[..., ArrayLike], name: str | None = None, width: int = 1):
        if not callable(function):
            raise ModelError(f"Feature: expected a function of (t, x), got {type(function).__name__}")
        self.function = function
        self.name = getattr(function, "__name__", "") if name is None else name
        if not str(self.name).isidentifier():
            raise ModelError(f"Feature: give it a name: seqgp.means.Feature(function, name='slope'), got {self.name!r}")
        if not is_whole(width):
            raise ModelError(f"Feature {self.name}: width = {width!r} is not a number of columns")
        self.width = int(width)

    @property
    def cycle(self) -> tuple[float, int] | None:
        """Period and order of ``harmonics``; ``None`` of other features."""
        if getattr(self.function, "func", None) is not _waves:
            return None
        return self.function.keywords["period"], self.function.keywords["order"]  # type: ignore[attr-defined]

    def columns(self, t: float, x: np.ndarray, context: Context) -> np.ndarray:
        """The columns at inputs."""
        try:
            found = self.function(t, x)
        except Exception as error:  # whatever a function of one's own may raise
            raise DataError(f"feature {self.name!r} failed at t = {t:g} ({type(error).__name__}: {error})") from error
        values = as_floats(found, f"what feature {self.name!r} returned at t = {t:g}")
        if values.shape == (len(x),):
            values = values[:, None]
        if values.shape != (len(x), self.width):
            raise DataError(
                f"feature {self.name!r} returned shape {values.shape} at t = {t:g}, expected ({len(x)}, {self.width})"
                + ("" if self.width > 1 else "; several columns are seqgp.means.Feature(function, width=…)")
            )
        return values


class FromContext(eqx.Module):
    """A column of the snapshot's context, by name."""

    name: str = eqx.field(static=True)
    width = 1

    def columns(self, t: float, x: np.ndarray, context: Context) -> np.ndarray:
        """The column: one value for each input, or one for all."""
        if not isinstance(context, Mapping) or self.name not in context:
            has = ", ".join(map(str, context)) if isinstance(context, Mapping) else "nothing"
            raise DataError(
                f"covariate {self.name!r} is missing at t = {t:g}: the context has {has}; give "
                f"context={{{self.name!r}: …}}, one value for each row of x"
            )
        values = as_floats(context[self.name], f"covariate {self.name!r} at t = {t:g}")
        if values.shape not in ((), (len(x),)):
            raise DataError(
                f"covariate {self.name!r} has shape {values.shape} at t = {t:g}, expected ({len(x)},), one value for "
                "each row of x"
            )
        return np.broadcast_to(values, (len(x),))[:, None]


def harmonics(period: float, order: int = 1, name: str = "season") -> Feature:
    """Cosines and sines of time: ``cos(2 π k t / period), sin(2 π k t / period)`` for ``k`` from 1 to ``order``.

    Args:
        period: the length of a cycle, in the units of ``t``.
        order: the number of harmonics.
        name: the name of their weights, after ``mean.``.
    """
    if not (is_number(period) and 0 < period < np.inf):
        raise ModelError(f"harmonics: period = {period} is not positive and finite")
    if not is_whole(order):
        raise ModelError(f"harmonics: order = {order!r} is not a whole number >= 1")
    return Feature(Bound(_waves, period=float(period), order=int(order)), name, 2 * int(order))


def _waves(t: float, x: np.ndarray, period: float, order: int) -> np.ndarray:
    angle = 2 * np.pi * t / period * np.arange(1, order + 1)
    return np.broadcast_to(np.stack([np.cos(angle), np.sin(angle)], axis=1).ravel(), (len(x), 2 * order))
