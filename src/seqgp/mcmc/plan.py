"""How much to sample: what a user asked for, checked, and how it is spread over chains and pieces."""

from __future__ import annotations

from typing import NamedTuple

from seqgp.base.errors import ModelError, SamplerError
from seqgp.base.validation import positive, require_x64
from seqgp.mcmc.updates import Updates
from seqgp.model import Model

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
