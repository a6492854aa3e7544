"""Predictions averaged over the models of several runs, with weights from evidence or from forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float, Key

from seqgp.base.errors import DataError
from seqgp.base.snapshot import Context
from seqgp.base.transforms import transform_of
from seqgp.evaluate.compare import check_runs, evidence_of, forecast_times
from seqgp.evaluate.predict import Prediction, predict
from seqgp.evaluate.transformed import in_units
from seqgp.samplers.validation import check_key

TOLERANCE = 1e-6  # of the mean log score
STEPS = 100_000


def stacking_weights(log_scores: Float[np.ndarray, "T K"]) -> Float[np.ndarray, " K"]:
    """``argmax_w mean_t log Σ_k w_k exp(log_scores[t, k])`` over the simplex (Yao, Vehtari, Simpson and Gelman 2018).

    EM for the weights of a mixture whose components are known. With ``g_k = mean_t p_tk / Σ_j w_j p_tj`` the maximum is
    at most ``log max_k g_k`` above the present mean (the objective is concave), which ends the iteration.
    """
    scores = np.asarray(log_scores, float)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = np.full(p.shape[1], 1.0 / p.shape[1])
    for _ in range(STEPS):
        gain = np.mean(p / (p @ weights)[:, None], axis=0)
        if np.log(gain.max()) < TOLERANCE:
            break
        weights = weights * gain
    return weights / weights.sum()


FEWEST = 10  # forecasts that weights may be stacked from


class MixturePrediction(Prediction):
    """The mixture of several models' predictions: ``f`` and ``y`` are draws of all, as many as the weights say.

    Log scores are those of the mixture, ``log Σ_k w_k p_k(y)``, and do not depend on which draws were taken.
    """

    _parts: tuple[Prediction, ...]
    _weights: Float[np.ndarray, " K"]

    def log_densities(self, y_new: npt.ArrayLike) -> Float[np.ndarray, " draws"]:
        """Log densities of all of ``y_new`` for each draw of each model, weighted: their mean is the mixture's."""
        y = self._check(y_new)
        return self._mixed([part.log_densities(y) for part in self._parts])

    def _log_densities(self, y: np.ndarray) -> np.ndarray:
        return self._mixed([part._log_densities(y) for part in self._parts])

    def _mixed(self, found: list[np.ndarray]) -> np.ndarray:
        total = sum(len(one) for one in found)
        return np.concatenate([one + np.log(w * total / len(one)) for w, one in zip(self._weights, found)])


class Average(NamedTuple):
    """Several runs with a weight for each.

    Attributes:
        runs: by name.
        weights: by name; they sum to one.
        by: where they are from: ``"evidence"``, ``"forecasts"`` or ``"given"``.
    """

    runs: Mapping[str, Any]
    weights: dict[str, float]
    by: str

    def predict(
        self,
        key: Key[Array, ""],
        x_new: npt.ArrayLike,
        t: float | None = None,
        context: Context = None,
        joint: bool = True,
    ) -> MixturePrediction:
        """The mixture of the models' predictions, in the units of the data; arguments as of ``seqgp.predict``.

        Draws are as many as those of the largest run.
        """
        check_key(key)
        key_parts, key_choice = jax.random.split(key)
        used = {name: weight for name, weight in self.weights.items() if weight > 0}
        parts = []
        for one, name in zip(jax.random.split(key_parts, len(used)), used):
            run = self.runs[name]
            found = predict(one, run.model, run.state, x_new, t, context, joint)
            parts.append(in_units(found, _transform(run)))
        weights = np.array(list(used.values()))
        f, y = _chosen(key_choice, parts, weights)
        first = parts[0]
        return MixturePrediction(
            f, y, first.t, first.x, first._model, first._context, first._parameters, first._predictive, tuple(parts),
            weights,
        )  # fmt: skip


