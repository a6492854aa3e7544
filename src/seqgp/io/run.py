"""The loop over snapshots with a run on disk: resumed where it was interrupted, bit for bit the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
from jaxtyping import Array, Key

from seqgp.base.errors import DataError, SamplerError
from seqgp.base.info import Info
from seqgp.base.snapshot import Snapshot
from seqgp.base.validation import positive
from seqgp.evaluate.choose import best_sampler
from seqgp.evaluate.forecaster import Forecaster
from seqgp.model import Model
from seqgp.samplers.arrivals import Arrivals, check_late, in_memory
from seqgp.samplers.base import BatchSampler, Sampler, State
from seqgp.samplers.loop import Callback, LateOption, loop
from seqgp.samplers.validation import check_key

if TYPE_CHECKING:  # reading and writing a run is imported where there is one
    from seqgp.io.store import Store
    from seqgp.io.summary import RunSummary


class Run(NamedTuple):
    """The result of ``run``.

    Attributes:
        state: the last state.
        infos: an info per step, from the first one of the run (with ``keep``, the last ones).
        snapshot: the data of the last step.
        model: the model.
        store: the store of the run, if it has one.
        why: which sampler ``run`` picked for a model, and why.
    """

    state: State
    infos: list[Info]
    snapshot: Snapshot
    model: Model
    store: Store | None = None
    why: str = ""

    def __repr__(self) -> str:
        where = "" if self.store is None else f", store={str(self.store.path)!r}"
        return f"Run(t={self.state.t:g}, step={self.state.step}{where}: {self.infos[-1].health if self.infos else ''})"

    def summary(self) -> RunSummary:
        """A table of the parameters at the last step and, with a delay in the kernel, of how patterns move."""
        from seqgp.io.summary import run_summary

        data = {} if self.store is None else self.store.manifest.section("data")
        return run_summary(self.model, self.state, data)

    def to_datatree(self) -> Any:
        """For ArviZ: all complete steps of the store, or the last step of a run in memory."""
        from seqgp.io.arviz import to_datatree

        return to_datatree(self)


def run(
    sampler: Sampler | Model,
    snapshots: Iterable[Snapshot],
    key: Key[Array, ""] | None = None,
    state: State | None = None,
    callbacks: Callback | Iterable[Callback] = (),
    progress: bool | None = None,
    keep: int | None = None,
    store: str | Path | Store | None = None,
    configuration: dict[str, Any] | None = None,
    forecast: bool = True,
    late: LateOption = "revise",
) -> Run:
    """Sample the posterior after each snapshot.

    With a store, every step is on disk before the next one begins. If the store exists, the loop resumes after its last
    step: it skips the snapshots that the store has used, and the draws are those of an uninterrupted run, bit for bit.

    A late snapshot, or one with other data for a known time (all missing: a retraction), revises the past: the state
    becomes that of a run to which the data came in order. Such a step has the time of the last one, and its
    ``info.extras`` say how many times it added, replaced and retracted, and by how many standard deviations the state
    moved. Late snapshots that follow each other in a list make one revision.

    Args:
        sampler: the sampler; or a model, for the best sampler that it allows (``run.why`` says which).
        snapshots: any iterable, in the order in which the data come; one that never ends is fine with ``keep``.
        key: a random key; may be left out to continue a store, or with a model (then ``jax.random.key(0)``).
        state: the state to continue from, without a store; a new run by default.
        callbacks: called with ``(state, info)`` after each step; raise ``StopIteration`` to end the loop.
        progress: whether to show a progress bar; by default if the output is a terminal.
        keep: the number of last steps to keep: complete on disk (older ones become summaries), and as infos in memory.
        store: the folder of the run.
        forecast: whether to forecast each snapshot before its step, and write the scores into the info.
        late: what to do with late and corrected snapshots: ``"revise"`` the past (the online sampler), ``"refuse"``
            them with an error, or ``"skip"`` them with a warning.
        configuration: with a store, JSON data for its manifest, in place of earlier ones.
    """
    _check_arguments(sampler, snapshots, key, state, keep)
    check_late(late)
    place = None if store is None else _opened(store)
    existing = place is not None and place.exists
    if state is None and not existing:
        _check_covariates(sampler if isinstance(sampler, Model) else sampler.model, snapshots)
    if isinstance(sampler, Model):
        first, snapshots = _peeked(snapshots)
        chosen, why = best_sampler(sampler, first)
        key = jax.random.key(0) if key is None and not existing else key
        done = run(chosen, snapshots, key, state, callbacks, progress, keep, place, configuration, forecast, late)
        return done._replace(why=why)
    if place is None:
        if key is None:
            raise SamplerError("run: key is missing; pass key=jax.random.key(0), say")
        reached = _Reached(state)
        arrivals = Arrivals(snapshots, in_memory(reached.get), late, sampler, reached.get)
        called = [callbacks] if callable(callbacks) else list(callbacks)
        ahead = Forecaster(sampler.model) if forecast else None
        done = loop(sampler, arrivals, key, state, [reached, *called], progress, keep, ahead)
        return Run(done.state, done.infos, arrivals.snapshot, sampler.model)
    if state is not None:
        raise SamplerError("run: state and store exclude each other; a store goes on from its own last step")
    from seqgp.io.session import Session

    after = Session(sampler, place, keep, forecast, late).extend(snapshots, key, configuration, callbacks, progress)
    return Run(*after, sampler.model, place)


def _check_arguments(sampler: object, snapshots: object, key: object, state: object, keep: object) -> None:
    """Raise, before anything is opened or compiled, where an argument is of another kind."""
    if not isinstance(sampler, Model) and not all(hasattr(sampler, name) for name in ("model", "init", "step")):
        batch = "; it takes all times at once, by its method sample" if isinstance(sampler, BatchSampler) else ""
        raise SamplerError(f"run: expected a sampler or a seqgp.Model, got {type(sampler).__name__}{batch}")
    if hasattr(snapshots, "groupby"):
        raise DataError(
            f"run: expected snapshots one after the other, got a {type(snapshots).__name__}; make one of the rows of "
            "each time: [seqgp.Snapshot(t, rows[['east', 'north']], rows['y']) for t, rows in table.groupby('t')]"
        )
    if isinstance(snapshots, Snapshot) or not isinstance(snapshots, Iterable):
        raise DataError(
            f"run: expected snapshots one after the other, got {type(snapshots).__name__}; give one in a list"
        )
    if key is not None:
        check_key(key)
    if keep is not None:
        positive("keep", keep)
    if state is not None and not hasattr(state, "predictive"):
        raise SamplerError(f"run: state: expected a state of the sampler, got {type(state).__name__}")


def _opened(store: str | Path | Store) -> Store:
    from seqgp.io.store import Store

    return store if isinstance(store, Store) else Store(store)


def _check_covariates(model: Model, snapshots: Iterable[Snapshot]) -> None:
    """Where several snapshots begin a run, covariates must vary over them."""
    if not isinstance(snapshots, Sequence) or len(snapshots) < 2:
        return
    if all(isinstance(snapshot, Snapshot) for snapshot in snapshots):
        model.mean_function.check_varying(snapshots)


def _peeked(snapshots: Iterable[Snapshot]) -> tuple[Snapshot | None, Iterable[Snapshot]]:
    """The first of an iterable, where it is a snapshot, and the iterable with all of them."""
    iterator = iter(snapshots)
    taken = list(itertools.islice(iterator, 1))
    return next((one for one in taken if isinstance(one, Snapshot)), None), itertools.chain(taken, iterator)


class _Reached:
    """The state so far: a callback."""

    def __init__(self, state: State | None):
        self._state = state

    def get(self) -> State | None:
        return self._state

    def __call__(self, state: State, info: Info) -> None:
        self._state = state
