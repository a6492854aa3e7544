"""The Kalman filter of a network with gaps, as the sampler runs it: diagonal plus low rank in the eigenbasis of space.

:mod:`seqgp.statespace.low_rank` has the mathematics. Here it meets a model: one noise level a snapshot, one term or
several with the same eigenvectors, coefficients of the mean, stations that join.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Key

from seqgp.base.snapshot import Context
from seqgp.fields.sites import round_size
from seqgp.kernels.base import Parameters
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.dense import DenseFilter, DenseMatrices, DenseState
from seqgp.statespace.low_rank import (
    LowRankState,
    SiteData,
    check_gaps,
    compress,
    compression_metric,
    low_rank_predict,
    low_rank_start,
    low_rank_update,
)
from seqgp.statespace.low_rank_draws import (
    Points,
    draw_at_points,
    draw_coefficients,
    draw_low_rank_path,
    gaussian_at_points,
    low_rank_to_dense,
    num_normals,
    points_anywhere,
    points_at_sites,
    term_rows,
)
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.modes import Modes, mode_covariance, space_modes
from seqgp.statespace.observation import LatentGaussian, Observation, Query, SiteOperator
from seqgp.statespace.rank import most_gaps
from seqgp.statespace.two_level import two_level_update
from seqgp.statespace.update import possible

MIN_ROOM = 4  # the smallest room for values that are not seen
ROOM_SDS = 2.5
ROOM_STEP = 0.75  # from one size of the room to the next smaller one


class Compression(NamedTuple):
    """How much of the correlations between modes is kept."""

    rank: int  # R
    leading: int | None = None  # the number of modes that it is kept on; all of them where it is None


class NetworkMatrices(NamedTuple):
    """What one value of the parameters decides."""

    parameters: Parameters
    modes: Modes


class NetworkState(NamedTuple):
    """The state given the data so far, and the traces that compression folded, added up."""

    low_rank: LowRankState
    folded: Float[Array, ""]


class NetworkFilter(eqx.Module):
    """The filter on sites ``x``; where ``mask`` is false there is only padding.

    ``recent`` and ``context`` are what it needs to take over from another filter (:mod:`seqgp.statespace.takeover`):
    the time before each of the last snapshots (infinite before the first one), and the context of its own first one.
    """

    ssm: StateSpaceModel
    x: Float[ArrayLike, "M D"]
    mask: Bool[ArrayLike, " M"]
    recent: Float[ArrayLike, " k"]
    context: Context
    compression: Compression = eqx.field(static=True)

    @property
    def name(self) -> str:
        """In a word, for people."""
        return "low rank"

    @property
    def sites(self) -> int:
        """The number of sites."""
        return self.x.shape[0]

    @property
    def leading(self) -> int:
        """The number of modes that ``F`` is kept on."""
        return self.sites if self.compression.leading is None else min(self.compression.leading, self.sites)

    @property
    def dense(self) -> DenseFilter:
        """The dense filter on the same sites."""
        return DenseFilter(self.ssm, self.x, self.mask)

    def takes(self, sites: int, complete: bool) -> bool:
        """Whether the sites stay: data may be missing."""
        return sites == int(np.sum(self.mask))

    def sized(self, observation: Observation, before: int = 0) -> Observation:
        """In the order of the sites, with room for gaps: as much as the snapshot before had, or more if it needs more.

        A snapshot that has far more gaps than usual (more than the filter is used for) leaves the next one its own.
        """
        index, n = np.asarray(observation.operator.index), len(observation.y)

        def at_sites(leaf, fill=0):
            leaf = np.asarray(leaf)
            found = np.full((self.sites, *leaf.shape[1:]), fill, leaf.dtype)
            found[index] = leaf
            return found

        def of_context(leaf):
            leaf = np.asarray(leaf)
            return at_sites(leaf, leaf[0]) if leaf.ndim and len(leaf) == n else leaf

        seen, mask = at_sites(observation.seen), np.asarray(self.mask)
        most = int(np.ceil(most_gaps(self.sites) * self.sites))
        room = max(gap_room(int(np.sum(mask & ~seen)), self.sites), min(before, most))
        check_gaps(seen | ~mask, room)
        return observation._replace(
            operator=SiteOperator(index=np.arange(self.sites)),
            y=at_sites(observation.y),
            seen=seen,
            design=at_sites(observation.design),
            columns=at_sites(observation.columns),
            context=jax.tree.map(of_context, observation.context),
            gaps=np.zeros(room, bool),
        )

    def padded_size(self, n: int) -> int:
        """One of a few sizes."""
        return round_size(n)

    def together(self, query: Query | None = None) -> bool:
        """One particle after the other: each keeps a core busy, and only one at a time needs memory to work in."""
        return False

    def matrices(self, z: Float[Array, " d"]) -> NetworkMatrices:
        """Once for each value of the parameters."""
        return self.matrices_at(self.ssm.parameters(z))

    def matrices_at(self, parameters: Parameters) -> NetworkMatrices:
        """The same from the parameters themselves: eigenvectors of space."""
        x, mask = jnp.asarray(self.x), jnp.asarray(self.mask)
        spaces = self.ssm.space(parameters, self.ssm.distances(x, x))
        both = mask[:, None] & mask[None, :]
        return NetworkMatrices(parameters, space_modes(tuple(jnp.where(both, space, 0.0) for space in spaces)))

    def from_basis(
        self, parameters: Parameters, values: Float[Array, " M"], vectors: Float[Array, "M M"]
    ) -> NetworkMatrices:
        """The same where eigenvalues (times scale²) and eigenvectors of space are known: of one term."""
        return NetworkMatrices(parameters, Modes(vectors, values[None, :]))

    def start(self, matrices: NetworkMatrices) -> NetworkState:
        """The state before any data."""
        stationary, q = self.ssm.stationary(matrices.parameters), len(self.ssm.in_state)
        begun = low_rank_start(matrices.modes, stationary, self.compression.rank, q, self.leading)
        return NetworkState(begun, jnp.zeros(()))

    def predict(self, matrices: NetworkMatrices, state: NetworkState, dt: Float[ArrayLike, ""]) -> NetworkState:
        """The state a time ``dt`` later."""
        transition = self.ssm.transition(matrices.parameters, dt)
        noise = mode_covariance(transition.noise, matrices.modes)
        return state._replace(low_rank=low_rank_predict(state.low_rank, transition.move, noise))

    def update(
        self, matrices: NetworkMatrices, state: NetworkState, observation: Observation
    ) -> tuple[NetworkState, Float[Array, ""]]:
        """The state given one more snapshot, compressed, and the log density of its data given those before."""
        assert observation.gaps is not None, "the snapshot was not laid out by `sized`"
        room = observation.gaps.shape[0]
        if room < self.sites:
            return self._updated(matrices, state, observation, room)
        some = jnp.any(jnp.asarray(observation.seen))
        return jax.lax.cond(
            some, lambda: self._updated(matrices, state, observation, room), lambda: (state, jnp.zeros(()))
        )

    def _updated(
        self, matrices: NetworkMatrices, state: NetworkState, observation: Observation, room: int
    ) -> tuple[NetworkState, Float[Array, ""]]:
        parameters, mask = matrices.parameters, jnp.asarray(self.mask)
        noise = self.ssm.model.likelihood.noise(observation.context, parameters)
        y = jnp.asarray(observation.y) - self.ssm.offset(parameters, jnp.asarray(observation.columns))
        seen, padding = jnp.asarray(observation.seen) | ~mask, jnp.sum(~mask, dtype=float)
        data = SiteData(jnp.where(mask, y, 0.0), seen, observation.design, padding)
        update = low_rank_update if self.leading == self.sites else two_level_update
        h, scales = self.ssm.observe(parameters, observation.t), self.ssm.coefficient_scales()
        after, log_density = update(state.low_rank, matrices.modes, h, noise, data, scales, room)
        alone = jnp.einsum("a,abm,b->m", h, state.low_rank.block, h)
        log_density = possible(log_density, alone, noise**2, observation)
        metric = compression_metric(after, noise, self.ssm.stationary(parameters))
        after, folded = compress(after, metric, self.compression.rank)
        return NetworkState(after, state.folded + folded), log_density

    def as_dense(self, matrices: NetworkMatrices, state: NetworkState) -> tuple[DenseFilter, DenseMatrices, DenseState]:
        """The same on the same sites, with the covariance of the state written out."""
        dense, parameters = self.dense, matrices.parameters
        mean, cov = low_rank_to_dense(state.low_rank, matrices.modes, self.ssm.coefficient_scales())
        padding = jnp.diag(jnp.where(jnp.asarray(self.mask), 0.0, 1.0))
        blocks = [jnp.kron(block, padding) for block in self.ssm.stationary(parameters)]
        cov = cov.at[: dense.fields, : dense.fields].add(jax.scipy.linalg.block_diag(*blocks))
        return dense, dense.matrices_at(parameters), DenseState(mean, cov)

    def predict_f(self, matrices: NetworkMatrices, state: NetworkState, query: Query) -> LatentGaussian:
        """Coefficients of the mean, and ``f`` at inputs, from the last snapshot on."""
        points, after, rows, design, offset = self._asked(matrices, state, query)
        found = gaussian_at_points(after.low_rank, rows, points, design, self.ssm.coefficient_scales())
        return found._replace(mean=found.mean.at[design.shape[1] :].add(offset))

    def draw_f(self, matrices: NetworkMatrices, state: NetworkState, query: Query, real, white) -> Array:
        """Draws of coefficients and ``f``, from standard normal numbers."""
        q = len(self.ssm.in_state)
        scales = self.ssm.coefficient_scales()
        coefficients = jax.vmap(lambda one: draw_coefficients(state.low_rank, scales, one))(white[:, :q])
        f = self.draw_f_given(matrices, state, query, coefficients, white[:, q:])
        return jnp.concatenate([coefficients, f], axis=1)

    def normals(self, query: Query) -> int:
        """One for each mode and term, for each row of ``F``, and for each point that is not a site."""
        terms = len(self.ssm.states)
        return num_normals(len(query.columns), self.sites, terms, self.compression.rank, query.at_sites)

    def draw_f_given(self, matrices: NetworkMatrices, state: NetworkState, query: Query, coefficients, white) -> Array:
        """Draws of ``f``, given the coefficients of the mean."""
        points, _, rows, design, offset = self._asked(matrices, state, query)
        return draw_at_points(rows, points, design, coefficients, white) + offset[None, :]

    def _asked(self, matrices: NetworkMatrices, state: NetworkState, query: Query):
        """The points, the state at their time, what the latent sees of it, and the mean's columns and known part."""
        parameters = matrices.parameters
        after = self.predict(matrices, state, query.dt)
        orders = tuple(one.order for one in self.ssm.states)
        rows = term_rows(after.low_rank, self.ssm.observe(parameters, query.t), orders)
        design, offset = self.ssm.design(query.columns), self.ssm.offset(parameters, query.columns)
        return self._points(matrices, query), after, rows, design, offset

    def _points(self, matrices: NetworkMatrices, query: Query) -> Points:
        if query.operator is not None:
            return points_at_sites(matrices.modes, query.operator.index)  # type: ignore[arg-type]
        parameters, x = matrices.parameters, jnp.asarray(query.x)
        crosses = self.ssm.space(parameters, self.ssm.distances(x, jnp.asarray(self.x)))
        mask = jnp.asarray(self.mask)[None, :]
        spaces = self.ssm.space(parameters, self.ssm.distances(x, x))
        variances = self.ssm.term_variances(parameters, query.t)
        return points_anywhere(
            matrices.modes, tuple(jnp.where(mask, cross, 0.0) for cross in crosses), spaces, variances
        )


