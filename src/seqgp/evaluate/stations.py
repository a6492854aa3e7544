"""The stations of a run as the monitor sees them: flags, scores, and how many readings there were."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from seqgp.base.errors import extra
from seqgp.base.flags import HEADLINES, TREATED, StationFlag, shown_pair
from seqgp.base.info import LeaveOneOut, StationInfo
from seqgp.base.transforms import Transform

MOST_ABSENT = 4  # times as many stations as rows of a step, at most, are a network
HEAD = ("station", "state", "since", "size", "readings", "missing", "mean error", "sd of score", "wrong", "unused")


class StationStep(NamedTuple):
    """What one step says of its rows."""

    t: float
    names: Sequence[str]
    loo: LeaveOneOut
    info: StationInfo


class FlagRecord(NamedTuple):
    """A flag with the last size that was estimated, and its end."""

    flag: StationFlag
    until: float | None  # when the station read right again; ``None`` while it lasts


class StationStatus(NamedTuple):
    """A station over a run.

    Attributes:
        station: its name.
        readings: how many values it reported.
        missing: how many times it has no value; in a network, rows that are absent count.
        mean_error: of its readings from what all others and the past predict, in units of the data as the model sees
            them.
        mean_score: of the standard normal scores.
        sd_score: their standard deviation; 1 for a station as the model expects it.
        flags: all that was flagged, in order, without single wrong readings.
        wrong: single wrong readings.
        unused: values that were excluded or downweighted.
    """

    station: str
    readings: int
    missing: int
    mean_error: float
    mean_score: float
    sd_score: float
    flags: tuple[FlagRecord, ...]
    wrong: tuple[StationFlag, ...]
    unused: int

    @property
    def now(self) -> StationFlag | None:
        """What is flagged at the end of the run."""
        lasting = [record.flag for record in self.flags if record.until is None]
        return lasting[-1] if lasting else None

    @property
    def state(self) -> str:
        """In a word or two."""
        return "ok" if self.now is None else HEADLINES[self.now.kind]


class StationReport(NamedTuple):
    """All stations of a run, those that are flagged first; ``str()`` says what is flagged, a sentence each."""

    stations: tuple[StationStatus, ...]
    robust: str
    moment: Callable[[float], str]
    transform: Transform | None = None  # of the data

    @property
    def flagged(self) -> tuple[StationStatus, ...]:
        """Those that are flagged at the end of the run."""
        return tuple(one for one in self.stations if one.now is not None)

    def __getitem__(self, station: object) -> StationStatus:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A station by its name."""
        for one in self.stations:
            if one.station == str(station):
                return one
        raise KeyError(f"no station {station!r}")

    def sentences(self) -> list[str]:
        """What is flagged now, in words."""
        after = f"; {TREATED[self.robust]} from then on" if TREATED[self.robust] else ""
        return [
            f"{one.now.sentence(self.moment, self.transform)}{after}" for one in self.flagged if one.now is not None
        ]

    def past_sentences(self) -> list[str]:
        """What was flagged and is over, in words and in order of time."""
        over = [record for one in self.stations for record in one.flags if record.until is not None]
        return [
            f"{record.flag.sentence(self.moment, self.transform)}, until {self.moment(record.until)}"
            for record in sorted(over, key=lambda record: record.flag.at)
            if record.until is not None
        ]

    def __str__(self) -> str:
        return "\n".join(self.sentences()) or "no station is flagged"

    def rows(self) -> list[dict[str, Any]]:
        """A row for each station, for tables."""
        return [self._row(one) for one in self.stations]

    def to_frame(self) -> Any:
        """The same as a pandas DataFrame."""
        with extra("io"):
            import pandas as pd
        return pd.DataFrame(self.rows())

    def _row(self, one: StationStatus) -> dict[str, Any]:
        flag, given = one.now, one.now and one.now.in_units(self.transform)
        return {
            "station": one.station,
            "state": one.state,
            "since": None if flag is None else self.moment(flag.since),
            "size": None if given is None else given.size,
            "se": None if given is None or np.isnan(given.se) else given.se,
            "unit": None if given is None else given.unit,
            "readings": one.readings,
            "missing": one.missing,
            "mean_error": one.mean_error,
            "mean_score": one.mean_score,
            "sd_score": one.sd_score,
            "wrong_readings": len(one.wrong),
            "unused": one.unused,
        }


