"""``make torture``: attacks runs on disk, and prints what was tried and what held.

Held means: the run is whole afterwards and goes on to the same draws, bit for bit, or the damage is named. ``--size 1``
is the short form that continuous integration runs, ``--size 20`` the full one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax

from experiments.torture import company, damage, stops
from experiments.torture.runs import SAMPLERS, Runs

ATTACKS: dict[str, Callable[[Runs], tuple[int, int]]] = {
    **{f"SIGKILL at a random instant of `update`, {name}": partial(stops.killed_at_random, sampler=name)
       for name in SAMPLERS},
    **{f"SIGKILL at every write of `fit` and `update`, {name}": partial(stops.killed_at_writes, sampler=name)
       for name in SAMPLERS},
    "SIGKILL at every write of an `update` with late data": stops.revised_and_killed,
    "SIGTERM in every phase of `fit`, `update`, `watch`": partial(stops.stopped_in_phases, which="SIGTERM"),
    "SIGINT in every phase of `fit`, `update`, `watch`": partial(stops.stopped_in_phases, which="SIGINT"),
    "one bit flipped, in every file": damage.flipped,
    "every file cut off": damage.cut_off,
    "every file broken or gone, then `check --repair`": damage.repaired,
    "a full disk, in every command that writes": damage.full_disk,
    "a second writer": company.second_writer,
    "two writers at once": company.racing_writers,
    "checks beside a pruning writer": company.pruned,
    "`watch`: late, corrected, half-written, hostile files": company.watched,
}  # fmt: skip


def main() -> None:
    """Attack, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=20, help="how much is tried: 1 for minutes less, 20 for all")
    parser.add_argument("--only", nargs="+", default=[""], help="attacks whose names contain one of these")
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder), given.size)
        print("| attack | tried | held |\n|---|---:|---:|", flush=True)
        failed = 0
        for name, attack in ATTACKS.items():
            if not any(part in name for part in given.only):
                continue
            begun = time.monotonic()
            tried, held = attack(runs)
            failed += tried - held
            print(f"| {name} | {tried} | {held} |", flush=True)
            print(f"{time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
