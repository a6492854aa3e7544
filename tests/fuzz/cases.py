"""One case: parameters, data and questions drawn from its seed, run, and compared with the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from tests.oracles.dense import Rows

from . import api, refusals, verdicts
from .data import Frame, context_for, draw_data, draw_frame, draw_points, filled, spread
from .shapes import Shape
from .truth import Answer, Unsure, answer
from .values import leaves, numbers, sd_of

NOISE = 1.0  # of a particle's log evidence by paths, beyond which seqgp warns
LEFT_OUT = 3  # data of a case that are predicted from all others
MOVED = 10.0  # widths of a narrow prior by which data move a parameter that is to be known


class Question(NamedTuple):
    """A prediction: what kind of inputs, where, and when."""

    kind: str
    t: float
    x: np.ndarray
    context: dict
    joint: bool = True


class Case(NamedTuple):
    """A program: a model, data, and what is asked."""

    shape: Shape
    seed: int
    frame: Frame
    model: dict
    snapshots: list[tuple]
    questions: list[Question]
    smooth: list[float]
    settings: dict
    past: Question | None = None  # new inputs at a time among the data


class Verdict(NamedTuple):
    """What became of a case."""

    case: Case
    way: str
    outcome: str  # equal, refused, unsure or finding
    details: list[str]


def draw_case(shape: Shape, seed: int) -> Case:
    """A case of a shape."""
    rng = np.random.default_rng([shape.number, seed])
    frame = draw_frame(rng, shape)
    model = filled(shape, rng, frame)
    snapshots = draw_data(rng, shape, frame, model)
    times = [t for t, *_ in snapshots]
    smooth = sorted(set(rng.choice(times, min(2, len(times)), replace=False).tolist()))
    questions = _questions(rng, shape, frame, snapshots)
    if shape.delayed:  # whose past is not kept
        return Case(shape, seed, frame, model, snapshots, questions, [], shape.settings)
    past = None
    if rng.random() < 0.4:
        t = float(rng.choice(times) if rng.random() < 0.3 else rng.uniform(times[0], times[-1]))
        context = context_for(rng, shape, frame, 2)
        past = Question("past", t, draw_points(rng, shape, frame, 2), context)
    return Case(shape, seed, frame, model, snapshots, questions, smooth, shape.settings, past)


def _questions(rng, shape: Shape, frame: Frame, snapshots: list[tuple]) -> list[Question]:
    last, x = snapshots[-1][0], snapshots[-1][1]
    seen = np.unique(np.concatenate([s[1] for s in snapshots]), axis=0)
    kinds = {"known": x[rng.permutation(len(x))], "new": draw_points(rng, shape, frame, 2)}
    if len(seen) > 2:
        kinds["subset"] = seen[rng.choice(len(seen), 2, replace=False)]
    kinds["superset"] = np.concatenate([x, draw_points(rng, shape, frame, 1)])
    found = []
    for kind in rng.choice(list(kinds), 2, replace=False):
        ahead = 0.0 if rng.random() < 0.6 else frame.dt * spread(rng, 0.1, 10.0)
        context = context_for(rng, shape, frame, len(kinds[kind]))
        found.append(
            Question(str(kind), last + ahead, kinds[kind], context, shape.by_station or bool(rng.random() < 0.75))
        )
    return found


def ratio_of(case: Case) -> float:
    """The latent's standard deviation over the smallest noise, for Gaussian data."""
    known = numbers(case.model)
    if known["likelihood"]["family"] != "Gaussian":
        return 1.0
    noise = verdict_noise(known, case.snapshots)
    return sd_of(known) / float(noise.min())


def verdict_noise(known: dict, snapshots: list[tuple]) -> np.ndarray:
    """The noise of each datum."""
    from tests.oracles.likelihoods import noise_of

    return noise_of(known["likelihood"], Rows.of(snapshots).named)


class Ran(NamedTuple):
    """What seqgp made of a case."""

    model: Any
    sampler: Any
    run: Any


