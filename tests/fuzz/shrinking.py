"""Findings made small: snapshots, stations, questions and digits are taken away while the finding stays."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import ways
from .cases import Case, Verdict, judge
from .values import is_slot, mapped

SECONDS = 90.0  # after which the smallest so far is printed


def kind_of(verdict: Verdict) -> str:
    """What a finding is about, without its numbers: the first words."""
    return " ".join(word for word in verdict.details[0].split()[:4] if not any(c.isdigit() for c in word))


def shrunk(verdict: Verdict, seconds: float = SECONDS) -> Verdict:
    """The same kind of finding in a smaller case."""
    end = time.monotonic() + seconds
    best, going = verdict, True
    while going:
        going = False
        for smaller in candidates(best.case):
            if time.monotonic() > end:
                return best
            found = judge(smaller, best.way, ways.WAYS[best.way])
            if found.outcome == "finding" and kind_of(found) == kind_of(verdict):
                best, going = found, True
                break
    return best


def candidates(case: Case) -> Iterator[Case]:
    """Smaller cases, the boldest first."""
    for i in range(len(case.snapshots)):
        if len(case.snapshots) > 1:
            rest = [s for j, s in enumerate(case.snapshots) if j != i]
            times = {s[0] for s in rest}
            past = case.past if case.past and min(times) <= case.past.t <= max(times) else None
            yield case._replace(snapshots=rest, smooth=[t for t in case.smooth if t in times], past=past)
    for i in range(len(case.questions)):
        if len(case.questions) > 1 or case.smooth:
            yield case._replace(questions=[q for j, q in enumerate(case.questions) if j != i])
    if case.smooth and case.questions:
        yield case._replace(smooth=[])
    if case.past and case.questions:
        yield case._replace(past=None)
    for i, (_, x, _, _) in enumerate(case.snapshots):
        for row in range(len(x)):
            if len(x) > 1:
                yield case._replace(
                    snapshots=[*case.snapshots[:i], _without(case.snapshots[i], row), *case.snapshots[i + 1 :]]
                )
    if case.model["mean"]["features"]:
        yield case._replace(model={**case.model, "mean": {**case.model["mean"], "features": []}})
    if case.model["mean"]["intercept"] != 0.0:
        yield case._replace(model={**case.model, "mean": {**case.model["mean"], "intercept": 0.0}})
    if len(case.model["terms"]) > 1:
        yield case._replace(model={**case.model, "terms": case.model["terms"][:1]})
    yield from _rounded(case)


def _without(snapshot: tuple, row: int) -> tuple:
    t, x, y, context = snapshot
    kept = np.arange(len(x)) != row
    return t, x[kept], y[kept], {name: values[kept] for name, values in context.items()}


def _digits(value: float) -> float:
    return float(f"{value:.2g}")


def _rounded(case: Case) -> Iterator[Case]:
    def number(leaf: Any) -> Any:
        return _digits(leaf[1]) if is_slot(leaf) and leaf[0] == "narrow" else leaf

    known = case._replace(model=mapped(case.model, number))
    if str(known.model) != str(case.model):
        yield known
    short = [
        (_digits(t), np.vectorize(_digits)(x), np.vectorize(_digits)(y), context) for t, x, y, context in case.snapshots
    ]
    times = [s[0] for s in short]
    if str(short) != str(case.snapshots) and len(set(times)) == len(times):
        before = {old[0]: new[0] for old, new in zip(case.snapshots, short)}
        smooth = sorted(before[t] for t in case.smooth if t in before)
        late = [q._replace(t=max(q.t, times[-1])) for q in case.questions]
        past = None if case.past is None else case.past._replace(t=float(np.clip(case.past.t, times[0], times[-1])))
        yield case._replace(snapshots=short, smooth=smooth, questions=late, past=past)
