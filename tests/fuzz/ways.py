"""Ways to run a case, and relations that need no oracle: what must change nothing."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from tests.oracles.dense import Rows

from . import api, entrances, tables
from .cases import Case, Question, compare, compare_left_out, execute, ratio_of
from .sameness import alike, same, same_runs
from .values import leaves, mapped, wide_slots


def plain(case: Case) -> list[str]:
    """In one go, against the oracle."""
    ran = execute(case)
    return compare(case, ran) + compare_left_out(case, ran)


def twice(case: Case) -> list[str]:
    """The same seed gives the same draws, also of predictions."""
    a, b = execute(case), execute(case)
    both = [np.asarray(api.predict(one.model, one.run.state, case.questions[0]).f) for one in (a, b)]
    return same_runs("run twice", a, b) + same("predicted twice", *both) + compare(case, a)


def stepwise(case: Case) -> list[str]:
    """One snapshot after the other, each from the state before."""
    whole, first = execute(case), execute(case._replace(snapshots=case.snapshots[:1]))
    step = first
    for snapshot in case.snapshots[1:]:
        step = step._replace(run=api.run(step.sampler, [snapshot], key=case.seed, state=step.run.state))
    return same_runs("step by step", whole, step) + compare(case, step)


def resumed(case: Case) -> list[str]:
    """Killed between two steps, or while one is written, and taken up again from the store."""

    class Killed(BaseException):
        pass

    rng, whole, honest = np.random.default_rng(case.seed), execute(case), os.fsync
    cut, left = int(rng.integers(1, len(case.snapshots))), int(rng.integers(1, 30)) if rng.random() < 0.5 else -1

    def kill(state, info):
        if left < 0 and state.step == cut:
            raise Killed

    def sync(file):
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed
        honest(file)

    with tempfile.TemporaryDirectory() as folder:
        with contextlib.suppress(Killed), mock.patch("os.fsync", sync if left > 0 else honest):
            execute(case, store=f"{folder}/run", callbacks=kill)
        again = execute(case, store=f"{folder}/run")
        read = again._replace(run=again.run._replace(state=api.stored(f"{folder}/run").latest().state))
        return same_runs("resumed", whole, again) + same_runs("read back", whole, read) + compare(case, read)


def changed(case: Case) -> list[str]:
    """A run does not go on with another model; other data for a time that it has seen revise it, or are refused."""
    rng = np.random.default_rng(case.seed)
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/run"
        execute(case._replace(snapshots=case.snapshots[:-1]), store=store)
        if rng.random() < 0.5 and any(isinstance(one, tuple) for one in leaves(case.model)):
            return _unless_refused("another model", _with_another_model(case), store=store)
        other = _corrected(case)
        if other is None:
            return []
        if rng.random() < 0.5:
            return _unless_refused("other data", other, store=store, late="refuse")
        return compare(other, execute(other, store=store))


def _unless_refused(what: str, case: Case, **more: Any) -> list[str]:
    try:
        execute(case, **more)
    except api.Refused:
        return []
    return [f"resumed with {what}, without a word"]


def _with_another_model(case: Case) -> Case:
    """With the first of the priors moved."""
    count = 0

    def alter(leaf):
        nonlocal count
        count += isinstance(leaf, tuple)
        return (*leaf[:-1], leaf[-1] * 1.5 + 0.01) if isinstance(leaf, tuple) and count == 1 else leaf

    return case._replace(model=mapped(case.model, alter))


def _corrected(case: Case) -> Case | None:
    """With other values in the first snapshot, in the support of its family; ``None`` where none are at hand."""
    t, x, y, context = case.snapshots[0]
    near = np.where(np.isnan(y), y, np.where(y >= 1, y - 1, y / 2 + 0.25))
    bounded = case.shape.family in ("Bernoulli", "Ordinal", "Binomial")
    if np.isnan(y).all() or np.array_equal(near, y, equal_nan=True) or bounded:
        return None
    return case._replace(snapshots=[(t, x, near, context), *case.snapshots[1:]])


def permuted(case: Case) -> list[str]:
    """The order of the rows of a snapshot says nothing."""
    rng = np.random.default_rng(case.seed)
    orders = [rng.permutation(len(x)) for _, x, _, _ in case.snapshots]
    turned = [
        (t, x[o], y[o], {name: values[o] for name, values in context.items()})
        for (t, x, y, context), o in zip(case.snapshots, orders)
    ]
    return _against(case, "rows permuted", case._replace(snapshots=turned))


def absent(case: Case) -> list[str]:
    """A missing value is as good as no row."""
    kept = []
    for t, x, y, context in case.snapshots:
        there = ~np.isnan(y)
        if not there.any():
            there[0] = True
        kept.append((t, x[there], y[there], {name: values[there] for name, values in context.items()}))
    return _against(case, "missing rows left out", case._replace(snapshots=kept))


def never(case: Case) -> list[str]:
    """A station that never reports changes nothing."""
    rng = np.random.default_rng(case.seed)
    x_new = case.snapshots[0][1].mean(0, keepdims=True) + 0.37 * case.frame.dx * rng.random()
    if case.shape.outputs:
        x_new[:, 0] = 0
    more = []
    for t, x, y, context in case.snapshots:
        wider = {name: np.append(values, values[:1]) for name, values in context.items()}
        more.append((t, np.concatenate([x, x_new]), np.append(y, np.nan), wider))
    return _against(case, "a station that never reports", case._replace(snapshots=more))


def _against(case: Case, what: str, other: Case, gained: float = 0.0) -> list[str]:
    """The same evidence but for what units add to it, and the answers that the oracle gives to the other case."""
    a, b = execute(case), execute(other)
    found = []
    if not wide_slots(case.model) and case.shape.gaussian:  # otherwise the particles, or EP, need not be the same
        expected = a.run.infos[-1].log_evidence + gained
        rounding = 1e-6 + 1e-13 * ratio_of(case) ** 2 * (1 + abs(expected))
        found = alike(f"{what}: log evidence", expected, b.run.infos[-1].log_evidence, rounding)
    return found + compare(other, b)


def units(case: Case) -> list[str]:
    """Time, space and values in other units: the same latent, and the same evidence but for the unit of the data."""
    rng = np.random.default_rng(case.seed)
    c, d, v = (float(2.0 ** rng.integers(-12, 12)) for _ in range(3))
    count = sum(int(np.isfinite(y).sum()) for _, _, y, _ in case.snapshots)
    other = tables.rescaled(case, c, d, v)
    return _against(case, f"time × {c:g}, space × {d:g}, values × {v:g}", other, -count * np.log(v))


def columns(case: Case) -> list[str]:
    """A table as CSV and as Parquet is the snapshots that it was written from."""
    with tempfile.TemporaryDirectory() as folder:
        wrong = []
        for ending in ("csv", "parquet"):
            read = tables.round_trip(case, Path(folder) / f"table.{ending}")
            for (t, x, y, context), found in zip(case.snapshots, read):
                where = f"{ending} at t = {t:g}"
                wrong += (
                    same(f"{where}: t", t, found.t) + same(f"{where}: x", x, found.x) + same(f"{where}: y", y, found.y)
                )
                for name in context:
                    wrong += same(f"{where}: {name}", context[name], found.context[name])
            if len(read) != len(case.snapshots):
                wrong.append(f"{ending}: {len(read)} of {len(case.snapshots)} snapshots")
        return wrong


def command_line(case: Case) -> list[str]:
    """``seqgp fit`` gives the draws that the library gives, and what it exports is what it keeps."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        step, whole = tables.fit(case, place), execute(case)
        found = same("command line: draws", step.state.latent, whole.run.state.latent)
        found += same("command line: evidence", step.info.log_evidence, whole.run.infos[-1].log_evidence)
        return found + tables.exported(place, whole)


