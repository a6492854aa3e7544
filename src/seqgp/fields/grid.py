"""Shared inputs: the conditional prior is a scalar times the space prior, a Kronecker product on product grids."""

from __future__ import annotations

import abc
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from seqgp.base.errors import DataError
from seqgp.fields.dense import Dense
from seqgp.fields.operators import Events, Kronecker, root_with_jitter
from seqgp.fields.protocol import PredictionSites
from seqgp.fields.sites import Observe, Sites, StepSites, Window, padded_size
from seqgp.kernels.base import Parameters, Prepared, within
from seqgp.kernels.separable import LatentKernel, Separable, one_term
from seqgp.linalg.factor import cholesky, solve_lower
from seqgp.model import Model


class GridGeometry(NamedTuple):
    """Squared differences in time, and in space along each axis (or over all sites)."""

    time: Prepared
    space: tuple[Prepared, ...]
    known: Bool[Array, " tau"]


class GridConditional(NamedTuple):
    """``m_t = Σ w_s f_s`` and ``L_t = √c · scale · chol(K_space)``."""

    root: Kronecker
    weights: Float[Array, " tau"]
    events: Events

    def mean(self, window: Float[Array, "tau S"]) -> Float[Array, " S"]:
        """``Σ w_s f_s``: the mean of the present given the window."""
        return self.weights @ window


class SharedInputs(eqx.Module):
    """What representations on fixed sites have in common: the conditional prior.

    ``axes`` are the sites' coordinates along each dimension where they form a product grid and the kernel is a
    product, otherwise ``None``.
    """

    points: np.ndarray  # (S, D), in the order of the grid
    axes: tuple[np.ndarray, ...] | None

    @abc.abstractmethod
    def sites(self, x: np.ndarray, size: int) -> Sites:
        """The fixed sites, and how data at ``x`` see them."""

    def step_sites(self, x: np.ndarray, window: Window, last: int, pointwise: bool) -> StepSites:
        """The sites and the window are those there are: only the data are padded, once their number has changed."""
        size = padded_size(pointwise, len(x), None if len(x) == last else 0)
        return StepSites(self.sites(x, size), window, size)

    def geometry(self, kernel: LatentKernel, times, x, mask, present: int) -> GridGeometry:
        """Distances in time, and in space along each axis of the grid (or between all sites)."""
        if present != 1:
            raise ValueError("a representation with shared inputs has one present block")
        kernel = one_term(kernel, "a representation with shared inputs")
        time = kernel.prepare_time(times[:, None], times[:, None])
        if self.axes is None:
            points = jnp.asarray(self.points)
            space = (kernel.space.prepare(points, points),)
        else:
            space = tuple(
                _factor(kernel, d, len(self.axes))[0].prepare(jnp.asarray(axis)[:, None], jnp.asarray(axis)[:, None])
                for d, axis in enumerate(self.axes)
            )
        return GridGeometry(time, space, mask.any(axis=1)[:-present])

    def conditional(
        self, kernel: LatentKernel, geometry: GridGeometry, parameters: Parameters, jitter: tuple[float, ...]
    ) -> GridConditional:
        """From the time kernel's weights, and one Cholesky factor per axis of space."""
        kernel = one_term(kernel, "a representation with shared inputs")
        weights, gain = time_conditional(kernel, geometry, parameters, jitter[0])
        space = within(parameters, "space")
        one = jnp.ones(())
        factors, events = [], Events.none()
        for d, prepared in enumerate(geometry.space):
            if self.axes is None:
                matrix = kernel.space.covariance(prepared, space)
            else:
                factor, choose = _factor(kernel, d, len(self.axes))
                matrix = factor.covariance(prepared, choose(space))
            found, happened = root_with_jitter(matrix, one, jitter)
            factors.append(found)
            events = events + happened
        return GridConditional(Kronecker(parameters["scale"] * gain, tuple(factors)), weights, events)


def time_conditional(kernel: Separable, geometry: GridGeometry, parameters: Parameters, jitter: float):
    """Weights of the window's times and the standard deviation of what is new, from the time kernel alone."""
    covariance = kernel.time_covariance(geometry.time, parameters)
    known = jnp.append(geometry.known, True)
    covariance = jnp.where(known[:, None] & known[None, :], covariance, jnp.eye(len(known)))
    root = cholesky(covariance + jitter * jnp.eye(len(known)))
    tau = len(known) - 1
    weights = solve_lower(root[:tau, :tau], root[tau, :tau], transpose=True)
    return weights, root[tau, tau]


def _factor(kernel: Separable, axis: int, dimension: int):
    found = kernel.space.along(axis, dimension)
    if found is None:
        raise TypeError("not a product kernel")
    return found


def is_product(kernel: Separable, dimension: int) -> bool:
    """Whether the space kernel is a product over the axes."""
    return all(kernel.space.along(axis, dimension) is not None for axis in range(dimension))


def grid_axes(x: np.ndarray) -> tuple[tuple[np.ndarray, ...], np.ndarray] | None:
    """The axes of the product grid that the rows of ``x`` form (in any order), and each row's place in it."""
    axes, places = zip(*(np.unique(column, return_inverse=True) for column in x.T))
    shape = tuple(len(axis) for axis in axes)
    if int(np.prod(shape)) != len(x):
        return None
    flat = np.asarray(np.ravel_multi_index(places, shape))
    return (axes, flat) if len(np.unique(flat)) == len(x) else None


class Grid(eqx.Module):
    """Shared inputs: ``x`` is the same at every step. Exact; on a product grid a Kronecker product.

    Missing data stay NaN in ``y``.
    """

    def resolve(self, kernel: LatentKernel, x: np.ndarray) -> SharedGrid:
        """The representation for these inputs."""
        kernel = one_term(kernel, "Grid")
        found = grid_axes(x) if x.shape[1] > 1 else None
        if found is None or not is_product(kernel, x.shape[1]):
            return SharedGrid(points=x, axes=None, order=np.arange(len(x)))
        axes, place = found
        points = np.empty_like(x)
        points[place] = x
        return SharedGrid(points=points, axes=axes, order=place)


class SharedGrid(SharedInputs):
    """``Grid``, resolved for the inputs of a run."""

    order: np.ndarray  # for each row of x, its site

    @property
    def name(self) -> str:
        """``"grid"``, with a word on the Kronecker product where it is one."""
        return "grid" if self.axes is None else "grid (Kronecker)"

    def accepts(self, x: np.ndarray) -> bool:
        """Whether these are the inputs of the grid, in their order."""
        return x.shape == self.points.shape and np.array_equal(x, self.points[self.order])

    def sites(self, x: np.ndarray, size: int) -> Sites:
        """The points of the grid, each seen by its row of ``x``."""
        if not self.accepts(x):
            raise DataError(
                f"Grid: x of shape {x.shape} is not the x of the first snapshot (shape {self.points.shape}); "
                "inputs that change need latent=seqgp.Dense() or seqgp.Knots(…); missing data stay NaN in y"
            )
        straight = np.array_equal(self.order, np.arange(len(x)))
        return Sites(self.points, np.ones(len(x), bool), Observe(index=None if straight else self.order))

    def prediction_sites(self, x: np.ndarray, now: bool) -> PredictionSites:
        """The new inputs themselves: given the window, they need not lie on the grid."""
        return Dense().prediction_sites(x, now)

    def report(self, model: Model, z: Float[Array, " d"], x: np.ndarray) -> tuple[dict[str, float], list[str]]:
        """Nothing: the representation is exact."""
        return {}, []
