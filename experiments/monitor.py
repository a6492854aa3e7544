"""The monitor of stations on simulated faults: how soon each kind is flagged, and how many flags are false.

    python -m experiments.monitor [--seeds 8] [--page docs/monitor.md]

A network of twelve stations and sixty days, drawn from a model whose parameters the sampler knows, with gaps. From day
30 on one station has a fault. Each seed gives the same weather for all faults, and for none.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import seqgp

STATIONS, DAYS, SINCE, BROKEN = 12, 60, 30, 4
SCALE, TIME, SPACE, NOISE, MISSING = 2.0, 3.0, 0.7, 0.4, 0.05
FAULTS = ("none", "spike", "level", "drift", "spread", "stuck")
RATE = 0.1  # false alarms in 1000 readings, at most
WORDS = {
    "none": "no fault",
    "spike": "one reading, 8 too high",
    "level": "3 too high from day 30 on",
    "drift": "0.2 higher each day from day 30 on",
    "spread": "additional scatter, sd 2",
    "stuck": "the same value again",
}


class Result(NamedTuple):
    """Of one run: when the broken station was flagged, as what, and flags of others or too early."""

    delay: int | None
    kind: str
    false: int
    readings: int


def model() -> seqgp.Model:
    """With known parameters."""
    kernel = seqgp.Separable(seqgp.kernels.Matern12(TIME), seqgp.kernels.Matern32(SPACE), SCALE)
    return seqgp.Model(kernel, seqgp.likelihoods.Gaussian(NOISE), mean=10.0)


def simulated(fault: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places and data, the latter rounded to two decimals."""
    rng = np.random.default_rng(seed)
    x = rng.random((STATIONS, 2)) * [1.5, 1.0]
    distance = np.sqrt(3) * np.linalg.norm(x[:, None] - x, axis=-1) / SPACE
    root = SCALE * np.linalg.cholesky((1 + distance) * np.exp(-distance) + 1e-10 * np.eye(STATIONS))
    rho, weather, y = np.exp(-1 / TIME), root @ rng.standard_normal(STATIONS), []
    for _ in range(DAYS):
        y.append(10.0 + weather + NOISE * rng.standard_normal(STATIONS))
        weather = rho * weather + np.sqrt(1 - rho**2) * root @ rng.standard_normal(STATIONS)
    data, extra, gaps = np.array(y), rng.standard_normal(DAYS), rng.random((DAYS, STATIONS)) < MISSING
    broken, day = data[:, BROKEN], np.arange(DAYS) - SINCE
    broken += {
        "none": np.zeros(DAYS),
        "spike": 8.0 * (day == 0),
        "level": 3.0 * (day >= 0),
        "drift": 0.2 * np.maximum(day, 0),
        "spread": 2.0 * extra * (day >= 0),
        "stuck": np.where(day >= 0, broken[SINCE] - broken, 0.0),
    }[fault]
    return x, np.where(gaps & ~((day == 0)[:, None]), np.nan, np.round(data, 2))


def run(fault: str, seed: int, robust: str) -> Result:
    """One run, and what the monitor said."""
    x, data = simulated(fault, seed)
    sampler = seqgp.OnlineSampler(model(), particles=16, draws=8, robust=robust, false_alarms=RATE)
    state: Any = None
    seen, first, false = set[tuple[str, str, float]](), None, 0
    for day, y in enumerate(data):
        snapshot, key = seqgp.Snapshot(float(day), x, y, labels=list(range(STATIONS))), jax.random.key(day)
        state, info = sampler.init(key, snapshot) if state is None else sampler.step(key, state, snapshot)
        flags = () if info.stations is None else info.stations.flags
        for flag in flags:
            if (flag.station, flag.kind, flag.at) in seen:
                continue
            seen.add((flag.station, flag.kind, flag.at))
            right = flag.station == str(BROKEN) and day >= SINCE and fault != "none"
            false += not right
            first = (day - SINCE, flag.kind) if right and first is None else first
    kinds = [kind for station, kind, at in sorted(seen, key=lambda one: one[2]) if station == str(BROKEN)]
    return Result(None if first is None else first[0], kinds[-1] if kinds else "", false, int((~np.isnan(data)).sum()))


def table(results: Mapping[tuple[str, str], Sequence[Result]]) -> str:
    """The page's table."""
    lines = ["| fault | `robust` | flagged | median delay, days | last called | false flags | in 1000 readings |"]
    lines.append("|---|---|---|---|---|---|---|")
    for (fault, robust), found in results.items():
        delays = [one.delay for one in found if one.delay is not None]
        kinds = [one.kind for one in found if one.delay is not None]
        called = ", ".join(f"{kind} {kinds.count(kind)}" for kind in dict.fromkeys(sorted(kinds)))
        false, readings = sum(one.false for one in found), sum(one.readings for one in found)
        cells = (WORDS[fault], f"`{robust}`", "" if fault == "none" else f"{len(delays)} of {len(found)}",
                 f"{np.median(delays):g}" if delays else "", called, str(false),
                 f"{1000 * false / readings:.2f}")  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


PAGE = """# Faults of stations

`python -m experiments.monitor --seeds {seeds} --page docs/monitor.md` made this page. The monitor is told of at most
{rate} false alarms in 1000 readings of a station. {stations} stations report on {days} days; one has a fault from day
{since} on (the noise has a standard deviation of {noise}, the field one of {scale}). *Flagged* counts the runs in which
the broken station was flagged at all, the delay is to the first flag of any kind, and *last called* what it was called
at the end of the run. Flags of other stations, or before the fault, are false: also those of neighbours whose
predictions the broken station spoils.

{table}
"""


def main() -> None:
    """Run, print, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    seqgp.enable_x64()
    results: dict[tuple[str, str], list[Result]] = {}
    for fault in FAULTS:
        for robust in ("flag",) if fault == "none" else ("flag", "exclude"):
            results[fault, robust] = [run(fault, seed, robust) for seed in range(given.seeds)]
            print(table({(fault, robust): results[fault, robust]}).splitlines()[-1], flush=True)
    if given.page is not None:
        facts = {"stations": STATIONS, "days": DAYS, "since": SINCE, "noise": NOISE, "scale": SCALE}
        given.page.write_text(PAGE.format(seeds=given.seeds, rate=RATE, table=table(results), **facts))


if __name__ == "__main__":
    main()
