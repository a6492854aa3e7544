"""One problem sampled: chains started, warmed up (finding what is then frozen), drawn from, and reported on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Key

from seqgp.chains import chains as chains_
from seqgp.chains.chains import Chains, Draws, Plan, Setting
from seqgp.chains.diagnostics import diagnose, remarks
from seqgp.chains.tuning import Tuned, retune, tune
from seqgp.mcmc.elliptical import SliceInfo
from seqgp.mcmc.informed import Informed
from seqgp.models.errors import SamplerError
from seqgp.models.model import Model
from seqgp.models.snapshot import Snapshot
from seqgp.models.types import Array
from seqgp.samplers.info import Info, UpdateInfo
from seqgp.target.problem import Problem

Progress = Callable[[float], None]
STAGES = (0.2, 0.5, 1.0)  # of the warm-up of informed updates


class Sampled(NamedTuple):
    """The draws of a problem, and what they cost."""

    draws: Draws
    counts: dict[str, Any]
    plan: Plan
    compile_seconds: float
    draw_seconds: float  # of the draws that were kept: no tuning, no warm-up
    updates: str
    remarks: tuple[str, ...]


def sample(
    key: Key[Array, ""],
    setting: Setting,
    problem: Problem,
    plan: Plan,
    z: np.ndarray,
    windows: np.ndarray,
    t: float,
    progress: Progress | None,
) -> Sampled:
    """Start the chains at ``z`` (at first, from its prior), warm up, and draw once per window."""
    key_begin, key_warm, key_draw = jax.random.split(key, 3)
    report = _reporter(progress, plan)
    tuned = tune(setting, problem, windows.mean(axis=(0, 1)))
    chains = chains_.begin(key_begin, tuned.setting, problem, plan, tuned.tuning, z, windows[:, 0])
    _check_start(chains, t)
    if plan.warmup:
        chains, tuned = _warm_up(key_warm, chains, tuned, problem, windows, report)
    start, compiled = time.perf_counter(), chains.compile_seconds
    chains, draws, counts = chains_.advance(key_draw, chains, tuned.tuning, windows[:, plan.warmup :], report)
    drawing = time.perf_counter() - start - (chains.compile_seconds - compiled)
    seconds = chains.compile_seconds + tuned.compile_seconds
    return Sampled(draws, counts, plan, seconds, drawing, tuned.setting.updates.name, tuned.remarks)


def _warm_up(
    key: Key[Array, ""], chains: Chains, tuned: Tuned, problem: Problem, windows: np.ndarray, report
) -> tuple[Chains, Tuned]:
    """The sweeps that are dropped. What is frozen is found anew after each stage, nearer to where the posterior is."""
    plan, updates = chains.plan, tuned.setting.updates
    staged = isinstance(updates, Informed) and (plan.first or updates.adapt > 0)
    pieces = plan.warmup // plan.piece
    ends = sorted({max(1, round(share * pieces)) for share in (STAGES if staged else (1.0,))})
    start = 0
    for stage, end in enumerate(plan.piece * e for e in ends):
        key_stage = jax.random.fold_in(key, stage) if staged else key
        chains, warm, _ = chains_.advance(key_stage, chains, tuned.tuning, windows[:, start:end], report)
        if plan.first or staged:
            tuned = retune(tuned, problem, warm, windows.mean(axis=(0, 1)), settled=end == plan.warmup)
            chains = chains_.rebase(chains, tuned.tuning, windows[:, end])
        start = end
    return chains, tuned


def sample_first(
    key: Key[Array, ""], setting: Setting, problem: Problem, plan: Plan, t: float, progress: Progress | None
) -> Sampled:
    """Sample a problem without a window, from the prior of ``z``."""
    windows = np.zeros((plan.chains, plan.warmup + plan.draws, 0, problem.x.shape[1]))
    z = np.full((plan.chains, len(setting.model.names)), np.nan)
    return sample(key, setting, problem, plan, z, windows, t, progress)


def info_of(
    model: Model,
    sampled: Sampled,
    latent: np.ndarray,
    snapshots: Sequence[Snapshot],
    step: int,
    start: float,
    settings: dict[str, str],
) -> Info:
    """What a person wants to know: ``latent`` are the levels, ``(draws, N)``, ``snapshots`` those just used."""
    draws, plan = sampled.draws, sampled.plan
    found = diagnose(draws.z, np.asarray(latent).reshape(plan.chains, plan.draws, -1), model.names)
    updates = {name: _update_info(slices) for name, slices in sampled.counts.items()}
    missing = sum(int(np.isnan(snapshot.y).sum()) for snapshot in snapshots)
    size = sum(snapshot.y.size for snapshot in snapshots)
    warnings = [*sampled.remarks, *remarks(updates, found, plan.chains * plan.draws, missing, size)]
    return Info(
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


def merge(values: np.ndarray) -> np.ndarray:
    """The draws of all chains in one axis."""
    return np.asarray(values).reshape(values.shape[0] * values.shape[1], *values.shape[2:])


def _check_start(chains: Chains, t: float) -> None:
    found = np.concatenate([np.asarray(group.log_likelihood) for group in chains.groups])
    if not np.isfinite(found).all():
        what = "NaN or -inf" if np.all(found < 0) else "+inf"
        raise SamplerError(
            f"likelihood returned {what} at the start of step t = {t}: none of {chains_.CANDIDATES} draws "
            "from the prior gives the data a finite density; check the data, the likelihood's support and the priors"
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
