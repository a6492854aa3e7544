"""From what a user asked for to what is run: names to objects, numbers checked, chains laid out."""

from __future__ import annotations

import numbers
from typing import Any

from seqgp.latents.dense import Dense
from seqgp.latents.grid import Grid
from seqgp.mcmc.plain import Plain
from seqgp.models.errors import SamplerError
from seqgp.models.model import Model
from seqgp.models.snapshot import Snapshot
from seqgp.sequential.carry import LevelCarry, PaperCarry
from seqgp.sequential.chains import Plan

PIECES = 10  # calls per step: progress is shown, and an interrupt heard, that often


def positive(name: str, value: Any, least: int = 1) -> int:
    """A whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise SamplerError(f"{name} = {value!r} is not a whole number >= {least}")
    return int(value)


def resolve_updates(updates: Any) -> Any:
    """The set of updates from a name or an object."""
    if updates == "plain":
        return Plain()
    if isinstance(updates, Plain):
        return updates
    raise SamplerError(f"updates = {updates!r}: expected 'plain' or seqgp.Plain(…)")


def resolve_carry(carry: Any) -> Any:
    """The carry from a name or an object."""
    named = {"paper": PaperCarry, "level": LevelCarry}
    if isinstance(carry, str) and carry in named:
        return named[carry]()
    if isinstance(carry, tuple(named.values())):
        return carry
    raise SamplerError(f"carry = {carry!r}: expected one of {', '.join(map(repr, named))}")


def resolve_latent(latent: Any, model: Model, snapshot: Snapshot) -> tuple[Any, str]:
    """The representation for a run, and why it was chosen."""
    if latent == "auto" or isinstance(latent, Dense):
        return Dense(), "asked for" if isinstance(latent, Dense) else "exact for any kernel and any inputs"
    if isinstance(latent, Grid):
        return latent.resolve(model.kernel, snapshot.x), "asked for"
    raise SamplerError(f"latent = {latent!r}: expected 'auto', seqgp.Dense(), seqgp.Grid() or seqgp.Knots(…)")


def plan_of(sampler: Any, representation: Any, first: bool) -> Plan:
    """How the draws are spread over chains, lanes and pieces."""
    chains = sampler.chains or divisor_near(sampler.draws, 4)
    draws = sampler.draws // chains
    piece = divisor_near(draws, max(1, draws // PIECES))
    thin = (5 if sampler.thin is None else sampler.thin) if first else 1
    sweeps = 500 if sampler.warmup is None else sampler.warmup
    warmup = -(-sweeps // thin) if first else min(10, sweeps // 10)
    warmup = -(-warmup // piece) * piece  # whole pieces
    return Plan(chains, 1, warmup, draws, thin, piece, first)


def divisor_near(number: int, wanted: int) -> int:
    """The divisor of a number that is nearest to the one wanted."""
    divisors = [d for d in range(1, number + 1) if number % d == 0]
    return min(divisors, key=lambda d: (abs(d - wanted), -d))
