"""A step under way: the snapshot taken in, the cloud settled, the past bounded."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from seqgp.filtering.system import System
from seqgp.models.errors import SamplerError
from seqgp.models.snapshot import Snapshot
from seqgp.online.arrival import Ratios, arrived, ratios_of
from seqgp.online.bank import Bank, Spent, born, chosen, either
from seqgp.online.cloud import Cloud
from seqgp.online.history import Timeline, laid_out
from seqgp.online.memory import CloudQuadratic, Memory
from seqgp.online.renewal import Evaluated, Renewal, Workshop, settled
from seqgp.online.state import Live
from seqgp.samplers.protocol import Progress

RECENTRED = 2  # times that the surrogate of the first snapshot is found again


class Past(NamedTuple):
    """What a step knows of those before it, besides their data."""

    born: int = 1  # the step at which the particles' filters were run over all data
    dropped: int = 0  # snapshots that are no longer kept
    memory: Memory | None = None  # what those said about the parameters


class Underway:
    """One step, from the arrival of its snapshot to a settled cloud with its filters.

    Args:
        system: the model.
        latent: where the user wants the latent to live.
        forget: the discount of the past.
        rng: random numbers.
        cloud: before the snapshot.
        progress: called with the share that is done.
    """

    history: Timeline
    bank: Bank

    def __init__(
        self,
        system: System,
        latent: Any,
        forget: float,
        rng: np.random.Generator,
        cloud: Cloud,
        progress: Progress | None,
    ):
        self.system, self.latent, self.forget = system, latent, forget
        self.rng, self.cloud, self.progress = rng, cloud, progress
        self.past = Past()
        self.spent, self.rounds = Spent(), 0
        self.renewals: tuple[Renewal, ...] = ()

    @property
    def number(self) -> int:
        """Of the step, from 1."""
        return self.past.dropped + len(self.history.snapshots)

    def spend(self, spent: Spent) -> None:
        """Costs, added up as they come."""
        self.spent += spent

    def take_in(self, live: Live | None, snapshot: Snapshot) -> None:
        """The filters of all particles given the snapshot, and its log densities among the weights."""
        before = self.cloud

        def weights(last: np.ndarray | None) -> np.ndarray:
            return (before if last is None else before._replace(last=last)).weights()

        self.history, self.bank, increments, spent = arrived(
            self.system, self.latent, live, before.z, snapshot, self.rng, weights
        )
        self.spend(spent)
        if self.history.rebuilt:
            # All filters were run anew, also where nothing is in the cloud that would be renewed.
            self.past = self.past._replace(born=self.number)
            increments = increments + self.history.log_corrections(before.z)
            before = before._replace(log_evidence=self._evidence_before(before.z, increments))
        self.cloud = before._replace(last=increments[:, -1])
        if not np.isfinite(self.cloud.log_weights()).any():
            raise SamplerError(
                f"likelihood returned NaN or -inf for all {len(before.z)} particles at t = {snapshot.t}; check the "
                "data, the likelihood's support and the priors"
            )

    def settle(self, forced: bool = False) -> None:
        """New particles, where too few of the old ones are effective."""
        workshop = Workshop(self._evaluate, chosen, either, self.system.cloud_prior())
        self.cloud, self.bank, renewals = settled(self.rng, self.cloud, self.bank, workshop, forced)
        if renewals:
            self.renewals += renewals
            self.past = self.past._replace(born=self.number)

    def recentre(self) -> None:
        """The first snapshot, whose surrogate was found at the prior: found again at the posterior."""
        for _ in range(RECENTRED):
            self.settle()
            found = self.cloud
            # What the old surrogate said weighs the cloud while the middle of it is looked for.
            self.cloud = found._replace(log_evidence=found.last, last=np.zeros_like(found.last))
            self.take_in(None, self.history.snapshots[0])
            self.cloud = found._replace(last=self.cloud.last)

    def correct(self) -> Ratios:
        """What the surrogate leaves over, estimated on the settled cloud, added to its weights.

        Returns:
            draws of each particle's level at the data.
        """
        found, seconds = ratios_of(self.history, self.bank, self.rng)
        self.history = self.history.corrected(found.correction(self.cloud))
        last = self.cloud.last + self.history.log_corrections(self.cloud.z)[:, -1]
        self.cloud, renewals = self.cloud._replace(last=last), len(self.renewals)
        self.settle()
        if len(self.renewals) > renewals:
            found, more = ratios_of(self.history, self.bank, self.rng)
            seconds += more
        self.spend(Spent(0, seconds))
        return found

    def trim(self, kept: int) -> None:
        """The oldest snapshots dropped: what they said about the parameters is kept as a quadratic."""
        snapshots, surrogates = self.history.snapshots, self.history.surrogates
        keep, z = 2 * kept, self.cloud.z
        anchor = self.past.dropped + len(snapshots) - kept
        _, increments, cost = born(self.history, z, len(snapshots))
        self.spend(cost)
        increments = increments + self.history.log_corrections(z)
        until = increments[:, : anchor - self.past.dropped + 1]  # one more: the last column is left out
        memory = Memory(anchor, CloudQuadratic.fitted(z, self._evidence_before(z, until), self.cloud.weights()))
        # Stations that come and go have their places from the start: growing anew would compile anew each time.
        self.history = laid_out(self.system, self.latent, snapshots[-keep:], surrogates[-keep:], together=keep)
        self.bank, _, cost = born(self.history, z, keep)
        self.spend(cost)
        dropped = self.past.dropped + len(snapshots) - keep
        self.past = Past(dropped + keep, dropped, memory)

    def _evaluate(self, z: Float[np.ndarray, "S d"]) -> Evaluated:
        """Filters of new values of ``z`` over all data that are kept."""
        bank, increments, cost = born(self.history, z, len(self.history.snapshots))
        increments = increments + self.history.log_corrections(z)
        self.spend(cost)
        self.rounds += 1
        if self.progress is not None:
            self.progress(1 - 0.5**self.rounds)
        return Evaluated(bank, self._evidence_before(z, increments), increments[:, -1], cost.filter_steps)

    def _evidence_before(self, z: np.ndarray, increments: np.ndarray) -> np.ndarray:
        """The log evidence of all data before the last snapshot, each step further back counting less by ``forget``."""
        memory, dropped = self.past.memory, self.past.dropped
        since = increments[:, :-1] if memory is None else increments[:, memory.anchor - dropped : -1]
        ages = np.arange(since.shape[1], 0, -1)
        found = since @ self.forget ** ages.astype(float)
        return found if memory is None else found + self.forget ** float(len(ages)) * memory.log_evidence.at(z)
