"""The Kalman filter for complete data on sites that stay, one term and one noise level: ``M`` filters of small order.

In the coordinates of the eigenvectors of ``K_space`` the field falls into independent scalar processes, and so do
complete data. On a product grid the eigenvectors are a Kronecker product. Coefficients of the mean tie the processes
together: they are kept apart, as responses of the filter to their columns (de Jong 1991).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from seqgp.kernels.base import Parameters, within
from seqgp.linalg.factor import cholesky, eigenvectors, solve_lower
from seqgp.linalg.types import Array, ArrayLike
from seqgp.statespace.dense import DenseFilter, DenseMatrices, DenseState
from seqgp.statespace.model import StateSpaceModel
from seqgp.statespace.observation import LatentGaussian, Observation, Query, SiteOperator
from seqgp.statespace.update import possible

TOGETHER = 200  # sites above which each particle's eigenvectors keep a core busy, and memory is for one at a time


class RotatedState(NamedTuple):
    """``M`` small Gaussians, and what the data say about the coefficients of the mean."""

    mean: Float[Array, "p M"]
    covariance: Float[Array, "p p M"]
    response: Float[Array, "q p M"]  # the mean of the state that a unit of each coefficient explains
    precision: Float[Array, "q q"]  # of the coefficients, the data's part
    information: Float[Array, " q"]


class RotatedMatrices(NamedTuple):
    """What one value of the parameters decides."""

    parameters: Parameters
    vectors: tuple[Float[Array, "m m"], ...]  # eigenvectors of K_space, one matrix per axis of a product grid
    values: Float[Array, " M"]  # eigenvalues, times scale²


class RotatedFilter(eqx.Module):
    """The filter on sites ``x``, in the order of a product grid where ``axes`` are given."""

    ssm: StateSpaceModel
    x: Float[ArrayLike, "M D"]
    axes: tuple[Float[ArrayLike, " m"], ...] | None

    @property
    def name(self) -> str:
        """In a word, for people."""
        return "rotated"

    @property
    def sites(self) -> int:
        """The number of sites."""
        return self.x.shape[0]

    def takes(self, sites: int, complete: bool) -> bool:
        """Whether the sites stay, and all are seen."""
        return complete and sites == self.sites

    def sized(self, observation: Observation) -> Observation:
        """In the order of the sites."""
        order = np.argsort(np.asarray(observation.operator.index))
        return observation._replace(
            operator=SiteOperator(index=np.arange(len(order))),
            y=observation.y[order],
            design=observation.design[order],
            columns=observation.columns[order],
        )

    def padded_size(self, n: int) -> int:
        """As many as there are: complete data have one size."""
        return n

    def together(self, query: Query | None = None) -> bool:
        """At few sites, or many of a grid, whose eigenvectors are small; elsewhere covariances are written out."""
        small = self.axes is not None or self.sites <= TOGETHER
        return small and (query is None or query.at_sites or self._dense.together(query))

    @property
    def _dense(self) -> DenseFilter:
        return DenseFilter(self.ssm, self.x, np.ones(self.sites, bool))

    def matrices(self, z: Float[Array, " d"]) -> RotatedMatrices:
        """Once for each value of the parameters: eigenvectors of the space kernel."""
        parameters = self.ssm.parameters(z)
        pairs = [eigenvectors(matrix) for matrix in self._factors(parameters)]
        values = functools.reduce(jnp.kron, [jnp.maximum(value, 0.0) for value, _ in pairs])
        return RotatedMatrices(parameters, tuple(vectors for _, vectors in pairs), parameters["scale"] ** 2 * values)

    def from_basis(
        self, parameters: Parameters, values: Float[Array, " M"], vectors: Float[Array, "M M"]
    ) -> RotatedMatrices:
        """The same where eigenvalues (times scale²) and eigenvectors of space are known: without axes."""
        return RotatedMatrices(parameters, (vectors,), values)

    def start(self, matrices: RotatedMatrices) -> RotatedState:
        """The state before any data."""
        (stationary,) = self.ssm.stationary(matrices.parameters)
        p, q, m = self.ssm.order, len(self.ssm.in_state), self.sites
        return RotatedState(
            jnp.zeros((p, m)),
            stationary[:, :, None] * matrices.values[None, None, :],
            jnp.zeros((q, p, m)),
            jnp.zeros((q, q)),
            jnp.zeros(q),
        )

    def predict(self, matrices: RotatedMatrices, state: RotatedState, dt: Float[ArrayLike, ""]) -> RotatedState:
        """The state a time ``dt`` later."""
        transition = self.ssm.transition(matrices.parameters, dt)
        move, (noise,) = transition.move, transition.noise
        return state._replace(
            mean=move @ state.mean,
            covariance=jnp.einsum("ab,bcm,dc->adm", move, state.covariance, move)
            + noise[:, :, None] * matrices.values[None, None, :],
            response=jnp.einsum("ab,qbm->qam", move, state.response),
        )

    def update(
        self, matrices: RotatedMatrices, state: RotatedState, observation: Observation
    ) -> tuple[RotatedState, Float[Array, ""]]:
        """The state given one more complete snapshot, and the log density of its data given those before."""
        parameters = matrices.parameters
        h = self.ssm.observe(parameters, observation.t)
        offset = self.ssm.offset(parameters, observation.columns)
        data = self.rotate(matrices, observation.y - offset)
        columns = self.rotate(matrices, observation.design).T  # (q, M)
        covariance = jnp.einsum("abm,b->am", state.covariance, h)
        noise = self.ssm.model.likelihood.noise(observation.context, parameters) ** 2
        variance = h @ covariance + noise
        gain = covariance / variance[None, :]
        surprise = data - h @ state.mean
        unexplained = columns - jnp.einsum("a,qam->qm", h, state.response)
        after = RotatedState(
            state.mean + gain * surprise[None, :],
            state.covariance - gain[:, None, :] * covariance[None, :, :],
            state.response + gain[None, :, :] * unexplained[:, None, :],
            state.precision + (unexplained / variance[None, :]) @ unexplained.T,
            state.information + (unexplained / variance[None, :]) @ surprise,
        )
        alone = -0.5 * jnp.sum(surprise**2 / variance + jnp.log(2 * jnp.pi * variance))
        log_density = alone + self._explained(after) - self._explained(state)
        return after, possible(log_density, h @ covariance, noise, observation)

    def rotate(self, matrices: RotatedMatrices, values: Float[ArrayLike, " M *k"]) -> Float[Array, " M *k"]:
        """``U' values``."""
        return self._along_axes([vectors.T for vectors in matrices.vectors], values)

    def rotate_back(self, matrices: RotatedMatrices, values: Float[Array, " M *k"]) -> Float[Array, " M *k"]:
        """``U values``."""
        return self._along_axes(matrices.vectors, values)

    def rotate_back_squared(self, matrices: RotatedMatrices, values: Float[Array, " M *k"]) -> Float[Array, " M *k"]:
        """The same with the entries of ``U`` squared: variances at the sites, from those of the modes."""
        return self._along_axes([vectors**2 for vectors in matrices.vectors], values)

    def coefficients(self, state: RotatedState) -> tuple[Float[Array, " q"], Float[Array, "q q"]]:
        """Mean of the coefficients of the mean (less their prior mean), and the Cholesky factor of their precision."""
        root = cholesky(state.precision + jnp.diag(self.ssm.coefficient_scales() ** -2.0))
        return solve_lower(root, solve_lower(root, state.information), transpose=True), root

    def draw(
        self, matrices: RotatedMatrices, state: RotatedState, white: Float[Array, " q+M"], t: ArrayLike
    ) -> tuple[Float[Array, " q"], Float[Array, " M"]]:
        """Coefficients, and the latent without mean at the sites, from standard normal numbers."""
        q = len(self.ssm.in_state)
        coefficients = jnp.zeros(q)
        if q:
            mean, root = self.coefficients(state)
            coefficients = mean + solve_lower(root, white[:q], transpose=True)
        return coefficients, self.draw_given(matrices, state, coefficients, white[q:], t)

    def draw_given(
        self,
        matrices: RotatedMatrices,
        state: RotatedState,
        coefficients: Float[Array, " q"],
        white: Float[Array, " M"],
        t: ArrayLike,
    ) -> Float[Array, " M"]:
        """The latent without mean at the sites, given the coefficients of the mean."""
        h = self.ssm.observe(matrices.parameters, t)
        centre = h @ (state.mean - jnp.einsum("q,qpm->pm", coefficients, state.response))
        sd = jnp.sqrt(jnp.maximum(jnp.einsum("a,abm,b->m", h, state.covariance, h), 0.0))
        return self.rotate_back(matrices, centre + sd * white)

    def predict_f(self, matrices: RotatedMatrices, state: RotatedState, query: Query) -> LatentGaussian:
        """Coefficients of the mean, and ``f`` at inputs, from the last snapshot on."""
        dense, dense_matrices, dense_state = self.as_dense(matrices, state)
        return dense.predict_f(dense_matrices, dense_state, query)

    def draw_f(self, matrices: RotatedMatrices, state: RotatedState, query: Query, real, white) -> Array:
        """Draws of coefficients and ``f`` at the last snapshot's inputs, which are all sites, mode by mode."""
        design = self.ssm.design(query.columns)
        offset = self.ssm.offset(matrices.parameters, query.columns)
        index = query.operator.index  # type: ignore[union-attr]

        def draw(white):
            coefficients, latent = self.draw(matrices, state, white, query.t)
            return jnp.concatenate([coefficients, latent[index] + design @ coefficients + offset])

        return jax.vmap(draw)(white)

    def normals(self, query: Query) -> int:
        """One for each mode where sites are asked about, however few of them: every mode is seen at every site."""
        return self.sites if query.at_sites else len(query.columns)

    def draw_f_given(self, matrices: RotatedMatrices, state: RotatedState, query: Query, coefficients, white) -> Array:
        """Draws of ``f``, given the coefficients of the mean: mode by mode, then at some of the sites."""
        if not query.at_sites:
            return self.predict_f(matrices, state, query).draws_given(coefficients, white)
        state = self.predict(matrices, state, query.dt)
        design = self.ssm.design(query.columns)
        offset = self.ssm.offset(matrices.parameters, query.columns)
        index = query.operator.index  # type: ignore[union-attr]

        def draw(known, white):
            return self.draw_given(matrices, state, known, white, query.t)[index] + design @ known + offset

        return jax.vmap(draw)(coefficients, white)

    def as_dense(self, matrices: RotatedMatrices, state: RotatedState) -> tuple[DenseFilter, DenseMatrices, DenseState]:
        """The same with the covariance of the state written out."""
        dense = self._dense
        return dense, *self.to_dense(dense, matrices, state)

    def to_dense(
        self, dense: DenseFilter, matrices: RotatedMatrices, state: RotatedState
    ) -> tuple[DenseMatrices, DenseState]:
        """The same as a state of the dense filter on the same sites (and, after them, others that are only padding)."""
        p, q, m, whole = self.ssm.order, len(self.ssm.in_state), self.sites, dense.sites

        def back(rows):  # (..., M) in rotated coordinates to sites, padded
            flat = self.rotate_back(matrices, rows.reshape(-1, m).T).T
            return jnp.pad(flat, ((0, 0), (0, whole - m))).reshape(*rows.shape[:-1], whole)

        vectors = back(jnp.eye(m))  # (M modes, whole)
        covariance = jnp.einsum("im,abm,jm->aibj", vectors.T, state.covariance, vectors.T)
        (stationary,) = self.ssm.stationary(matrices.parameters)
        padding = jnp.diag(jnp.where(jnp.arange(whole) < m, 0.0, 1.0))
        covariance = covariance + stationary[:, None, :, None] * padding[None, :, None, :]
        covariance = covariance.reshape(p * whole, p * whole)
        mean = back(state.mean).reshape(-1)
        if q:
            centre, root = self.coefficients(state)
            inverse = solve_lower(root, jnp.eye(q))
            spread = inverse.T @ inverse
            response = back(state.response).reshape(q, -1)
            mean = jnp.concatenate([mean - centre @ response, centre])
            cross = -spread @ response
            covariance = jnp.block([[covariance - response.T @ cross, cross.T], [cross, spread]])
        return dense.matrices_at(matrices.parameters), DenseState(mean, covariance)

    def _explained(self, state: RotatedState) -> Float[Array, ""]:
        """What integrating the coefficients out adds to the log evidence."""
        if not len(self.ssm.in_state):
            return jnp.zeros(())
        _, root = self.coefficients(state)
        white = solve_lower(root, state.information)
        scales = self.ssm.coefficient_scales()
        return 0.5 * white @ white - jnp.sum(jnp.log(jnp.diagonal(root))) - jnp.sum(jnp.log(scales))

    def _factors(self, parameters: Parameters) -> list[Float[Array, "m m"]]:
        """``K_space``, or its factor along each axis of a product grid."""
        space, own = self.ssm.model.kernel.terms()[0][1].space, within(parameters, "space")
        if self.axes is None:
            x = jnp.asarray(self.x)
            return [space.covariance(space.prepare(x, x), own)]
        factors = []
        for axis, line in enumerate(self.axes):
            kernel, choose = space.along(axis, len(self.axes))  # type: ignore[misc]
            points = jnp.asarray(line)[:, None]
            factors.append(kernel.covariance(kernel.prepare(points, points), choose(own)))
        return factors

    def _along_axes(self, matrices: Sequence[Array], values: ArrayLike) -> Array:
        if len(matrices) == 1:
            return matrices[0] @ values
        shape = tuple(len(matrix) for matrix in matrices)
        block = jnp.reshape(values, (*shape, *values.shape[1:]))
        for axis, matrix in enumerate(matrices):
            block = jnp.moveaxis(jnp.tensordot(matrix, block, axes=(1, axis)), 0, axis)
        return block.reshape(values.shape)
