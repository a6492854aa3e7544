"""The online sampler: exact in the limit of particles, for as long as the stream runs."""

from __future__ import annotations

import functools
import numbers
import time
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key

from seqgp.base.errors import DataError, ModelError, SamplerError
from seqgp.base.info import OnlineInfo
from seqgp.base.snapshot import Snapshot
from seqgp.base.validation import is_whole, positive, require_x64
from seqgp.kernels.base import Parameters
from seqgp.kernels.states import ORDER
from seqgp.likelihoods.base import fill_missing
from seqgp.linalg.types import Array
from seqgp.model import Model
from seqgp.monitoring.monitor import Monitor
from seqgp.runtime.engine import compiled
from seqgp.runtime.progress import Progress
from seqgp.samplers.ibis import Particles, systematic
from seqgp.samplers.online.black_box import by_values
from seqgp.samplers.online.filters import Spent
from seqgp.samplers.online.history import begin
from seqgp.samplers.online.info import online_info
from seqgp.samplers.online.layout import LatentOption, check_latent
from seqgp.samplers.online.loo import loo_of_step
from seqgp.samplers.online.pending import Pending
from seqgp.samplers.online.predictive import draws_at_data
from seqgp.samplers.online.programs import entries_on_grid
from seqgp.samplers.online.revise import list_of_late, movement, revise_filters, revised_history
from seqgp.samplers.online.state import Live, OnlineState
from seqgp.samplers.online.stations import check_by_station, station_noise_of
from seqgp.samplers.online.step import OnlineStep, StepSettings, past_of
from seqgp.samplers.online.watch import FALSE_ALARMS, Watch, checked_rate, checked_robust
from seqgp.samplers.online.watched import revised_info, watched_step
from seqgp.samplers.proposals import log_normal, normal_points
from seqgp.samplers.validation import check_snapshot, check_state, check_together, model_digest
from seqgp.statespace.linearise import check_linearisable
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.shared_lengthscales import nested_grid, snap, snapped_log_density

MIN_PARTICLES = 16  # particles
MOST = 10_000  # paths
MIN_HISTORY = 10  # snapshots of a bounded history
MIN_NOISE_RATIO = (
    5e-7  # noise over the sd of the latent: of squares, which covariances hold, no digits are left soon below it
)


