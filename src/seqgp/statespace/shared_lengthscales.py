"""Space lengthscales that particles share: proposals whose lengthscales lie on a grid.

The eigenvectors of space depend on the space lengthscales alone. A proposal ``z`` is moved to the centre of the cell of
its lengthscales; the other parameters move along the regression line, so that the posterior changes little. With cells
half a posterior standard deviation wide, hundreds of particles have a dozen lengthscales.

The snapped proposal has a density over cells and the other parameters: that of ``z``, integrated over the cell along
the line. Divided by the cell's volume it takes the place of a density of ``z``: the midpoint rule over cells this
narrow has no error that could be seen for a posterior that is smooth.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

WIDTH = 0.5  # of a cell, in posterior standard deviations
FINEST = 2.0**-30  # the narrowest cell of a nested grid
NODES = 10  # of the Gauss–Legendre rule in each direction of a cell: exact to rounding for smooth proposals


class LengthscaleGrid(NamedTuple):
    """Cells of chosen ``entries`` of ``z``: parallelepipeds, so that correlated lengthscales have cells of their own.

    Moving by one cell along direction ``j`` moves ``z`` by ``steps[:, j]``, the regression of all of ``z`` on the
    chosen entries.
    """

    entries: tuple[int, ...]
    origin: Float[np.ndarray, " J"]  # of these entries: the centre of a cell
    steps: Float[np.ndarray, "d J"]

    @property
    def cell(self) -> Float[np.ndarray, "J J"]:
        """The edges of a cell, one a column."""
        return self.steps[list(self.entries)]


def nested_grid(
    mean: Float[np.ndarray, " d"], cov: Float[np.ndarray, "d d"], index: tuple[int, ...], width: float = WIDTH
) -> LengthscaleGrid:
    """A grid whose cells are powers of two wide, about ``width`` standard deviations, with a centre at zero.

    A finer grid has the centres of a coarser one among its own, so that eigenvectors serve again where the posterior
    contracts. The other entries move along the regression on the chosen ones.
    """
    chosen = list(index)
    cov = np.asarray(cov)
    sd = np.sqrt(np.diag(cov)[chosen])
    edges = np.maximum(2.0 ** np.round(np.log2(width * sd)), FINEST)
    steps = np.linalg.solve(cov[np.ix_(chosen, chosen)], cov[chosen]).T * edges[None, :]
    steps[chosen] = np.diag(edges)
    return LengthscaleGrid(tuple(index), np.zeros(len(chosen)), steps)


def on_grid(values: Float[np.ndarray, "*S"]) -> bool:
    """Whether values are centres of cells of some :func:`nested_grid`."""
    scaled = np.asarray(values) / FINEST
    return bool(np.all(scaled == np.round(scaled)))


def spacing(values: Float[np.ndarray, " n"]) -> float:
    """The smallest distance between different values: the width of a cell; infinite where all are the same."""
    return float(np.min(np.diff(np.unique(values)), initial=np.inf))


def snap(z: Float[np.ndarray, "n d"], grid: LengthscaleGrid) -> Float[np.ndarray, "n d"]:
    """Each point with its lengthscales at the centre of their cell, the others moved along the regression line.

    Points of one cell have the same lengthscales, bit for bit.
    """
    z, chosen = np.asarray(z), list(grid.entries)
    away = np.linalg.solve(grid.cell, (z[:, chosen] - grid.origin[None, :]).T).T
    cell = np.rint(away)
    snapped = z + (cell - away) @ grid.steps.T
    snapped[:, chosen] = grid.origin[None, :] + cell @ grid.cell.T
    return snapped


def snapped_log_density(
    log_density: Callable[[Float[np.ndarray, "m d"]], Float[np.ndarray, " m"]],
    snapped: Float[np.ndarray, "n d"],
    grid: LengthscaleGrid,
    nodes: int = NODES,
) -> Float[np.ndarray, " n"]:
    """The log density of snapped proposals: that of proposals, in the mean over the cell along the regression line.

    An importance weight is target over this density. For a symmetric random walk between points of one grid the
    densities of a move and of its reverse are equal, and cancel.

    Args:
        log_density: of the proposals before they are snapped.
        snapped: points from :func:`snap`.
        grid: the grid.
        nodes: of the quadrature in each direction.
    """
    points, weights = np.polynomial.legendre.leggauss(nodes)
    directions = len(grid.entries)
    offsets = 0.5 * np.array(list(itertools.product(points, repeat=directions)))
    log_weights = np.log(0.5 * weights)
    totals = np.array([sum(each) for each in itertools.product(log_weights, repeat=directions)])
    moved = np.asarray(snapped)[:, None, :] + (offsets @ grid.steps.T)[None, :, :]
    values = log_density(moved.reshape(-1, moved.shape[2])).reshape(moved.shape[:2])
    return np.asarray(logsumexp(values + totals[None, :], axis=1))
