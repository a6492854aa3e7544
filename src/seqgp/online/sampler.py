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
from seqgp.online.history import Timeline, begin, laid_out
from seqgp.online.memory import Memory, remembered
from seqgp.online.points import log_normal, normal_points
from seqgp.online.predictive import draws_at_data
from seqgp.online.renewal import Evaluated, Renewal, Workshop, settled
from seqgp.online.state import Live, OnlineState
from seqgp.runtime.engine import compiled
from seqgp.samplers.checks import check_snapshot, check_state, model_digest, positive, require_x64
from seqgp.samplers.info import Info
from seqgp.samplers.protocol import Progress

FEWEST = 16  # particles
FEWEST_KEPT = 10  # snapshots of a bounded history
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
        history: how many snapshots are kept, for streams without end (up to three times as many are in memory for a
            while); all by default. What was before them is remembered about the parameters as a quadratic.
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
        history: int | None = None,
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
        self.history = None if history is None else positive("history", history, least=FEWEST_KEPT)
        if not (isinstance(forget, (int, float)) and 0 < forget <= 1):
            raise SamplerError(f"OnlineSampler: forget = {forget!r} is not a number above 0 and at most 1")
        self.forget = float(forget)
        self.latent = latent
        self.order = positive("order", order)
        check_filterable(model, self.order)
        self._system = System(model, self.order)
        self.fingerprint = model_digest(model)

    @property
    def system(self) -> System:
        """The model as a linear system in time."""
        return self._system

    def init(
        self, key: Key[Array, ""], snapshot: Snapshot, progress: Progress | None = None
    ) -> tuple[OnlineState, Info]:
        """The draws after the first snapshot."""
        check_snapshot(self.model, snapshot)
        start = time.perf_counter()
        rng, key_draws = _generators(key)
        history = begin(self.system, self.latent, snapshot)
        mean, sd = self.system.cloud_prior()
        z = normal_points(rng, mean, sd, self.particles) if len(mean) else np.zeros((self.particles, 0))
        bank, increments, spent = born(history, z, 1)
        prior = log_normal(z, mean, sd)
        cloud = Cloud(z, prior, np.zeros(self.particles), increments[:, 0], prior, 0.0)
        now = _Step(history, bank, cloud, 1, 0.0, 0, None, spent, start, progress)
        return self._finished(key_draws, rng, now, False)

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
            before = before._replace(log_evidence=self._evidence(before.z, increments, state.dropped, state.memory))
            last = increments[:, -1]
        else:
            bank, last, spent = advanced(history, live.bank)
        cloud, evidence = before._replace(last=last), state.log_evidence
        now = _Step(history, bank, cloud, state.born, evidence, state.dropped, state.memory, spent, start, progress)
        return self._finished(key_draws, rng, now, history.rebuilt)

    def _finished(self, key, rng: np.random.Generator, now: _Step, forced: bool) -> tuple[OnlineState, Info]:
        """The cloud settled, draws for people, and what happened."""
        history, steps = now.history, now.dropped + len(now.history.snapshots)
        snapshot = history.snapshots[-1]
        _check_alive(now.cloud, snapshot)
        lost = int(np.isneginf(now.cloud.last).sum())
        ahead = now.cloud.log_total() - now.cloud.log_total(0.0)
        spent = _Count(now.spent)
        workshop = Workshop(
            functools.partial(self._evaluate, now, spent),
            chosen,
            either,
            self.system.cloud_prior(),
        )
        cloud, bank, renewals = settled(rng, now.cloud, now.bank, workshop, forced)
        at = steps if renewals else now.born
        if self.history is not None and len(history.snapshots) >= 3 * self.history:
            now, bank = self._trimmed(now, cloud, spent)
            history, at = now.history, steps
        log_evidence = cloud.log_total() if self.forget == 1 else now.log_evidence + ahead
        particle = systematic(rng, cloud.weights(), self.draws)
        rng.shuffle(particle)
        latent, parameters, z, seconds = self._drawn(key, history, bank, cloud, particle)
        spent.add(Spent(0, seconds))
        state = OnlineState(
            snapshot.t, steps, latent, parameters, z, particle, cloud, at, log_evidence,
            {"order": self.order, "latent": self.latent}, self.fingerprint, history.snapshots, now.dropped, now.memory,
            Live(history, bank),
        )  # fmt: skip
        return state, self._info(state, now, spent.total, renewals, lost)

    def _evaluate(self, now: _Step, spent: _Count, z: np.ndarray) -> Evaluated:
        """Filters of new values of ``z`` over all data that are kept."""
        bank, increments, cost = born(now.history, z, len(now.history.snapshots))
        spent.add(cost)
        if now.progress is not None:
            now.progress(1 - 0.5 ** (1 + spent.rounds))
        evidence = self._evidence(z, increments, now.dropped, now.memory)
        return Evaluated(bank, evidence, increments[:, -1], cost.filter_steps)

    def _evidence(self, z: np.ndarray, increments: np.ndarray, dropped: int, memory: Memory | None) -> np.ndarray:
        """The log evidence of all data before the last snapshot, each step further back counting less by ``forget``."""
        since = increments[:, :-1] if memory is None else increments[:, memory.anchor - dropped : -1]
        ages = np.arange(since.shape[1], 0, -1)
        found = since @ self.forget ** ages.astype(float)
        return found if memory is None else found + self.forget ** float(len(ages)) * memory.log_evidence(z)

    def _trimmed(self, now: _Step, cloud: Cloud, spent: _Count) -> tuple[_Step, Bank]:
        """The oldest snapshots dropped: what they said about the parameters is kept as a quadratic."""
        assert self.history is not None
        snapshots = now.history.snapshots
        keep = 2 * self.history
        anchor = now.dropped + len(snapshots) - self.history
        _, increments, cost = born(now.history, cloud.z, len(snapshots))
        spent.add(cost)
        until = increments[:, : anchor - now.dropped + 1]  # one more: the last column is left out
        evidence = self._evidence(cloud.z, until, now.dropped, now.memory)
        memory = remembered(anchor, cloud.z, evidence, cloud.weights())
        history = laid_out(self.system, self.latent, snapshots[-keep:])
        bank, _, cost = born(history, cloud.z, keep)
        spent.add(cost)
        dropped = now.dropped + len(snapshots) - keep
        return now._replace(history=history, dropped=dropped, memory=memory), bank

    def _drawn(self, key, history: Timeline, bank: Bank, cloud: Cloud, particle: np.ndarray):
        """The level at the data and all parameters of each draw."""
        system, n = self.system, len(history.snapshots[-1].x)
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
        if self.system.error > TOLD_ERROR:
            warnings.append(
                f"the time kernel's state of order {self.order} is off by up to {self.system.error:.1e} of the "
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
            extras={"kernel_error": self.system.error, "filter_steps": spent.filter_steps, "lost": lost},
            log_evidence=state.log_evidence,
            log_evidence_se=float(np.sqrt(cloud.total_variance())),
            effective=cloud.effective(),
            renewals=renewals,
        )

    def _check(self, state: OnlineState, snapshot: Snapshot) -> None:
        """Raise unless the state is one that this step can follow."""
        if not isinstance(state, OnlineState):
            raise SamplerError(f"step: expected the state of an OnlineSampler, got {type(state).__name__}")
        check_state(self.model, state, "step")
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

    history: Timeline
    bank: Bank
    cloud: Cloud
    born: int
    log_evidence: float
    dropped: int
    memory: Memory | None
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
