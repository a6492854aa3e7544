"""The dense representation: any kernel, any inputs, one Cholesky factor of the stacked window per proposal."""

from __future__ import annotations

import functools
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from seqgp.fields.operators import Events, Triangular, root_with_jitter
from seqgp.fields.protocol import PredictionSites
from seqgp.fields.sites import Observe, Sites, StepSites, Window, pad_rows, padded_size, widen_sites, widen_window
from seqgp.kernels.base import Parameters, Prepared, within
from seqgp.kernels.separable import LatentKernel, Separable, dropped
from seqgp.linalg.factor import solve_lower
from seqgp.model import Model


class DenseGeometry(NamedTuple):
    """Distances between all sites of window and present, and which of them are real."""

    terms: tuple[tuple[Prepared, Prepared], ...]  # of time and of space, one pair for each separable term of the kernel
    mask: Bool[Array, " n"]
    blocks: int
    present: int


class DenseConditional(NamedTuple):
    """``m_t = L_21 L_11⁻¹ f_w`` and ``L_t = L_22``: nothing else needs to be factored."""

    root: Triangular  # L_22
    cross: Float[Array, "S n"]  # L_21
    window: Float[Array, "n n"]  # L_11
    events: Events

    def mean(self, window: Float[Array, "tau S"]) -> Float[Array, " S"]:
        """``L_21 L_11⁻¹ f_w``: the mean of the present given the window."""
        if window.size == 0:
            return jnp.zeros(self.cross.shape[0])
        return self.cross @ solve_lower(self.window, window.reshape(-1))


class Dense(eqx.Module):
    """The latent function at the inputs of the data: exact for any kernel; ``O((tau+1)³ N³)`` per proposal."""

    @property
    def name(self) -> str:
        """``"dense"``."""
        return "dense"

    def sites(self, x: np.ndarray, size: int) -> Sites:
        """The inputs themselves; the last one repeated, and masked, where data are added."""
        return Sites(pad_rows(x, len(x), size), np.arange(size) < len(x), Observe())

    def step_sites(self, x: np.ndarray, window: Window, last: int, pointwise: bool) -> StepSites:
        """As many sites as the widest of window and present needs, or as were compiled before."""
        needed = int(np.flatnonzero(window.mask.any(axis=0))[-1]) + 1
        size = padded_size(pointwise, max(len(x), needed), window.x.shape[1])
        sites = self.sites(x, size) if pointwise else widen_sites(self.sites(x, len(x)), size)
        return StepSites(sites, widen_window(window, size), size if pointwise else len(x))

    def prediction_sites(self, x: np.ndarray, now: bool) -> PredictionSites:
        """The new inputs themselves."""
        return PredictionSites(Dense(), x, Observe(index=np.arange(len(x))), known=False)

    def report(self, model: Model, z: Float[Array, " d"], x: np.ndarray) -> tuple[dict[str, float], list[str]]:
        """Nothing: the representation is exact."""
        return {}, []

    def geometry(self, kernel: LatentKernel, times, x, mask, present: int) -> DenseGeometry:
        """Distances between all sites of window and present, in time and in space."""
        flat = x.reshape(-1, x.shape[-1])
        if kernel.moving:  # each site has its own local times or inputs
            terms = kernel.prepare(jnp.repeat(jnp.asarray(times), x.shape[1]), jnp.asarray(flat))
        else:
            terms = tuple(
                (term.prepare_time(times[:, None], times[:, None]), term.space.prepare(flat, flat))
                for _, term in kernel.terms()
            )
        return DenseGeometry(
            terms=terms,
            mask=mask.reshape(-1),
            blocks=x.shape[0],
            present=present,
        )

    def conditional(
        self, kernel: LatentKernel, geometry: DenseGeometry, parameters: Parameters, jitter: tuple[float, ...]
    ) -> DenseConditional:
        """From one Cholesky factor ``[[L_11, 0], [L_21, L_22]]`` of the covariance of window and present."""
        variance = kernel.variance(parameters)
        covariance = stacked_covariance(kernel, geometry, parameters)
        # A padded site is independent of everything: its row is that of the identity.
        both = geometry.mask[:, None] & geometry.mask[None, :]
        covariance = jnp.where(both, covariance, variance * jnp.eye(covariance.shape[0]))
        found, events = root_with_jitter(covariance, variance, jitter)
        split = covariance.shape[0] // geometry.blocks * (geometry.blocks - geometry.present)
        root = found.root
        if split == 0:
            return DenseConditional(found, root[:, :0], root[:0, :0], events)
        return DenseConditional(Triangular(root[split:, split:]), root[split:, :split], root[:split, :split], events)


def stacked_covariance(kernel: LatentKernel, geometry: DenseGeometry, parameters: Parameters) -> Float[Array, "n n"]:
    """The covariance over the blocks of sites, one block a time."""
    if kernel.moving:
        return kernel.covariance(geometry.terms, parameters)
    terms = [
        _stacked(term, pair, geometry.blocks, dropped(parameters, prefix))
        for (prefix, term), pair in zip(kernel.terms(), geometry.terms)
    ]
    return functools.reduce(jnp.add, terms)


def _stacked(
    term: Separable, prepared: tuple[Prepared, Prepared], blocks: int, parameters: Parameters
) -> Float[Array, "n n"]:
    time = term.time_covariance(prepared[0], parameters)
    space = term.space.covariance(prepared[1], within(parameters, "space"))
    variance, n = parameters["scale"] ** 2, space.shape[0]
    if blocks == 1:
        return variance * (space * time[0, 0])
    size = n // blocks
    return variance * (space.reshape(blocks, size, blocks, size) * time[:, None, :, None]).reshape(n, n)
