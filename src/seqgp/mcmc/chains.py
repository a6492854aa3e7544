"""The chains of a step: started, advanced in pieces of one compiled size, on all cores or on all devices.

Of several processes (``jax.distributed``) each has its share of the chains, and all of them the draws of all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key, PyTree

from seqgp.linalg.factor import cholesky
from seqgp.linalg.types import Array, ArrayLike
from seqgp.mcmc.moves import SweepInfo, repeated
from seqgp.mcmc.plan import Plan
from seqgp.mcmc.problem import Problem, target_of
from seqgp.mcmc.target import Position, position_at
from seqgp.mcmc.updates import Updates
from seqgp.model import Model
from seqgp.runtime import stopping
from seqgp.runtime.engine import compiled_function, in_threads
from seqgp.runtime.parallel import gathered, one_by_one, placed, share, spread

CANDIDATES = 32  # drawn for the start of a chain; the best is taken


class Draws(NamedTuple):
    """What the chains of a step produced: ``(chains, n, …)``."""

    z: Float[ArrayLike, "chains n d"]
    sites: Float[ArrayLike, "chains n size"]
    log_likelihood: Float[ArrayLike, "chains n"]


class Recipe(NamedTuple):
    """What is compiled in: a model and its updates (the representation travels with the problem)."""

    model: Model
    updates: Updates


def _start(recipe: Recipe, problem: Problem, tuning: PyTree, first: bool, key, z, window) -> Position:
    """A position to start from: the best of a few draws of the prior of the latent (and, at first, of ``z``)."""
    target = target_of(recipe.model, problem).given_window(window)
    root = cholesky(target.covariance)

    def chart_of(at):
        return recipe.updates.chart_at(target, at, tuning)

    known = None if first else chart_of(z)  # factored once for all candidates

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


def _rebase(recipe: Recipe, problem: Problem, tuning: PyTree, position: Position, window) -> Position:
    """The same point in the chart of another tuning."""
    target = target_of(recipe.model, problem).given_window(window)
    chart = recipe.updates.chart_at(target, position.z, tuning)
    return position_at(target, position.z, position.nu, chart)


def _advance(recipe: Recipe, problem: Problem, tuning: PyTree, plan: Plan, key, position: Position, windows):
    """Advance a chain by one draw per window: the draws, and what the updates cost, added up."""
    step, updates = target_of(recipe.model, problem), recipe.updates

    def draw(position, inputs):
        key, window = inputs
        key_transfer, key_sweep = jax.random.split(key)
        target = step.given_window(window)
        if not plan.first:  # the target of an initial sample stays the same
            position = updates.transfer(key_transfer, target, position, tuning)

        sweep = repeated(lambda key, position: updates.sweep(key, target, position, tuning, plan.first))
        position, infos = sweep(key_sweep, position, plan.thin)
        return position, (Draws(position.z, position.sites, position.log_likelihood), infos)

    keys = jax.random.split(key, plan.piece)
    position, (draws, infos) = jax.lax.scan(draw, position, (keys, windows))
    return position, draws, Totals.of(infos)


class Totals(eqx.Module):
    """A tree of counts as one vector: there are many of them, and each array that is handed over takes its time."""

    values: Float[Array, " k"]
    structure: Hashable = eqx.field(static=True)  # of the tree

    @classmethod
    def of(cls, counts: SweepInfo) -> Totals:
        """The sum of each leaf."""
        leaves, structure = jax.tree.flatten(counts)
        return cls(jnp.stack([jnp.sum(leaf).astype(float) for leaf in leaves]), structure)


def _added_up(totals: list[Totals], plan: Plan) -> SweepInfo:
    """The tree of the sums over all chains."""
    mine = np.concatenate([np.atleast_2d(one.values) for one in totals]).sum(axis=0)
    processes = plan.chains // _count(plan)
    values = gathered(mine[None], processes).sum(axis=0)
    return jax.tree.unflatten(totals[0].structure, values.tolist())


class Chains(NamedTuple):
    """Chains under way."""

    recipe: Recipe
    problem: Problem
    plan: Plan
    positions: list[Position]  # one a chain of this process; or one of arrays (chains, …), if devices share them
    compile_seconds: float


def log_likelihoods(chains: Chains) -> Float[np.ndarray, " chains"]:
    """Where the chains are."""
    mine = np.concatenate([np.atleast_1d(position.log_likelihood) for position in chains.positions])
    return gathered(mine, chains.plan.chains)


def _members(plan: Plan) -> list[int | slice]:
    """Which chains are run together: each alone in a thread, or all, where each device has as many of them."""
    mine = share(plan.chains)
    return [mine] if spread(_count(plan)) else list(range(mine.start, mine.stop))


def _count(plan: Plan) -> int:
    """How many of the chains are those of this process."""
    mine = share(plan.chains)
    return mine.stop - mine.start


def _ready(function: Callable, fixed: tuple, plan: Plan, inputs: tuple) -> tuple[Callable[..., PyTree], float]:
    """``function(*fixed, *inputs)`` compiled for the chains that are run together: what is ready takes ``*inputs``."""
    count = _count(plan)
    if not spread(count):
        return compiled_function(function, fixed, inputs)
    run, seconds = compiled_function(one_by_one, (function, fixed), placed(inputs, count))
    return lambda *inputs: run(*placed(inputs, count)), seconds


def _once(function: Callable, fixed: tuple, plan: Plan, inputs: list[tuple]) -> tuple[list[Position], float]:
    """The positions that a function finds from the inputs of each chain, or of all, and the seconds of compiling."""
    ready = [_ready(function, fixed, plan, each) for each in inputs]
    positions = in_threads([lambda run=run, each=each: run(*each) for (run, _), each in zip(ready, inputs)])
    return positions, sum(seconds for _, seconds in ready)


def start(
    key: Key[Array, ""],
    recipe: Recipe,
    problem: Problem,
    plan: Plan,
    tuning: PyTree,
    z: Float[ArrayLike, "chains d"],
    windows: Float[ArrayLike, "chains tau S"],
) -> Chains:
    """Start the chains at ``z`` (at first, from its prior), each with its first window."""
    keys = jax.random.split(key, plan.chains)
    inputs = [(keys[which], z[which], windows[which]) for which in _members(plan)]
    positions, seconds = _once(_start, (recipe, problem, tuning, plan.first), plan, inputs)
    return Chains(recipe, problem, plan, positions, seconds)


def rebase(chains: Chains, tuning: PyTree, windows: Float[ArrayLike, "chains tau S"]) -> Chains:
    """The chains where they are, with another tuning."""
    inputs = [(position, windows[which]) for position, which in zip(chains.positions, _members(chains.plan))]
    positions, seconds = _once(_rebase, (chains.recipe, chains.problem, tuning), chains.plan, inputs)
    return chains._replace(positions=positions, compile_seconds=chains.compile_seconds + seconds)


def advance(
    key: Key[Array, ""],
    chains: Chains,
    tuning: PyTree,
    windows: Float[ArrayLike, "chains n tau S"],
    progress: Callable[[int], None] | None = None,
) -> tuple[Chains, Draws, SweepInfo]:
    """One draw of every chain for each of its windows: the chains, the draws, and what each kind of update cost."""
    plan = chains.plan
    pieces = windows.shape[1] // plan.piece
    keys = jax.random.split(key, (plan.chains, pieces))
    compiling: list[float] = []

    def run_members(position: Position, which: int | slice):
        parts, run = [], None
        for i in range(pieces):
            stopping.check()
            inputs = keys[which, i], position, windows[which, i * plan.piece : (i + 1) * plan.piece]
            if run is None:
                run, spent = _ready(_advance, (chains.recipe, chains.problem, tuning, plan), plan, inputs)
                compiling.append(spent)
            position, draws, totals = run(*inputs)
            parts.append((draws, totals))
            if progress is not None:
                progress(plan.piece * plan.chains // len(members))
        return position, parts

    members = _members(plan)
    tasks = [lambda each=each: run_members(*each) for each in zip(chains.positions, members)]
    results = in_threads(tasks)
    joined = [_join([draws for draws, _ in parts]) for _, parts in results]
    draws = gathered(jax.tree.map(lambda *leaves: np.concatenate(leaves), *joined), plan.chains)
    counts = _added_up([totals for _, parts in results for _, totals in parts], plan)
    seconds = chains.compile_seconds + sum(compiling)
    return chains._replace(positions=[position for position, _ in results], compile_seconds=seconds), draws, counts


def _join(pieces: list[Draws]) -> Draws:
    """The pieces of a chain, or of all, one after the other: ``(chains, n, …)``."""
    alone = np.ndim(pieces[0].log_likelihood) == 1
    join = (lambda *leaves: np.concatenate(leaves)[None]) if alone else (lambda *leaves: np.concatenate(leaves, axis=1))
    return jax.tree.map(lambda *leaves: join(*map(np.asarray, leaves)), *pieces)
