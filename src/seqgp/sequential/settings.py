"""From what a user asked for to what is run: names to objects, numbers checked, chains laid out."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from seqgp.chains.chains import Plan, Setting
from seqgp.chains.tuning import is_differentiable
from seqgp.latents.dense import Dense
from seqgp.latents.grid import Grid, SharedGrid
from seqgp.latents.knots import KnotGrid, Knots
from seqgp.mcmc.informed import Informed
from seqgp.mcmc.plain import Plain
from seqgp.models.errors import SamplerError
from seqgp.models.model import Model
from seqgp.models.snapshot import Snapshot
from seqgp.sequential.carry import LevelCarry, PaperCarry
from seqgp.sequential.joint import JointCarry
from seqgp.sequential.state import SequentialState
from seqgp.target.problem import Problem

PIECES = 25  # calls per step: progress is shown, and an interrupt heard, that often; warm-up is a whole number of them


def resolve_updates(updates: Any) -> Any:
    """The set of updates from a name or an object."""
    if isinstance(updates, (Plain, Informed)) or updates == "auto":
        return updates
    named = {"plain": Plain, "informed": Informed}
    if isinstance(updates, str) and updates in named:
        return named[updates]()
    raise SamplerError(
        f"updates = {updates!r}: expected 'auto', 'plain', 'informed', seqgp.Plain(…) or seqgp.Informed(…)"
    )


def choose_updates(updates: Any, setting: Setting, problem: Problem) -> Any:
    """``"auto"``: informed where the likelihood can be differentiated, plain otherwise."""
    if isinstance(updates, Plain):
        return updates
    if is_differentiable(setting, problem):
        return Informed() if updates == "auto" else updates
    if updates == "auto":
        return Plain()
    raise SamplerError(
        "updates = 'informed' needs a likelihood that JAX can differentiate, and this one cannot be (a callback to "
        "NumPy, or a loop that reverse mode does not know?): use updates='plain' or 'auto'"
    )


def resolve_carry(carry: Any) -> Any:
    """The carry from a name or an object."""
    named = {"joint": JointCarry, "level": LevelCarry, "paper": PaperCarry}
    if isinstance(carry, str) and carry in named:
        return named[carry]()
    if isinstance(carry, tuple(named.values())):
        return carry
    raise SamplerError(f"carry = {carry!r}: expected one of {', '.join(map(repr, named))}")


DENSE_UP_TO = 400  # points a snapshot, for "auto"


def resolve_latent(latent: Any, model: Model, snapshot: Snapshot) -> tuple[Any, str]:
    """The representation for a run, and why it was chosen."""
    kernel, x = model.kernel, snapshot.x
    if isinstance(latent, Dense):
        return latent, "asked for"
    if isinstance(latent, (Grid, Knots)):
        return latent.resolve(kernel, x), "asked for"
    if latent != "auto":
        raise SamplerError(f"latent = {latent!r}: expected 'auto', seqgp.Dense(), seqgp.Grid() or seqgp.Knots(…)")
    if len(kernel.terms()) > 1:
        return Dense(), "the kernel is a sum of separable terms"
    grid = Grid().resolve(kernel, x)
    if grid.axes is not None:
        return grid, "x is a product grid and the kernel a product over its axes"
    if len(x) <= DENSE_UP_TO:
        return Dense(), f"at most {DENSE_UP_TO} points, any inputs"
    if not model.likelihood.pointwise:
        return Dense(), "the likelihood sees all of the latent at once"
    if not kernel.terms()[0][1].space.smooth or x.shape[1] > 3:
        return Dense(), "exact for a rough kernel; Knots(interpolation='cubic') is faster for many points"
    return Knots().resolve(kernel, x), f"a smooth kernel, and more than {DENSE_UP_TO} points"


def follow_latent(latent: Any, model: Model, state: SequentialState, snapshot: Snapshot) -> SequentialState:
    """The state in the representation of the next step: ``"auto"`` goes over to shared inputs, and back."""
    held, window = state.representation, state.window
    if latent != "auto" or isinstance(held, KnotGrid) or len(model.kernel.terms()) > 1:
        return state
    if isinstance(held, SharedGrid):
        same = held.accepts(snapshot.x)
        return state if same else state._replace(representation=Dense())
    n = len(snapshot.x)
    shared = all(
        not mask.any() or (mask.sum() == n and mask[:n].all() and np.array_equal(x[:n], snapshot.x))
        for x, mask in zip(window.x, window.mask)
    )
    if not shared:
        return state
    grid = Grid().resolve(model.kernel, snapshot.x)
    order = np.argsort(grid.order)  # sites of the grid, in the order of the window
    known = np.asarray(window.mask.any(axis=1))
    trimmed = window._replace(
        x=np.repeat(grid.points[None], len(window.times), axis=0),
        mask=np.repeat(known[:, None], n, axis=1),
        f=jnp.asarray(window.f)[:, :, :n][:, :, order],
    )
    return state._replace(representation=grid, window=trimmed)


def plan_of(sampler: Any, representation: Any, updates: Any, first: bool) -> Plan:
    """How the draws are spread over chains, lanes and pieces."""
    informed = isinstance(updates, Informed)
    chains = sampler.chains or divisor_near(sampler.draws, 4)
    draws = sampler.draws // chains
    piece = divisor_near(draws, max(1, draws // PIECES))
    default_thin, default_warmup = (1, 200) if informed else (5, 500)
    thin = (default_thin if sampler.thin is None else sampler.thin) if first else 1
    sweeps = default_warmup if sampler.warmup is None else sampler.warmup
    warmup = -(-sweeps // thin) if first else max(min(10, sweeps // 10), updates.adapt if informed else 0)
    warmup = -(-warmup // piece) * piece  # whole pieces
    return Plan(chains, 1, warmup, draws, thin, piece, first)


def divisor_near(number: int, wanted: int) -> int:
    """The divisor of a number that is nearest to the one wanted."""
    divisors = [d for d in range(1, number + 1) if number % d == 0]
    return min(divisors, key=lambda d: (abs(d - wanted), -d))
