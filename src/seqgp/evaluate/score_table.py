"""Scores of held-out data, datum by datum, and their means with paired standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from seqgp.evaluate.paired import ScoreMean, clustered_mean
from seqgp.evaluate.point_scores import PointScores

MODEL, SMOOTHED = "this model", "smoothed"
LEVELS = (0.5, 0.8, 0.95)
BINS = 10  # of a histogram of probability integral transforms
LEAST = 0.5  # of the data that a baseline must forecast to be compared


def way_of(ahead: int) -> str:
    """What a prediction from some steps before is called."""
    return "filtered" if ahead == 0 else f"{ahead} step{'s' * (ahead > 1)} ahead"


class Part(NamedTuple):
    """What one forecaster says of one held-out snapshot."""

    way: str
    ahead: int
    forecaster: str
    t: float
    stations: list[Any]
    y: Float[np.ndarray, " n"]
    scores: PointScores


class ScoreRow(NamedTuple):
    """The scores of one forecaster, over the data that all forecasters of the same way have."""

    way: str
    forecaster: str
    data: int
    rmse: float  # of the predictive mean
    mae: float  # of the predictive median
    crps: float
    log_score: float
    coverage: dict[float, float]  # of central intervals, by their probability
    crps_difference: ScoreMean  # from the model's, with a paired standard error; above 0 the model is better
    log_score_difference: ScoreMean  # … below 0 the model is better

    def cells(self) -> list[str]:
        """The row as text."""
        shares = [f"{self.coverage[level]:.3f}" for level in LEVELS]
        numbers = [f"{value:.4g}" for value in (self.rmse, self.mae, self.crps)]
        own = self.forecaster == MODEL
        return [
            self.way,
            self.forecaster,
            str(self.data),
            *numbers,
            f"{self.log_score:.3f}",
            *shares,
            "" if own else str(self.crps_difference),
            "" if own else str(self.log_score_difference),
        ]


HEAD = (
    "prediction", "forecaster", "data", "RMSE", "MAE", "CRPS", "log score", *(f"in {level:.0%}" for level in LEVELS),
    "CRPS − model's", "log score − model's",
)  # fmt: skip


class Score(NamedTuple):
    """Scores of held-out data.

    Attributes:
        rows: means by way and forecaster.
        parts: the scores of each datum.
        notes: what could not be scored, and why.
    """

    rows: tuple[ScoreRow, ...]
    parts: tuple[Part, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, parts: Sequence[Part], notes: Sequence[str] = ()) -> Score:
        """The means over all data that the forecasters of a way have in common."""
        rows, said = [], list(notes)
        for way in dict.fromkeys(part.way for part in parts if part.forecaster == MODEL):
            found, more = _rows([part for part in parts if part.way == way])
            rows += found
            said += more
        return cls(tuple(rows), tuple(parts), tuple(dict.fromkeys(said)))

    def __getitem__(self, name: Any) -> Any:
        """The row of a way and a forecaster, ``score["filtered", "AR(1)"]``; that of the model for a way alone."""
        if not all(isinstance(part, str) for part in (name if isinstance(name, tuple) else (name,))):
            return tuple.__getitem__(self, name)  # pyright: ignore[reportCallIssue, reportArgumentType]
        way, forecaster = (name, MODEL) if isinstance(name, str) else name
        for row in self.rows:
            if (row.way, row.forecaster) == (way, forecaster):
                return row
        there = ", ".join(f"({row.way!r}, {row.forecaster!r})" for row in self.rows)
        raise KeyError(f"no scores of {(way, forecaster)}; there are {there}")

    def pit(self, way: str = "filtered") -> Float[np.ndarray, " n"]:
        """The probability integral transforms of the model's predictions, uniform where these are calibrated."""
        found = [part.scores.pit for part in self.parts if (part.way, part.forecaster) == (way, MODEL)]
        values = np.concatenate(found) if found else np.zeros(0)
        return values[~np.isnan(values)]

    def pit_histogram(self, way: str = "filtered") -> list[int]:
        """How many of them lie in each tenth of the unit interval."""
        return np.histogram(self.pit(way), bins=BINS, range=(0, 1))[0].tolist()

    def table(self) -> str:
        """As Markdown; scores of the model come first in each way."""
        return markdown(HEAD, [row.cells() for row in self.rows])

    def frame(self) -> Any:
        """A row per way, forecaster and datum: a pandas table."""
        from seqgp.base.errors import extra

        with extra("io"):
            import pandas as pd

        frames = []
        for part in self.parts:
            who = {"prediction": part.way, "forecaster": part.forecaster, "t": part.t, "station": part.stations}
            frames.append(pd.DataFrame({**who, "y": part.y, **part.scores._asdict()}))
        return pd.concat(frames, ignore_index=True).dropna(subset=["y", "mean"], ignore_index=True)

    def __str__(self) -> str:
        """The table, and what was not scored."""
        return "\n".join([self.table(), *(f"note: {note}" for note in self.notes)])


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [f"| {' | '.join(line)} |" for line in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


class _Table(NamedTuple):
    """All data of a way: times, stations, values, and for each forecaster its scores."""

    times: np.ndarray
    stations: list[Any]
    y: np.ndarray
    scores: dict[str, PointScores]


def _joined(parts: Sequence[Part]) -> _Table:
    by_name: dict[str, list[Part]] = {}
    for part in parts:
        by_name.setdefault(part.forecaster, []).append(part)
    own = by_name[MODEL]
    scores = {
        name: PointScores(*(np.concatenate(column) for column in zip(*(part.scores for part in found))))
        for name, found in by_name.items()
    }
    times = np.concatenate([np.full(len(part.y), part.t) for part in own])
    return _Table(times, [one for part in own for one in part.stations], np.concatenate([p.y for p in own]), scores)


def _rows(parts: list[Part]) -> tuple[list[ScoreRow], list[str]]:
    way, ahead = parts[0].way, parts[0].ahead
    table = _joined(parts)
    there = {name: ~np.isnan(scores.crps) for name, scores in table.scores.items()}
    data, notes = there[MODEL], []
    compared = [name for name, has in there.items() if name == MODEL or (has & data).sum() >= LEAST * data.sum()]
    for name in there.keys() - set(compared):
        few = (there[name] & data).sum()
        notes.append(f"{way}: {name} is not compared: it forecasts {few} of {data.sum()} data")
    common = np.all([there[name] for name in compared], axis=0)
    if common.sum() < data.sum():
        count = data.sum() - common.sum()
        notes.append(f"{way}: {count} of {data.sum()} data are left out of the table, as a baseline has no forecast")
    stations = [one for one, kept in zip(table.stations, common) if kept]
    own = table.scores[MODEL]
    dense = np.all([~np.isnan(table.scores[name].log_score[common]) for name in compared], axis=0)
    if not dense.all():
        notes.append(
            f"{way}: left out of log scores: {(~dense).sum()} of {len(dense)} data, zeros, which have no density"
        )

    def row(name: str) -> ScoreRow:
        found = PointScores(*(column[common] for column in table.scores[name]))
        y, times = table.y[common], table.times[common].tolist()
        inside = {level: float(np.mean(np.abs(found.pit - 0.5) <= level / 2)) for level in LEVELS}
        return ScoreRow(
            way,
            name,
            len(y),
            float(np.sqrt(np.mean((y - found.mean) ** 2))),
            float(np.mean(np.abs(y - found.median))),
            float(found.crps.mean()),
            float(found.log_score[dense].mean()) if dense.any() else np.nan,
            inside,
            clustered_mean(found.crps - own.crps[common], times, stations, ahead),
            clustered_mean(
                (found.log_score - own.log_score[common])[dense],
                table.times[common][dense],
                [one for one, kept in zip(stations, dense) if kept],
                ahead,
            ),
        )

    return ([row(name) for name in compared], notes) if common.any() else ([], notes)