class OnlineSampler:
    """Posterior draws of the latent function and the parameters after each snapshot; no error accumulates over steps.

    The sampler is IBIS: each particle is a value of the parameters with a weight and its own filter. When the effective
    sample size is low, the sampler draws new particles near the good ones and runs their filters over the data so far.

    Args:
        model: the model. Its time kernel needs a state-space form: Matérn kernels have one, and the sampler fits one to
            other kernels (``info.extras["kernel_error"]``). A likelihood that is not pointwise (a solver) must have a
            mean and a variance; the sampler linearises it at each snapshot, with derivatives where JAX has them, and
            from values alone for a black box (``jax.pure_callback``).
        particles: the number of particles; a power of two suits the Sobol points best.
        draws: the number of posterior draws after each snapshot.
        history: the number of snapshots to keep, for streams without end (memory holds up to three times as many for a
            while); all by default. A quadratic in the parameters summarises what is older.
        forget: the discount of the past's evidence about the *parameters* at each step: 1 for constant parameters, 0.99
            for parameters that drift over about a hundred steps.
        latent: the representation of the latent function: ``"auto"`` (stations, grids, or knots for inputs that move),
            ``Dense()`` (stations, never knots), ``Grid()`` or ``Knots(…)``.
        order: the order of the state that approximates a smooth time kernel, at most 10; the lowest one to try for a
            kernel of your own.
        paths: for data that are not Gaussian, the number of paths of the latent function that correct the error of EP:
            ``"auto"``, or a number; 0 is EP of each snapshot alone, which is faster but not exact. Gaussian data need
            none; ``info.exact.why`` says where paths have no effect.
        robust: what to do with the values of stations that the monitor flags (Gaussian data): ``"flag"`` keeps them,
            ``"exclude"`` treats them as missing, ``"downweight"`` inflates their noise; see ``seqgp.monitor``.
        false_alarms: the monitor's largest rate of false alarms, per 1000 readings of a station.
    """

    def __init__(
        self,
        model: Model,
        particles: int = 256,
        draws: int = 1000,
        history: int | None = None,
        forget: float = 1.0,
        latent: LatentOption = "auto",
        order: int = ORDER,
        paths: int | str = "auto",
        robust: str = "flag",
        false_alarms: float = FALSE_ALARMS,
    ):
        require_x64()
        if not isinstance(model, Model):
            raise SamplerError(f"OnlineSampler: expected a seqgp.Model, got {type(model).__name__}")
        check_by_station(model, history, forget, latent)
        self.model = model
        self.particles = positive("particles", particles, least=MIN_PARTICLES)
        self.draws = positive("draws", draws)
        self.history = None if history is None else positive("history", history, least=MIN_HISTORY)
        if not (isinstance(forget, numbers.Real) and 0 < forget <= 1):
            raise SamplerError(f"OnlineSampler: forget = {forget!r} is not a number above 0 and at most 1")
        self.forget = float(forget)
        check_latent(latent)
        self.latent = latent
        self.order = positive("order", order)
        self.paths = _checked_paths(paths)
        if self.paths == "auto" and (model.likelihood.conjugate or self.approximate()):
            self.paths = 0  # they have no effect
        self.robust, self.false_alarms = checked_robust(model, robust), checked_rate(false_alarms)
        self._ssm = StateSpaceModel(model, self.order)
        self.fingerprint = model_digest(model)

    @property
    def ssm(self) -> StateSpaceModel:
        """The model as a state-space model."""
        return self._ssm

    def check_likelihood(self, snapshot: Snapshot | None) -> bool:
        """Whether JAX differentiates the likelihood; raises unless filters take its data. Nothing is compiled."""
        likelihood = self.model.likelihood
        if likelihood.conjugate and snapshot is not None:
            self._check_noise(snapshot)
        if likelihood.pointwise:
            if snapshot is None or likelihood.conjugate:
                return True
            context = likelihood.context_at(snapshot.t, snapshot.context)
            return not by_values(self.ssm, fill_missing(snapshot.y)[0].reshape(-1), context)
        if snapshot is None:
            raise ModelError("the likelihood sees all of the latent at once, and there is no snapshot to try it on")
        return check_linearisable(self.model, snapshot)

    def _check_noise(self, snapshot: Snapshot) -> None:
        """Raise where data are so exact that the filters' covariances cannot hold what is left to know."""
        parameters, sd = self._centre
        likelihood = self.model.likelihood
        context = likelihood.context_at(snapshot.t, snapshot.context)
        noise = float(np.min(likelihood.noise(*likelihood.typical(len(snapshot.x), context, parameters))))
        if noise < MIN_NOISE_RATIO * sd:
            raise ModelError(
                f"OnlineSampler: a noise of {noise:.2g} is lost in the rounding of the filters' covariances where the "
                f"latent has a standard deviation of {sd:.2g}; give one of at least {MIN_NOISE_RATIO * sd:.1g}, or "
                "take SequentialSampler with latent=Dense() and a smaller Model(jitter=…)"
            )

    @functools.cached_property
    def _centre(self) -> tuple[Parameters, float]:
        """The parameters at the centre of their priors, and the sd of the latent there."""
        parameters = jax.tree.map(np.asarray, self.ssm.parameters(jnp.asarray(self.ssm.particle_prior()[0])))
        return parameters, self.ssm.sd(parameters)

    def init(
        self, key: Key[Array, ""], snapshot: Snapshot, progress: Progress | None = None
    ) -> tuple[OnlineState, OnlineInfo]:
        """The draws after the first snapshot."""
        check_snapshot(self.model, snapshot)
        self.check_likelihood(snapshot)
        check_together(key, snapshot, particles=self.particles)
        return self._watched(None, snapshot, lambda treated: self._begun(key, treated, progress))

    def _begun(
        self, key: Key[Array, ""], snapshot: Snapshot, progress: Progress | None
    ) -> tuple[OnlineState, OnlineInfo]:
        start = time.perf_counter()
        rng, key_draws = _generators(key)
        step = OnlineStep.first(self._settings, rng, self._from_prior(rng, snapshot), snapshot, progress)
        if not self.model.likelihood.pointwise:
            step.recentre()
        return self._finished(key_draws, step, start, _ahead(step))

    def _from_prior(self, rng: np.random.Generator, snapshot: Snapshot) -> Particles:
        """Particles of the prior; where those of a network share eigenvectors, with lengthscales on a grid."""
        mean, sd = self.ssm.particle_prior()
        z = normal_points(rng, mean, sd, self.particles) if len(mean) else np.zeros((self.particles, 0))
        proposal, none = log_normal(z, mean, sd), np.zeros(self.particles)
        first = begin(self.ssm, self.latent, snapshot).filter if self.model.likelihood.conjugate else None
        entries = () if first is None else entries_on_grid(first)
        if entries:
            grid = nested_grid(mean, np.diag(sd**2), entries)
            z = snap(z, grid)
            proposal = snapped_log_density(lambda points: log_normal(points, mean, sd), z, grid)
        return Particles(z, log_normal(z, mean, sd), none, none, proposal, 0.0)

    def step(
        self, key: Key[Array, ""], state: OnlineState, snapshot: Snapshot, progress: Progress | None = None
    ) -> tuple[OnlineState, OnlineInfo]:
        """The draws after a further snapshot."""
        check_snapshot(self.model, snapshot)
        self._check(state, snapshot)
        self.check_likelihood(snapshot)
        check_together(key, snapshot, state.particles.z, particles=self.particles)
        state = state._replace(live=state.revived(self.model))
        return self._watched(state.watch, snapshot, lambda treated: self._advanced(key, state, treated, progress))

    def _advanced(
        self, key: Key[Array, ""], state: OnlineState, snapshot: Snapshot, progress: Progress | None
    ) -> tuple[OnlineState, OnlineInfo]:
        start = time.perf_counter()
        rng, key_draws = _generators(key)
        before, live = state.particles.advanced(self.forget), state.revived(self.model)
        past, pending = past_of(state), Pending(state.pending, live.pending)
        step = OnlineStep(self._settings, rng, before, live, past, pending, progress)
        step.update(snapshot)
        return self._finished(key_draws, step, start, state.log_evidence + _ahead(step), state.revisions)

    def revise(
        self, key: Key[Array, ""], state: OnlineState, snapshots: Iterable[Snapshot], progress: Progress | None = None
    ) -> tuple[OnlineState, OnlineInfo]:
        """The state after late or corrected snapshots, as if all data had come in order.

        A snapshot at a new time enters at its place in the history. One at a known time replaces the known snapshot; if
        all of its ``y`` is missing, it retracts it. The filters of the particles run over the revised history, and the
        weights follow its evidence. ``info.extras`` says what changed and by how much the state moved.

        Args:
            key: a random key.
            state: the last state.
            snapshots: any number of them, in any order, at times up to that of the state. With ``history=``, only
                snapshots that are still kept in full can be revised.
            progress: called with the completed share, from 0 to 1.
        """
        start = time.perf_counter()
        late = list_of_late(snapshots)
        for snapshot in late:
            check_snapshot(self.model, snapshot)
            self.check_likelihood(snapshot)
        self._check_state(state, "revise")
        if self.model.likelihood.by_station:
            raise SamplerError(
                "revise: the noises of stations (by='station') are learnt from the data as they came: run the revised "
                "snapshots anew, or leave by out"
            )
        revision = revised_history(state, late, self.history)
        check_together(key, *late, state.particles.z, particles=self.particles)
        rng, key_draws = _generators(key)
        live = state.revived(self.model)
        past = past_of(state)._replace(correction=None)  # corrections by paths are made anew
        step = OnlineStep(self._settings, rng, state.particles, live, past, Pending(), progress)
        moved = revise_filters(step, revision)
        revisions = state.revisions + 1 - revision.added
        reached, info = self._finished(key_draws, step, start, state.log_evidence + moved, revisions, revised=True)
        if state.watch is not None:
            watch = state.watch.revised(late, state.snapshots)
            reached, info = reached._replace(watch=watch), revised_info(info, watch, reached, self.robust)
        return reached, info._replace(
            seconds=time.perf_counter() - start - info.compile_seconds,
            extras=info.extras | revision.extras() | movement(live, state, reached),
        )

    def refresh(
        self, key: Key[Array, ""], state: OnlineState, progress: Progress | None = None
    ) -> tuple[OnlineState, OnlineInfo]:
        """The state with weights corrected by paths over all data so far; unchanged where ``paths`` has no effect."""
        start = time.perf_counter()
        self._check_state(state, "refresh")
        check_together(key, state.particles.z, particles=self.particles)
        rng, key_draws = _generators(key)
        live = state.revived(self.model)
        step = OnlineStep(self._settings, rng, state.particles, live, past_of(state), Pending(), progress)
        if not self._paths():
            return state, online_info(state, step, 0, None, time.perf_counter() - start, self.approximate())
        step.refresh()
        reached, info = self._finished(key_draws, step, start, state.log_evidence, state.revisions)
        return reached._replace(watch=state.watch), info

    def approximate(self) -> str:
        """Why the weights are not exact in the limit of many particles; empty where they are or can be."""
        likelihood = self.model.likelihood
        if likelihood.conjugate:
            return ""
        if not likelihood.pointwise:
            return "the likelihood sees all of the latent, and is linearised at each snapshot"
        if self.forget != 1:
            return "forget < 1: a power of the past's evidence has no estimate without bias"
        if self.model.kernel.advected:
            return "seqgp.Advected: its field moves on Fourier modes, which paths do not follow"
        return "" if self.paths else "paths=0: EP of each snapshot alone"

    def _paths(self) -> int | str:
        return 0 if self.model.likelihood.conjugate or self.approximate() else self.paths

    @property
    def _settings(self) -> StepSettings:
        return StepSettings(self.ssm, self.latent, self.forget, self._paths())

    def _finished(
        self, key, step: OnlineStep, start: float, log_evidence: float, revisions: int = 0, revised: bool = False
    ) -> tuple[OnlineState, OnlineInfo]:
        """Rejuvenate the particles, draw for people, and say what happened."""
        lost = int(np.isneginf(step.particles.log_increment).sum())
        if step.draws is None:
            step.refresh_where_due()
        if revised:
            step.rejuvenate()
        else:
            step.rejuvenate_over_steps()
        step.check_rank(forced=revised)
        ratios = None if self.model.likelihood.pointwise else step.correct()
        if self.history is not None and len(step.history.snapshots) >= 3 * self.history:
            step.trim(self.history)
        particles, history, snapshot = step.particles, step.history, step.history.snapshots[-1]
        particle = systematic(step.rng, particles.weights(), self.draws)
        step.rng.shuffle(particle)
        if step.draws is not None:
            drawn = step.draws.draws(step.rng, particle)
        elif ratios is None:
            drawn, seconds = draws_at_data(key, history, step.filters, particle)
            step.spend(Spent(0, seconds))
        else:
            drawn = ratios.draws(step.rng, particle)
        own = particles.z[particle]
        latent, parameters, z = self._named(own[:, : len(self.ssm.in_particles)], drawn, step)
        _check_finite(latent, snapshot.t)
        log_evidence = particles.log_evidence() if self.forget == 1 else log_evidence
        state = OnlineState(
            snapshot.t, step.number + revisions, latent, parameters, z, particle, particles, step.past.evaluated_at,
            log_evidence, {"order": self.order, "latent": self.latent, "network": history.plan._asdict()},
            self.fingerprint, history.snapshots, step.past.dropped,
            step.past.memory, history.linearised_snapshots, step.past.correction, revisions,
            Live(history, step.filters, step.pending.filters), step.pending.particles,
            station_noise=station_noise_of(self.ssm, history, own) if self.model.likelihood.by_station else None,
        )  # fmt: skip
        loo, seconds = loo_of_step(history, step.filters, particles.weights())
        step.spend(Spent(0, seconds))
        info = online_info(state, step, lost, ratios, time.perf_counter() - start, self.approximate())
        return state, info._replace(loo=loo)

    def _watched(
        self, watch: Watch | None, snapshot: Snapshot, advance: Callable[[Snapshot], tuple[OnlineState, OnlineInfo]]
    ) -> tuple[OnlineState, OnlineInfo]:
        """A step under the eyes of the monitor; one more where it flags values that are not to be used."""
        if not self.model.likelihood.conjugate or self.model.kernel.advected:  # inputs that move are no stations
            return advance(snapshot)
        if watch is None:
            watch = Watch(Monitor(self.false_alarms))
        return watched_step(self.model, self.robust, watch, snapshot, advance)

    def _named(
        self, z: np.ndarray, drawn: np.ndarray, step: OnlineStep
    ) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
        """``f`` at the data, all parameters by name, and all of ``z``."""
        q = len(self.ssm.in_state)
        run, seconds = compiled(_natural, self.ssm, z, drawn[:, :q] / np.asarray(self.ssm.coefficient_scales()))
        step.spend(Spent(0, seconds))
        whole, natural = run()
        return drawn[:, q:], {name: natural[name] for name in self.model.inferred}, np.asarray(whole)

    def _check_state(self, state: OnlineState, caller: str) -> None:
        """Raise unless the state is one that this sampler can go on from."""
        if not isinstance(state, OnlineState):
            raise SamplerError(f"{caller}: expected the state of an OnlineSampler, got {type(state).__name__}")
        check_state(self.model, state, caller)
        if (found := len(state.particles.z)) != self.particles:
            raise SamplerError(
                f"{caller}: the state has {found} particles, but the sampler particles = {self.particles}"
            )

    def _check(self, state: OnlineState, snapshot: Snapshot) -> None:
        """Raise unless the state is one that this step can follow."""
        self._check_state(state, "step")
        if not snapshot.t > state.t:
            raise DataError(
                f"t = {snapshot.t} is not after the last t = {state.t}; late snapshots go to "
                "sampler.revise(key, state, snapshots)"
            )
        if snapshot.x.shape[1] != state.dimension:
            raise DataError(f"Snapshot: x has {snapshot.x.shape[1]} columns, but the last one had {state.dimension}")


