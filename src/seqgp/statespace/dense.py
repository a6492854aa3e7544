"""The Kalman filter of a field at sites that stay: any data, any pattern of what is missing.

The state stacks, for each component ``a`` of the time kernels' states, the field ``s_a`` at the ``M`` sites; after it
come the coefficients of the mean. Its covariance is kept whole.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from seqgp.fields.sites import round_size
from seqgp.kernels.base import Parameters
from seqgp.linalg.factor import inverse_root, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.gauss_markov import GaussMarkov, gauss_markov
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.observation import LatentGaussian, Observation, Query, SiteOperator, padded
from seqgp.statespace.site_filter import GaussianSites
from seqgp.statespace.transition import moved, moved_covariance
from seqgp.statespace.update import Update, approximate_update, gaussian_update, update_given_sites

SMALL = 64  # components up to which the states of all particles are filtered at once


class DenseState(NamedTuple):
    """The state given the data so far: a Gaussian."""

    mean: Float[Array, " n"]
    covariance: Float[Array, "n n"]


class DenseMatrices(NamedTuple):
    """What one value of the parameters decides."""

    parameters: Parameters
    space: tuple[Float[Array, "M M"], ...]  # scale² K_space of each term at the sites
    basis: Float[Array, "K M"] | None = None  # from the sites to the points that data are interpolated from


class DenseFilter(eqx.Module):
    """The filter on sites ``x``; where ``mask`` is false there is only padding, independent of everything."""

    ssm: StateSpaceModel
    x: Float[ArrayLike, "M D"]
    mask: Bool[ArrayLike, " M"]

    @property
    def name(self) -> str:
        """In a word, for people."""
        return "dense"

    @property
    def sites(self) -> int:
        """The number of sites."""
        return self.x.shape[0]

    @property
    def fields(self) -> int:
        """The length of the state without coefficients of the mean."""
        return self.ssm.order * self.sites

    def takes(self, sites: int, complete: bool) -> bool:
        """Whether it has so many sites: data may be missing."""
        return sites <= int(np.sum(self.mask))

    def sized(self, observation: Observation) -> Observation:
        """Padded to the number of sites; linearised data keep their number."""
        return observation if observation.line is not None else padded(observation, max(len(observation.y), self.sites))

    def padded_size(self, n: int) -> int:
        """One of a few sizes."""
        return round_size(n)

    def together(self, query: Query | None = None) -> bool:
        """Whether state and points asked about are few."""
        return self.fields + (0 if query is None else len(query.columns)) <= SMALL

    def matrices(self, z: Float[Array, " d"]) -> DenseMatrices:
        """Once for each value of the parameters."""
        return self.matrices_at(self.ssm.parameters(z))

    def matrices_at(self, parameters: Parameters) -> DenseMatrices:
        """The same from the parameters themselves."""
        x, both = jnp.asarray(self.x), jnp.asarray(self.mask)[:, None] & jnp.asarray(self.mask)[None, :]
        space = self.ssm.space(parameters, self.ssm.distances(x, x))
        return DenseMatrices(parameters, tuple(jnp.where(both, k, jnp.eye(self.sites)) for k in space))

    def start(self, matrices: DenseMatrices) -> DenseState:
        """The state before any data: stationary, its coefficients standard normal times their prior sd."""
        blocks = [
            jnp.kron(stationary, space)
            for stationary, space in zip(self.ssm.stationary(matrices.parameters), matrices.space)
        ]
        scales = self.ssm.coefficient_scales()
        covariance = jax.scipy.linalg.block_diag(*blocks, jnp.diag(scales**2))
        return DenseState(jnp.zeros(covariance.shape[0]), covariance)

    def predict(self, matrices: DenseMatrices, state: DenseState, dt: Float[ArrayLike, ""]) -> DenseState:
        """The state a time ``dt`` later."""
        transition = self.ssm.transition(matrices.parameters, dt)
        mean = moved(transition.move, state.mean[:, None], self.sites)[:, 0]
        return DenseState(mean, moved_covariance(transition, matrices.space, state.covariance))

    def history_prior(
        self, matrices: DenseMatrices, dts: Float[Array, " T"], times: Float[Array, " T"]
    ) -> tuple[GaussMarkov, Float[Array, "T p"]]:
        """The states at many times, each a time ``dt`` after the one before, and ``h`` of the operator at each."""
        steps = jax.vmap(lambda dt: self.ssm.transition(matrices.parameters, dt))(dts)
        prior = gauss_markov(self.start(matrices).covariance, steps.move, steps.noise, matrices.space)
        return prior, jax.vmap(lambda t: self._weights(matrices.parameters, t))(times)

    def update(
        self, matrices: DenseMatrices, state: DenseState, observation: Observation
    ) -> tuple[DenseState, Float[Array, ""]]:
        """The state given one more snapshot, and the log density of its data given those before."""
        cross, update, _ = self._updated(matrices, state, observation)
        return self._moved_by(state, cross, update), update.log_evidence

    def update_with_sites(
        self, matrices: DenseMatrices, state: DenseState, observation: Observation
    ) -> tuple[DenseState, GaussianSites]:
        """The state given one more snapshot that is not Gaussian, and the sites of EP in the latent function itself.

        A site that would make the latent less certain, and one of a datum that EP fails on, keeps no precision.
        """
        cross, update, f = self._updated(matrices, state, observation)
        assert update.sites is not None
        precision, pull = update.sites
        tau = jnp.where(observation.seen & jnp.isfinite(precision), jnp.maximum(precision, 0.0), 0.0)
        nu = jnp.where(observation.seen, pull + tau * f, 0.0)
        fine = jnp.isfinite(nu)
        return self._moved_by(state, cross, update), GaussianSites(*(jnp.where(fine, part, 0.0) for part in (tau, nu)))

    def given_sites(
        self, matrices: DenseMatrices, state: DenseState, observation: Observation, sites: GaussianSites
    ) -> DenseState:
        """The state given Gaussian sites in place of the data of a snapshot."""
        cross, f, f_cov = self._at_data(matrices, state, observation)
        return self._moved_by(state, cross, update_given_sites(sites.tau, sites.nu, f, f_cov))

    def _moved_by(self, state: DenseState, cross: Float[Array, "n N"], update: Update) -> DenseState:
        """The state after an update of ``f`` at the data."""
        # LAPACK leaves the solution by columns. The barrier has it taken as its transpose by rows, whose product with
        # itself is twice as fast as the one that the compiler would choose.
        half = jax.lax.optimization_barrier(solve_lower(update.root, update.scale[:, None] * cross.T).T)
        mean, covariance = state.mean + cross @ update.slope, state.covariance - half @ half.T
        if update.growth is not None:
            more = cross @ update.growth
            covariance = covariance + more @ more.T
        return DenseState(mean, covariance)

    def faults(self, matrices: DenseMatrices, state: DenseState, observation: Observation) -> Array | None:
        """What is wrong with each datum of a snapshot, as an index of :data:`seqgp.statespace.snapshot_ep.FAULTS`."""
        return self._updated(matrices, state, observation)[1].fault

    def _updated(
        self, matrices: DenseMatrices, state: DenseState, observation: Observation
    ) -> tuple[Float[Array, "n N"], Update, Float[Array, " N"]]:
        """The covariance of the state with ``f`` at the data, what those do to ``f``, and its mean before."""
        parameters, likelihood = matrices.parameters, self.ssm.model.likelihood
        context, line = observation.context, observation.line
        cross, f, f_cov = self._at_data(matrices, state, observation)
        if line is not None:
            update = gaussian_update(line.variance(likelihood, context, parameters), observation, f, f_cov)
        elif likelihood.conjugate:
            update = gaussian_update(likelihood.noise(context, parameters) ** 2, observation, f, f_cov)
        else:
            update = approximate_update(likelihood, parameters, observation, f, f_cov)
        return cross, update, f

    def _at_data(
        self, matrices: DenseMatrices, state: DenseState, observation: Observation
    ) -> tuple[Float[Array, "n N"], Float[Array, " N"], Float[Array, "N N"]]:
        """The covariance of the state with ``f`` at the data (as a line sees it), and mean and covariance of ``f``."""
        parameters, seen, line = matrices.parameters, observation.seen, observation.line
        operator = observation.operator.through(matrices.basis)
        offset = self.ssm.offset(parameters, observation.columns)
        h, slope = self._weights(parameters, observation.t), None
        if line is not None:
            slope, shift = line.slope_and_shift(self.ssm.model.likelihood, observation.context, parameters)
            offset = slope @ offset + shift

        def by_data(rows):  # each row, a state, as the data see it
            f = self._seen_by(h, rows, operator, observation.design)
            return f if slope is None else f @ slope.T

        cross = jnp.where(seen[None, :], by_data(state.covariance), 0.0)
        f = by_data(state.mean[None, :])[0] + offset
        f_cov = self._seen_by_columns(h, cross, operator, observation.design)
        return cross, f, jnp.where(seen[:, None], f_cov if slope is None else slope @ f_cov, 0.0)

    def as_dense(self, matrices: DenseMatrices, state: DenseState) -> tuple[DenseFilter, DenseMatrices, DenseState]:
        """As it is."""
        return self, matrices, state

    def predict_f(self, matrices: DenseMatrices, state: DenseState, query: Query) -> LatentGaussian:
        """Coefficients of the mean, and ``f`` at inputs, from the last snapshot on."""
        state = self.predict(matrices, state, query.dt)
        design = self.ssm.design(query.columns)
        offset = self.ssm.offset(matrices.parameters, query.columns)
        if query.operator is None:
            return self.at_inputs(matrices, state, query.x, design, offset, query.t)
        return self.at_data(matrices, state, query.operator, design, offset, query.t)

    def draw_f(self, matrices: DenseMatrices, state: DenseState, query: Query, real, white) -> Array:
        """Draws of both, from standard normal numbers; where they are not ``real`` but padding, any numbers."""
        return self.predict_f(matrices, state, query).draws(real, white)

    def normals(self, query: Query) -> int:
        """One for each point that is asked about."""
        return len(query.columns)

    def draw_f_given(self, matrices: DenseMatrices, state: DenseState, query: Query, coefficients, white) -> Array:
        """Draws of ``f``, given the coefficients of the mean."""
        return self.predict_f(matrices, state, query).draws_given(coefficients, white)

    def at_data(
        self,
        matrices: DenseMatrices,
        state: DenseState,
        operator: SiteOperator,
        design: Float[ArrayLike, "N q"],
        offset: Float[ArrayLike, " N"],
        t: ArrayLike,
    ) -> LatentGaussian:
        """Coefficients of the mean, and ``f`` at places among the sites."""
        h, operator = self._weights(matrices.parameters, t), operator.through(matrices.basis)
        rows = self._with_f(h, state.covariance, operator, design)
        covariance = self._with_f(h, rows.T, operator, design)
        mean = self._with_f(h, state.mean[None, :], operator, design)[0]
        return LatentGaussian(mean.at[design.shape[1] :].add(offset), covariance).symmetric()

    def _weights(self, parameters: Parameters, t: ArrayLike) -> Float[Array, " p"]:
        """``h``: what the latent at a site sees of the state there."""
        return self.ssm.observe(parameters, t)

    def _seen_by(self, h: Float[Array, " p"], rows, operator: SiteOperator, design) -> Float[Array, "k N"]:
        """Each row, a state, as the data see it: ``h's`` at their places, and their columns of the mean."""
        return operator.of(self._latent(h, rows)) + rows[:, self.fields :] @ design.T

    def _seen_by_columns(self, h: Float[Array, " p"], columns, operator: SiteOperator, design) -> Float[Array, "N k"]:
        """The same of each column, a state: rows lie together in memory, so that nothing is transposed."""
        m = self.sites
        latent = _weighted(h, [columns[a * m : (a + 1) * m] for a in range(self.ssm.order)])
        return operator.of_rows(latent) + design @ columns[self.fields :]

    def _latent(self, h: Float[Array, " p"] | Float[Array, "p k 1"], rows: Float[Array, "k n"]) -> Float[Array, "k M"]:
        """``h's`` at the sites; ``h`` may differ from row to row."""
        m = self.sites
        return _weighted(h, [rows[:, a * m : (a + 1) * m] for a in range(self.ssm.order)])

    def _with_f(self, h, rows, operator: SiteOperator, design) -> Float[Array, "k q+N"]:
        coefficients = rows[:, self.fields :]
        return jnp.concatenate([coefficients, operator.of(self._latent(h, rows)) + coefficients @ design.T], axis=1)

    def moved_rows(self, matrices: DenseMatrices, rows: Float[Array, "n k"], dt: Float[ArrayLike, ""]) -> Array:
        """Each column, a state, as it moves in a time ``dt`` without noise."""
        return moved(self.ssm.transition(matrices.parameters, dt).move, rows, self.sites)

    def shown(
        self, matrices: DenseMatrices, states: Float[Array, "k n"], times: Float[ArrayLike, " k"]
    ) -> Float[Array, "k M+q"]:
        """The latent at the points that data see (sites, or knots), and the coefficients of the mean."""
        h = jax.vmap(lambda t: self._weights(matrices.parameters, t), out_axes=1)(jnp.asarray(times))
        latent = self._latent(h[:, :, None], states)
        at_points = latent if matrices.basis is None else latent @ matrices.basis.T
        return jnp.concatenate([at_points, states[:, self.fields :]], axis=1)

    def extended(
        self, after: DenseFilter, matrices: DenseMatrices, state: DenseState
    ) -> tuple[DenseMatrices, DenseState]:
        """The state on the sites of another filter, of which these are the first, for any kernel.

        Given the field at the old sites, that at new ones is ``C s`` with ``C = K(new, old) K(old)⁻¹``, and an
        independent part that no data have seen. Directions in which ``K(old)`` is singular up to rounding, with
        eigenvalues ``< δ λ_max`` (:data:`seqgp.linalg.factor.SINGULAR_SHARE`), take no part: variances stay exact, and
        a covariance ``k(new, old)`` changes by at most ``√(δ λ_max k(new, new))``, that is ``√(δ M)`` of the variance.
        """
        parameters, old, new = matrices.parameters, self.sites, after.sites
        known = jnp.pad(jnp.asarray(self.mask), (0, new - old))
        joined = jnp.asarray(after.mask) & ~known
        fresh = after.matrices_at(parameters)
        maps, parts, start, blocks = [], [], 0, []
        for term, (space, stationary) in enumerate(zip(fresh.space, self.ssm.stationary(parameters))):
            cross = jnp.where(joined[:, None] & jnp.asarray(self.mask)[None, :], space[:, :old], 0.0)
            whiten = inverse_root(matrices.space[term])
            half = whiten @ cross.T
            weights = half.T @ whiten
            maps.append(jnp.where(known[:, None], jnp.eye(new, old), weights))
            left = jnp.where(joined[:, None] & joined[None, :], space - half.T @ half, 0.0)
            padding = jnp.diag(jnp.where(known | joined, 0.0, 1.0))
            parts.append(jnp.kron(stationary, left + padding))
            order = stationary.shape[0]
            blocks.append((start, order))
            start += order

        def moved(rows):  # (n, k): the sites of each field, term by term
            fields = rows[: self.fields].reshape(self.ssm.order, old, -1)
            pieces = [jnp.einsum("ij,ajk->aik", m, fields[s : s + o]) for m, (s, o) in zip(maps, blocks)]
            return jnp.concatenate([jnp.concatenate(pieces).reshape(after.fields, -1), rows[self.fields :]])

        covariance = moved(moved(state.covariance).T)
        independent = jax.scipy.linalg.block_diag(*parts)
        covariance = covariance.at[: after.fields, : after.fields].add(independent)
        return fresh, DenseState(moved(state.mean[:, None])[:, 0], covariance)

    def at_inputs(
        self,
        matrices: DenseMatrices,
        state: DenseState,
        x: Float[ArrayLike, "N D"],
        design: Float[ArrayLike, "N q"],
        offset: Float[ArrayLike, " N"],
        t: ArrayLike,
    ) -> LatentGaussian:
        """Coefficients of the mean, and ``f`` anywhere in space: the state at the sites is sufficient for it."""
        whole = DenseFilter(
            self.ssm,
            jnp.concatenate([jnp.asarray(self.x), x]),
            jnp.concatenate([jnp.asarray(self.mask), jnp.ones(x.shape[0], bool)]),
        )
        fresh, extended = self.extended(whole, matrices, state)
        index = self.sites + jnp.arange(x.shape[0])
        return whole.at_data(fresh, extended, SiteOperator(index=index), design, offset, t)


def _weighted(weights: Float[Array, " p *k"], parts: list[Array]) -> Array:
    """The weighted sum of a few parts, in one pass over them."""
    total = weights[0] * parts[0]
    for weight, part in zip(weights[1:], parts[1:], strict=True):
        total = total + weight * part
    return total
