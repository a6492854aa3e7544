"""Transforms of the data: the model is Gaussian for ``w = T(y)``, and results go back to the units of ``y``."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

KINDS = ("log", "sqrt", "log_offset", "boxcox")
EXPECTED = '"log", "sqrt", { log_offset = 1 } or { boxcox = 0.5 }'
EDGE = 1e-9  # of 1 + λ w: what is nearer to the end of a power transform than this is zero
DIGITS = 13  # of a datum that was transformed and comes back


class Transform(NamedTuple):
    """An increasing transform ``w = T(y)`` of the data.

    ``log``: ``log y``. ``log_offset``: ``log(y + offset)``. ``sqrt``: ``√y``. ``boxcox``: ``(y^λ − 1) / λ``, and
    ``log y`` for ``λ = 0``. Powers end at ``y = 0``: a ``w`` below ``T(0)`` goes back to zero.
    """

    kind: str
    number: float = 0.0  # the offset, or the exponent λ

    @property
    def logarithm(self) -> bool:
        """Whether it is ``log(y + offset)``."""
        return self.kind in ("log", "log_offset") or (self.kind == "boxcox" and self.number == 0)

    @property
    def offset(self) -> float:
        """What is added before the logarithm."""
        return self.number if self.kind == "log_offset" else 0.0

    @property
    def words(self) -> str:
        """The transform as a formula."""
        return {
            "log": "log(y)",
            "sqrt": "sqrt(y)",
            "log_offset": f"log(y + {self.number:g})",
            "boxcox": f"boxcox(y, {self.number:g})",
        }[self.kind]

    def of(self, name: str) -> str:
        """The formula with the name of the data in it."""
        return self.words.replace("(y", f"({name}", 1)

    def forward(self, y: npt.ArrayLike) -> Float[np.ndarray, "*n"]:
        """``T(y)``; NaN stays NaN."""
        y = np.asarray(y, dtype=float)
        if self.logarithm:
            return np.log(y + self.offset)
        with np.errstate(divide="ignore"):  # of zero, whose power is zero
            return np.sqrt(y) if self.kind == "sqrt" else np.expm1(self.number * np.log(y)) / self.number

    def inverse(self, w: npt.ArrayLike) -> Float[np.ndarray, "*n"]:
        """``T⁻¹(w)``; zero below the end of a power transform."""
        w = np.asarray(w, dtype=float)
        with np.errstate(over="ignore"):
            if self.logarithm:
                return np.exp(w) - self.offset
            if self.kind == "sqrt":
                return np.square(np.maximum(w, 0.0))
            base = 1 + self.number * w
            return np.where(base > EDGE, base, 0.0 * base) ** (1 / self.number)

    def restored(self, w: npt.ArrayLike) -> Float[np.ndarray, "*n"]:
        """Data that were transformed as they were before, without the last digits that rounding has changed."""
        y = self.inverse(w)
        with np.errstate(divide="ignore", invalid="ignore"):
            power = 10.0 ** (DIGITS - 1 - np.floor(np.log10(np.abs(y))))
            return np.where(np.isfinite(y * power), np.round(y * power) / power, y)

    def outside(self, y: npt.ArrayLike) -> np.ndarray:
        """Where a value has no transform; missing values (NaN) pass."""
        y = np.asarray(y, dtype=float)
        return (y <= -self.offset) if self.logarithm else (y < 0)

    @property
    def domain(self) -> str:
        """What a value must be."""
        if not self.logarithm:
            return "zero or above"
        return f"above {-self.offset:g}" if self.offset else "above 0"

    def log_jacobian(self, y: npt.ArrayLike) -> Float[np.ndarray, "*n"]:
        """``log T'(y)``; NaN where it is not finite, at ``y = 0`` for powers."""
        y = np.asarray(y, dtype=float)
        shifted = np.where(y + self.offset > 0, y + self.offset, np.nan)
        if self.logarithm:
            return -np.log(shifted)
        return -0.5 * np.log(shifted) - math.log(2) if self.kind == "sqrt" else (self.number - 1) * np.log(shifted)


def transform_from(words: object) -> Transform:
    """A transform as a configuration says it.

    Raises:
        ValueError: what is wrong, and what is expected.
    """
    if words in ("log", "sqrt"):
        return Transform(words)
    if not isinstance(words, Mapping) or len(words) != 1 or next(iter(words)) not in ("log_offset", "boxcox"):
        raise ValueError(f"{words!r} is no transform; expected {EXPECTED}")
    ((kind, value),) = words.items()
    if kind == "boxcox" and isinstance(value, (Mapping, str)):
        raise ValueError(
            "an exponent with a prior is not inferred: a filter reads transformed data, and cannot read them again for "
            "each exponent; give a number, fit a few of them, and compare their log scores"
        )
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"{kind} = {value!r} is not a finite number")
    allowed: dict[str, tuple[Callable[[float], bool], str]] = {
        "log_offset": (lambda offset: offset > 0, 'is not positive; for an offset of zero use "log"'),
        "boxcox": (
            lambda exponent: exponent >= 0,
            "is negative: forecasts could reach beyond the end of the transform, where no value is; use zero or above",
        ),
    }
    fits, otherwise = allowed[kind]
    if not fits(value):
        raise ValueError(f"{kind} = {value:g} {otherwise}")
    return Transform(kind, float(value))


def transform_of(data: Mapping[str, object]) -> Transform | None:
    """The transform in a section ``data`` of a configuration; ``None`` where there is none."""
    try:
        return None if data.get("transform") is None else transform_from(data["transform"])
    except ValueError:  # what a run of one's own remembers there may be anything
        return None