def compared(case: Case) -> list[str]:
    """``seqgp.compare`` orders runs by their evidence, and says by how much they differ."""
    half = case._replace(model={**case.model, "terms": case.model["terms"]}, seed=case.seed + 1)
    a, b = execute(case, forecast=True), execute(half, forecast=True)
    table = api.compare({"a": a.run, "b": b.run})
    found = {one.name: one for one in table.candidates}
    wrong = same("compare", found["a"].log_evidence, a.run.infos[-1].log_evidence)
    difference = found["a"].difference - found["b"].difference
    expected = a.run.infos[-1].log_evidence - b.run.infos[-1].log_evidence
    return wrong + alike("compare: difference", difference, expected, 1e-9 * (1 + abs(found["a"].log_evidence)))


def bounded(case: Case) -> list[str]:
    """A bounded history, long enough to be cut: the evidence is that of all data."""
    count, (t, x, _, context) = 31, case.snapshots[-1]
    gap = t - case.snapshots[-2][0] if len(case.snapshots) > 1 else case.frame.dt
    rng = np.random.default_rng(case.seed)
    values = np.concatenate([s[2] for s in case.snapshots])
    values = values[~np.isnan(values)]
    if not len(values) or context:
        return []
    long = [(t + i * gap, x, rng.choice(values, len(x)), {}) for i in range(count)]
    settings = {**case.settings, "draws": 200}
    whole, cut = (case._replace(snapshots=long, settings=settings | more) for more in ({}, {"history": 10}))
    a, b = execute(whole), execute(cut)
    question = Question("known", long[-1][0] + gap, x, {})
    found = alike("history=10: log evidence", b.run.infos[-1].log_evidence, a.run.infos[-1].log_evidence,
                   1e-5 + 1e-12 * ratio_of(case) ** 2 * (1 + abs(a.run.infos[-1].log_evidence)))  # fmt: skip
    both = [np.asarray(api.predict(one.model, one.run.state, question).f) for one in (a, b)]
    sd = both[0].std(0)
    off = np.abs(both[0].mean(0) - both[1].mean(0)) / sd
    return found + ([f"history=10: predicted means are {off.max():.2g} sd apart"] if off.max() > 0.7 else [])


