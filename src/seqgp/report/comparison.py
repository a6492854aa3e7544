"""The forecasts of a run beside those that cost nothing, on the same data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seqgp.evaluate.baselines import baselines
from seqgp.plots.checks import Check
from seqgp.plots.history import History, stations_of

MODEL = "this model"


class BaselineComparison(NamedTuple):
    """Scores over the data that all of them forecast.

    Attributes:
        times: the steps with such data.
        crps: for each forecaster the mean CRPS of each step, over its data.
        total: … and over all data of these steps.
        inside: the share of all these data inside the central 95 % interval.
        data: how many there are.
    """

    times: list[float]
    crps: dict[str, list[float]]
    total: dict[str, float]
    inside: dict[str, float]
    data: int


def compare_forecasts(history: History, checks: Sequence[Check]) -> BaselineComparison | None:
    """Model, persistence and AR(1), where stations are seen again and again; None where they are not."""
    moments = [moment for moment in history.steps if moment.y is not None]
    simple = baselines([stations_of(moment) for moment in moments], [np.asarray(moment.y) for moment in moments])
    at = {moment.t: (moment, forecast) for moment, forecast in zip(moments, simple)}
    scores: dict[str, list[np.ndarray]] = {name: [] for name in (MODEL, *(simple[-1] if simple else ()))}
    within: dict[str, list[np.ndarray]] = {name: [] for name in scores}
    times = []
    for check in checks:
        if check.t not in at or check.crps_each is None:
            continue
        moment, forecasts = at[check.t]
        y = np.asarray(moment.y)
        both = ~np.isnan(y) & np.all([~np.isnan(forecast.mean) for forecast in forecasts.values()], axis=0)
        if not both.any():
            continue
        times.append(check.t)
        pit = np.full(y.shape, np.nan)
        pit[~np.isnan(y)] = check.pit
        scores[MODEL].append(check.crps_each[both])
        within[MODEL].append(np.abs(pit[both] - 0.5) <= 0.475)
        for name, forecast in forecasts.items():
            scores[name].append(forecast.crps(y)[both])
            within[name].append(forecast.inside(y)[both])
    if not times:
        return None
    return BaselineComparison(
        times,
        {name: [float(step.mean()) for step in found] for name, found in scores.items()},
        {name: float(np.concatenate(found).mean()) for name, found in scores.items()},
        {name: float(np.concatenate(found).mean()) for name, found in within.items()},
        sum(len(step) for step in scores[MODEL]),
    )