def _checked_paths(paths: int | str) -> int | str:
    if isinstance(paths, str) and paths == "auto":
        return paths
    if isinstance(paths, str) or not is_whole(paths, 0) or paths == 1 or paths > MOST:
        raise SamplerError(
            f"OnlineSampler: paths = {paths!r} is neither 'auto', nor 0 (no correction), nor a whole number from 2 to "
            f"{MOST}"
        )
    return int(paths)


def _ahead(step: OnlineStep) -> float:
    """The log predictive density of the last snapshot."""
    return step.particles.log_evidence() - step.particles.log_evidence(0.0)


def _check_finite(latent: Float[np.ndarray, "draws N"], t: float) -> None:
    lost = int((~np.isfinite(latent).all(axis=1)).sum())
    if lost:
        raise SamplerError(
            f"t = {t}: {lost} of {len(latent)} draws of the latent are not finite: the filters' covariances have no "
            "digits left, as with a noise far below the scale; give a larger noise, or take SequentialSampler"
        )


def _natural(ssm: StateSpaceModel, z, coefficients):
    whole = jax.vmap(ssm.whole_z)(z, coefficients)
    return whole, ssm.model.natural(whole)


def _generators(key: Key[Array, ""]) -> tuple[np.random.Generator, Key[Array, ""]]:
    """Random numbers of the particles, and the key of the draws."""
    key_particles, key_draws = jax.random.split(key)
    return np.random.default_rng(np.asarray(jax.random.key_data(key_particles))), key_draws