def execute(case: Case, **more: Any) -> Ran:
    """Run a case."""
    model = api.build(case.model)
    sampler = api.sampler(model, case.settings)
    return Ran(model, sampler, api.run(sampler, case.snapshots, key=case.seed, **more))


def compare(case: Case, ran: Ran) -> list[str]:
    """Everything that is asked of a case, against the oracle."""
    info, state = ran.run.infos[-1], ran.run.state
    if not (case.shape.gaussian or info.exact.corrected) and len(case.snapshots) > 1:
        return compare_first(case, info)
    effective = len(state.latent) if case.shape.how != "wide" else api.effective(info)
    t, x, _, context = case.snapshots[-1]
    asked = [Question("now", t, x, context), *case.questions, *([] if case.past is None else [case.past])]
    asked += [Question("data", s[0], s[1], s[3]) for s in case.snapshots if s[0] in case.smooth]
    rows = Rows.of([(q.t, q.x, np.full(len(q.x), np.nan), q.context) for q in asked])
    error, forget = float(info.extras["kernel_error"]), case.settings.get("forget", 1.0)
    true = answer(case.model, case.snapshots, rows, np.random.default_rng(case.seed), error, forget)
    if abs(true.log_evidence) * _width(case) > MOVED:
        raise Unsure(f"a log evidence of {true.log_evidence:.1e} moves parameters even where their priors are narrow")
    allowed, now = _tolerances(case, info, true)
    found: list[Any] = []
    if forget == 1 or case.shape.how != "wide":  # otherwise the evidence is that of forecasts that forget
        found += verdicts.check_evidence(
            "run", float(info.log_evidence), float(info.log_evidence_se), true, now.evidence
        )
    ends = np.cumsum([0] + [len(q.x) for q in asked])
    parts = [true.part(slice(a, b)) for a, b in itertools.pairwise(ends)]
    # Paths come in pairs that mirror each other: of a variance a pair says as much as one draw.
    own = effective if case.shape.gaussian else verdicts.distinct(state.latent) / 2
    found += verdicts.check_draws("state.latent", state.latent, parts[0], own, now)
    for question, part in zip(case.questions, parts[1:]):
        name = f"predict at {question.kind} inputs, t + {question.t - t:.3g}{'' if question.joint else ', alone'}"
        prediction = api.predict(ran.model, state, question)
        found += verdicts.check_draws(name, prediction.f, part, effective, allowed, question.joint)
    past, few = true.part(slice(ends[1 + len(case.questions)], ends[-1])), min(effective, own, 2000)
    for name, drawn, part in _smoothed(case, ran, past):
        found += verdicts.check_draws(name, drawn, part, few, allowed)
    return [str(one) for one in found]


def compare_left_out(case: Case, ran: Ran) -> list[str]:
    """Each of some data of the last snapshot predicted from all others, against the oracle."""
    info = ran.run.infos[-1]
    if info.loo is None or info.extras["kernel_error"] or case.shape.how == "wide":
        return []
    data, known = Rows.of(case.snapshots), numbers(case.model)
    rows = np.arange(len(data.t))
    last = rows[len(rows) - len(case.snapshots[-1][1]) :]
    found = []
    for place, row in enumerate(last):
        if np.isnan(data.y[row]) or place >= LEFT_OUT or np.isfinite(data.y).sum() == 1:
            continue
        one, others = data.kept(rows == row), data.kept(rows != row)
        true = answer(case.model, _single(others), one, np.random.default_rng(0))
        sd = float(np.sqrt(true.covariance[0, 0] + verdict_noise(known, _single(one))[0] ** 2))
        allowed = verdicts.tolerance(len(rows), ratio_of(case), true, "low_rank" in info.extras)
        mean, spread = float(info.loo.mean[place]), float(info.loo.sd[place])
        if abs(mean - true.mean[0]) > allowed.mean * sd or abs(spread / sd - 1) > allowed.sd:
            said = f"{mean:.6g} ± {spread:.3g}, the oracle says {true.mean[0]:.6g} ± {sd:.3g}"
            found.append(f"leave-one-out: row {place} of the last snapshot is {said}")
    return found


