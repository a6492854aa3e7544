"""The non-sequential sampler: all of the data at once, exact, any likelihood (the paper's comparison)."""

from __future__ import annotations

import time
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from seqgp.base.info import ChainInfo
from seqgp.base.snapshot import Snapshot
from seqgp.mcmc.jitter import jitter_remarks
from seqgp.mcmc.plan import budget_of, check_chains
from seqgp.mcmc.sample import choose_updates, info_of, merge, recipe_of, sample_first
from seqgp.mcmc.updates import Updates
from seqgp.model import Model
from seqgp.runtime.progress import Progress
from seqgp.samplers.full.stacked import FullState, check_snapshots, f_at_data, stacked_problem
from seqgp.samplers.validation import check_together, model_digest


class FullSampler:
    """MCMC over the latent function at all times and all parameters, given all data: exact, at a cost cubic in time.

    The updates are those of the initial sample, on the stacked inputs. For a Gaussian likelihood
    ``seqgp.reference.CollapsedSampler`` draws from the same posterior and is much faster.

    Args:
        model: the model.
        draws: how many draws to keep.
        chains: the number of chains; it must divide ``draws``.
        warmup: sweeps per chain to discard before the first draw.
        thin: sweeps per draw.
        updates: the MCMC updates of a sweep, as in ``seqgp.SequentialSampler``.
    """

    def __init__(
        self,
        model: Model,
        draws: int = 1000,
        chains: int | None = None,
        warmup: int | None = None,
        thin: int | None = None,
        updates: str | Updates = "auto",
    ):
        self._budget = budget_of("FullSampler", model, draws, chains, warmup, thin)
        self._updates = choose_updates(updates)
        self.model = model
        self.draws, self.chains, self.warmup, self.thin = self._budget
        self.updates = self._updates or "auto"
        self.fingerprint = model_digest(model)

    def sample(
        self, key: Key[Array, ""], snapshots: Sequence[Snapshot] | Snapshot, progress: Progress | None = None
    ) -> tuple[FullState, ChainInfo]:
        """Draws given all snapshots, which must be in the order of time."""
        start = time.perf_counter()
        snapshots = check_snapshots(self.model, snapshots)
        check_together(key, snapshots)
        problem, sites = stacked_problem(self.model, snapshots)
        check_chains("FullSampler", problem, self._budget)
        recipe = recipe_of(self.model, self._updates, problem)
        sampled = sample_first(key, recipe, problem, self._budget, snapshots[-1].t, progress)
        z = merge(np.asarray(sampled.draws.z))
        latent = f_at_data(self.model, snapshots, sites, merge(np.asarray(sampled.draws.sites)), z)
        parameters = self.model.natural(jnp.asarray(z))
        times = tuple(snapshot.t for snapshot in snapshots)
        state = FullState(times, latent, parameters, jnp.asarray(z), self.fingerprint)
        settings = {"latent": "dense", "updates": sampled.updates, "carry": "none"}
        every = np.concatenate([np.asarray(block) for block in latent], axis=1)
        info = info_of(self.model, sampled, every, snapshots, len(snapshots), start, settings)
        effect, about_jitter = jitter_remarks(self.model, problem, z.mean(axis=0))
        return state, info._replace(extras=info.extras | effect, warnings=(*info.warnings, *about_jitter))
