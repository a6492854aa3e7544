"""A line of the benchmark, and how the numbers in it are measured."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import numpy as np
from arviz_stats.base import array_stats
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from threadpoolctl import threadpool_limits

import seqgp

Result = TypeVar("Result")


class Line(NamedTuple):
    """A number and its goal; without a goal it is for information."""

    name: str
    value: float
    goal: float | None = None
    sense: Literal["<=", ">="] = ">="
    detail: str = ""
    curve: tuple[tuple[float, float], ...] = ()  # what the number was fitted to, for the figure

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; a value that is not a number never is."""
        if self.goal is None:
            return None
        return bool(self.value <= self.goal) if self.sense == "<=" else bool(self.value >= self.goal)


def as_line(row: Any) -> Line:
    """A line as it is, or from ``(name, value, goal)``, where less is better."""
    if isinstance(row, Line):
        return row
    name, value, goal = row[:3]
    return Line(name, float(value), goal, "<=")


def seconds_of(function: Callable[[], Any], turns: int) -> float:
    """The least time of a call, in seconds, after one that is not timed; one thread of the linear algebra library."""
    with threadpool_limits(1, user_api="blas"):
        jax.block_until_ready(function())
        return min(timed(function)[1] for _ in range(turns))


def timed(function: Callable[[], Result]) -> tuple[Result, float]:
    """What one call returns, and the seconds that it took."""
    start = time.perf_counter()
    result = jax.block_until_ready(function())
    return result, time.perf_counter() - start


def best_of_turns(measures: Mapping[str, Callable[[], float]], turns: int) -> dict[str, float]:
    """The least of what each measure returns (seconds), taken in turns so that all meet the same machine.

    Each is called once before, and what it returned then is dropped: it may have compiled something.
    """
    for measure in measures.values():
        measure()
    rounds = [{name: measure() for name, measure in measures.items()} for _ in range(turns)]
    return {name: min(values[name] for values in rounds) for name in measures}


def smallest_ess(chains: int, *draws: Any) -> float:
    """The smallest bulk effective sample size over all columns; each of ``draws`` is ``(chains · n, …)``."""
    columns = [np.asarray(values).reshape(chains, np.shape(values)[0] // chains, -1) for values in draws]
    ess = array_stats.ess(np.concatenate(columns, axis=-1), chain_axis=0, draw_axis=1, method="bulk")
    return float(np.nanmin(ess))


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of a straight line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def on_one_core(function: Callable[..., Result], *args: Any) -> Result:
    """``function(*args)`` in a fresh process that has one core, and so one thread of everything that counts cores."""
    pinned = hasattr(os, "sched_setaffinity")
    allowed = os.sched_getaffinity(0) if pinned else set()
    if pinned:
        os.sched_setaffinity(0, {max(allowed)})  # the process inherits it
    try:
        return in_own_process(function, *args)
    finally:
        if pinned:
            os.sched_setaffinity(0, allowed)


def in_own_process(function: Callable[..., Result], *args: Any) -> Result:
    """``function(*args)`` in a fresh process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=double_precision) as pool:
        return pool.submit(function, *args).result()


def double_precision() -> None:
    """What every sampler needs."""
    seqgp.enable_x64()


def hurry() -> None:
    """For small sizes, where compilation is nearly all of the time: optimise little, here and in child processes."""
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    jax.config.update("jax_disable_most_optimizations", True)


def table_of(title: str, lines: Sequence[Line]) -> Table:
    """The lines for a terminal."""
    table = Table(title=title, title_justify="left")
    for heading in ("line", "value", "goal", "", "detail"):
        table.add_column(heading, justify="right" if heading in ("value", "goal") else "left")
    for line in lines:
        verdict = {None: "", True: "[green]met[/]", False: "[red]not met[/]"}[line.met]
        table.add_row(escape(line.name), f"{line.value:.3g}", goal_of(line), verdict, escape(line.detail))
    return table


def goal_of(line: Line) -> str:
    """The goal in words."""
    return "" if line.goal is None else f"{line.sense} {line.goal:g}"


def shown(line: Line) -> str:
    """The line for a log."""
    goal = "" if line.goal is None else f" (goal {goal_of(line)})"
    return f"  {line.name}: {line.value:.3g}{goal} {line.detail}".rstrip()


def main(lines: Callable[..., Iterable[Line]], title: str) -> None:
    """Run one module alone: ``python -m benchmarks.dense [--quick]``."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{title}")
    parser.add_argument("--quick", action="store_true", help="small sizes: whether it runs, not how fast")
    arguments = parser.parse_args()
    double_precision()
    if arguments.quick:
        hurry()
    found: list[Line] = []
    for line in lines(quick=arguments.quick):
        found.append(line)
        print(shown(line), flush=True)
    Console().print(table_of(title, found))
