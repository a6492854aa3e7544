"""Cross-validation: a fleet of runs, each without a fold of the data, scored on what it has not seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from seqgp.base.errors import SamplerError
from seqgp.base.snapshot import Snapshot
from seqgp.evaluate.folds import LeaveOut, folds_of
from seqgp.evaluate.score import DRAWS, score_parts, scored
from seqgp.evaluate.score_table import Score
from seqgp.fleets.run import fleet
from seqgp.fleets.stream import Stream
from seqgp.model import Model
from seqgp.samplers.base import Sampler


@dataclasses.dataclass(frozen=True)
class FoldStream(Stream):
    """The snapshots that a fold keeps, and the configuration of its run."""

    configuration: dict[str, Any] | None = None

    def opened(self) -> tuple[Iterable[Snapshot], dict[str, Any] | None]:
        """The snapshots, and the configuration that the manifest of the run records."""
        return super().opened()[0], self.configuration


def crossvalidate(
    sampler: Sampler | Model,
    snapshots: Iterable[Snapshot],
    store: str | Path,
    leave_out: LeaveOut = "station",
    folds: int = 5,
    block: int | None = None,
    client: object = None,
    ahead: Sequence[int] = (0,),
    smoothed: bool = True,
    draws: int = DRAWS,
    seed: int = 0,
    configuration: dict[str, Any] | None = None,
) -> Score:
    """Leave out each fold of the data in turn, run on the others, and score the predictions of what was left out.

    Each datum is left out once. The scores of all folds make one table: see :func:`seqgp.score` for what is scored, and
    for the simple forecasts beside it, which see what the run of the fold sees. For ``leave_out="time"`` the filtered
    predictions (``ahead=(0,)``) of a block are forecasts from the data before it.

    Args:
        sampler: the sampler, or a model for the best sampler that it allows.
        snapshots: all data, in the order of time.
        store: the folder of the runs, one a fold. An interrupted cross-validation goes on where it was.
        leave_out: ``"station"`` or ``"time"``.
        folds: the number of folds; as many as there are stations leaves out one at a time.
        block: for ``"time"``, the number of consecutive times in a block; by default a fold is one block.
        client: a ``dask.distributed.Client``, whose workers run the folds; without it they run here, one by one.
        ahead: steps ahead, 0 for filtered.
        smoothed: whether smoothed predictions are scored.
        draws: of smoothed data, and of data that are not Gaussian.
        seed: of the groups of stations and of the runs.
        configuration: what the manifests of the runs record.
    """
    split = folds_of(list(snapshots), leave_out, folds, block, seed)
    streams = [FoldStream(fold.name, sampler, fold.kept, configuration) for fold in split]
    done = fleet(streams, store, client=client, seed=seed, forecast=False)
    if done.failed:
        first = done.failed[0]
        raise SamplerError(f"crossvalidate: {first.stream}, step {first.step}: {first.error}")
    parts, notes = [], []
    for fold in split:
        found, said = score_parts(done.runs[fold.name], fold.held_out, ahead, smoothed, True, draws, seed)
        parts += found
        notes += [f"{fold.name}: {note}" for note in said]
    return scored(parts, notes, "crossvalidate")