class _Sums:
    """What is added up for a station."""

    def __init__(self):
        self.missing, self.unused = 0, 0
        self.errors: list[float] = []
        self.scores: list[float] = []
        self.records: dict[tuple[str, float], FlagRecord] = {}
        self.wrong: list[StationFlag] = []

    def status(self, name: str, steps: int | None) -> StationStatus:
        """Of a network, whose stations should report at each of so many steps."""
        z = np.array(self.scores)
        missing = self.missing if steps is None else steps - len(z)
        none = not len(z)
        mean_error = np.nan if none else float(np.mean(self.errors))
        mean, sd = (np.nan, np.nan) if none else (float(z.mean()), float(z.std()))
        flags = tuple(sorted(self.records.values(), key=lambda record: record.flag.at))
        return StationStatus(
            name, len(z), missing, mean_error, mean, sd, flags, tuple(self.wrong), self.unused
        )  # fmt: skip


def station_report(
    steps: Iterable[StationStep], moment: Callable[[float], str], transform: Transform | None = None
) -> StationReport:
    """All stations over the steps of a run, which are given in order; ``transform`` is that of the data."""
    sums: dict[str, _Sums] = {}
    count, most = 0, 0
    robust, lasting = "flag", set[tuple[str, str, float]]()
    for step in steps:
        robust, count, most = step.info.robust, count + 1, max(most, len(step.names))
        error, z = np.asarray(step.loo.z) * np.asarray(step.loo.sd), np.asarray(step.info.z)
        for i, name in enumerate(step.names):
            one = sums.setdefault(name, _Sums())
            if np.isnan(z[i]):
                one.missing += 1
                continue
            one.errors.append(float(error[i]))
            one.scores.append(float(z[i]))
            one.unused += int(step.info.factors[i] != 1.0)
        now = set()
        for flag in step.info.flags:
            one = sums.setdefault(flag.station, _Sums())
            if flag.kind == "spike":
                one.wrong.append(flag)
                continue
            one.records[flag.kind, flag.at] = FlagRecord(flag, None)
            now.add((flag.station, flag.kind, flag.at))
        for station, kind, at in lasting - now:
            records = sums[station].records
            records[kind, at] = records[kind, at]._replace(until=step.t)
        lasting = now
    network = len(sums) <= MOST_ABSENT * most  # otherwise the places are new each time
    found = [one.status(name, count if network else None) for name, one in sums.items()]
    found.sort(key=lambda one: (one.now is None, -len(one.wrong) if one.now is None else 0))
    return StationReport(tuple(found), robust, moment, transform)


def station_head(found: StationReport) -> list[str]:
    """The header of a table for people."""
    if found.transform is None:
        return list(HEAD)
    return [f"error in {found.transform.words}" if name == "mean error" else name for name in HEAD]


def station_cells(one: StationStatus, found: StationReport) -> list[str]:
    """The row of a station in a table for people."""
    flag = one.now
    size = ""
    if flag is not None:
        given = flag.in_units(found.transform)
        sign = "-" if given.size < 0 else ""
        size = f"{sign}{shown_pair(abs(given.size), given.se)} {given.unit}".rstrip()
    since = "" if flag is None else found.moment(flag.since)
    numbers = (f"{one.mean_error:.3g}", f"{one.sd_score:.2f}") if one.readings else ("", "")
    counts = (str(one.readings), str(one.missing))
    return [one.station, one.state, since, size, *counts, *numbers, str(len(one.wrong)), str(one.unused)]
