"""The Monte Carlo error of a whole sequence, measured by running it several times.

Each draw of a step conditions on another draw of the step before, so the effective sample size over the draws of one
step is an upper bound: errors of earlier steps are shared by all of them. Independent sequences do not share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from seqgp.base.errors import SamplerError
from seqgp.base.snapshot import Snapshot
from seqgp.base.validation import positive
from seqgp.samplers.base import Sampler
from seqgp.samplers.loop import steps


class Replicates(NamedTuple):
    """Independent runs of the same sequence, and the Monte Carlo error of one of them.

    Attributes:
        times: the times of the snapshots.
        names: the names of the elements of ``z``.
        z_mean: posterior means of ``z``.
        z_sd: posterior standard deviations of ``z``.
        latent_mean: posterior means of the latent function, one array per time.
        latent_sd: its posterior standard deviations.
        reported: the smallest effective sample size that the steps report.
    """

    times: tuple[float, ...]
    names: tuple[str, ...]
    z_mean: Float[np.ndarray, "replicates T d"]
    z_sd: Float[np.ndarray, "replicates T d"]
    latent_mean: tuple[Float[np.ndarray, "replicates N"], ...]
    latent_sd: tuple[Float[np.ndarray, "replicates N"], ...]
    reported: Float[np.ndarray, " T"]

    @property
    def mcse(self) -> Float[np.ndarray, "T d"]:
        """The standard error of one run's posterior mean of each parameter, on the scale of ``z``."""
        return self.z_mean.std(axis=0, ddof=1)

    @property
    def latent_mcse(self) -> tuple[Float[np.ndarray, " N"], ...]:
        """The standard error of one run's posterior mean of the latent, one array per time."""
        return tuple(mean.std(axis=0, ddof=1) for mean in self.latent_mean)

    @property
    def ess(self) -> Float[np.ndarray, "T d"]:
        """How many independent draws would have the same error, for each parameter."""
        return _effective(self.z_mean, self.z_sd)

    @property
    def latent_ess(self) -> Float[np.ndarray, " T"]:
        """The same for the latent: pooled over its values, which a few replicates could not tell apart."""
        pairs = zip(self.latent_mean, self.latent_sd)
        return np.array([np.mean(sd**2) / np.mean(np.var(mean, axis=0, ddof=1)) for mean, sd in pairs])


def _effective(mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    return (sd**2).mean(axis=0) / np.maximum(mean.var(axis=0, ddof=1), np.finfo(float).tiny)


def replicate(
    key: Key[Array, ""],
    sampler: Sampler,
    snapshots: Sequence[Snapshot],
    replicates: int = 8,
    *,
    progress: Callable[[float], None] | None = None,
) -> Replicates:
    """Run a sequence several times to estimate the Monte Carlo error of one run.

    Args:
        key: a random key.
        sampler: the sampler.
        snapshots: the data, in the order of time.
        replicates: the number of independent runs; the relative error of the estimate is about
            ``1 / sqrt(2 (replicates − 1))``.
        progress: called with the completed share, from 0 to 1.
    """
    if positive("replicates", replicates) < 2:
        raise SamplerError("replicate: replicates = 1, but an error shows only between two runs or more")
    snapshots = list(snapshots)
    runs, reported = [], []
    for i in range(replicates):
        found, ess = [], []
        for state, info in steps(jax.random.fold_in(key, i), sampler, snapshots, progress=False):
            z, latent = np.asarray(state.z), np.asarray(state.latent)
            found.append((z.mean(0), z.std(0, ddof=1), latent.mean(0), latent.std(0, ddof=1)))
            ess.append(info.min_ess)
            if progress is not None:
                progress((i * len(snapshots) + len(found)) / (replicates * len(snapshots)))
        runs.append(found)
        reported.append(ess)
    per_time = [[np.stack(part) for part in zip(*(run[t] for run in runs))] for t in range(len(snapshots))]
    return Replicates(
        times=tuple(snapshot.t for snapshot in snapshots),
        names=tuple(sampler.model.names),
        z_mean=np.stack([parts[0] for parts in per_time], axis=1),
        z_sd=np.stack([parts[1] for parts in per_time], axis=1),
        latent_mean=tuple(parts[2] for parts in per_time),
        latent_sd=tuple(parts[3] for parts in per_time),
        reported=np.array(reported).mean(axis=0),
    )
