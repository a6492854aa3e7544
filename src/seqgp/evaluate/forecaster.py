"""Every snapshot predicted before it is used: what a run notes in the info of each step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

from seqgp.base.errors import SeqgpError
from seqgp.base.info import ForecastValues
from seqgp.base.snapshot import Snapshot
from seqgp.base.transforms import Transform
from seqgp.evaluate.predict import Prediction, predict
from seqgp.evaluate.prequential import drift_alarm, prequential
from seqgp.evaluate.scores import crps, pit
from seqgp.evaluate.transformed import in_units
from seqgp.fields.sites import pad_rows, padded_size
from seqgp.model import Model
from seqgp.samplers.base import State

FORECAST_DRAWS = 200  # predicted; scores of one snapshot need no more
ALARM_STEPS = 20  # steps that the drift alarm looks back


class Forecaster:
    """Predicts a snapshot from the state before it, scores the prediction, and watches for drift.

    Args:
        model: the model.
        recent: scores of earlier steps, for a run that goes on.
        transform: that of the data in the snapshots; scores are in the units that the data had before.
    """

    def __init__(self, model: Model, recent: Iterable[dict[str, Any]] = (), transform: Transform | None = None):
        self._model, self._transform = model, transform
        self._recent: deque[dict[str, Any]] = deque(recent, maxlen=ALARM_STEPS)
        self.values: ForecastValues | None = None  # of the last snapshot

    def __call__(
        self, key: Key[Array, ""], state: State, snapshot: Snapshot
    ) -> tuple[dict[str, float], tuple[str, ...]]:
        """The scores of the snapshot, and a remark where recent ones are not calibrated."""
        self.values = None
        if np.isnan(snapshot.y).all():
            return {}, ()
        try:
            x, y, context = _padded(self._model, snapshot)
            prediction = predict(key, self._model, state.thinned(FORECAST_DRAWS), x, t=snapshot.t, context=context)
            scores = self._scores(prediction, y)
        except NotImplementedError:
            return {}, ()  # some data cannot be drawn
        except SeqgpError as error:  # where the snapshot itself is wrong, the step will raise
            return {}, (f"the snapshot was not forecast: {error}",)
        self._recent.append(scores)
        drift = drift_alarm(self._recent)
        return scores, (drift.message,) if drift.alarm else ()

    def _scores(self, prediction: Prediction, y: np.ndarray) -> dict[str, float]:
        transform, prediction = self._transform, in_units(prediction, self._transform)
        if transform is not None:
            y = transform.restored(y)
        self.values = _values(np.asarray(prediction.y), y)
        if transform is not None and np.isnan(transform.log_jacobian(y)).all():  # zeros alone: they have no density
            return prequential(np.asarray(prediction.y), y)
        return prequential(np.asarray(prediction.y), y, float(prediction.log_score(y)))


def _values(draws: np.ndarray, y: np.ndarray) -> ForecastValues | None:
    """Of each observed value, from draws of the forecast."""
    seen = ~np.isnan(y)
    if draws.shape[1:] != y.shape or not seen.any():
        return None
    return ForecastValues(pit(draws[:, seen], y[seen]), crps(draws[:, seen], y[seen]))


def _padded(model: Model, snapshot: Snapshot) -> tuple[np.ndarray, np.ndarray, Any]:
    """Inputs and (missing) data added so that snapshots of changing size share one compilation."""
    model.likelihood.check_context(~np.isnan(snapshot.y), snapshot.context)
    n, context = len(snapshot.x), model.likelihood.context_at(snapshot.t, snapshot.context)
    size = padded_size(model.likelihood.pointwise, n, 0)
    if size == n:
        return snapshot.x, snapshot.y, context
    context = jax.tree.map(lambda leaf: pad_rows(leaf, n, size), context)
    return pad_rows(snapshot.x, n, size), np.append(snapshot.y, np.full(size - n, np.nan)), context
