"""How well each step was forecast by the one before: the honest check, since those data were not yet seen."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import numpy as np

from seqgp.base.info import Info
from seqgp.base.transforms import transform_of
from seqgp.evaluate.predict import predict
from seqgp.evaluate.scores import crps
from seqgp.evaluate.transformed import in_units
from seqgp.io.store import Store
from seqgp.model import Model
from seqgp.samplers.keys import stream

DRAWS_PER_FORECAST = 200  # of each forecast, evenly spread over those there are
PIT_SEED = 0


class Check(NamedTuple):
    """One step as the step before forecast it."""

    t: float
    pit: np.ndarray  # of every observed value: uniform where forecasts are calibrated
    half: float  # the share of values inside the central 50 % interval
    most: float  # … inside the central 95 % interval
    crps: float
    log_score: float  # per observed value
    crps_each: np.ndarray | None = None  # of every value, NaN where it is missing


def forecast_checks(store: Store, model: Model | None = None, last: int = 30) -> list[Check]:
    """How each of the last steps was forecast: as the run noted it, or else forecast again from the draws before.

    Args:
        store: a run.
        model: its model; a store knows it where it is made of ready-made parts. Without one there are no checks.
        last: how many steps, at most.
    """
    steps = store.standing()
    stored = [found for step in steps[-last:] if (found := stored_check(step.info, step.snapshot.y)) is not None]
    if stored:
        return stored
    model = model or store.model
    if model is None:
        return []
    steps, transform = steps[-last - 1 :], transform_of(store.manifest.section("data"))
    checks = []
    for before, after in itertools.pairwise(steps):
        snapshot = after.snapshot
        if not before.whole or np.isnan(snapshot.y).all():
            continue
        key = jax.random.fold_in(stream(PIT_SEED, "checks of forecasts"), after.number)
        state = before.state.thinned(DRAWS_PER_FORECAST)
        context = model.likelihood.context_at(snapshot.t, snapshot.context)
        prediction = in_units(predict(key, model, state, snapshot.x, snapshot.t, context), transform)
        y = snapshot.y if transform is None else transform.restored(snapshot.y)
        dense = ~np.isnan(y if transform is None else transform.log_jacobian(y))  # zeros of a power have no density
        seen = int(dense.sum())
        checks.append(
            Check(
                after.t,
                prediction.pit(y),
                prediction.coverage(y, 0.5),
                prediction.coverage(y, 0.95),
                prediction.crps(y),
                float(prediction.log_score(y)) / seen if seen else float("nan"),
                _each(np.asarray(prediction.y), y),
            )
        )
    return checks


def stored_check(info: Info, y: np.ndarray) -> Check | None:
    """What a step noted of its forecast, if it did."""
    values, scores = info.forecast, info.scores
    if values is None or not {"coverage_50", "coverage_95", "crps"} <= scores.keys():
        return None
    each = np.full(y.shape, np.nan)
    each[~np.isnan(y)] = values.crps
    log_score = scores.get("log_score", np.nan) / len(values.pit)
    return Check(info.t, values.pit, scores["coverage_50"], scores["coverage_95"], scores["crps"], log_score, each)


def _each(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    found, seen = np.full(y.shape, np.nan), ~np.isnan(y)
    found[seen] = crps(draws[:, seen], y[seen])
    return found