WAYS = {
    "plain": plain, "twice": twice, "stepwise": stepwise, "resumed": resumed, "changed": changed, "permuted": permuted,
    "absent": absent, "never": never, "units": units, "columns": columns, "command_line": command_line,
    "compared": compared, "bounded": bounded, "revised": entrances.revised, "refreshed": entrances.refreshed,
    "forgetful": entrances.forgetful, "transformed": entrances.transformed, "full": entrances.full,
    "late": entrances.late,
}  # fmt: skip
ODDS = {
    "plain": 10, "twice": 1, "stepwise": 1, "resumed": 2, "changed": 2, "permuted": 2, "absent": 2, "never": 1,
    "units": 2, "columns": 1, "compared": 0.5, "bounded": 0.4,
    "revised": 1.5, "refreshed": 1, "forgetful": 1, "full": 0.1,
}  # fmt: skip


def suitable(way: str, case: Case) -> bool:
    """Whether a way says something about a case."""
    missing = any(np.isnan(y).any() for _, _, y, _ in case.snapshots)
    several = len(case.snapshots) > 1
    narrow, gaussian = case.shape.how == "narrow", case.shape.gaussian
    rules = {
        "revised": several and not case.shape.by_station, "forgetful": gaussian and not case.shape.by_station,
        "refreshed": not gaussian and case.settings.get("paths", "0") != "0",
        "transformed": tables.can_be_configured(case) and entrances.logarithms(case) and _plain_gaussian(case),
        "full": narrow and not case.frame.extreme and not case.shape.delayed and case.shape.pattern != "network",
        "absent": missing,
        "never": not case.shape.globe and case.shape.pattern != "grid" and not case.shape.by_station,
        "resumed": several, "changed": several, "stepwise": several, "compared": several,
        "columns": case.shape.pattern != "coincide",
        "command_line": tables.can_be_configured(case),
        "late": several and tables.can_be_configured(case),
        "bounded": several and case.shape.pattern == "complete" and narrow and gaussian,
        "units": narrow and not case.shape.globe and not case.shape.outputs and gaussian,
    }  # fmt: skip
    return rules.get(way, True)


def _plain_gaussian(case: Case) -> bool:
    return case.shape.gaussian and set(case.model["likelihood"]) == {"family", "noise"}


def draw_way(rng: np.random.Generator, case: Case) -> str:
    """A way that suits the case; the command line, which compiles anew, for the first case of a shape alone."""
    if case.seed == 0 and rng.random() < 0.5:
        for way in rng.permutation(["command_line", "transformed", "late"]):
            if suitable(way, case):
                return str(way)
    ways = [way for way in ODDS if suitable(way, case)]
    odds = np.array([ODDS[way] for way in ways])
    return str(rng.choice(ways, p=odds / odds.sum()))


def rows_of(case: Case) -> Rows:
    """All rows of a case."""
    return Rows.of(case.snapshots)
