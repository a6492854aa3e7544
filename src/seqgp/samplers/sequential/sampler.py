"""The sequential sampler: an exact initial sample, then one step per snapshot at a cost that does not grow."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key

from seqgp.base.errors import DataError, SamplerError
from seqgp.base.info import ChainInfo
from seqgp.base.snapshot import Snapshot
from seqgp.base.validation import positive
from seqgp.fields.choice import choose_latent
from seqgp.fields.protocol import Latent, LatentChoice
from seqgp.fields.sites import Observe, Window, first_window
from seqgp.kernels.delayed import refuse_moving
from seqgp.linalg.types import Array, ArrayLike
from seqgp.mcmc.chains import Recipe
from seqgp.mcmc.jitter import jitter_remarks
from seqgp.mcmc.plan import Plan, budget_of, check_chains, plan_of
from seqgp.mcmc.problem import Problem, initial_problem, step_problem
from seqgp.mcmc.sample import Sampled, choose_updates, info_of, merge, recipe_of, sample, sample_first, tune
from seqgp.mcmc.updates import Updates
from seqgp.means.base import covariate_effect
from seqgp.model import Model
from seqgp.runtime.engine import compiled
from seqgp.runtime.progress import Progress
from seqgp.samplers.sequential.state import SequentialState, moments_of_z
from seqgp.samplers.validation import check_snapshot, check_state, check_together, model_digest


class SequentialSampler:
    """Posterior draws of the latent function and the parameters after each snapshot, by MCMC: the paper's algorithm.

    A step keeps the draws of the last ``tau`` times as they are, and takes the parameters for independent of them, with
    a Gaussian prior of their moments. So it never revisits the past and counts what it says about the parameters anew:
    over long runs they drift away from the exact posterior, by standard deviations, and no diagnostic of a single run
    shows it (``seqgp.replicate`` does). ``OnlineSampler`` loses nothing.

    Args:
        model: the model.
        draws: how many draws to keep at each time.
        tau: the number of past times that the latent function of the present conditions on.
        chains: the number of chains; it must divide ``draws``.
        warmup: sweeps per chain to discard before the initial sample; a tenth of it (at most 10) before later steps.
        thin: sweeps per draw of the initial sample.
        latent: the representation of the latent function: ``"auto"``, ``Dense()``, ``Grid()`` or ``Knots(…)``.
        updates: the MCMC updates of a sweep: ``"auto"`` (informed where the likelihood can be differentiated),
            ``"informed"``, ``"plain"`` (the paper's), or an object with settings, ``Informed(…)``, ``Plain(…)``.
    """

    def __init__(
        self,
        model: Model,
        draws: int = 1000,
        tau: int = 1,
        chains: int | None = None,
        warmup: int | None = None,
        thin: int | None = None,
        latent: str | Latent | LatentChoice = "auto",
        updates: str | Updates = "auto",
    ):
        self._budget = budget_of("SequentialSampler", model, draws, chains, warmup, thin)
        refuse_moving(model.kernel, "SequentialSampler")
        self._latent = choose_latent(latent)
        self._updates = choose_updates(updates)
        self._used: Updates | None = None
        # A store remembers all that is public here, and compares it when the run goes on.
        self.model = model
        self.draws, self.chains, self.warmup, self.thin = self._budget
        self.tau = positive("tau", tau)
        self.latent = latent
        self.updates = self._updates or "auto"
        self.fingerprint = model_digest(model)

    def init(
        self, key: Key[Array, ""], snapshot: Snapshot, progress: Progress | None = None
    ) -> tuple[SequentialState, ChainInfo]:
        """The initial sample: exact draws from the posterior given the first snapshot."""
        start = time.perf_counter()
        check_snapshot(self.model, snapshot)
        check_together(key, snapshot)
        representation, why = self._latent.begin(self.model, snapshot.x)
        problem, sites = initial_problem(self.model, representation, snapshot)
        check_chains("SequentialSampler", problem, self._budget)
        recipe = self._recipe(problem)
        sampled = sample_first(key, recipe, problem, self._budget, snapshot.t, progress)
        windows = np.zeros((sampled.plan.chains * sampled.plan.draws, 0, len(sites.mask)))
        sampled, draws = _step_draws(self.model, sampled, sites.observe, problem, windows)
        window = first_window(self.tau, snapshot.t, sites, draws.f0[:, -1])
        state = self._state(snapshot, 1, draws, window, representation)
        return state, self._info(state, sampled, problem, snapshot, start, why)

    def step(
        self, key: Key[Array, ""], state: SequentialState, snapshot: Snapshot, progress: Progress | None = None
    ) -> tuple[SequentialState, ChainInfo]:
        """The draws after a further snapshot, from those of the step before (Algorithm 2)."""
        start = time.perf_counter()
        check_snapshot(self.model, snapshot)
        check_step(self.model, self.tau, state, snapshot, self.fingerprint)
        check_together(key, snapshot, state.z)
        key_shuffle, key_sample = jax.random.split(key)
        representation, window, why = self._latent.follow(self.model, state.representation, state.window, snapshot.x)
        stepped = representation.step_sites(snapshot.x, window, state.latent.shape[1], self.model.likelihood.pointwise)
        previous = _shuffled(key_shuffle, state._replace(window=stepped.window))
        moments = moments_of_z(self.model, previous)
        problem = step_problem(self.model, representation, moments, stepped, snapshot)
        check_chains("SequentialSampler", problem, self._budget)
        recipe = self._recipe(problem)
        per_draw = np.asarray(previous.window.f)
        if len(per_draw) != self.draws:
            raise SamplerError(f"step: the state has {len(per_draw)} draws, but the sampler draws = {self.draws}")
        tuning = tune(recipe, problem, per_draw.mean(axis=0))
        plan = plan_of(self._budget, tuning.tuned.updates, first=False)
        windows, z = self._conditioning(previous, per_draw, plan)
        sampled = sample(key_sample, tuning, problem, plan, z, windows, snapshot.t, progress)
        kept = merge(np.asarray(windows)[:, plan.warmup :])
        sampled, draws = _step_draws(self.model, sampled, stepped.sites.observe, problem, kept)
        times, x, mask = (np.asarray(part)[1:] for part in (problem.times, problem.x, problem.mask))
        moved = Window(times, x, mask, draws.f0[:, 1:])
        after = self._state(snapshot, state.step + 1, draws, moved, representation)
        return after, self._info(after, sampled, problem, snapshot, start, why)

    def _recipe(self, problem: Problem) -> Recipe:
        """What is compiled in; which updates ``"auto"`` means is found once."""
        if self._used is None:
            self._used = recipe_of(self.model, self._updates, problem).updates
        return Recipe(self.model, self._used)

    def _info(
        self, state: SequentialState, sampled: Sampled, problem: Problem, snapshot: Snapshot, start: float, why: str
    ) -> ChainInfo:
        settings = {"latent": state.representation.name, "why": why, "updates": sampled.updates}
        info = info_of(self.model, sampled, np.asarray(state.latent), [snapshot], state.step, start, settings)
        centre = np.asarray(sampled.draws.z).mean(axis=(0, 1))
        accuracy, about_latent = state.representation.report(self.model, jnp.asarray(centre), snapshot.x)
        effect, about_jitter = jitter_remarks(self.model, problem, centre)
        warnings = (*info.warnings, *about_latent, *about_jitter)
        return info._replace(extras=info.extras | accuracy | effect, warnings=warnings)

    def _conditioning(
        self, previous: SequentialState, per_draw: np.ndarray, plan: Plan
    ) -> tuple[np.ndarray, np.ndarray]:
        """What each draw of the chains conditions on, and where they start: warm-up takes the last ones first."""
        windows = per_draw.reshape(plan.chains, plan.draws, *per_draw.shape[1:])
        warm = windows[:, np.arange(-plan.warmup, 0) % plan.draws]
        z = np.asarray(previous.z).reshape(plan.chains, plan.draws, -1)[:, 0]
        return np.concatenate([warm, windows], axis=1), z

    def _state(
        self, snapshot: Snapshot, step: int, draws: StepDraws, window: Window, representation: Latent
    ) -> SequentialState:
        latent = draws.f[:, : len(snapshot.x)]
        parameters = {name: draws.parameters[name] for name in self.model.inferred}  # in the model's order
        return SequentialState(snapshot.t, step, latent, parameters, draws.z, window, representation, self.fingerprint)


class StepDraws(NamedTuple):
    """The draws of a step as a user and the next step want them."""

    f0: Float[ArrayLike, "draws B S"]  # of window and present, zero-mean
    f: Float[ArrayLike, "draws N"]  # at the data
    parameters: Mapping[str, ArrayLike]  # in natural units
    z: Float[ArrayLike, "draws d"]


def _step_draws(
    model: Model, sampled: Sampled, observe: Observe, problem: Problem, windows: np.ndarray
) -> tuple[Sampled, StepDraws]:
    """From the chains' draws, in one compiled call, whose seconds of compilation are added to those of ``sampled``.

    As arrays of NumPy: JAX would compile every slice of them, for each number of data of its own.
    """
    sites, z = merge(sampled.draws.sites), merge(sampled.draws.z)
    run, seconds = compiled(_natural, model, observe, problem.observed[-1].columns, windows, sites, z)
    return sampled._replace(compile_seconds=sampled.compile_seconds + seconds), jax.tree.map(np.asarray, run())


def _natural(model: Model, observe: Observe, columns: dict, windows: Array, sites: Array, z: Array) -> StepDraws:
    mean = model.means(z)
    f0 = jnp.concatenate([windows, sites[:, None, :]], axis=1)
    f = jax.vmap(observe)(f0[:, -1]) + mean[:, None]
    if columns:
        f = f + jax.vmap(lambda one: covariate_effect(columns, model.parameters(one)))(z)
    return StepDraws(f0, f, model.natural(z), z)


def _shuffled(key: Key[Array, ""], state: SequentialState) -> SequentialState:
    """The draws in another order, so that the chains of a step condition on draws of all chains of the last."""
    order = np.asarray(jax.random.permutation(key, state.draws))
    parameters = {name: np.asarray(values)[order] for name, values in state.parameters.items()}
    window = state.window._replace(f=np.asarray(state.window.f)[order])
    return state._replace(z=np.asarray(state.z)[order], parameters=parameters, window=window)


def check_step(model: Model, tau: int, state: SequentialState, snapshot: Snapshot, fingerprint: str) -> None:
    """Raise unless the state is one that this step can follow."""
    if not isinstance(state, SequentialState):
        raise SamplerError(f"step: expected the state of a previous step, got {type(state).__name__}")
    if state.fingerprint != fingerprint:
        check_state(model, state, "step")
    if len(state.window.times) != tau:
        raise SamplerError(f"step: the state carries a window of {len(state.window.times)} times, but tau = {tau}")
    if not snapshot.t > state.t:
        raise DataError(
            f"t = {snapshot.t} is not after the last t = {state.t}; SequentialSampler keeps no past: leave late data "
            "out, or take OnlineSampler"
        )
    if snapshot.x.shape[1] != state.dimension:
        raise DataError(f"Snapshot: x has {snapshot.x.shape[1]} columns, but the last one had {state.dimension}")
