"""Each snapshot predicted before it is used: scores, and an alarm when recent predictions are not calibrated.

The probability integral transforms of one snapshot's values depend on each other (they share the latent), so they are
no independent sample. Ranks of *functions* of a whole snapshot among the same functions of predicted snapshots are
uniform where predictions are calibrated, and independent from step to step: the alarm is based on these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import smirnov

from seqgp.base.errors import DataError
from seqgp.base.remarks import Remark
from seqgp.evaluate import scores

STATISTICS = ("location", "spread")


def prequential(
    draws: Float[np.ndarray, " draws *data"], y: Float[np.ndarray, "*data"], log_score: float | None = None
) -> dict[str, float]:
    """The scores of a predicted snapshot, as plain numbers for ``info.scores``.

    Args:
        draws: predicted data, joint over the elements of a snapshot (``Prediction.y``).
        y: the data; missing values drop out.
        log_score: the joint log score (``Prediction.log_score(y)``), if it is known.

    Returns:
        ``crps``, ``coverage_50`` and ``coverage_95``: means over the observed values of the snapshot, each scored by
        its own marginal; ``log_score``: of all of them jointly, not divided by their number; and, for the alarm,
        ``pit_location`` and ``pit_spread``: where the mean of the snapshot and its deviation from the prediction lie
        among predicted ones.
    """
    drawn, data = np.asarray(draws, dtype=float), np.asarray(y, dtype=float)
    if drawn.shape[1:] != data.shape:
        raise DataError(f"prequential: y has shape {data.shape}, but the prediction has {drawn.shape[1:]}")
    seen = ~np.isnan(data)
    if not seen.any():
        return {}
    drawn, data = drawn[:, seen], data[seen]
    location, spread = snapshot_transforms(drawn, data)
    found = {
        "crps": float(scores.crps(drawn, data).mean()),
        "coverage_50": scores.coverage(drawn, data, 0.5),
        "coverage_95": scores.coverage(drawn, data, 0.95),
        "pit_location": location,
        "pit_spread": spread,
    }
    return found if log_score is None else found | {"log_score": float(log_score)}


def snapshot_transforms(draws: Float[np.ndarray, "draws n"], y: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """Probability integral transforms of two functions of a whole snapshot, among the same of predicted snapshots.

    The mean of the standardised values tells of a bias that its elements share, their mean square of a spread that is
    too small or too large.
    """
    middle, scale = draws.mean(axis=0), draws.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)

    def functions(values: np.ndarray) -> np.ndarray:
        white = (values - middle) / scale
        return np.stack([white.mean(axis=-1), (white**2).mean(axis=-1)], axis=-1)

    location, spread = scores.pit(functions(draws), functions(y))
    return float(location), float(spread)


class Drift(NamedTuple):
    """Whether recent predictions are calibrated."""

    alarm: bool
    p_value: float  # the smallest over the statistics, corrected for their number
    message: str


def drift_alarm(recent: Sequence[dict[str, Any]], level: float = 1e-3, least: int = 5) -> Drift:
    """Test the scores of recent steps for uniformity.

    Args:
        recent: the results of ``prequential``, the latest last; the last twenty, say.
        level: the false-alarm rate of one call.
        least: with fewer scored steps than this there is no alarm.
    """
    values = {name: [s[f"pit_{name}"] for s in recent if f"pit_{name}" in s] for name in STATISTICS}
    count = len(values[STATISTICS[0]])
    if count < least:
        return Drift(False, 1.0, "")
    p_values = {name: uniform_p_value(np.array(found)) for name, found in values.items()}
    worst = min(p_values, key=lambda name: p_values[name])
    p = min(1.0, len(p_values) * p_values[worst])
    if p >= level:
        return Drift(False, p, "")
    high = float(np.mean(values[worst])) > 0.5
    about, what = {
        ("location", True): ("forecasts too low", "the data lie above their predictions"),
        ("location", False): ("forecasts too high", "the data lie below their predictions"),
        ("spread", True): ("forecasts too sure", "the data lie further from their predictions than these allow for"),
        ("spread", False): ("forecasts too unsure", "the data lie closer to their predictions than these claim"),
    }[worst, high]
    remedy = "check the data; if the parameters change with time, discount the past (forget)"
    return Drift(True, p, str(Remark("drift", (about,), f"in the last {count} steps {what} (p = {p:.1g}); {remedy}")))


def uniform_p_value(values: Float[np.ndarray, " n"]) -> float:
    """Kolmogorov's test that values are uniform on the unit interval.

    Twice the probability of so large a deviation to one side: never below that to either side, and the same to many
    digits where it is small.
    """
    n, ordered = len(values), np.sort(values)
    above, below = np.arange(1, n + 1) / n - ordered, ordered - np.arange(n) / n
    return min(1.0, 2 * float(smirnov(n, max(above.max(), below.max()))))
