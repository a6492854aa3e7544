"""Many cases: shape by shape, with progress, a tally and the findings."""

from __future__ import annotations

import collections
import gc
import time
import warnings
from collections.abc import Iterator

import jax
import numpy as np

from . import ways
from .cases import Verdict, draw_case, judge
from .programs import program
from .shapes import Shape, draw_shape


def shapes(seed: int) -> Iterator[Shape]:
    """Shapes without end, each from its number alone."""
    number = 1000 * seed
    while True:
        yield draw_shape(np.random.default_rng(number), number)
        number += 1


def run_shape(shape: Shape, count: int) -> Iterator[Verdict]:
    """The cases of a shape."""
    for seed in range(count):
        case = draw_case(shape, seed)
        rng = np.random.default_rng([shape.number, seed, 1])
        way = ways.draw_way(rng, case)
        yield judge(case, way, lambda case, way=way: ways.WAYS[way](case))


def campaign(cases: int, seed: int, per_shape: int, only: int | None = None, shrink: bool = True) -> list[Verdict]:
    """Run so many cases, print a line for each shape and a program for each finding."""
    from .shrinking import shrunk

    tally: collections.Counter[str] = collections.Counter()
    findings, done, start = [], 0, time.monotonic()
    stream = shapes(seed) if only is None else iter([draw_shape(np.random.default_rng(only), only)])
    for shape in stream:
        if done >= cases:
            break
        here: collections.Counter[str] = collections.Counter()
        kinds: collections.Counter[str] = collections.Counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for verdict in run_shape(shape, min(per_shape, cases - done)):
                done += 1
                here[verdict.outcome] += 1
                if verdict.outcome != "finding":
                    continue
                kind = " ".join(verdict.details[0].split()[:4])
                kinds[kind] += 1
                findings.append(verdict)
                if kinds[kind] == 1:  # one program for each kind of a shape
                    print(f"\nFINDING {len(findings)}: shape {shape.number}, case {verdict.case.seed}, {verdict.way}")
                    print(program(shrunk(verdict) if shrink else verdict), flush=True)
        tally += here
        counts = ", ".join(f"{count} {name}" for name, count in here.items())
        print(
            f"[{done}/{cases}, {time.monotonic() - start:.0f} s] shape {shape.number}: {shape.describe()}: {counts}",
            flush=True,
        )
        forget()
    print(f"\n{done} cases: " + ", ".join(f"{count} {name}" for name, count in sorted(tally.items())))
    return findings


def forget() -> None:
    """What a shape compiled is used by no other."""
    from seqgp.runtime import engine

    engine.forget()
    jax.clear_caches()
    gc.collect()
