"""The speed and the direction of patterns that move, from draws of a slowness or a velocity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from seqgp.model import Model

HOURS = {"seconds": 1 / 3600, "minutes": 1 / 60, "hours": 1.0, "days": 24.0, "weeks": 168.0}
LENGTHS = ("km", "m", "mi", "nm")  # endings of columns that are units of distance: x_km
KNOWN = 90.0  # degrees: a direction whose 95% reach further to one side is not known


class Motion(NamedTuple):
    """How patterns move. Bearings are in degrees from the second column of ``x`` (north) towards the first (east)."""

    prefix: str  # of the terms that share the slowness or the velocity
    speed: float  # the median of ``1 / |s|``, or of ``|v|``
    speed_interval: tuple[float, float]  # 95%
    bearing: float | None  # the circular mean; None where ``x`` has not two columns
    bearing_interval: tuple[float, float]  # 95%, around the mean
    toward: tuple[float, ...]  # of one column, the share of draws that move towards larger values
    unit: str

    def __str__(self) -> str:
        """In words: "moves towards 105° (95% 96 to 114°), 36 km/h, 95% 28 to 44"."""
        low, high = self.speed_interval
        speed = f"{self.speed:.3g} {self.unit}, 95% {low:.3g} to {high:.3g}"
        of = f"{self.prefix.rstrip('.')}: " if self.prefix else ""
        if self.bearing is None:
            if not self.toward:
                return f"{of}moves at {speed}"
            share = self.toward[0]
            side = "larger" if share >= 0.5 else "smaller"
            return (
                f"{of}moves towards {side} values of x ({100 * max(share, 1 - share):.0f}% of the posterior), {speed}"
            )
        first, last = self.bearing_interval
        if last - first > 2 * KNOWN:
            return f"{of}moves, in a direction that the data do not tell, at {speed}"
        return f"{of}moves towards {self.bearing % 360:.0f}° (95% {first % 360:.0f} to {last % 360:.0f}°), {speed}"


def motions(
    model: Model, parameters: Mapping[str, object], data: Mapping[str, Any] | None = None
) -> tuple[Motion, ...]:
    """The motion of each slowness and each velocity that is inferred.

    Args:
        model: the model.
        parameters: draws by name (``state.parameters``).
        data: the section ``data`` of a configuration, for units: times are dates in its ``unit``; the names of its
            ``inputs`` may end in one of distance, as ``x_km`` does.
    """
    factor, unit = _units(data or {})
    slow = [(name, "slowness") for name in model.kernel.slowness_names()]
    names = dict.fromkeys(slow + [(one and one.velocity, "velocity") for one in model.kernel.drifts()])
    found = []
    for name, kind in names:
        if name is None or name not in parameters:
            continue
        heading = np.asarray(parameters[name], float)
        heading = heading[:, None] if heading.ndim == 1 else heading
        size = np.linalg.norm(heading, axis=1)
        if kind == "slowness":
            size = 1 / np.where(size > 0, size, np.nan)
            size = np.where(np.isnan(size), np.inf, size)
        found.append(_motion(name.removesuffix(kind), heading, factor * size, unit))
    return tuple(found)


def _motion(
    prefix: str, heading: Float[np.ndarray, "draws D"], speed: Float[np.ndarray, " draws"], unit: str
) -> Motion:
    low, middle, high = np.quantile(speed, [0.025, 0.5, 0.975], method="inverted_cdf")
    toward = (float(np.mean(heading[:, 0] > 0)),) if heading.shape[1] == 1 else ()
    if heading.shape[1] != 2:
        return Motion(prefix, float(middle), (float(low), float(high)), None, (np.nan, np.nan), toward, unit)
    angles = np.arctan2(heading[:, 0], heading[:, 1])
    mean = np.arctan2(np.sin(angles).mean(), np.cos(angles).mean())
    turned = np.degrees((angles - mean + np.pi) % (2 * np.pi) - np.pi)
    mean = float(np.degrees(mean)) % 360
    first, last = mean + np.quantile(turned, [0.025, 0.975])
    return Motion(prefix, float(middle), (float(low), float(high)), mean, (float(first), float(last)), (), unit)


def _units(data: Mapping[str, Any]) -> tuple[float, str]:
    """What ``1 / |s|`` or ``|v|`` is multiplied with, and the unit it is then in."""
    length = _length(data.get("inputs"))
    unit = data.get("unit") or "days"
    if data.get("origin") is None or unit not in HOURS:
        return 1.0, f"{length or 'distance'} per unit of time"
    if length is None:
        return 1.0, f"distance per {str(unit).removesuffix('s')}"
    return 1 / HOURS[unit], f"{length}/h"


def _length(inputs: object) -> str | None:
    if not isinstance(inputs, Sequence) or isinstance(inputs, str) or not inputs:
        return None
    ends = {str(name).rsplit("_", 1)[-1].lower() if "_" in str(name) else "" for name in inputs}
    (end,) = ends if len(ends) == 1 else ("",)
    return end if end in LENGTHS else None
