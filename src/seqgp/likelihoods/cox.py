"""Events in time and space: a Cox process whose log intensity is the latent, seen as counts in cells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int

from seqgp.base.errors import DataError, ModelError
from seqgp.base.snapshot import Snapshot, as_floats
from seqgp.base.validation import is_whole
from seqgp.likelihoods.discrete import Poisson
from seqgp.linalg.types import ArrayLike

__all__ = ["Intensity", "LogGaussianCox"]


class Intensity(NamedTuple):
    """Events per unit of area and time, at each of some places: the posterior mean, and a central interval."""

    mean: Float[np.ndarray, " n"]
    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]


class LogGaussianCox(Poisson):
    """Events whose intensity, per unit of area and time, is ``exp(f)``: counts in cells, Poisson given ``f``.

    The count of a cell has mean ``exp(f) · area · duration``, with ``f`` at the centre of the cell and in the middle of
    the time interval. Choose small cells where the intensity changes.

    Args:
        domain: the box whose cells the inputs are the centres of, ``[[low, high], …]``; empty for events in time alone.
        bins: cells along each side, one number for all or one each.

    Example:
        ``likelihoods.LogGaussianCox(domain=[(0.0, 1.0), (0.0, 1.0)], bins=16)``
    """

    domain: tuple[tuple[float, float], ...] = eqx.field(static=True)
    bins: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, domain: Sequence[tuple[float, float]] = (), bins: int | Sequence[int] = 1):
        super().__init__("exposure")
        try:
            self.domain = tuple((float(low), float(high)) for low, high in domain)
        except (TypeError, ValueError):
            raise ModelError(
                f"LogGaussianCox: domain = {domain!r}: expected [(low, high), …], a pair of numbers for each side"
            ) from None
        for low, high in self.domain:
            if not -np.inf < low < high < np.inf:
                raise ModelError(f"LogGaussianCox: domain ({low:g}, {high:g}): the lower end is not below the upper")
        counts: Any = (bins,) * len(self.domain) if np.ndim(bins) == 0 else bins
        if len(counts) != len(self.domain) or not all(is_whole(n) for n in counts):
            raise ModelError(
                f"LogGaussianCox: bins = {bins!r}: expected one positive whole number, or one for each of the "
                f"{len(self.domain)} sides of the domain"
            )
        self.bins = tuple(int(n) for n in counts)

    def arguments(self):  # noqa: D102
        return {"domain": self.domain, "bins": self.bins}

    @property
    def cells(self) -> Float[np.ndarray, "n D"]:
        """The centres of the cells, the last side running fastest; one cell at zero for events in time alone."""
        if not self.domain:
            return np.zeros((1, 1))
        middles = [(edges[1:] + edges[:-1]) / 2 for edges in self._edges()]
        return np.array(list(itertools.product(*middles)))

    @property
    def area(self) -> float:
        """Of one cell; 1 for events in time alone."""
        return math.prod((high - low) / n for (low, high), n in zip(self.domain, self.bins))

    def context(self, duration: float) -> dict[str, Float[np.ndarray, " n"]]:
        """What a snapshot of the cells, or a forecast of their counts, has as its context."""
        if not 0 < duration < np.inf:
            raise DataError(f"LogGaussianCox: duration = {duration} is not a positive number")
        return {"exposure": np.full(len(self.cells), self.area * duration)}

    def snapshots(
        self, edges: npt.ArrayLike, times: npt.ArrayLike, places: npt.ArrayLike | None = None
    ) -> list[Snapshot]:
        """Snapshots of events: the counts of each interval of time, at its middle.

        Args:
            edges: ``(T + 1,)``, increasing: interval ``i`` is ``edges[i] <= t < edges[i + 1]``.
            times: when the events were, ``(events,)``.
            places: where they were, ``(events, D)``; left out for events in time alone.
        """
        edges, times = as_floats(edges, "LogGaussianCox: edges"), as_floats(times, "LogGaussianCox: times")
        if edges.ndim != 1 or len(edges) < 2 or not np.isfinite(edges).all() or not (np.diff(edges) > 0).all():
            raise DataError("LogGaussianCox: edges must be increasing numbers, at least two: the ends of the intervals")
        if times.ndim != 1:
            raise DataError(f"LogGaussianCox: times has shape {times.shape}, expected (events,)")
        _complain(~((times >= edges[0]) & (times < edges[-1])), f"not between {edges[0]:g} and {edges[-1]:g} in time")
        counts = np.zeros((len(edges) - 1, len(self.cells)))
        interval = np.searchsorted(edges, times, side="right") - 1
        np.add.at(counts, (interval, self._cell_of(places, len(times))), 1.0)
        middles, durations = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
        return [
            Snapshot(t, self.cells, y, self.context(duration)) for t, y, duration in zip(middles, counts, durations)
        ]

    def intensity(self, f: Float[ArrayLike, "draws n"], probability: float = 0.95) -> Intensity:
        """Events per unit of area and time with a band, from draws of ``f``: of a state or a prediction."""
        drawn = np.exp(as_floats(f, "LogGaussianCox: f (a state's latent, or a prediction's f)"))
        if not 0 < probability < 1:
            raise DataError(f"LogGaussianCox: probability = {probability} is not between 0 and 1")
        low, high = np.quantile(drawn, [(1 - probability) / 2, (1 + probability) / 2], axis=0)
        return Intensity(drawn.mean(axis=0), low, high)

    def _edges(self) -> list[np.ndarray]:
        return [np.linspace(low, high, n + 1) for (low, high), n in zip(self.domain, self.bins)]

    def _cell_of(self, places: npt.ArrayLike | None, events: int) -> Int[np.ndarray, " events"]:
        """The number of each event's cell; the upper ends of the domain belong to its last cells."""
        if places is None and not self.domain:
            return np.zeros(events, int)
        if places is None:
            raise DataError("LogGaussianCox: places is missing: give where the events were, a row an event")
        places, wanted = as_floats(places, "LogGaussianCox: places"), (events, len(self.domain))
        if places.shape != wanted:
            raise DataError(f"LogGaussianCox: places has shape {places.shape}, expected {wanted}: a row an event")
        number = np.zeros(events, int)
        for along, edges in zip(places.T, self._edges()):
            outside = ~((along >= edges[0]) & (along <= edges[-1]))
            _complain(outside, f"outside the domain ({edges[0]:g}, {edges[-1]:g})")
            cell = np.searchsorted(edges, along, side="right") - 1
            number = number * (len(edges) - 1) + np.minimum(cell, len(edges) - 2)
        return number


def _complain(bad: np.ndarray, what: str) -> None:
    if bad.any():
        raise DataError(
            f"LogGaussianCox: {bad.sum()} of {len(bad)} events are {what} (first at index {int(np.argmax(bad))})"
        )