def draw_network_path(
    key: Key[Array, ""], filter: NetworkFilter, matrices: NetworkMatrices, observations: Observation
) -> Float[Array, "T n"]:
    """One draw of the states at all times given all data, each stacked at the sites as in ``DenseFilter``.

    Args:
        key: a random key.
        filter: the filter.
        matrices: of one value of the parameters.
        observations: of all times, stacked.
    """
    key_coefficients, key_path = jax.random.split(key)
    ssm, modes = filter.ssm, matrices.modes

    def forward(state, observation):
        state, _ = filter.update(matrices, filter.predict(matrices, state, observation.dt), observation)
        return state, state.low_rank

    last, states = jax.lax.scan(forward, filter.start(matrices), observations)
    scales = ssm.coefficient_scales()
    coefficients = draw_coefficients(last.low_rank, scales, jax.random.normal(key_coefficients, scales.shape))

    def over(dt):
        transition = ssm.transition(matrices.parameters, dt)
        return transition.move, mode_covariance(transition.noise, modes)

    moves, noises = jax.lax.map(over, jnp.asarray(observations.dt)[1:])
    path = draw_low_rank_path(key_path, states, moves, noises, coefficients) @ modes.vectors.T
    return jnp.concatenate(
        [path.reshape(len(path), -1), jnp.broadcast_to(coefficients, (len(path), len(scales)))], axis=1
    )


def gap_room(missing: int, sites: int) -> int:
    """Room for so many values that are not seen, and for more by chance: one of few sizes, so that few compile.

    If values are missing at random, their number stays within ``ROOM_SDS`` standard deviations of a usual one. Time and
    memory grow with the square of the room.
    """
    room, wanted = sites, max(missing + ROOM_SDS * np.sqrt(missing), MIN_ROOM)
    while missing and (smaller := int(np.ceil(ROOM_STEP * room))) >= wanted and smaller < room:
        room = smaller
    return room if missing else 0
