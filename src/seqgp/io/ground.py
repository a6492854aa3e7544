"""What maps are drawn over: a regular grid of two inputs, with covariates at its points, and border lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from seqgp.base.errors import one_line
from seqgp.io.errors import TableError
from seqgp.io.frames import read_bytes
from seqgp.io.tables import Columns, points_from

LINES = {"LineString": 1, "MultiLineString": 2, "Polygon": 2, "MultiPolygon": 3}  # depth of the lists of points
MOST_POINTS = 8000  # of all border lines in a page


class Ground(NamedTuple):
    """A regular grid, some of whose cells may have no point.

    Attributes:
        axes: the values of the first and the second input.
        x: the points.
        cell: of each point its cell, counted in rows along the first input.
        context: the covariates at the points.
    """

    axes: tuple[Float[np.ndarray, " a"], Float[np.ndarray, " b"]]
    x: Float[np.ndarray, "n 2"]
    cell: Int[np.ndarray, " n"]
    context: dict[str, np.ndarray] | None = None

    def spread(self, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, "b a"]:
        """Values at the points on the whole grid, NaN in cells without one."""
        a, b = map(len, self.axes)
        whole = np.full(a * b, np.nan)
        whole[self.cell] = values
        return whole.reshape(b, a)

    def thinned(self, cells: int) -> Ground:
        """The grid with every k-th line along each side, so that there are at most so many."""
        a = len(self.axes[0])
        steps = [-(-len(axis) // cells) for axis in self.axes]
        axes = tuple(axis[::step] for axis, step in zip(self.axes, steps))
        row, column = self.cell // a, self.cell % a
        kept = (column % steps[0] == 0) & (row % steps[1] == 0)
        cell = row[kept] // steps[1] * len(axes[0]) + column[kept] // steps[0]
        context = None if self.context is None else {name: values[kept] for name, values in self.context.items()}
        return Ground((axes[0], axes[1]), self.x[kept], cell, context)


def box_ground(box: Sequence[tuple[float, float]], cells: int) -> Ground:
    """A grid over a box of two inputs.

    Args:
        box: for each input its least and largest value.
        cells: points along each side.
    """
    axes = (np.linspace(*box[0], cells), np.linspace(*box[1], cells))
    x = np.stack(np.meshgrid(*axes, indexing="xy"), axis=-1).reshape(-1, 2)
    return Ground(axes, x, np.arange(len(x)))


def ground_from(path: Path, columns: Columns) -> Ground:
    """The grid of a NetCDF file or a table, with the covariates that a run's columns name.

    Raises:
        TableError: where the points are on no regular grid of two inputs.
    """
    if len(columns.inputs) != 2:
        raise TableError(f"{path}: a map needs two inputs, but the run has {len(columns.inputs)}")
    x, context, _ = points_from(path, columns)
    (first, column), (second, row) = (np.unique(x[:, d], return_inverse=True) for d in (0, 1))
    cell = row.reshape(-1) * len(first) + column.reshape(-1)
    if min(len(first), len(second)) < 2 or len(np.unique(cell)) < len(cell):
        raise TableError(f"{path}: its points are not those of a grid in {' and '.join(columns.inputs)}, one in a cell")
    if len(cell) < 0.01 * len(first) * len(second):
        raise TableError(
            f"{path}: {len(cell)} points with {len(first)} values of {columns.inputs[0]} and {len(second)} of "
            f"{columns.inputs[1]} are no regular grid; make one in the columns of the inputs"
        )
    return Ground((first, second), x, cell, context)


def border_lines(path: Path) -> list[Float[np.ndarray, "k 2"]]:
    """The lines and the edges of areas in a GeoJSON file, in its coordinates; very fine ones lose points.

    Raises:
        TableError: where there are none.
    """
    try:
        content = json.loads(read_bytes(path))
        lines = [np.array([point[:2] for point in line], float) for line in _lines(content)]
    except (ValueError, TypeError, IndexError, KeyError, RecursionError) as error:
        raise TableError(f"{path}: cannot be read as GeoJSON ({one_line(error)})") from error
    lines = [line for line in lines if len(line) > 1 and np.isfinite(line).all()]
    if not lines:
        raise TableError(f"{path}: no line and no area in it; give a coastline or borders as GeoJSON")
    step = -(-sum(map(len, lines)) // MOST_POINTS)
    return [np.concatenate([line[:-1:step], line[-1:]]) for line in lines]


def _lines(part: Any) -> Iterator[list[list[float]]]:
    kind = part["type"]
    if kind == "FeatureCollection":
        for one in part["features"]:
            yield from _lines(one)
    elif kind == "Feature":
        if part["geometry"] is not None:
            yield from _lines(part["geometry"])
    elif kind == "GeometryCollection":
        for one in part["geometries"]:
            yield from _lines(one)
    elif kind in LINES:
        yield from _flat(part["coordinates"], LINES[kind])


def _flat(coordinates: Any, depth: int) -> Iterator[list[list[float]]]:
    if depth == 1:
        yield coordinates
        return
    for one in coordinates:
        yield from _flat(one, depth - 1)
