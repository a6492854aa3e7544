"""The Kalman filter of a network with gaps, as the sampler runs it: diagonal plus low rank in the eigenbasis of space.

:mod:`seqgp.statespace.low_rank` has the mathematics. Here it meets a model: one noise level a snapshot, one term or
several with the same eigenvectors, coefficients of the mean, stations that join.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Key

from seqgp.fields.sites import round_size
from seqgp.kernels.base import Parameters
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.dense import DenseEnvironment, DenseFilter, DenseState
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
from seqgp.statespace.low_rank_draws import draw_coefficients, draw_low_rank_path, low_rank_to_dense
from seqgp.statespace.low_rank_points import (
    Points,
    draw_at_points,
    gaussian_at_points,
    num_normals,
    points_anywhere,
    points_at_sites,
    term_rows,
)
from seqgp.statespace.model import System
from seqgp.statespace.modes import Modes, mode_covariance, space_modes
from seqgp.statespace.observation import LevelGaussian, Observation, Places, Where
from seqgp.statespace.two_level import two_level_update

MIN_ROOM = 4  # the smallest room for values that are not seen


class Compression(NamedTuple):
    """How much of the correlations between modes is kept."""

    rank: int  # R
    leading: int | None = None  # the number of modes that it is kept on; all of them where it is None


class NetworkEnvironment(NamedTuple):
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

    system: System
    x: Float[ArrayLike, "M D"]
    mask: Bool[ArrayLike, " M"]
    recent: Float[ArrayLike, " k"]
    context: Any
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
        return DenseFilter(self.system, self.x, self.mask)

    def takes(self, sites: int, complete: bool) -> bool:
        """Whether the sites stay: data may be missing."""
        return sites == int(np.sum(self.mask))

    def sized(self, observation: Observation, before: int = 0) -> Observation:
        """In the order of the sites, with room for gaps: as much as the snapshot before had, or more if it needs more.

        A snapshot that has far more gaps than usual (more than a quarter of the sites) leaves the next one its own.
        """
        index, n = np.asarray(observation.places.index), len(observation.y)

        def at_sites(leaf, fill=0):
            leaf = np.asarray(leaf)
            found = np.full((self.sites, *leaf.shape[1:]), fill, leaf.dtype)
            found[index] = leaf
            return found

        def of_context(leaf):
            leaf = np.asarray(leaf)
            return at_sites(leaf, leaf[0]) if leaf.ndim and len(leaf) == n else leaf

        seen, mask = at_sites(observation.seen), np.asarray(self.mask)
        room = max(gap_room(int(np.sum(mask & ~seen)), self.sites), min(before, -(-self.sites // 4)))
        check_gaps(seen | ~mask, room)
        return observation._replace(
            places=Places(index=np.arange(self.sites)),
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

    def together(self, where: Where | None = None) -> bool:
        """One particle after the other: each keeps a core busy, and only one at a time needs memory to work in."""
        return False

    def environment(self, z: Float[Array, " d"]) -> NetworkEnvironment:
        """Once for each value of the parameters."""
        return self.environment_at(self.system.parameters(z))

    def environment_at(self, parameters: Parameters) -> NetworkEnvironment:
        """The same from the parameters themselves: eigenvectors of space."""
        x, mask = jnp.asarray(self.x), jnp.asarray(self.mask)
        spaces = self.system.space(parameters, self.system.distances(x, x))
        both = mask[:, None] & mask[None, :]
        return NetworkEnvironment(parameters, space_modes(tuple(jnp.where(both, space, 0.0) for space in spaces)))

    def start(self, environment: NetworkEnvironment) -> NetworkState:
        """The state before any data."""
        stationary, q = self.system.stationary(environment.parameters), len(self.system.in_state)
        begun = low_rank_start(environment.modes, stationary, self.compression.rank, q, self.leading)
        return NetworkState(begun, jnp.zeros(()))

    def predict(self, environment: NetworkEnvironment, state: NetworkState, dt: Float[ArrayLike, ""]) -> NetworkState:
        """The state a time ``dt`` later."""
        transition = self.system.transition(environment.parameters, dt)
        noise = mode_covariance(transition.noise, environment.modes)
        return state._replace(low_rank=low_rank_predict(state.low_rank, transition.move, noise))

    def absorb(
        self, environment: NetworkEnvironment, state: NetworkState, observation: Observation
    ) -> tuple[NetworkState, Float[Array, ""]]:
        """The state given one more snapshot, compressed, and the log density of its data given those before."""
        assert observation.gaps is not None, "the snapshot was not laid out by `sized`"
        room = observation.gaps.shape[0]
        if room < self.sites:
            return self._absorbed(environment, state, observation, room)
        some = jnp.any(jnp.asarray(observation.seen))
        return jax.lax.cond(
            some, lambda: self._absorbed(environment, state, observation, room), lambda: (state, jnp.zeros(()))
        )

    def _absorbed(
        self, environment: NetworkEnvironment, state: NetworkState, observation: Observation, room: int
    ) -> tuple[NetworkState, Float[Array, ""]]:
        parameters, mask = environment.parameters, jnp.asarray(self.mask)
        noise = self.system.model.likelihood.noise(observation.context, parameters)
        y = jnp.asarray(observation.y) - self.system.offset(parameters, jnp.asarray(observation.columns))
        seen, padding = jnp.asarray(observation.seen) | ~mask, jnp.sum(~mask, dtype=float)
        data = SiteData(jnp.where(mask, y, 0.0), seen, observation.design, padding)
        update = low_rank_update if self.leading == self.sites else two_level_update
        h, scales = self.system.observe(parameters), self.system.coefficient_scales()
        after, log_density = update(state.low_rank, environment.modes, h, noise, data, scales, room)
        metric = compression_metric(after, noise, self.system.stationary(parameters))
        after, folded = compress(after, metric, self.compression.rank)
        return NetworkState(after, state.folded + folded), log_density

    def as_dense(
        self, environment: NetworkEnvironment, state: NetworkState
    ) -> tuple[DenseFilter, DenseEnvironment, DenseState]:
        """The same on the same sites, with the covariance of the state written out."""
        dense, parameters = self.dense, environment.parameters
        mean, cov = low_rank_to_dense(state.low_rank, environment.modes, self.system.coefficient_scales())
        padding = jnp.diag(jnp.where(jnp.asarray(self.mask), 0.0, 1.0))
        blocks = [jnp.kron(block, padding) for block in self.system.stationary(parameters)]
        cov = cov.at[: dense.fields, : dense.fields].add(jax.scipy.linalg.block_diag(*blocks))
        return dense, dense.environment_at(parameters), DenseState(mean, cov)

    def level(self, environment: NetworkEnvironment, state: NetworkState, where: Where) -> LevelGaussian:
        """Coefficients of the mean, and the level at inputs, from the last snapshot on."""
        points, after, rows, design, offset = self._asked(environment, state, where)
        found = gaussian_at_points(after.low_rank, rows, points, design, self.system.coefficient_scales())
        return found._replace(mean=found.mean.at[design.shape[1] :].add(offset))

    def draw_levels(self, environment: NetworkEnvironment, state: NetworkState, where: Where, real, white) -> Array:
        """Draws of coefficients and level, from standard normal numbers."""
        q = len(self.system.in_state)
        scales = self.system.coefficient_scales()
        coefficients = jax.vmap(lambda one: draw_coefficients(state.low_rank, scales, one))(white[:, :q])
        levels = self.draw_levels_given(environment, state, where, coefficients, white[:, q:])
        return jnp.concatenate([coefficients, levels], axis=1)

    def normals(self, where: Where) -> int:
        """One for each mode and term, for each row of ``F``, and for each point that is not a site."""
        terms = len(self.system.states)
        return num_normals(len(where.columns), self.sites, terms, self.compression.rank, where.at_sites)

    def draw_levels_given(
        self, environment: NetworkEnvironment, state: NetworkState, where: Where, coefficients, white
    ) -> Array:
        """Draws of the level, given the coefficients of the mean."""
        points, _, rows, design, offset = self._asked(environment, state, where)
        return draw_at_points(rows, points, design, coefficients, white) + offset[None, :]

    def _asked(self, environment: NetworkEnvironment, state: NetworkState, where: Where):
        """The points, the state at their time, what the latent sees of it, and the mean's columns and known part."""
        parameters = environment.parameters
        after = self.predict(environment, state, where.dt)
        orders = tuple(one.order for one in self.system.states)
        rows = term_rows(after.low_rank, self.system.observe(parameters), orders)
        design, offset = self.system.design(where.columns), self.system.offset(parameters, where.columns)
        return self._points(environment, where), after, rows, design, offset

    def _points(self, environment: NetworkEnvironment, where: Where) -> Points:
        if where.places is not None:
            return points_at_sites(environment.modes, where.places.index)  # type: ignore[arg-type]
        parameters, x = environment.parameters, jnp.asarray(where.x)
        crosses = self.system.space(parameters, self.system.distances(x, jnp.asarray(self.x)))
        mask = jnp.asarray(self.mask)[None, :]
        spaces = self.system.space(parameters, self.system.distances(x, x))
        variances = self.system.term_variances(parameters)
        return points_anywhere(
            environment.modes, tuple(jnp.where(mask, cross, 0.0) for cross in crosses), spaces, variances
        )


