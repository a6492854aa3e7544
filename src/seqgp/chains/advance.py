"""The chains of a step: started, advanced in pieces of one compiled size, each in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key

from seqgp.chains.plan import Plan
from seqgp.linalg.factor import cholesky
from seqgp.linalg.types import Array, ArrayLike
from seqgp.mcmc.moves import repeated
from seqgp.mcmc.target import Position, position_at
from seqgp.mcmc.updates import Updates
from seqgp.models.model import Model
from seqgp.runtime import stopping
from seqgp.runtime.engine import compiled, compiled_function, in_threads
from seqgp.target.carry import WindowPrior
from seqgp.target.problem import Problem, target_of

CANDIDATES = 32  # drawn for the start of a chain; the best is taken


class Draws(NamedTuple):
    """What the chains of a step produced: ``(chains, n, …)``."""

    z: Float[ArrayLike, "chains n d"]
    sites: Float[ArrayLike, "chains n size"]
    log_likelihood: Float[ArrayLike, "chains n"]


class Recipe(NamedTuple):
    """What is compiled in: a model and two of the axes of choice (the third travels with the problem)."""

    model: Model
    carry: WindowPrior
    updates: Updates


def _start(recipe: Recipe, problem: Problem, tuning: Any, first: bool, key, z, window) -> Position:
    """A position to start from: the best of a few draws of the prior of the latent (and, at first, of ``z``)."""
    target = target_of(recipe.model, recipe.carry, problem).given_window(window)
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


def _rebase(recipe: Recipe, problem: Problem, tuning: Any, position: Position, window) -> Position:
    """The same point in the chart of another tuning."""
    target = target_of(recipe.model, recipe.carry, problem).given_window(window)
    chart = recipe.updates.chart_at(target, position.z, tuning)
    return position_at(target, position.z, position.nu, chart)


def _advance(recipe: Recipe, problem: Problem, tuning: Any, plan: Plan, key, position: Position, windows):
    """Advance a chain by one draw per window: the draws, and what the updates cost, added up."""
    step, updates = target_of(recipe.model, recipe.carry, problem), recipe.updates

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
    structure: Any = eqx.field(static=True)

    @classmethod
    def of(cls, counts: Any) -> Totals:
        """The sum of each leaf."""
        leaves, structure = jax.tree.flatten(counts)
        return cls(jnp.stack([jnp.sum(leaf).astype(float) for leaf in leaves]), structure)


def _added_up(totals: list[Totals]) -> Any:
    """The tree of the sums."""
    values = np.sum([np.asarray(one.values) for one in totals], axis=0)
    return jax.tree.unflatten(totals[0].structure, values.tolist())


class Chains(NamedTuple):
    """Chains under way."""

    recipe: Recipe
    problem: Problem
    plan: Plan
    positions: list[Position]  # one a chain
    compile_seconds: float


def start(
    key: Key[Array, ""],
    recipe: Recipe,
    problem: Problem,
    plan: Plan,
    tuning: Any,
    z: Float[ArrayLike, "chains d"],
    windows: Float[ArrayLike, "chains tau S"],
) -> Chains:
    """Start the chains at ``z`` (at first, from its prior), each with its first window."""
    keys = jax.random.split(key, plan.chains)
    ready = [compiled(_start, recipe, problem, tuning, plan.first, *each) for each in zip(keys, z, windows)]
    positions = in_threads([run for run, _ in ready])
    return Chains(recipe, problem, plan, positions, sum(seconds for _, seconds in ready))


def rebase(chains: Chains, tuning: Any, windows: Float[ArrayLike, "chains tau S"]) -> Chains:
    """The chains where they are, with another tuning."""
    recipe, problem = chains.recipe, chains.problem
    ready = [compiled(_rebase, recipe, problem, tuning, *each) for each in zip(chains.positions, windows)]
    seconds = chains.compile_seconds + sum(seconds for _, seconds in ready)
    return chains._replace(positions=in_threads([run for run, _ in ready]), compile_seconds=seconds)


def advance(
    key: Key[Array, ""],
    chains: Chains,
    tuning: Any,
    windows: Float[ArrayLike, "chains n tau S"],
    progress: Callable[[int], None] | None = None,
) -> tuple[Chains, Draws, dict[str, Any]]:
    """One draw of every chain for each of its windows: the chains, the draws, and what each kind of update cost."""
    plan = chains.plan
    pieces = windows.shape[1] // plan.piece
    keys = jax.random.split(key, (plan.chains, pieces))
    compiling: list[float] = []

    def run_chain(chain: int):
        position, parts, run = chains.positions[chain], [], None
        for i in range(pieces):
            stopping.check()
            inputs = keys[chain, i], position, windows[chain, i * plan.piece : (i + 1) * plan.piece]
            if run is None:
                run, spent = compiled_function(_advance, (chains.recipe, chains.problem, tuning, plan), inputs)
                compiling.append(spent)
            position, draws, totals = run(*inputs)
            parts.append((draws, totals))
            if progress is not None:
                progress(plan.piece)
        return position, parts

    results = in_threads([lambda chain=chain: run_chain(chain) for chain in range(plan.chains)])
    joined = [_join([draws for draws, _ in parts]) for _, parts in results]
    draws = jax.tree.map(lambda *leaves: np.stack(leaves), *joined)
    counts = _added_up([totals for _, parts in results for _, totals in parts])
    seconds = chains.compile_seconds + sum(compiling)
    return chains._replace(positions=[position for position, _ in results], compile_seconds=seconds), draws, counts


def _join(parts: list[Draws]) -> Draws:
    return jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *parts)
