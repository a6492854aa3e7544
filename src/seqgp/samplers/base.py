"""What everything around a sampler sees of it: ``run``, ``Store``, ``predict``, ``calibrate`` know no engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Key

from seqgp.base.info import Info
from seqgp.base.snapshot import Context, Snapshot
from seqgp.linalg.types import Array, ArrayLike
from seqgp.model import Model
from seqgp.runtime.progress import Progress


class Predictive(Protocol):
    """What each posterior draw says about ``f`` at new inputs: a Gaussian."""

    def draws(self, key: Key[Array, ""], model: Model) -> Float[Array, "draws n"]:
        """One draw of ``f`` at the new inputs for each posterior draw."""
        ...

    def log_marginals(self, model: Model, y: np.ndarray) -> Float[np.ndarray, " draws"]:
        """For Gaussian data ``log p(y)`` of each posterior draw, the latent integrated out; NaN in ``y`` drops out."""
        ...


class State(Protocol):
    """Equally weighted posterior draws after a snapshot, and what the next step needs."""

    @property
    def t(self) -> float:
        """The time of the snapshot."""
        ...

    @property
    def step(self) -> int:
        """The number of the step, from 1."""
        ...

    @property
    def latent(self) -> Float[ArrayLike, "draws N"]:
        """The latent function with its mean at the inputs of the snapshot: what the likelihood sees."""
        ...

    @property
    def parameters(self) -> Mapping[str, ArrayLike]:
        """The inferred parameters in natural units, each ``(draws,)`` or ``(draws, entries)``."""
        ...

    @property
    def z(self) -> Float[ArrayLike, "draws d"]:
        """The parameters as standard-form Gaussians."""
        ...

    @property
    def fingerprint(self) -> str:
        """Of the model that the draws are from."""
        ...

    @property
    def draws(self) -> int:
        """The number of draws."""
        ...

    @property
    def dimension(self) -> int:
        """The number of columns of the inputs."""
        ...

    def thinned(self, draws: int) -> State:
        """The state with fewer draws, evenly spaced among the present ones."""
        ...

    def predictive(self, model: Model, x: Float[np.ndarray, "n D"], t: float, context: Context = None) -> Predictive:
        """The latent function at new inputs, now or later; ``context`` has the covariates there."""
        ...

    def ready(self, model: Model) -> State:
        """The state with what its predictions share computed once; a state that needs nothing returns itself."""
        ...

    def packed(self) -> State:
        """The part of the state to keep on disk: nothing that the data can restore."""
        ...

    def beside_data(self) -> Any:
        """What later steps need of this one, stored beside its data; ``None`` if they need nothing."""
        ...

    def unpacked(self, kept: Callable[[int], Sequence[tuple[Snapshot, Any]]]) -> State:
        """The state again, from what was kept.

        Args:
            kept: from a number of times to the data of the last so many, each with what was kept beside them.
        """
        ...


def described(state: State) -> str:
    """A state in one line, for people."""
    inferred = f" and of {', '.join(state.parameters)}" if state.parameters else ""
    inputs = np.shape(state.latent)[1]
    drawn = f"{state.draws} draws of f at {inputs} inputs{inferred}"
    return f"{type(state).__name__}(t={state.t:g}, step={state.step}: {drawn})"


@runtime_checkable
class BatchSampler(Protocol):
    """Draws from the posterior given all snapshots at once: ``(key, snapshots) -> (state, info)``."""

    draws: int

    def sample(self, key: Key[Array, ""], snapshots: Any, progress: Progress | None = None) -> tuple[Any, Info]:
        """The draws given all snapshots, in the order of time; ``state.latent`` has one array a snapshot."""
        ...


@runtime_checkable
class Refreshing(Protocol):
    """A sampler that corrects a state by all data now and then, and on request."""

    def refresh(self, key: Key[Array, ""], state: Any, progress: Progress | None = None) -> tuple[State, Info]:
        """The state corrected by all data so far."""
        ...


@runtime_checkable
class Revising(Protocol):
    """A sampler that takes late and corrected snapshots."""

    def revise(
        self, key: Key[Array, ""], state: Any, snapshots: Any, progress: Progress | None = None
    ) -> tuple[State, Info]:
        """The state as if these snapshots had come in order, each in place of what is known at its time."""
        ...


class Sampler(Protocol):
    """Draws from the posterior after each snapshot: ``(key, state, snapshot) -> (state, info)``."""

    model: Model
    draws: int
    fingerprint: str

    def init(self, key: Key[Array, ""], snapshot: Snapshot, progress: Progress | None = None) -> tuple[State, Info]:
        """The draws after the first snapshot."""
        ...

    def step(
        self, key: Key[Array, ""], state: Any, snapshot: Snapshot, progress: Progress | None = None
    ) -> tuple[State, Info]:
        """The draws after a further snapshot, from a state of this sampler's own kind."""
        ...