def average(
    runs: Mapping[str, Any], by: Literal["evidence", "forecasts"] | Mapping[str, float] = "forecasts"
) -> Average:
    """Average the models of several runs over the same data.

    Weights from the evidence are the posterior probabilities of the models under equal prior probabilities. They are
    right if one of the models is true, and soon put all weight on one. Weights from forecasts (stacking) maximise the
    mean log score of the mixture over the steps that all runs forecast. They are better if no model is true, or if a
    model explains the past well but forecasts badly.

    Args:
        runs: a run for each name, over the same snapshots.
        by: ``"forecasts"``, ``"evidence"``, or a weight for each name.
    """
    check_runs("average", runs)
    if isinstance(by, Mapping):
        return Average(runs, _given(runs, by), "given")
    if by == "evidence":
        return Average(runs, _by_evidence(runs), by)
    if by != "forecasts":
        raise DataError(f"average: by = {by!r}, expected 'evidence', 'forecasts' or a weight for each run")
    times = forecast_times(runs, "log_score")
    if len(times) < FEWEST:
        raise DataError(
            f"average: all runs forecast {len(times)} of the same steps, and weights from forecasts need {FEWEST}; "
            "run over more snapshots with forecast=True, or take by='evidence'"
        )
    infos = [{info.t: info for info in run.infos} for run in runs.values()]
    scores = np.array([[found[t].scores["log_score"] for found in infos] for t in times])
    weights = stacking_weights(scores)
    return Average(runs, dict(zip(runs, weights.tolist())), by)


def _by_evidence(runs: Mapping[str, object]) -> dict[str, float]:
    evidence = evidence_of(runs)
    unknown = next((name for name, value in evidence.items() if not np.isfinite(value)), None)
    if unknown is not None:
        raise DataError(
            f"average: the evidence of {unknown!r} is not known, or of differently transformed data; "
            "take by='forecasts', or runs of OnlineSampler"
        )
    values = np.array(list(evidence.values()))
    weights = np.exp(values - values.max())
    return dict(zip(runs, (weights / weights.sum()).tolist()))


def _given(runs: Mapping[str, object], by: Mapping[str, float]) -> dict[str, float]:
    if set(by) != set(runs):
        raise DataError(f"average: weights are given for {', '.join(by)}, and the runs are {', '.join(runs)}")
    values = np.array([float(by[name]) for name in runs])
    if not (np.isfinite(values).all() and values.min() >= 0 and values.sum() > 0):
        raise DataError(f"average: weights {dict(by)} are not all finite and at least 0 with a positive sum")
    return dict(zip(runs, (values / values.sum()).tolist()))


def _transform(run: object) -> Any:
    store = getattr(run, "store", None)
    return None if store is None else transform_of(store.manifest.section("data"))


def _chosen(key: Key[Array, ""], parts: list[Prediction], weights: Float[np.ndarray, " K"]) -> tuple[Array, Array]:
    """Draws of the parts in proportion to the weights (systematic resampling)."""
    key_offset, *keys = jax.random.split(key, len(parts) + 1)
    size = max(len(part.f) for part in parts)
    points = (np.arange(size) + float(jax.random.uniform(key_offset))) / size
    ends = np.searchsorted(points, np.cumsum(weights)[:-1])
    counts = np.diff(np.concatenate([[0], ends, [size]]))
    picked = [_rows(one, len(part.f), int(count)) for one, part, count in zip(keys, parts, counts)]
    f = jnp.concatenate([part.f[rows] for part, rows in zip(parts, picked)])
    return f, jnp.concatenate([part.y[rows] for part, rows in zip(parts, picked)])


def _rows(key: Key[Array, ""], size: int, count: int) -> np.ndarray:
    """So many of a part's draws; a smaller part has to give its own more than once."""
    rounds = jax.random.split(key, max(-(-count // size), 1))
    return np.concatenate([np.asarray(jax.random.permutation(one, size)) for one in rounds])[:count]
