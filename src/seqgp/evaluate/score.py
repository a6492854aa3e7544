"""Predictions of a run scored on data that it has not seen, beside simple ones of the same data."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from seqgp.base.errors import DataError
from seqgp.base.snapshot import Snapshot
from seqgp.base.transforms import Transform
from seqgp.base.validation import positive, require_x64
from seqgp.evaluate.folds import row_names
from seqgp.evaluate.held_out_baselines import HeldOutBaselines
from seqgp.evaluate.point_scores import PointScores, Predictions, marginals_of, normal
from seqgp.evaluate.predict import predict
from seqgp.evaluate.replay import Replay, replay_of
from seqgp.evaluate.score_table import MODEL, SMOOTHED, Part, Score, way_of
from seqgp.evaluate.smoothed import smoothed_marginals
from seqgp.evaluate.transformed import TransformedData, normal_quantiles
from seqgp.samplers.base import State
from seqgp.samplers.keys import stream
from seqgp.samplers.online.state import OnlineState

DRAWS = 400  # of smoothed data, and of data that are not Gaussian


def score(
    run: object,
    held_out: Snapshot | Iterable[Snapshot],
    ahead: Sequence[int] = (0, 1),
    smoothed: bool = True,
    baselines: bool = True,
    draws: int = DRAWS,
    seed: int = 0,
) -> Score:
    """Score the predictions of a run on held-out data: at stations left out, at times left out, or later.

    A datum at time ``t`` is predicted from the snapshots up to ``t`` (*filtered*), from all but the last ``k`` of these
    (``k`` *steps ahead*), and from all snapshots of the run (*smoothed*). For Gaussian data and the online sampler the
    scores of filtered and forecast data are exact given the particles; others are estimated from draws.

    For comparison, persistence, an AR(1) and, without steps ahead, kriging of the snapshot of the same time predict the
    same data, from the data that the model saw. If the run transforms its data, so do these, and all scores are in the
    units of the data.

    Args:
        run: a run with a store, or a ``seqgp.Store``. A run in memory holds its last state only, so it has no
            filtered predictions before the last time.
        held_out: snapshots with values that the run has not seen, in any order of time; transformed, if the run's are.
        ahead: the numbers of steps ahead; 0 is filtered.
        smoothed: whether to score smoothed predictions; only the online sampler has them.
        baselines: whether to score simple forecasts too.
        draws: the number of draws for scores that are estimated from draws.
        seed: the seed of the random numbers.

    Returns:
        scores by way and forecaster: ``print(score)``, ``score.rows``, ``score.frame()``.
    """
    return scored(*score_parts(run, held_out, ahead, smoothed, baselines, draws, seed), "score")


def score_parts(
    run: object,
    held_out: Snapshot | Iterable[Snapshot],
    ahead: Sequence[int],
    smoothed: bool,
    baselines: bool,
    draws: int,
    seed: int,
) -> tuple[list[Part], list[str]]:
    """The scores of each datum, and what could not be scored; arguments as of ``score``."""
    require_x64()
    steps = _checked_steps(ahead)
    draws = positive("draws", draws)
    replay = replay_of(run, "score")
    data = _checked(replay, held_out, 0 in steps or smoothed)
    simple = _simple(replay) if baselines else None
    parts, notes = _forward(replay, data, steps, draws, seed, simple)
    if smoothed:
        more, said = _backward(replay, data, draws, seed, simple)
        parts, notes = parts + more, notes + said
    if baselines and simple is None:
        notes.append("no baselines: the run does not keep its data, or they are not one value per input")
    return parts, notes


def scored(parts: list[Part], notes: list[str], who: str) -> Score:
    """The table of some parts; an error where the model has predicted none of the data."""
    if not any(part.forecaster == MODEL for part in parts):
        raise DataError(f"{who}: nothing can be scored: {'; '.join(notes)}")
    return Score.of(parts, notes)


def _checked_steps(ahead: Any) -> tuple[int, ...]:
    numbers = tuple(ahead) if isinstance(ahead, (Sequence, np.ndarray)) and not isinstance(ahead, str) else (ahead,)
    for one in numbers:
        if isinstance(one, bool) or not isinstance(one, (int, np.integer)) or one < 0:
            raise DataError(f"score: ahead = {ahead!r}: give whole numbers of steps, (0, 1, 7) say; 0 is filtered")
    return tuple(sorted({int(one) for one in numbers}))


def _checked(replay: Replay, held_out: object, same_time: bool) -> list[Snapshot]:
    """The held-out snapshots in the order of time, none of whose values the run has seen."""
    data = [held_out] if isinstance(held_out, Snapshot) else held_out
    if not isinstance(data, Iterable) or isinstance(data, (str, bytes)):
        raise DataError(f"score: held_out: expected snapshots, got {type(held_out).__name__}")
    data = list(data)
    for one in data:
        if not isinstance(one, Snapshot):
            raise DataError(f"score: held_out: expected snapshots, got {type(one).__name__} among them")
        if one.y.shape != (len(one.x),):
            raise DataError(
                f"score: held_out: y has shape {one.y.shape} at t = {one.t:g}, expected one value per input"
            )
        if one.x.shape[1] != replay.last.dimension:
            raise DataError(
                f"score: held_out: x has {one.x.shape[1]} columns at t = {one.t:g}, but the data of the run have "
                f"{replay.last.dimension}"
            )
    again = next((b.t for a, b in itertools.pairwise(sorted(data, key=lambda one: one.t)) if a.t == b.t), None)
    if again is not None:
        raise DataError(f"score: held_out has two snapshots at t = {again:g}; join them, or score one after the other")
    if not any((~np.isnan(one.y)).any() for one in data):
        raise DataError("score: held_out has no value; give snapshots with data")
    if same_time and replay.snapshots is not None:
        _check_unseen(replay.snapshots, data)
    return sorted(data, key=lambda one: one.t)


def _check_unseen(known: list[Snapshot], data: list[Snapshot]) -> None:
    at = {snapshot.t: snapshot for snapshot in known}
    for one in data:
        if one.t not in at:
            continue
        there = at[one.t]
        seen = {tuple(x) for x, y in zip(there.x.tolist(), np.ravel(there.y)) if not np.isnan(y)}
        for x, y in zip(one.x.tolist(), one.y):
            if tuple(x) in seen and not np.isnan(y):
                raise DataError(
                    f"score: the run has seen a value at t = {one.t:g}, x = {x}, so filtered and smoothed predictions "
                    "know it; leave it out of the run, or score forecasts alone: ahead=(1,), smoothed=False"
                )


def _simple(replay: Replay) -> HeldOutBaselines | None:
    """The baselines, where the run keeps its data and these are one value per input."""
    data = replay.snapshots
    if data is None or any(one.y.shape != (len(one.x),) for one in data):
        return None
    return HeldOutBaselines(replay.model.kernel, data)


def _forward(
    replay: Replay, data: list[Snapshot], steps, draws: int, seed: int, simple
) -> tuple[list[Part], list[str]]:
    """Filtered predictions and forecasts, from one state after the other."""
    reached = np.searchsorted(replay.times, [one.t for one in data], side="right") - 1
    jobs: dict[int, list[tuple[int, int]]] = {}
    lost = dict.fromkeys(steps, 0)
    for i, last in enumerate(reached):
        for k in steps:
            if last - k >= 0 and replay.steps[last - k] is not None:
                jobs.setdefault(int(last) - k, []).append((i, k))
            else:
                lost[k] += 1
    parts, key = [], stream(seed, "score")
    for number, state in replay.states(list(jobs)):
        for i, k in jobs[number]:
            one = data[i]
            own = jax.random.fold_in(jax.random.fold_in(key, i), k)
            found = _predicted(own, replay, state, one, draws)
            parts.append(_part(replay, way_of(k), k, MODEL, one, found))
            parts += _baseline_parts(replay, simple, way_of(k), one, number, k)
    why = "their states are not kept (give a run a store, and a larger keep=), or they are too early"
    return parts, [f"{way_of(k)}: {n} of {len(data)} snapshots are not scored: {why}" for k, n in lost.items() if n]


def _predicted(key, replay: Replay, state: State, one: Snapshot, draws: int) -> PointScores:
    exact = replay.model.likelihood.conjugate and isinstance(state, OnlineState)
    few = state if exact else state.thinned(draws)
    prediction = predict(key, replay.model, few, one.x, t=one.t, context=one.context)
    drawn = None if replay.transform is None else np.asarray(prediction.y)
    return _scores(marginals_of(prediction, one.y), one.y, replay.transform, drawn)


def _scores(marginals: Predictions, y: np.ndarray, transform: Transform | None, drawn: Any) -> PointScores:
    """The scores of the data that are there; NaN elsewhere. A transform needs draws of the transformed data."""
    seen = np.flatnonzero(~np.isnan(y))
    whole = PointScores(*(np.full(len(y), np.nan) for _ in PointScores._fields))
    if len(seen):
        found = marginals if transform is None else TransformedData(marginals, transform, drawn)
        for column, values in zip(whole, found.at(seen).scores(y[seen])):
            column[seen] = values
    return whole


def _part(replay: Replay, way: str, k: int, who: str, one: Snapshot, found: PointScores) -> Part:
    y = one.y if replay.transform is None else replay.transform.restored(one.y)
    return Part(way, k, who, one.t, row_names(one), y, found)


def _baseline_parts(
    replay: Replay, simple: HeldOutBaselines | None, way: str, one: Snapshot, origin: int, k: int
) -> list[Part]:
    if simple is None:
        return []
    parts = []
    for name, forecast in simple(one, origin, k).items():
        there = ~np.isnan(forecast.mean) & ~np.isnan(forecast.sd)
        y = np.where(there, one.y, np.nan)
        drawn = None if replay.transform is None else normal_quantiles(forecast)
        parts.append(_part(replay, way, k, name, one, _scores(normal(*forecast), y, replay.transform, drawn)))
    return parts


def _backward(replay: Replay, data: list[Snapshot], draws: int, seed: int, simple) -> tuple[list[Part], list[str]]:
    """Smoothed predictions, from the last state."""
    state = replay.last
    if not isinstance(state, OnlineState):
        return [], ["smoothed: not scored, as the online sampler alone keeps the past"]
    first, last = state.snapshots[0].t, state.snapshots[-1].t
    inside = [one for one in data if first <= one.t <= last]
    notes = []
    if len(inside) < len(data):
        notes.append(
            f"smoothed: {len(data) - len(inside)} of {len(data)} snapshots are not scored: they are not between "
            f"t = {first:g} and t = {last:g}"
        )
    parts = []
    if inside:
        key = stream(seed, "score smoothed")
        for one, marginals in zip(inside, smoothed_marginals(key, replay.model, state, inside, draws)):
            found = _scores(marginals, one.y, replay.transform, marginals.y)
            parts.append(_part(replay, SMOOTHED, 0, MODEL, one, found))
            origin = int(np.searchsorted(replay.times, one.t, side="right")) - 1
            parts += _baseline_parts(replay, simple, SMOOTHED, one, origin, 0)
    return parts, notes
