"""Every snapshot predicted before it is used: what a run notes in the info of each step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

from seqgp.base.errors import SeqgpError
from seqgp.base.snapshot import Snapshot
from seqgp.base.transforms import Transform
from seqgp.evaluate.predict import Prediction, predict
from seqgp.evaluate.prequential import drift_alarm, prequential
from seqgp.evaluate.transformed import in_units
from seqgp.fields.sites import pad_rows, padded_size
from seqgp.model import Model
from seqgp.samplers.base import State

DRAWS = 200  # predicted; scores of one snapshot need no more
MEMORY = 20  # steps that the drift alarm looks back


class Forecaster:
    """Predicts a snapshot from the state before it, scores the prediction, and watches for drift.

    Args:
        model: the model.
        recent: scores of earlier steps, for a run that goes on.
        transform: that of the data in the snapshots; scores are in the units that the data had before.
    """

    def __init__(self, model: Model, recent: Iterable[dict[str, Any]] = (), transform: Transform | None = None):
        self._model, self._transform = model, transform
        self._recent: deque[dict[str, Any]] = deque(recent, maxlen=MEMORY)

    def __call__(
        self, key: Key[Array, ""], state: State, snapshot: Snapshot
    ) -> tuple[dict[str, float], tuple[str, ...]]:
        """The scores of the snapshot, and a remark where recent ones are not calibrated."""
        if np.isnan(snapshot.y).all():
            return {}, ()
        try:
            x, y, context = _padded(self._model, snapshot)
            prediction = predict(key, self._model, state.thinned(DRAWS), x, t=snapshot.t, context=context)
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
            if np.isnan(transform.log_jacobian(y)).all():  # zeros alone, which have no density
                return prequential(np.asarray(prediction.y), y)
        return prequential(np.asarray(prediction.y), y, float(prediction.log_score(y)))


def _padded(model: Model, snapshot: Snapshot) -> tuple[np.ndarray, np.ndarray, Any]:
    """Inputs and (missing) data added so that snapshots of changing size share one compilation."""
    model.likelihood.check_context(~np.isnan(snapshot.y), snapshot.context)
    n, context = len(snapshot.x), model.likelihood.context_at(snapshot.t, snapshot.context)
    size = padded_size(model.likelihood.pointwise, n, 0)
    if size == n:
        return snapshot.x, snapshot.y, context
    context = jax.tree.map(lambda leaf: pad_rows(leaf, n, size), context)
    return pad_rows(snapshot.x, n, size), np.append(snapshot.y, np.full(size - n, np.nan)), context
