"""One problem sampled: chains started, warmed up (finding what is then frozen), drawn from, and reported on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Key

from seqgp.base.errors import SamplerError
from seqgp.base.info import ChainInfo, UpdateInfo
from seqgp.base.snapshot import Snapshot
from seqgp.base.validation import lacking
from seqgp.linalg.types import Array, ArrayLike
from seqgp.mcmc.chains import CANDIDATES, Chains, Draws, Recipe, advance, log_likelihoods, rebase, start
from seqgp.mcmc.diagnostics import diagnose, remarks
from seqgp.mcmc.elliptical import SliceInfo
from seqgp.mcmc.exploration import StepExploration, is_differentiable
from seqgp.mcmc.informed import Informed
from seqgp.mcmc.moves import SweepInfo
from seqgp.mcmc.plain import Plain
from seqgp.mcmc.plan import Budget, Plan, plan_of
from seqgp.mcmc.problem import Problem
from seqgp.mcmc.updates import Exploration, Tuned, Updates, WarmUp
from seqgp.model import Model
from seqgp.runtime.progress import Progress

UPDATES = {"plain": Plain, "informed": Informed}


def choose_updates(updates: str | Updates) -> Updates | None:
    """The updates that a user's ``updates=`` stands for; None for ``"auto"``, which the likelihood decides."""
    if isinstance(updates, str) and updates == "auto":
        return None
    if isinstance(updates, str) and updates in UPDATES:
        return UPDATES[updates]()
    if isinstance(updates, Updates) and not isinstance(updates, type):
        return updates
    raise SamplerError(
        f"updates = {updates!r}: expected 'auto', 'plain', 'informed', seqgp.Plain(…) or seqgp.Informed(…)"
        + lacking(Updates, updates)
    )


def recipe_of(model: Model, updates: Updates | None, problem: Problem) -> Recipe:
    """What is compiled in; by default, informed updates where the likelihood can be differentiated, else plain ones."""
    if updates is not None and not updates.needs_gradient:
        return Recipe(model, updates)
    if is_differentiable(model, problem):
        return Recipe(model, Informed() if updates is None else updates)
    if updates is None:
        return Recipe(model, Plain())
    raise SamplerError(
        f"updates = {updates.name!r} needs a likelihood that JAX can differentiate, and this one cannot be (a callback "
        "to NumPy, or a loop that reverse mode does not know?): use updates='plain' or 'auto'"
    )


class Sampled(NamedTuple):
    """The draws of a problem, and what they cost."""

    draws: Draws
    counts: SweepInfo
    plan: Plan
    compile_seconds: float
    draw_seconds: float  # of the draws that were kept: no tuning, no warm-up
    updates: str
    remarks: tuple[str, ...]
    remedy: str  # which settings to raise where chains mix slowly


class Tuning(NamedTuple):
    """What is found before the first sweep: the updates (others, where those asked for fail), and what is frozen."""

    recipe: Recipe
    tuned: Tuned
    exploration: StepExploration


def tune(recipe: Recipe, problem: Problem, window: np.ndarray) -> Tuning:
    """The updates tuned on a problem whose draws of the window have the mean ``window``: a plan is made for these."""
    exploration = StepExploration(recipe.model, problem, window)
    tuned = recipe.updates.tune(exploration)
    return Tuning(recipe._replace(updates=tuned.updates), tuned, exploration)


def sample(
    key: Key[Array, ""],
    tuning: Tuning,
    problem: Problem,
    plan: Plan,
    z: np.ndarray,
    windows: np.ndarray,
    t: float,
    progress: Progress | None,
) -> Sampled:
    """Start the chains at ``z`` (at first, from its prior), warm up, and draw once per window."""
    key_start, key_warm, key_draw = jax.random.split(key, 3)
    report = _reporter(progress, plan)
    recipe, tuned, exploration = tuning
    chains = start(key_start, recipe, problem, plan, tuned.tuning, z, windows[:, 0])
    _check_start(chains, t)
    if plan.warmup:
        chains, tuned = _warm_up(key_warm, chains, tuned, exploration, windows, report)
    began, compiled_before = time.perf_counter(), chains.compile_seconds
    chains, draws, counts = advance(key_draw, chains, tuned.tuning, windows[:, plan.warmup :], report)
    drawing = time.perf_counter() - began - (chains.compile_seconds - compiled_before)
    seconds = chains.compile_seconds + exploration.compile_seconds
    return Sampled(
        draws,
        counts,
        plan,
        seconds,
        drawing,
        tuned.updates.name,
        tuned.remarks,
        tuned.updates.schedule(plan.first).remedy,
    )


