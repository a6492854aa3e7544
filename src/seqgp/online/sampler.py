"""The online sampler: exact in the limit of particles, for as long as the stream runs."""

from __future__ import annotations

import functools
import time
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Key

from seqgp.filtering.system import System, check_filterable
from seqgp.models.errors import DataError, SamplerError
from seqgp.models.model import Model
from seqgp.models.snapshot import Snapshot
from seqgp.models.states import ORDER
from seqgp.models.types import Array
from seqgp.online.bank import Bank, Spent, advanced, born, chosen, either
from seqgp.online.cloud import Cloud, systematic
from seqgp.online.history import History, begin
from seqgp.online.points import log_normal, normal_points
from seqgp.online.predictive import draws_at_data
from seqgp.online.renewal import Evaluated, Renewal, Workshop, settled
from seqgp.online.state import Live, OnlineState
from seqgp.runtime.engine import compiled
from seqgp.samplers.checks import check_snapshot, digest, positive, require_x64
from seqgp.samplers.info import Info
from seqgp.samplers.protocol import Progress

FEWEST = 16  # particles
TOLD_ERROR = 1e-3  # of a time correlation, beyond which it is warned about


class OnlineSampler:
    """Draws from the posterior of latent and parameters after each snapshot, without any approximation that adds up.

    A cloud of values of the parameters, each with a weight and its own exact filter. Where too few weights count, new
    values are drawn from a distribution fitted to the cloud, and their filters run over the data so far.

    Args:
        model: the model; its time kernel must be a state (Matérn, squared exponential, rational quadratic with a known
            alpha, sums and products), its likelihood pointwise.
        particles: how many values of the parameters; a power of two fills space best.
        draws: how many draws to give at each time.
        forget: by how much the evidence of the past about the *parameters* is discounted at each step: 1 for parameters
            that stay, 0.99 for ones that drift over about a hundred steps.
        latent: where the latent lives: ``"auto"`` (stations as they come, grids, knots for inputs that move), or
            ``Grid()``, ``Knots(…)``.
        order: of the state that approximates a smooth time kernel.
    """

    def __init__(
        self,
        model: Model,
        particles: int = 256,
        draws: int = 1000,
        forget: float = 1.0,
        latent: Any = "auto",
        order: int = ORDER,
    ):
        require_x64()
        if not isinstance(model, Model):
            raise SamplerError(f"OnlineSampler: expected a seqgp.Model, got {type(model).__name__}")
        self.model = model
        self.particles = positive("particles", particles, least=FEWEST)
        self.draws = positive("draws", draws)
        if not (isinstance(forget, (int, float)) and 0 < forget <= 1):
            raise SamplerError(f"OnlineSampler: forget = {forget!r} is not a number above 0 and at most 1")
        self.forget = float(forget)
        self.latent = latent
        self.order = positive("order", order)
        check_filterable(model, self.order)
        self._system = System(model, self.order)
        self.fingerprint = digest(model)

    def init(
        self, key: Key[Array, ""], snapshot: Snapshot, progress: Progress | None = None
    ) -> tuple[OnlineState, Info]:
        """The draws after the first snapshot."""
        check_snapshot(self.model, snapshot)
        start = time.perf_counter()
        rng, key_draws = _generators(key)
        history = begin(self._system, self.latent, snapshot)
        mean, sd = self._system.cloud_prior()
        z = normal_points(rng, mean, sd, self.particles) if len(mean) else np.zeros((self.particles, 0))
        bank, increments, spent = born(history, z, 1)
        prior = log_normal(z, mean, sd)
        cloud = Cloud(z, prior, np.zeros(self.particles), increments[:, 0], prior, 0.0)
        return self._finished(key_draws, rng, _Step(history, bank, cloud, 1, 0.0, spent, start, progress), False)

    def step(
        self, key: Key[Array, ""], state: OnlineState, snapshot: Snapshot, progress: Progress | None = None
    ) -> tuple[OnlineState, Info]:
        """The draws after a further snapshot."""
        check_snapshot(self.model, snapshot)
        self._check(state, snapshot)
        start = time.perf_counter()
        rng, key_draws = _generators(key)
        live = state.revived(self.model)
        history = live.history.with_snapshot(snapshot)
        before = state.cloud.absorbed(self.forget)
        if history.rebuilt:
            bank, increments, spent = born(history, before.z, len(history.snapshots))
            before = before._replace(log_evidence=self._discounted(increments[:, :-1]))
            last = increments[:, -1]
        else:
            bank, last, spent = advanced(history, live.bank)
        cloud = before._replace(last=last)
        now = _Step(history, bank, cloud, state.born, state.log_evidence, spent, start, progress)
        return self._finished(key_draws, rng, now, history.rebuilt)

    def _finished(self, key, rng: np.random.Generator, now: _Step, forced: bool) -> tuple[OnlineState, Info]:
        """The cloud settled, draws for people, and what happened."""
        history, steps = now.history, len(now.history.snapshots)
        snapshot = history.snapshots[-1]
        _check_alive(now.cloud, snapshot)
        lost = int(np.isneginf(now.cloud.last).sum())
        ahead = now.cloud.log_total() - now.cloud.log_total(0.0)
        spent = _Count(now.spent)
        workshop = Workshop(
            functools.partial(self._evaluate, history, spent, now.progress),
            chosen,
            either,
            self._system.cloud_prior(),
        )
        cloud, bank, renewals = settled(rng, now.cloud, now.bank, workshop, forced)
        log_evidence = cloud.log_total() if self.forget == 1 else now.log_evidence + ahead
        particle = systematic(rng, cloud.weights(), self.draws)
        rng.shuffle(particle)
        latent, parameters, z, seconds = self._drawn(key, history, bank, cloud, particle)
        spent.add(Spent(0, seconds))
        state = OnlineState(
            snapshot.t, steps, latent, parameters, z, particle, cloud, steps if renewals else now.born, log_evidence,
            {"order": self.order, "latent": self.latent}, self.fingerprint, history.snapshots, Live(history, bank),
        )  # fmt: skip
        return state, self._info(state, now, spent.total, renewals, lost)

    def _evaluate(self, history: History, spent: _Count, progress: Progress | None, z: np.ndarray) -> Evaluated:
        """Filters of new values of ``z`` over all data."""
        steps = len(history.snapshots)
        bank, increments, cost = born(history, z, steps)
        spent.add(cost)
        if progress is not None:
            progress(1 - 0.5 ** (1 + spent.rounds))
        # One step further back counts less by a factor.
        return Evaluated(bank, self._discounted(increments[:, :-1]), increments[:, -1], cost.filter_steps)

    def _discounted(self, increments: np.ndarray) -> np.ndarray:
        ages = np.arange(increments.shape[1], 0, -1)
        return increments @ self.forget**ages if self.forget != 1 else increments.sum(axis=1)

    def _drawn(self, key, history: History, bank: Bank, cloud: Cloud, particle: np.ndarray):
        """The level at the data and all parameters of each draw."""
        system, n = self._system, len(history.snapshots[-1].x)
        q = len(system.in_state)
        white = np.array(jax.random.normal(key, (self.draws, q + n)))
        coefficients, latent, seconds = draws_at_data(history, bank, particle, white)
        standard = coefficients / system.coefficient_scales()
        run, more = compiled(_natural, system, cloud.z[particle], standard)
        z, natural = run()
        parameters = {name: natural[name] for name in self.model.inferred}
        return latent, parameters, np.asarray(z), seconds + more

    def _info(self, state: OnlineState, now: _Step, spent: Spent, renewals: tuple[Renewal, ...], lost: int) -> Info:
        cloud, history, snapshot = state.cloud, now.history, now.history.snapshots[-1]
        missing = int(np.isnan(snapshot.y).sum())
        warnings = []
        if self._system.error > TOLD_ERROR:
            warnings.append(
                f"the time kernel's state of order {self.order} is off by up to {self._system.error:.1e} of the "
                "correlation: raise order="
            )
        if missing == snapshot.y.size:
            warnings.append("all of y is missing: the draws are a forecast")
        if lost:
            warnings.append(f"{lost} of {self.particles} particles were lost: the likelihood is NaN or -inf for them")
        return Info(
            t=state.t,
            step=state.step,
            seconds=time.perf_counter() - now.start - spent.compile_seconds,
            compile_seconds=spent.compile_seconds,
            updates={},
            rhat={},
            ess={},
            ess_tail={},
            chains=1,
            missing=missing,
            settings={
                "sampler": "online",
                "latent": history.layout.name,
                "why": history.layout.why,
                "filter": history.path,
            },
            log_likelihood=float("nan"),
            warnings=tuple(warnings),
            extras={"kernel_error": self._system.error, "filter_steps": spent.filter_steps, "lost": lost},
            log_evidence=state.log_evidence,
            log_evidence_se=float(np.sqrt(cloud.total_variance())),
            effective=cloud.effective(),
            renewals=renewals,
        )

    def _check(self, state: OnlineState, snapshot: Snapshot) -> None:
        """Raise unless the state is one that this step can follow."""
        if not isinstance(state, OnlineState):
            raise SamplerError(f"step: expected the state of an OnlineSampler, got {type(state).__name__}")
        if state.fingerprint != self.fingerprint:
            raise SamplerError("step: the state is of another model; use the model that it was sampled with")
        if len(state.cloud.z) != self.particles:
            raise SamplerError(
                f"step: the state has {len(state.cloud.z)} particles, but the sampler particles = {self.particles}"
            )
        if not snapshot.t > state.t:
            raise DataError(f"t = {snapshot.t} is not after the last t = {state.t}")
        if snapshot.x.shape[1] != state.dimension:
            raise DataError(f"Snapshot: x has {snapshot.x.shape[1]} columns, but the last one had {state.dimension}")


class _Step(NamedTuple):
    """A step under way: the snapshot is absorbed, the cloud not yet settled."""

    history: History
    bank: Bank
    cloud: Cloud
    born: int
    log_evidence: float
    spent: Spent
    start: float
    progress: Progress | None


class _Count:
    """Costs, added up as they come."""

    def __init__(self, spent: Spent):
        self.total = spent
        self.rounds = 0

    def add(self, spent: Spent) -> None:
        self.total += spent
        self.rounds += 1


def _natural(system: System, z, coefficients):
    whole = jax.vmap(system.whole_z)(z, coefficients)
    return whole, system.model.natural(whole)


def _generators(key: Key[Array, ""]) -> tuple[np.random.Generator, Key[Array, ""]]:
    """Random numbers of the cloud, and the key of the draws."""
    key_cloud, key_draws = jax.random.split(key)
    return np.random.default_rng(np.asarray(jax.random.key_data(key_cloud))), key_draws


def _check_alive(cloud: Cloud, snapshot: Snapshot) -> None:
    if not np.isfinite(cloud.log_weights()).any():
        raise SamplerError(
            f"likelihood returned NaN or -inf for all {len(cloud.z)} particles at t = {snapshot.t}; check the data, "
            "the likelihood's support and the priors"
        )