def _single(rows: Rows) -> list[tuple]:
    """Each row as a snapshot of its own."""
    parts = [rows.kept(np.array([i])) for i in range(len(rows.t))]
    return [(float(one.t[0]), one.x, one.y, one.context) for one in parts]


def _width(case: Case) -> float:
    """Of the narrow priors: intervals are those of slowness, and of what may be negative."""
    values = [one[1] for one in leaves(case.model) if isinstance(one, tuple) and one[0] == "narrow"]
    if not values:
        return 0.0
    return api.INTERVAL if case.shape.delayed or min(values) <= 0 else api.WIDTH


def _tolerances(case: Case, info: Any, true: Answer) -> tuple[verdicts.Tolerance, verdicts.Tolerance]:
    """What is allowed beside Monte Carlo errors: of predictions and the past, and of the present."""
    if case.shape.gaussian:
        count = int(np.isfinite(np.concatenate([s[2] for s in case.snapshots])).sum())
        allowed = verdicts.tolerance(count, ratio_of(case), true, "low_rank" in info.extras)
        return allowed, allowed
    if not info.exact.corrected:
        return verdicts.EP, verdicts.EP
    if info.exact.noise > NOISE:
        raise Unsure(f"seqgp tells that its correction by paths is noisy: {info.exact.noise:.1f}")
    return verdicts.EP, verdicts.PATHS


def _smoothed(case: Case, ran: Ran, past: Answer) -> Iterator[tuple[str, np.ndarray, Answer]]:
    """Draws of the past, at new inputs and at the data, with the oracle's answers in this order."""
    draws, first = min(len(ran.run.state.latent), 2000), 0
    if case.past is not None:
        first, weather = len(case.past.x), case.past.context.get("elevation")
        more = {} if weather is None else {"context": {"elevation": weather}}
        drawn = api.smooth(ran.sampler, ran.run.state, [case.past.t], draws, x=case.past.x, **more)
        yield f"smooth at new inputs, t = {case.past.t}", drawn.latent[0], past.part(slice(0, first))
    if case.smooth:
        drawn = api.smooth(ran.sampler, ran.run.state, case.smooth, draws)
        yield f"smooth at {case.smooth}", np.concatenate(drawn.latent, axis=1), past.part(slice(first, None))


def compare_first(case: Case, info: Any) -> list[str]:
    """Where seqgp tells that a stream is approximate: what it tells, and the first snapshot, against the oracle."""
    if not (info.exact.why and str(case.settings.get("paths", "0")) == "0"):
        return [f"the run is not exact with paths={case.settings.get('paths')}: {info.exact.why!r}"]
    t, _, y, _ = case.snapshots[0]
    if np.isnan(y).all():
        return []
    late = [question._replace(t=t) for question in case.questions]
    first = case._replace(
        snapshots=case.snapshots[:1], questions=late, smooth=[] if case.shape.delayed else [t], past=None
    )
    return compare(first, execute(first))


def judge(case: Case, way: str, check) -> Verdict:
    """The verdict of a case under a way to run it: ``check(case)`` gives what is wrong."""
    try:
        wrong = check(case)
    except Unsure as error:
        return Verdict(case, way, "unsure", [str(error)])
    except api.Refused as error:
        if refusals.is_true(case, error):
            return Verdict(case, way, "refused", [str(error)])
        return Verdict(case, way, "finding", [f"refused without a true reason: {type(error).__name__}: {error}"])
    except Exception as error:  # whatever reaches a user
        return Verdict(case, way, "finding", [f"{type(error).__name__}: {error}"])
    return Verdict(case, way, "finding" if wrong else "equal", wrong)
