"""How much to sample: what a user asked for, checked and spread over chains and pieces; whether it fits into memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from seqgp.base.errors import ModelError, SamplerError
from seqgp.base.validation import positive, require_x64
from seqgp.fields.dense import Dense
from seqgp.mcmc.problem import Problem
from seqgp.mcmc.updates import Updates
from seqgp.model import Model
from seqgp.runtime.engine import cores
from seqgp.runtime.memory import BYTES_PER_FLOAT, check_fits

CALLS_PER_STEP = 25  # progress is shown, and an interrupt heard, that often; warm-up is a whole number of them
DEFAULT_CHAINS = 4  # where the user leaves their number open


class Budget(NamedTuple):
    """How much to sample: what a user asked for, checked."""

    draws: int
    chains: int | None
    warmup: int | None  # sweeps
    thin: int | None


class Plan(NamedTuple):
    """How much to sample: per chain, ``warmup`` draws are dropped and ``draws`` kept, each after ``thin`` sweeps."""

    chains: int
    warmup: int
    draws: int
    thin: int
    piece: int  # draws per call of the compiled function
    first: bool  # the initial sample


def budget_of(who: str, model: Model, draws: int, chains: int | None, warmup: int | None, thin: int | None) -> Budget:
    """The settings that all samplers of chains share, or an error that names the one that cannot be used."""
    require_x64()
    if not isinstance(model, Model):
        raise SamplerError(f"{who}: expected a seqgp.Model, got {type(model).__name__}")
    if model.likelihood.by_station:
        raise ModelError(f"{who} does not take by='station': use seqgp.OnlineSampler, whose particles learn the noises")
    budget = Budget(
        draws=positive("draws", draws),
        chains=None if chains is None else positive("chains", chains),
        warmup=None if warmup is None else positive("warmup", warmup, least=0),
        thin=None if thin is None else positive("thin", thin),
    )
    if budget.chains is not None and budget.draws % budget.chains:
        raise SamplerError(f"{who}: draws = {draws} is not divisible by chains = {chains}")
    return budget


def plan_of(budget: Budget, updates: Updates, first: bool) -> Plan:
    """The plan of the initial sample (``first``) or of a later step."""
    schedule = updates.schedule(first)
    chains = budget.chains or divisor_near(budget.draws, DEFAULT_CHAINS)
    draws = budget.draws // chains
    piece = divisor_near(draws, max(1, draws // CALLS_PER_STEP))
    sweeps = schedule.warmup if budget.warmup is None else budget.warmup
    if first:
        thin = schedule.thin if budget.thin is None else budget.thin
        warmup = -(-sweeps // thin)
    else:
        thin = 1
        warmup = max(min(10, sweeps // 10), schedule.least)
    return Plan(chains, -(-warmup // piece) * piece, draws, thin, piece, first)


def divisor_near(number: int, wanted: int) -> int:
    """The divisor of a number that is nearest to the one wanted."""
    divisors = [d for d in range(1, number + 1) if number % d == 0]
    return min(divisors, key=lambda d: (abs(d - wanted), -d))


FIRST_MATRICES = 8  # of all sites with all, that a chain has in hand at most
STEP_MATRICES = 4  # the same of window and present, where the window is given
DRAW_MATRICES = 5  # the same, of a prediction: one draw a core after the other


def check_chains(who: str, problem: Problem, budget: Budget) -> None:
    """Raise where covariances between all sites do not fit into memory.

    Args:
        who: the sampler.
        problem: its sites.
        budget: of draws and chains.
    """
    if not isinstance(problem.representation, Dense):
        return
    times, sites = np.shape(problem.x)[:2]
    chains = budget.chains or min(DEFAULT_CHAINS, budget.draws)
    matrices = STEP_MATRICES if times > len(problem.observed) else FIRST_MATRICES
    instead = "latent=seqgp.Knots(…), or seqgp.OnlineSampler" if who == "SequentialSampler" else "seqgp.OnlineSampler"
    check_fits(
        BYTES_PER_FLOAT * chains * matrices * (times * sites) ** 2,
        f"{who}: {chains} chains on {sites} sites at {times} time{'' if times == 1 else 's'} together",
        f"take fewer chains, {instead}",
    )


def check_draws(representation: object, blocks: int, sites: int) -> None:
    """The same of a prediction at ``sites`` inputs beside a window of ``blocks - 1`` times."""
    if isinstance(representation, Dense):
        check_fits(
            BYTES_PER_FLOAT * cores() * DRAW_MATRICES * (blocks * sites) ** 2,
            f"predict: f at {sites} inputs jointly, beside a window of as many sites at {blocks - 1} times,",
            "take fewer inputs at a time",
        )
