"""The state of the online sampler: draws for people, and the particles that they are from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from seqgp.base.snapshot import Context, Snapshot
from seqgp.likelihoods.gaussian import STATION
from seqgp.linalg.types import ArrayLike
from seqgp.model import Model
from seqgp.samplers.base import described
from seqgp.samplers.ibis import Particles
from seqgp.samplers.online.exact import Correction, exact_filters, shared_history
from seqgp.samplers.online.filters import Filters, advanced, run_filters
from seqgp.samplers.online.history import Timeline, build_timeline
from seqgp.samplers.online.network import NetworkPlan
from seqgp.samplers.online.pending import PendingParticles
from seqgp.samplers.online.predictive import ParticlePredictive, predictive_of
from seqgp.samplers.online.quadratics import LinearisedSnapshot, Memory
from seqgp.samplers.online.stations import StationNoise, log_ratios_at, with_ratios
from seqgp.samplers.online.watch import Treatment, Watch
from seqgp.samplers.validation import check_state


class OnlineState(NamedTuple):
    """Equally weighted posterior draws after a snapshot, and what the next step needs.

    Memory also holds the filters. A store does not: the data restore them.

    Attributes:
        t: the time of the snapshot.
        step: its number, from 1.
        latent: the latent function ``f`` at the inputs of the snapshot, its mean included, ``(draws, N)``.
        parameters: the inferred parameters in natural units by name, each ``(draws,)`` or ``(draws, entries)``.
        z: the same parameters as standard-form Gaussians, ``(draws, d)``.
        particle: which particle each draw comes from, ``(draws,)``.
        particles: the weighted particles.
        log_evidence: the log evidence of the data so far.
        snapshots: the data: all so far, or with ``history=`` the last ones.
        station_noise: with ``by="station"``, the noise of each station.
    """

    t: float
    step: int
    latent: Float[ArrayLike, "draws N"]
    parameters: Mapping[str, ArrayLike]
    z: Float[ArrayLike, "draws d"]
    particle: Int[np.ndarray, " draws"]
    particles: Particles
    evaluated_at: int  # the step at which the particles' filters were run over all data
    log_evidence: float
    settings: dict[str, Any]  # order and latent of the sampler, and the rank for networks with gaps
    fingerprint: str
    snapshots: tuple[Snapshot, ...]
    dropped: int = 0  # how many were before those
    memory: Memory | None = None  # what those said about the parameters
    linearised_snapshots: tuple[LinearisedSnapshot | None, ...] = ()  # where the likelihood sees all of the latent
    correction: Correction | None = None  # of the particles by paths, where the data need one
    revisions: int = 0  # steps that revised the past, less the snapshots that they added: step − number of snapshots
    live: Any = None  # history and filters of filters, where they are in memory
    pending: PendingParticles | None = None  # new particles that have not caught up with the data
    watch: Watch | None = None  # of the stations, where data are Gaussian
    station_noise: StationNoise | None = None

    def __repr__(self) -> str:
        return described(self)

    @property
    def draws(self) -> int:
        """The number of draws."""
        return self.z.shape[0]

    @property
    def dimension(self) -> int:
        """The number of columns of the inputs."""
        return self.snapshots[-1].x.shape[1]

    @property
    def plan(self) -> NetworkPlan:
        """Of the filter of networks with gaps; versions before 0.3 had none, and used the dense filter."""
        return NetworkPlan(**self.settings.get("network", {"rank": 0}))

    def thinned(self, draws: int) -> OnlineState:
        """A state of fewer draws, evenly spread over those there are."""
        if self.draws <= draws:
            return self
        return self.picked(np.linspace(0, self.draws - 1, draws).round().astype(int))

    def picked(self, index: Int[np.ndarray, " m"]) -> OnlineState:
        """A state of these draws."""
        return self._replace(
            latent=np.asarray(self.latent)[index],
            parameters={name: np.asarray(values)[index] for name, values in self.parameters.items()},
            z=np.asarray(self.z)[index],
            particle=self.particle[index],
            station_noise=None if self.station_noise is None else self.station_noise.thinned(index),
        )

    def predictive(
        self, model: Model, x: Float[np.ndarray, "n D"], t: float, context: Context = None
    ) -> ParticlePredictive:
        """``f`` at new inputs, now or later, from the filter of each draw's particle."""
        live = self.revived(model)
        particle, z = self.particle, np.asarray(self.z)
        found = predictive_of(live.history, live.filters, particle, z, x, t, context)
        if not model.likelihood.by_station:
            return found
        logs = log_ratios_at(live.history.ssm, live.history.layout, np.asarray(self.particles.z), x)
        return found._replace(
            filters=with_ratios(found.filters, logs),
            context={**(context or {}), STATION: np.arange(len(x))},
            ratios=np.exp(logs)[particle],
        )

    def ready(self, model: Model) -> OnlineState:
        """With its filters in memory: of a state from disk, each prediction would run them over the data anew."""
        check_state(model, self, "state")
        return self._replace(live=self.revived(model))

    def packed(self) -> OnlineState:
        """Without filters and data: the steps of a run keep the data, and the filters follow from them."""
        return self._replace(snapshots=(), linearised_snapshots=(), live=None)

    def beside_data(self) -> LinearisedSnapshot | Treatment | None:
        """The linearisation of the last snapshot, or how its data were used: no later step can find it again."""
        if self.watch is not None and self.watch.factors is not None:
            return Treatment(self.watch.factors)
        return self.linearised_snapshots[-1]

    def beside_late(self, t: float) -> dict[float, LinearisedSnapshot | Treatment]:
        """After late data from a time on: what stands beside all snapshots from there on, found again or used anew."""
        if self.watch is not None:
            return {one.t: Treatment.used(one) for one in self.snapshots if one.t >= t}
        pairs = zip(self.snapshots, self.linearised_snapshots)
        return {one.t: linearised for one, linearised in pairs if one.t >= t and linearised is not None}

    @property
    def summarised(self) -> int:
        """How many of the snapshots are kept for the state alone, and are summed up for the parameters."""
        return 0 if self.memory is None else self.memory.anchor - self.dropped

    @property
    def fixed_until(self) -> float:
        """The time up to which no data can be revised any more; minus infinity where all data are kept."""
        return -np.inf if self.memory is None else self.snapshots[self.summarised - 1].t

    def unpacked(self, kept: Callable[[int], Sequence[tuple[Snapshot, Any]]]) -> OnlineState:
        """With the data again, and the linearisation of each."""
        found = kept(self.step - self.revisions - self.dropped)
        snapshots = tuple(how.of(one) if isinstance(how, Treatment) else one for one, how in found)
        linearised_snapshots = tuple(None if isinstance(how, Treatment) else how for _, how in found)
        return self._replace(snapshots=snapshots, linearised_snapshots=linearised_snapshots)

    def revived(self, model: Model, known: Timeline | None = None) -> Live:
        """Timeline and filters: those in memory, or computed again, bit for bit the same.

        Args:
            model: the model.
            known: the timeline of the first of these data, if it is known and no data are summed up.
        """
        if self.live is not None:
            return self.live
        from seqgp.statespace.model import StateSpaceModel  # the model is needed for that alone

        ssm, latent, kept = (
            StateSpaceModel(model, self.settings["order"]),
            self.settings["latent"],
            self.evaluated_at - self.dropped,
        )
        together = 1 if self.memory is None else 2 * (self.memory.anchor - self.dropped)  # as when the past was dropped
        data = list(zip(self.snapshots, self.linearised_snapshots))
        if known is None:
            first = build_timeline(
                ssm, latent, self.snapshots[:kept], self.linearised_snapshots[:kept], together, self.plan
            )
        else:
            first = known
            for snapshot, linearised in data[len(known.snapshots) : kept]:
                first = first.with_snapshot(snapshot, linearised)
        z = np.asarray(self.particles.z)
        if self.correction is None:
            filters, _, _ = run_filters(first, z, kept)
        else:
            shared, _ = shared_history(first, self.correction.central, self.summarised)
            filters = exact_filters(first, shared, z, self.correction.paths)
        for snapshot, linearised in data[kept:]:
            first = first.with_snapshot(snapshot, linearised)
            filters, _, _ = advanced(first, filters)
        return Live(first, filters)


class Live(NamedTuple):
    """What is kept in memory between steps."""

    history: Timeline
    filters: Filters
    pending: Filters | None = None  # of new particles on their way through the data
