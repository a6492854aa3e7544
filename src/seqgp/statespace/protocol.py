"""What a filter is to those who run it: a way to carry the latent through time, given one value of the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from jaxtyping import Bool, Float

from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.observation import LatentGaussian, Observation, Query

if TYPE_CHECKING:
    from seqgp.statespace.dense import DenseFilter, DenseMatrices, DenseState

Matrices = TypeVar("Matrices")  # what one value of the parameters decides
State = TypeVar("State")  # what the data so far say about the latent


class Filter(Protocol[Matrices, State]):
    """A filter on sites that stay. It holds no data and no values: both are arguments, so that it is compiled once."""

    @property
    def name(self) -> str:
        """In a word, for people."""
        ...

    @property
    def ssm(self) -> StateSpaceModel:
        """The model in time."""
        ...

    @property
    def sites(self) -> int:
        """The number of sites."""
        ...

    def matrices(self, z: Float[Array, " d"]) -> Matrices:
        """Once for each value of the parameters."""
        ...

    def start(self, matrices: Matrices) -> State:
        """The state before any data."""
        ...

    def predict(self, matrices: Matrices, state: State, dt: Float[ArrayLike, ""]) -> State:
        """The state a time ``dt`` later."""
        ...

    def update(self, matrices: Matrices, state: State, observation: Observation) -> tuple[State, Float[Array, ""]]:
        """The state given one more snapshot, and the log density of its data given those before."""
        ...

    def takes(self, sites: int, complete: bool) -> bool:
        """Whether it can go on where there are so many sites, with a snapshot that is ``complete`` or not."""
        ...

    def sized(self, observation: Observation) -> Observation:
        """A snapshot as this filter wants it: padded, so that those of changing size share one compilation."""
        ...

    def padded_size(self, n: int) -> int:
        """To how many points questions about ``n`` of them are padded."""
        ...

    def together(self, query: Query | None = None) -> bool:
        """Whether filters of many particles (asked about ``f`` somewhere) are small enough to run at once."""
        ...

    def as_dense(self, matrices: Matrices, state: State) -> tuple[DenseFilter, DenseMatrices, DenseState]:
        """The same on the same sites, with the covariance of the state written out."""
        ...

    def predict_f(self, matrices: Matrices, state: State, query: Query) -> LatentGaussian:
        """Coefficients of the mean, and ``f`` at inputs, from the last snapshot on."""
        ...

    def draw_f(
        self,
        matrices: Matrices,
        state: State,
        query: Query,
        real: Bool[ArrayLike, " q+n"],
        white: Float[Array, "k q+n"],
    ) -> Float[Array, "k q+n"]:
        """Draws of both, from standard normal numbers; where they are not ``real`` but padding, any numbers."""
        ...

    def normals(self, query: Query) -> int:
        """How many standard normal numbers a draw of :meth:`draw_f_given` takes."""
        ...

    def draw_f_given(
        self,
        matrices: Matrices,
        state: State,
        query: Query,
        coefficients: Float[Array, "k q"],
        white: Float[Array, "k normals"],
    ) -> Float[Array, "k n"]:
        """Draws of ``f``, given the coefficients of the mean."""
        ...