def draw_network_path(
    key: Key[Array, ""], filter: NetworkFilter, environment: NetworkEnvironment, observations: Observation
) -> Float[Array, "T n"]:
    """One draw of the states at all times given all data, each stacked at the sites as in ``DenseFilter``.

    Args:
        key: a random key.
        filter: the filter.
        environment: of one value of the parameters.
        observations: of all times, stacked.
    """
    key_coefficients, key_path = jax.random.split(key)
    system, modes = filter.system, environment.modes

    def forward(state, observation):
        state, _ = filter.absorb(environment, filter.predict(environment, state, observation.dt), observation)
        return state, state.low_rank

    last, states = jax.lax.scan(forward, filter.start(environment), observations)
    scales = system.coefficient_scales()
    coefficients = draw_coefficients(last.low_rank, scales, jax.random.normal(key_coefficients, scales.shape))

    def over(dt):
        transition = system.transition(environment.parameters, dt)
        return transition.move, mode_covariance(transition.noise, modes)

    moves, noises = jax.lax.map(over, jnp.asarray(observations.dt)[1:])
    path = draw_low_rank_path(key_path, states, moves, noises, coefficients) @ modes.vectors.T
    return jnp.concatenate(
        [path.reshape(len(path), -1), jnp.broadcast_to(coefficients, (len(path), len(scales)))], axis=1
    )


def gap_room(missing: int, sites: int) -> int:
    """Room for so many values that are not seen, and for half as many more: few sizes, so that few compile."""
    room, wanted = sites, max(missing + missing // 2, MIN_ROOM)
    while missing and room > 1 and -(-room // 2) >= wanted:
        room = -(-room // 2)
    return room if missing else 0