def _warm_up(
    key: Key[Array, ""], chains: Chains, tuned: Tuned, exploration: Exploration, windows: np.ndarray, report
) -> tuple[Chains, Tuned]:
    """The sweeps that are dropped. What is frozen is found anew after each stage, nearer to where the posterior is."""
    plan, updates = chains.plan, tuned.updates
    stages = updates.schedule(plan.first).stages
    pieces = plan.warmup // plan.piece
    ends = sorted({max(1, round(share * pieces)) for share in stages or (1.0,)})
    begin = 0
    for stage, end in enumerate(plan.piece * e for e in ends):
        key_stage = jax.random.fold_in(key, stage) if len(stages) > 1 else key
        chains, warm, _ = advance(key_stage, chains, tuned.tuning, windows[:, begin:end], report)
        if stages:
            shown = WarmUp(np.asarray(warm.z), np.asarray(warm.sites), last=end == plan.warmup)
            tuned = tuned._replace(tuning=updates.retune(exploration, tuned.tuning, shown))
            chains = rebase(chains, tuned.tuning, windows[:, end])
        begin = end
    return chains, tuned


def sample_first(
    key: Key[Array, ""], recipe: Recipe, problem: Problem, budget: Budget, t: float, progress: Progress | None
) -> Sampled:
    """Sample a problem without a window, from the prior of ``z``."""
    tuning = tune(recipe, problem, np.zeros((0, problem.x.shape[1])))
    plan = plan_of(budget, tuning.tuned.updates, first=True)
    windows = np.zeros((plan.chains, plan.warmup + plan.draws, 0, problem.x.shape[1]))
    z = np.full((plan.chains, len(recipe.model.names)), np.nan)
    return sample(key, tuning, problem, plan, z, windows, t, progress)


def info_of(
    model: Model,
    sampled: Sampled,
    latent: np.ndarray,
    snapshots: Sequence[Snapshot],
    step: int,
    start: float,
    settings: dict[str, str],
) -> ChainInfo:
    """What a person wants to know: ``latent`` are draws of ``f``, ``(draws, N)``, ``snapshots`` those just used."""
    draws, plan = sampled.draws, sampled.plan
    found = diagnose(np.asarray(draws.z), np.asarray(latent).reshape(plan.chains, plan.draws, -1), model.names)
    updates = {name: _update_info(slices) for name, slices in sampled.counts.items()}
    missing = sum(int(np.isnan(snapshot.y).sum()) for snapshot in snapshots)
    size = sum(snapshot.y.size for snapshot in snapshots)
    warnings = [*sampled.remarks, *remarks(updates, found, plan.chains * plan.draws, missing, size, sampled.remedy)]
    return ChainInfo(
        t=snapshots[-1].t,
        step=step,
        seconds=time.perf_counter() - start - sampled.compile_seconds,
        compile_seconds=sampled.compile_seconds,
        updates=updates,
        rhat=found.rhat,
        ess=found.ess,
        ess_tail=found.ess_tail,
        chains=plan.chains,
        missing=missing,
        settings=settings,
        log_likelihood=float(np.mean(draws.log_likelihood)),
        warnings=tuple(warnings),
        extras={"draw_seconds": sampled.draw_seconds},
    )


def _update_info(slices: SliceInfo) -> UpdateInfo:
    counts = (slices.updates, slices.evaluations, slices.capped)
    updates, evaluations, capped = (int(count) for count in counts)
    events = slices.events
    spread = float(slices.spread) / max(updates, 1)
    failed, raised = int(events.not_positive_definite), int(events.jitter_raised)
    return UpdateInfo(updates, evaluations, capped, failed, raised, spread)


def merge(values: ArrayLike) -> np.ndarray:
    """The draws of all chains in one axis."""
    return np.asarray(values).reshape(values.shape[0] * values.shape[1], *values.shape[2:])


def _check_start(chains: Chains, t: float) -> None:
    found = log_likelihoods(chains)
    bad = found[~np.isfinite(found)]
    if len(bad):
        what = "+inf" if np.all(bad > 0) else "NaN or -inf" if not np.any(bad > 0) else "NaN, -inf or +inf"
        raise SamplerError(
            f"likelihood returned {what} at the start of step t = {t}: none of {CANDIDATES} draws "
            f"from the prior gives the data a finite density, in {len(bad)} of {len(found)} chains; check the data, "
            "the likelihood's support and the priors"
        )


def _reporter(progress: Progress | None, plan: Plan):
    if progress is None:
        return None
    total, done = plan.chains * (plan.warmup + plan.draws), 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        progress(done / total)

    return report
