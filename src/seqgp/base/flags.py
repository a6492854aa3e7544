"""What is wrong with a station, in numbers and in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from seqgp.base.transforms import Transform

HEADLINES = {
    "spike": "wrong reading",
    "level": "level shift",
    "drift": "drift",
    "spread": "scattered readings",
    "stuck": "stuck value",
}
TREATED = {"flag": "", "exclude": "excluded", "downweight": "downweighted"}  # what `robust` does with flagged values


class FlagSize(NamedTuple):
    """How large a fault is."""

    size: float
    se: float
    unit: str  # empty for that of the data; "times" for a factor; else the transform of the data


class StationFlag(NamedTuple):
    """A fault of a station.

    Attributes:
        station: its name.
        kind: ``spike``, ``level``, ``drift``, ``spread`` or ``stuck``.
        since: when the fault began, as estimated.
        at: when it was flagged.
        size: of a spike or a shift how far the readings are off; of a drift per unit of time; of ``spread`` how many
            times the expected scatter; of ``stuck`` the value.
        se: the standard error of the size; NaN where it has none.
    """

    station: str
    kind: str
    since: float
    at: float
    size: float
    se: float

    def in_units(self, transform: Transform | None) -> FlagSize:
        """The size in units of the data, where the model is for transformed ones: of a logarithm, a factor."""
        if transform is None or self.kind == "spread":
            return FlagSize(self.size, self.se, "")
        if self.kind == "stuck":
            return FlagSize(float(transform.restored(self.size)), self.se, "")
        if transform.logarithm and transform.offset == 0:
            factor = float(np.exp(self.size))
            return FlagSize(factor, factor * self.se, "times")
        return FlagSize(self.size, self.se, transform.words)

    def sentence(self, moment: Callable[[float], str], transform: Transform | None = None) -> str:
        """The fault in words; ``moment`` says a time, and ``transform`` is that of the data."""
        name = self.station if self.station.lower().startswith("station") else f"Station {self.station}"
        given, found = self.in_units(transform), shown_pair(abs(self.size), self.se)
        size = f"{found} in {given.unit}" if given.unit not in ("", "times") else found
        beside = f"{size} {'above' if self.size > 0 else 'below'} its neighbours"
        if given.unit == "times":
            beside = f"{shown_pair(given.size, given.se)} times its neighbours"
        if self.kind == "spike":
            return f"{name} read {beside} at {moment(self.at)}"
        if self.kind == "level":
            return f"{name} reads {beside} since {moment(self.since)}"
        if self.kind == "drift":
            way = "upwards" if self.size > 0 else "downwards"
            amount = f"a factor of {shown_pair(given.size, given.se)}" if given.unit == "times" else size
            return f"{name} drifts {way} by {amount} per unit of time since {moment(self.since)}"
        if self.kind == "spread":
            return f"{name} scatters {self.size:.2g} times as much as expected since {moment(self.since)}"
        return f"{name} repeats the value {given.size:.6g} since {moment(self.since)}"


def shown_pair(size: float, se: float) -> str:
    """``3.9 ± 0.5``, with as many digits as the standard error has two of; the size alone where it has none."""
    if not (np.isfinite(se) and se > 0):
        return f"{size:.3g}"
    digits = max(0, 1 - int(np.floor(np.log10(se)))) if se < 10 else 0
    return f"{size:.{digits}f} ± {se:.{digits}f}"


def time_words(t: float) -> str:
    """A time of a run without dates, in words."""
    return f"t = {t:g}"


def flag_warnings(flags: Iterable[StationFlag], robust: str) -> tuple[str, ...]:
    """The flags of a step as remarks, one for each kind: ``level shift (Station 8): …``."""
    kinds: dict[str, list[StationFlag]] = {}
    for flag in flags:
        kinds.setdefault(flag.kind, []).append(flag)
    done = TREATED[robust]
    after = f"; {done} from then on" if done else ""
    found = []
    for kind, those in kinds.items():
        said = "; ".join(flag.sentence(time_words) for flag in those)
        found.append(f"{HEADLINES[kind]} ({', '.join(plain(flag.station) for flag in those)}): {said}{after}")
    return tuple(found)


def plain(name: str) -> str:
    """A name without what remarks are divided at."""
    return name.translate(str.maketrans("():,", "[]  "))


def station_names(x: np.ndarray, labels: Sequence[str] | None) -> tuple[str, ...]:
    """A name for each row: its label, with its inputs where several rows share it; its inputs where there is none."""
    places = [" ".join(f"{value:.6g}" for value in row) for row in np.asarray(x)]
    names = list(places) if labels is None else [str(label) for label in labels]
    if labels is not None and len(set(names)) < len(names):
        repeated = {name for name in names if names.count(name) > 1}
        names = [f"{name} at {place}" if name in repeated else name for name, place in zip(names, places)]
    seen: dict[str, int] = {}
    found: list[Any] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return tuple(found)
