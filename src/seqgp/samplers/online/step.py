"""One step of the online sampler: update the filters, rejuvenate the particles, bound the history."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from seqgp.base.errors import SamplerError
from seqgp.base.snapshot import Snapshot
from seqgp.runtime.progress import Progress
from seqgp.samplers.ibis import MIN_ESS_FRACTION, Evaluated, Particles, ParticleTarget, Rejuvenation, rejuvenate
from seqgp.samplers.online.budget import check_faults
from seqgp.samplers.online.exact import (
    Correction,
    ExactFilters,
    PathDraws,
    SharedHistory,
    choose_exact,
    either_exact,
    evaluate,
    shared_history,
    whole_numbers_of_paths,
)
from seqgp.samplers.online.filters import Filters, Spent, chosen, either, run_filters
from seqgp.samplers.online.gradients import MIN_PARAMETERS, gradient_of
from seqgp.samplers.online.history import Timeline, build_timeline
from seqgp.samplers.online.layout import LatentOption
from seqgp.samplers.online.pending import Pending, advance_pending, may_spread
from seqgp.samplers.online.programs import entries_on_grid
from seqgp.samplers.online.quadratics import Memory, QuadraticFit, discounted_evidence
from seqgp.samplers.online.rank import last_compressed, rank_due, with_accurate_rank
from seqgp.samplers.online.state import Live, OnlineState
from seqgp.samplers.online.station_moves import rejuvenate_stations
from seqgp.samplers.online.stations import stations_after, with_ratios, with_station_room
from seqgp.samplers.online.update import Ratios, UpdatedFilters, central, ratios_of, update_filters
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.network import NetworkFilter
from seqgp.statespace.paths import PATHS

MAX_RECENTRINGS = 2  # times that the linearisation of the first snapshot is found again


class Past(NamedTuple):
    """What a step knows of those before it, besides their data."""

    evaluated_at: int = 1  # the step at which the particles' filters were run over all data
    dropped: int = 0  # snapshots that are no longer kept
    memory: Memory | None = None  # what those said about the parameters
    correction: Correction | None = None  # of the particles by paths

    @property
    def together(self) -> int:
        """How many of the first snapshots that are kept had their sites from the start."""
        return max(2 * self.summarised, 1)

    @property
    def summarised(self) -> int:
        """How many of the snapshots that are kept come before the anchor of a bounded history."""
        return 0 if self.memory is None else self.memory.anchor - self.dropped

    def remembered(self, z: Float[np.ndarray, "S d"]) -> Float[np.ndarray, " S"]:
        """The log evidence of the data up to that anchor."""
        return np.zeros(len(z)) if self.memory is None else self.memory.log_evidence.at(z)


def past_of(state: OnlineState) -> Past:
    """What a state remembers of the past."""
    return Past(state.evaluated_at, state.dropped, state.memory, state.correction)


class StepSettings(NamedTuple):
    """What a step needs to know of its sampler."""

    ssm: StateSpaceModel
    latent: LatentOption  # where the user wants the latent to live
    forget: float  # the discount of the past
    paths: int | str = 0  # of each particle, or "auto"; 0 where particles are not corrected by paths


class OnlineStep:
    """One step in progress, from the arrival of its snapshot to rejuvenated particles with their filters.

    The first step of a run is made by :meth:`first`; others go on from particles and filters that there are.

    Args:
        settings: of the sampler.
        rng: random numbers.
        particles: before the snapshot.
        live: their filters, and the data so far.
        past: what is known of the steps before.
        pending: new particles that have not caught up with the data.
        progress: called with the share that is done.
    """

    def __init__(
        self,
        settings: StepSettings,
        rng: np.random.Generator,
        particles: Particles,
        live: Live,
        past: Past,
        pending: Pending,
        progress: Progress | None,
    ):
        self.ssm, self.latent, self.forget, self.paths = settings
        self.rng, self.particles, self.progress = rng, particles, progress
        self.history, self.filters = live.history, live.filters
        self.past, self.pending = past, pending
        self.shared: SharedHistory | None = None  # with the sites that EP of all particles begins with
        self.draws: PathDraws | None = None  # of a step whose particles are corrected
        self.correcting = False  # new particles, where the old ones are not
        self.spent, self.rounds = Spent(), 0
        self.rejuvenations: tuple[Rejuvenation, ...] = ()

    @classmethod
    def first(
        cls,
        settings: StepSettings,
        rng: np.random.Generator,
        particles: Particles,
        snapshot: Snapshot,
        progress: Progress | None,
    ) -> OnlineStep:
        """The step of the first snapshot, with particles of the prior and filters updated with it."""
        ssm = settings.ssm
        if ssm.model.likelihood.by_station:
            particles = particles._replace(z=with_station_room(ssm, rng, particles.z, stations_after(None, snapshot.x)))
        found = update_filters(ssm, settings.latent, None, particles, snapshot, rng)
        step = cls(settings, rng, particles, Live(found.history, found.filters), Past(), Pending(), progress)
        step._take(found)
        return step

    @property
    def number(self) -> int:
        """Of the step, from 1."""
        return self.past.dropped + len(self.history.snapshots)

    def spend(self, spent: Spent) -> None:
        """Costs, added up as they come."""
        self.spent += spent

    def update(self, snapshot: Snapshot) -> None:
        """The filters of all particles given the snapshot, and its log densities among the weights."""
        if self.ssm.model.likelihood.by_station:
            self._make_room(snapshot)
        live = Live(self.history, self.filters)
        self._take(update_filters(self.ssm, self.latent, live, self.particles, snapshot, self.rng))

    def _take(self, found: UpdatedFilters) -> None:
        """Filters that have been updated with a snapshot, and what they say about the particles."""
        before, increments = self.particles, found.increments
        self.history, self.filters = found.history, found.filters
        self.spend(found.spent)
        if self.history.rebuilt:
            # All filters were run anew, also where the particles have no parameters to rejuvenate.
            self.past = self.past._replace(evaluated_at=self.number)
            increments = increments + self.history.log_corrections(before.z)
            before = before._replace(log_evidences=self._evidence_before(before.z, increments))
        self.particles = before._replace(log_increment=increments[:, -1])
        check_faults(self.history, before, self.particles.log_increment)
        self.check_alive(f"at t = {self.history.snapshots[-1].t}")

    def _make_room(self, snapshot: Snapshot) -> None:
        """Ratios of precisions for stations that join, drawn from each particle's population."""
        d, z = len(self.ssm.in_particles), self.particles.z
        stations = stations_after(self.history, snapshot.x)
        wider = with_station_room(self.ssm, self.rng, z, stations)
        if wider is not z:
            self.particles = self.particles._replace(z=wider)
            self.filters = with_ratios(self.filters, wider[:, d:])

    def check_alive(self, when: str) -> None:
        """Raise where no particle has a weight."""
        if not np.isfinite(self.particles.log_weights()).any():
            raise SamplerError(
                f"likelihood returned NaN or -inf for all {len(self.particles.z)} particles {when}; check the "
                "data, the likelihood's support and the priors"
            )

    def rejuvenate(self, forced: bool = False) -> None:
        """New particles, where too few of the old ones are effective."""
        if self.ssm.model.likelihood.by_station:
            rejuvenate_stations(self, forced)
            return
        prior, past = self.ssm.particle_prior(), self.past
        gradient = gradient_of(self.history, past.memory, past.dropped, self.forget, self._sites_at_centre)
        if self.draws is None and not self.correcting:
            on_grid = entries_on_grid(self.history.filter)
            target, now = ParticleTarget(self.evaluate, chosen, either, prior, on_grid, gradient), self.filters
        else:
            exact = ParticleTarget(self._evaluate_exactly, choose_exact, either_exact, prior, gradient=gradient)
            target = exact._replace(approximate=self.draws is None)
            now = None if self.draws is None else ExactFilters(self.filters, self.draws)
        self.particles, now, rejuvenations = rejuvenate(self.rng, self.particles, now, target, forced)
        self.filters, self.draws = now if isinstance(now, ExactFilters) else (now, None)
        if rejuvenations:
            self.rejuvenations += rejuvenations
            self.past = self.past._replace(evaluated_at=self.number)
        if rejuvenations and self.draws is not None:
            self._note_correction()

    def rejuvenate_over_steps(self) -> None:
        """New particles as :meth:`rejuvenate` draws them; on a long history their filters catch up over many steps."""
        likelihood = self.ssm.model.likelihood
        few = len(self.ssm.in_particles) < MIN_PARAMETERS  # more are moved by gradients
        takes = likelihood.pointwise and not likelihood.by_station
        spread = few and takes and not self.paths and not self.history.rebuilt
        if not (spread and may_spread(self.particles, len(self.history.snapshots))):
            self.pending = Pending()
            self.rejuvenate(forced=self.history.rebuilt and not isinstance(self.history.filter, NetworkFilter))
            return
        self.pending, taken, cost = advance_pending(
            self.rng, self.particles, self.pending, self.history, self.forget, self.past.memory, self.past.dropped
        )
        self.spend(cost)
        if taken is not None:
            self.particles, self.filters, rejuvenation = taken
            self.rejuvenations += (rejuvenation,)
            self.past = self.past._replace(evaluated_at=self.number)

    def refresh_where_due(self) -> None:
        """Evaluate the particles anew where data have grown since, and before a rejuvenation."""
        correction = self.past.correction
        if not self.paths:
            if correction is not None:  # of a state that was corrected, by a sampler that corrects nothing
                found = self.evaluate(self.particles.z)
                self.past = self.past._replace(evaluated_at=self.number, correction=None)
                self.filters = found.filters
                self.particles = self.particles._replace(
                    log_evidences=found.log_evidences, log_increment=found.log_increment
                )
            return
        kept = len(self.history.snapshots)
        if correction is None or correction.due(self.number, kept) or self.history.rebuilt:
            self.refresh()
        elif self.particles.ess() < MIN_ESS_FRACTION * len(self.particles.z):
            self.correcting = True  # few particles are replaced: new ones need no corrected weights of old ones
            self._begin_correction(self._paths_next())

    def refresh(self) -> None:
        """New, independent and unbiased estimates of the evidence of every particle's ``z``."""
        self._begin_correction(self._paths_next())
        self._correct()
        assert self.past.correction is not None
        more = self._paths_next()
        if more > self.past.correction.paths:
            self.past = self.past._replace(correction=self.past.correction._replace(paths=more, variance=np.inf))
            self._correct()

    def _paths_next(self) -> int:
        """``K`` of the next evaluation, by the noise of the last one."""
        if not isinstance(self.paths, str):
            return self.paths
        last = self.past.correction
        return PATHS if last is None else whole_numbers_of_paths(last.variance, last.paths)

    def _begin_correction(self, paths: int) -> None:
        """The sites that EP of all particles begins with, and what the step is to remember."""
        self.shared = None
        middle = self.particles.z[central(self.particles.z, self.particles.weights())]
        self._sites_at_centre()
        correction = Correction(self.number, paths, np.inf, middle)
        self.past = self.past._replace(evaluated_at=self.number, correction=correction)

    def _sites_at_centre(self) -> SharedHistory:
        """The sites that EP of all particles begins with: found once, at the central one."""
        if self.shared is None:
            middle = self.particles.z[central(self.particles.z, self.particles.weights())]
            self.shared, seconds = shared_history(self.history, middle, self.past.summarised)
            self.spend(Spent(0, seconds))
        return self.shared

    def _correct(self) -> None:
        found = self._evaluate_exactly(self.particles.z)
        self.filters, self.draws = found.filters
        self.particles = self.particles._replace(log_evidences=found.log_evidences, log_increment=found.log_increment)
        if not np.isfinite(self.particles.log_weights()).any():
            raise SamplerError(
                f"t = {self.history.snapshots[-1].t}: no path of any particle has a likelihood that is finite; check "
                "the data and the likelihood's support, or take paths=0"
            )
        self._note_correction()

    def _note_correction(self) -> None:
        assert self.draws is not None
        assert self.past.correction is not None
        variance = self.draws.mean_variance(self.particles.weights())
        self.past = self.past._replace(correction=self.past.correction._replace(variance=variance))

    def _evaluate_exactly(self, z: Float[np.ndarray, "S d"]) -> Evaluated:
        """EP over the history for new values of ``z``, corrected by paths."""
        assert self.shared is not None
        assert self.past.correction is not None
        found = evaluate(self.history, self.shared, z, self.past.correction.paths, self.rng)
        self.spend(found.spent)
        self._one_more_round()
        before = self.past.remembered(z) + found.log_evidence
        return Evaluated(found.found, before, found.log_increment, found.spent.filter_steps)

    def _one_more_round(self) -> None:
        self.rounds += 1
        if self.progress is not None:
            self.progress(1 - 0.5**self.rounds)

    def check_rank(self, forced: bool = False) -> None:
        """Where the filters of a network are compressed too much: all of them run anew, with another rank or dense."""
        # A check runs filters over all data: where a rejuvenation was spread over steps, it waits until it is due.
        within = any(one.kind != "spread" for one in self.rejuvenations)
        changed = (forced or within) and last_compressed(self.history) is not None
        if not (changed or rank_due(self.history, self.filters, self.number)):
            return
        whole = self.forget == 1 and self.past.memory is None
        history, spent = with_accurate_rank(
            self.history, self.particles, self.filters, self.number, self.past.together, whole
        )
        self.spend(spent)
        again = history.plan.compression != self.history.plan.compression
        self.history = history
        if again:
            self.pending = Pending()
            found = self.evaluate(self.particles.z)
            self.filters = found.filters
            self.particles = self.particles._replace(
                log_evidences=found.log_evidences, log_increment=found.log_increment
            )
            self.past = self.past._replace(evaluated_at=self.number)
            self.rejuvenate()

    def recentre(self) -> None:
        """The first snapshot, whose linearisation was found at the prior: found again at the posterior."""
        for _ in range(MAX_RECENTRINGS):
            self.rejuvenate()
            found = self.particles
            # What the old linearisation said weighs the particles while their centre is looked for.
            self.particles = found._replace(
                log_evidences=found.log_increment, log_increment=np.zeros_like(found.log_increment)
            )
            first = self.history.snapshots[0]
            self._take(update_filters(self.ssm, self.latent, None, self.particles, first, self.rng))
            self.particles = found._replace(log_increment=self.particles.log_increment)

    def correct(self) -> Ratios:
        """What the linearisation leaves over, estimated on the rejuvenated particles, added to their weights.

        Returns:
            draws of each particle's ``f`` at the data.
        """
        found, seconds = ratios_of(self.history, self.filters, self.rng)
        self.history = self.history.corrected(found.correction(self.particles))
        corrected = self.particles.log_increment + self.history.log_corrections(self.particles.z)[:, -1]
        self.particles, rejuvenations = self.particles._replace(log_increment=corrected), len(self.rejuvenations)
        self.rejuvenate()
        if len(self.rejuvenations) > rejuvenations:
            found, more = ratios_of(self.history, self.filters, self.rng)
            seconds += more
        self.spend(Spent(0, seconds))
        return found

    def trim(self, kept: int) -> None:
        """The oldest snapshots dropped: what they said about the parameters is kept as a quadratic."""
        snapshots, linearised_snapshots = self.history.snapshots, self.history.linearised_snapshots
        keep, z = 2 * kept, self.particles.z
        anchor = self.past.dropped + len(snapshots) - kept
        evidence = self._evidence_until(len(snapshots) - kept)
        memory = Memory(anchor, QuadraticFit.fitted(z, evidence, self.particles.weights()))
        self.pending = Pending()
        # Stations that come and go have their places from the start: growing anew would compile anew each time.
        plan = self.history.plan
        self.history = build_timeline(
            self.ssm, self.latent, snapshots[-keep:], linearised_snapshots[-keep:], keep, plan
        )
        dropped = self.past.dropped + len(snapshots) - keep
        self.past = Past(dropped + keep, dropped, memory, self.past.correction)
        if self.paths:
            self.refresh()
            return
        self.filters, _, cost = run_filters(self.history, z, keep)
        self.spend(cost)

    def _evidence_until(self, count: int) -> Float[np.ndarray, " S"]:
        """The log evidence of the particles by all data up to one of those that are kept."""
        z, correction = self.particles.z, self.past.correction
        if correction is None:
            _, increments, cost = run_filters(self.history, z, len(self.history.snapshots))
            self.spend(cost)
            increments = increments + self.history.log_corrections(z)
            return self._evidence_before(z, increments[:, : count + 1])  # one more: the last column is left out
        until = self.history.until(count)
        shared, seconds = shared_history(until, correction.central, self.past.summarised)
        found = evaluate(until, shared, z, correction.paths, self.rng)
        self.spend(found.spent + Spent(0, seconds))
        return self.past.remembered(z) + found.log_evidence + found.log_increment

    def increments(self, history: Timeline, z: Float[np.ndarray, "S d"]) -> tuple[Filters, np.ndarray]:
        """Filters of values of ``z`` over all data of a history, and the log evidence increment of each snapshot."""
        filters, increments, cost = run_filters(history, z, len(history.snapshots))
        self.spend(cost)
        return filters, increments + history.log_corrections(z)

    def evaluate(self, z: Float[np.ndarray, "S d"], history: Timeline | None = None) -> Evaluated:
        """Filters of new values of ``z`` over all data that are kept, or over those of another history."""
        history = self.history if history is None else history
        before = self.spent.filter_steps
        filters, increments = self.increments(history, z)
        self._one_more_round()
        return Evaluated(filters, *self.evidences(z, increments), self.spent.filter_steps - before)

    def evidences(self, z: np.ndarray, increments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The log evidence of all data before the last snapshot, and the increment of that one."""
        return self._evidence_before(z, increments), increments[:, -1]

    def _evidence_before(self, z: np.ndarray, increments: np.ndarray) -> np.ndarray:
        """The log evidence of all data before the last snapshot."""
        return discounted_evidence(z, increments[:, :-1], self.forget, self.past.memory, self.past.dropped)
