"""A further day of option quotes in the same process: the mode with bands, 1000 draws, and what others fit.

`python -m benchmarks.recalibration` prints seconds per day on simulated quotes, after days that compiled everything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from experiments.andreasen_huge import held_out_errors
from experiments.sticky import svi_error

import seqgp
from benchmarks.lines import Line, in_own_process, main
from seqgp.apps.localvol import Laplace, LocalVolatility, LocalVolFit, Quotes, simulated_quotes


class Sizes(NamedTuple):
    """Days, strikes of an expiration, knots, the pricer's mesh, and particles."""

    days: int = 5
    strikes: int = 25
    shape: tuple[int, int] = (6, 24)
    grid: tuple[int, int] = (73, 48)
    draws: int = 1000
    particles: int = 256


QUICK = Sizes(3, 7, (3, 6), (33, 20), 64, 16)


def lines(quick: bool = False) -> Iterator[Line]:
    """Rows of the table."""
    yield from in_own_process(measure, QUICK if quick else Sizes())


def measure(sizes: Sizes) -> list[Line]:
    """The median over the days after the first two."""
    quotes = Quotes.from_frame(simulated_quotes(sizes.days, sizes.strikes, (45, 90, 180, 360, 540)))
    days = [quotes.day(date) for date in quotes.dates]
    model = LocalVolatility.for_quotes(quotes, sizes.shape, grid=sizes.grid)
    compiled: list[float] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event.endswith("backend_compile_duration"):
            compiled.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    fast = _days(LocalVolFit(model, sampler=Laplace(model.model, sizes.draws)), days, compiled)
    drawn = _days(LocalVolFit(model, sizes.draws, particles=sizes.particles), days, compiled)
    svi, andreasen_huge = [], []
    for day in days[2:]:
        train, test = day.split(0.2)
        svi.append(_seconds(lambda train=train, test=test: svi_error(train, test)))
        start = time.perf_counter()
        variants = held_out_errors(train, test)
        andreasen_huge.append((time.perf_counter() - start) / max(len(variants), 1))
    count = f"{len(days[-1].table)} quotes a day, {sizes.shape[0]} × {sizes.shape[1]} knots"
    name = "local volatility, a further day:"
    return [
        Line(f"{name} mode with {sizes.draws} draws, s", float(np.median(fast[0])), 1.0, "<=", count),
        Line(f"{name} functions compiled for the mode", float(fast[1]), 0, "<="),
        Line(f"{name} {sizes.draws} draws of {sizes.particles} particles, s", float(np.median(drawn[0])), detail=count),
        Line(f"{name} raw SVI by expiration, s", float(np.median(svi))),
        Line(f"{name} Andreasen–Huge, a variant of nine, s", float(np.median(andreasen_huge))),
    ]


def _days(fit: LocalVolFit, days: list[Quotes], compiled: list[float]) -> tuple[list[float], int]:
    """Seconds of the days after the first two, forecast included, and how many functions they compiled."""
    for day in days[:2]:
        fit.update(day)
    before = len(compiled)
    seconds = [_seconds(lambda day=day: fit.update(day)) for day in days[2:]]
    return seconds, len(compiled) - before


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


if __name__ == "__main__":
    seqgp.enable_x64()
    main(lines, "recalibration")
