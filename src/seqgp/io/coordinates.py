"""Coordinates that no station can have, or that look like a slip: latitudes above 90, swapped columns, far places."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from seqgp.io.errors import TableError
from seqgp.io.frames import row_in_file
from seqgp.io.tables import Labelled

LATITUDES, LONGITUDES = ("lat", "latitude"), ("lon", "long", "longitude")  # names of columns
LIMITS = {LATITUDES: (-90.0, 90.0), LONGITUDES: (-180.0, 360.0)}  # of degrees
FEWEST = 5  # places that another one is compared with
FAR = 10.0  # widths of the box of all others, from that box


def check_coordinates(file: str | Path, snapshots: Sequence[Labelled], names: Sequence[str]) -> None:
    """Refuse degrees that there are not, and name places that are far outside all others in a warning.

    Args:
        file: where the data stand, for messages.
        snapshots: the data.
        names: of the inputs.

    Raises:
        TableError: names row, column and value.
    """
    for d, name in enumerate(names):
        low, high = next((limits for known, limits in LIMITS.items() if name.lower() in known), (-np.inf, np.inf))
        for one in snapshots:
            wrong = (one.x[:, d] < low) | (one.x[:, d] > high)
            if wrong.any():
                row = int(np.argmax(wrong))
                raise TableError(
                    f"{file}: {_where(file, one, row)}, column {name!r}: {one.x[row, d]:g} is not between {low:g} and "
                    f"{high:g} degrees; are the columns of longitude and latitude swapped?"
                )
    if len(names) == 2:
        _name_far(file, snapshots, names)


def _name_far(file: str | Path, snapshots: Sequence[Labelled], names: Sequence[str]) -> None:
    """One place that is far outside the box of all others; where its coordinates swapped are inside, that is said."""
    first: dict[tuple[float, ...], tuple[Labelled, int]] = {}
    for one in snapshots:
        for row, point in enumerate(one.x.tolist()):
            first.setdefault(tuple(point), (one, row))
    places = np.array(list(first))
    if len(places) <= FEWEST:
        return
    low, high = _box_without(places)
    width = high - low
    beyond = np.maximum(low - places, places - high).max(axis=1)
    for place in np.flatnonzero(beyond > FAR * width.max(axis=1)):
        one, row = first[tuple(places[place].tolist())]
        x, a, b = places[place], low[place] - width[place], high[place] + width[place]
        said = ", ".join(f"{name} = {value:g}" for name, value in zip(names, x))
        box = ", ".join(f"{name} {lo:g} to {hi:g}" for name, lo, hi in zip(names, low[place], high[place]))
        slip = "are its coordinates swapped?" if np.all((x[::-1] >= a) & (x[::-1] <= b)) else "is it a slip?"
        warnings.warn(f"{file}: {_where(file, one, row)}: {said} is far from all others ({box}); {slip}", stacklevel=3)


def _box_without(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each place, the least and the largest coordinates of all others."""
    ordered = np.sort(places, axis=0)
    low = np.where(places == ordered[0], ordered[1], ordered[0])
    high = np.where(places == ordered[-1], ordered[-2], ordered[-1])
    return low, high


def _where(file: str | Path, one: Labelled, row: int) -> str:
    number = row_in_file(Path(file), row if one.records is None else int(one.records[row]))
    return f"row {number}" if one.labels is None else f"row {number} (location {one.labels[row]!r})"
