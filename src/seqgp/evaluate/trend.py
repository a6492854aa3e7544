"""A linear trend in covariates, such as the height of stations, removed before the rest of the data are explored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from seqgp.base.snapshot import Snapshot
from seqgp.evaluate.suggestion import SuggestedPrior

ROUND = 3  # digits of a prior


class Trend(NamedTuple):
    """Slopes by covariate, with a prior around each, and the snapshots without the trend.

    Attributes:
        slopes: ordinary least squares, each time with an intercept of its own.
        priors: normal, around the slope; the sd is the change of a covariate's sd that data within a time could show.
        snapshots: with ``y − Σ slope · covariate`` for data.
    """

    slopes: dict[str, float]
    priors: dict[str, SuggestedPrior]
    snapshots: list[Snapshot]

    def lines(self) -> list[str]:
        """A line for each covariate."""
        return [f"{name}: {slope:.3g} per unit; removed for what follows" for name, slope in self.slopes.items()]


def linear_trend(snapshots: Sequence[Snapshot], names: Sequence[str]) -> Trend:
    """The trend of data in some entries of their context, a number for each input."""
    if not names:
        return Trend({}, {}, list(snapshots))
    rows, data = [], []
    for one in snapshots:
        x = np.column_stack([np.asarray(one.context[name], float) for name in names])
        seen = ~np.isnan(one.y) & np.isfinite(x).all(axis=1)
        if seen.sum() > 1:
            rows.append(x[seen] - x[seen].mean(axis=0))
            data.append(one.y[seen] - one.y[seen].mean())
    if not rows:
        return Trend({}, {}, list(snapshots))
    x, y = np.concatenate(rows), np.concatenate(data)
    slope = np.linalg.lstsq(x, y, rcond=None)[0]
    wide = np.std(y) / np.where(np.std(x, axis=0) > 0, np.std(x, axis=0), 1.0)
    priors = {
        name: SuggestedPrior("Normal", _rounded(b), _rounded(max(abs(b), sd)))
        for name, b, sd in zip(names, slope.tolist(), wide.tolist())
    }
    return Trend(
        dict(zip(names, slope.tolist())), priors, [_without(one, dict(zip(names, slope))) for one in snapshots]
    )


def _without(one: Snapshot, slopes: dict[str, float]) -> Snapshot:
    y = one.y - sum(slope * np.asarray(one.context[name], float) for name, slope in slopes.items())
    return Snapshot(one.t, one.x, y, one.context, getattr(one, "labels", None))


def _rounded(number: float) -> float:
    return float(f"{number:.{ROUND}g}")
