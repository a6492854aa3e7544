"""The chains of a step: started, advanced in pieces of one compiled size, spread over lanes and threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key

from seqgp.linalg.factor import cholesky
from seqgp.mcmc.moves import repeated
from seqgp.mcmc.target import Position, position_at
from seqgp.models.model import Model
from seqgp.models.types import Array
from seqgp.runtime.engine import compiled, in_threads, prepared
from seqgp.target.problem import Assembly, Problem, assemble, target_of

CANDIDATES = 32  # drawn for the start of a chain; the best is taken


class Draws(NamedTuple):
    """What the chains of a step produced: ``(chains, n, …)``."""

    z: Float[Array, "chains n d"]
    sites: Float[Array, "chains n size"]
    log_likelihood: Float[Array, "chains n"]


class Setting(NamedTuple):
    """What is compiled in: a model and two of the axes of choice (the third travels with the problem)."""

    model: Model
    carry: Any
    updates: Any


class Plan(NamedTuple):
    """How much to sample: per chain, ``warmup`` draws are dropped and ``draws`` kept, each after ``thin`` sweeps."""

    chains: int
    lanes: int
    warmup: int
    draws: int
    thin: int
    piece: int  # draws per call of the compiled function
    first: bool  # the initial sample


def _lanes(function: Callable, lanes: int) -> Callable:
    """Over the leading axis of the arguments: vectorised, or squeezed where there is one lane."""
    if lanes > 1:
        return jax.vmap(function)

    def single(*args):
        return jax.tree.map(lambda leaf: leaf[None], function(*jax.tree.map(lambda leaf: leaf[0], args)))

    return single


def _begin(setting: Setting, problem: Problem, tuning: Any, plan: Plan, keys, z, windows) -> Position:
    """Positions to start from: the best of a few draws of the prior of the latent (and, at first, of ``z``)."""
    assembly = assemble(setting.model, setting.carry, problem)

    def one(key, z, window):
        target = target_of(assembly, window)
        root = cholesky(target.covariance)

        def chart_of(at):
            return setting.updates.chart_at(target, at, tuning)

        known = None if plan.first else chart_of(z)  # factored once for all candidates

        def candidate(key) -> Position:
            key_z, key_nu = jax.random.split(key)
            at = z
            if known is None:
                at = target.mean + root @ jax.random.normal(key_z, target.mean.shape, target.mean.dtype)
            chart = chart_of(at) if known is None else known
            coordinates = jax.random.normal(key_nu, (target.size,), target.covariance.dtype)
            return position_at(target, at, chart.centre() + chart.centred_nu(coordinates), chart)

        def better(best: Position, key):
            new = candidate(key)
            take = new.log_likelihood > best.log_likelihood
            return jax.tree.map(lambda a, b: jnp.where(take, a, b), new, best), None

        key_first, key_rest = jax.random.split(key)
        rest = jax.random.split(key_rest, CANDIDATES - 1)
        best, _ = jax.lax.scan(better, candidate(key_first), rest)
        return best

    return _lanes(one, plan.lanes)(keys, z, windows)


def _rebase(setting: Setting, problem: Problem, tuning: Any, lanes: int, positions: Position, windows) -> Position:
    """The same points in the charts of another tuning."""
    assembly = assemble(setting.model, setting.carry, problem)

    def one(position, window):
        target = target_of(assembly, window)
        chart = setting.updates.chart_at(target, position.z, tuning)
        return position_at(target, position.z, position.nu, chart)

    return _lanes(one, lanes)(positions, windows)


def _advance(setting: Setting, problem: Problem, tuning: Any, plan: Plan, keys, positions: Position, windows):
    """Advance each lane by one draw per window: the draws, and what the updates cost, added up."""
    assembly = assemble(setting.model, setting.carry, problem)
    updates = setting.updates

    def one(key, position, windows):
        def draw(position, inputs):
            key, window = inputs
            key_settle, key_sweep = jax.random.split(key)
            target = target_of(assembly, window)
            if not plan.first:  # the target of an initial sample stays the same
                position = updates.settle(key_settle, target, position, tuning)

            sweep = repeated(lambda key, position: updates.sweep(key, target, position, tuning, plan.first))
            position, infos = sweep(key_sweep, position, plan.thin)
            return position, (Draws(position.z, position.sites, position.log_likelihood), infos)

        keys = jax.random.split(key, plan.piece)
        position, (draws, infos) = jax.lax.scan(draw, position, (keys, windows))
        return position, draws, infos

    positions, draws, infos = _lanes(one, plan.lanes)(keys, positions, windows)
    return positions, draws, Totals.of(infos)


class Totals(eqx.Module):
    """A tree of counts as one vector: there are many of them, and each array that is handed over takes its time."""

    values: Float[Array, " k"]
    structure: Any = eqx.field(static=True)

    @classmethod
    def of(cls, counts: Any) -> Totals:
        leaves, structure = jax.tree.flatten(counts)
        return cls(jnp.stack([jnp.sum(leaf).astype(float) for leaf in leaves]), structure)


def _added_up(totals: list[Totals]) -> Any:
    """The tree of the sums."""
    values = np.sum([np.asarray(one.values) for one in totals], axis=0)
    return jax.tree.unflatten(totals[0].structure, values.tolist())


class Chains(NamedTuple):
    """Chains under way."""

    setting: Setting
    problem: Problem
    plan: Plan
    groups: list[Position]
    compile_seconds: float


def begin(
    key: Key[Array, ""],
    setting: Setting,
    problem: Problem,
    plan: Plan,
    tuning: Any,
    z: np.ndarray,
    windows: Array,
) -> Chains:
    """Start the chains at ``z`` (at first, from its prior), each with its first window."""
    keys = jax.random.split(key, plan.chains)
    seconds = 0.0
    tasks = []
    for group in _groups(plan):
        run, spent = compiled(_begin, setting, problem, tuning, plan, keys[group], z[group], windows[group])
        seconds += spent
        tasks.append(run)
    return Chains(setting, problem, plan, in_threads(tasks), seconds)


def rebase(chains: Chains, tuning: Any, windows: Array) -> Chains:
    """The chains where they are, with another tuning."""
    plan, tasks, seconds = chains.plan, [], chains.compile_seconds
    for group, position in zip(_groups(plan), chains.groups):
        run, spent = compiled(_rebase, chains.setting, chains.problem, tuning, plan.lanes, position, windows[group])
        seconds += spent
        tasks.append(run)
    return chains._replace(groups=in_threads(tasks), compile_seconds=seconds)


def advance(
    key: Key[Array, ""],
    chains: Chains,
    tuning: Any,
    windows: Float[Array, "chains n tau S"],
    progress: Callable[[int], None] | None = None,
) -> tuple[Chains, Draws, dict[str, Any]]:
    """One draw of every chain for each of its windows."""
    plan = chains.plan
    pieces = windows.shape[1] // plan.piece
    keys = jax.random.split(key, (plan.chains, pieces))
    compiling: list[float] = []

    def run_group(group: slice, position: Position):
        parts, run = [], None
        for i in range(pieces):
            inputs = keys[group, i], position, windows[group, i * plan.piece : (i + 1) * plan.piece]
            if run is None:
                run, spent = prepared(_advance, (chains.setting, chains.problem, tuning, plan), inputs)
                compiling.append(spent)
            position, draws, totals = run(*inputs)
            parts.append((draws, totals))
            if progress is not None:
                progress(plan.piece * plan.lanes)
        return position, parts

    groups = _groups(plan)
    tasks = [lambda g=g, p=p: run_group(g, p) for g, p in zip(groups, chains.groups)]
    results = in_threads(tasks)
    draws = jax.tree.map(
        lambda *leaves: np.concatenate(leaves, axis=0),
        *(_join([draws for draws, _ in parts]) for _, parts in results),
    )
    counts = _added_up([totals for _, parts in results for _, totals in parts])
    seconds = chains.compile_seconds + sum(compiling)
    return (
        chains._replace(groups=[position for position, _ in results], compile_seconds=seconds),
        draws,
        counts,
    )


def _join(parts: list[Draws]) -> Draws:
    return jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves], axis=1), *parts)


def _groups(plan: Plan) -> list[slice]:
    return [slice(start, start + plan.lanes) for start in range(0, plan.chains, plan.lanes)]


__all__ = ["Assembly", "Chains", "Draws", "Plan", "Setting", "advance", "begin"]
