"""The whole benchmark: each module in a process of its own, one table, JSON and Markdown with machine and versions."""

from __future__ import annotations

import argparse
import datetime
import importlib
import inspect
import json
import os
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.lines import Line, as_line, goal_of, hurry, in_own_process, shown, table_of

MODULES = (
    "dense",
    "initial",
    "latents",
    "growth",
    "refit",
    "online",
    "networks",
    "delays",
    "exact",
    "full",
    "informed",
    "regression",
    "localvol",
    "recalibration",
    "store",
    "everyday",
    "fleet",
)
PACKAGES = ("seqgp", "jax", "jaxlib", "numpy", "scipy", "numpyro", "blackjax")
# Modules that know no --quick, and what to call them with instead.
SMALL = {"localvol": {"repeats": 3}, "store": {"locations": 20, "draws": 40, "repeats": 2}}


def run_module(name: str, quick: bool) -> list[Line]:
    """The lines of a module, each printed as soon as it is measured."""
    lines = importlib.import_module(f"benchmarks.{name}").lines
    known = "quick" in inspect.signature(lines).parameters
    settings = {"quick": quick} if known else SMALL.get(name, {}) if quick else {}
    found: list[Line] = []
    for row in lines(**settings):
        found.append(as_line(row))
        print(shown(found[-1]), flush=True)
    return found


def machine() -> dict[str, Any]:
    """Where and with what the figures were measured."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        named = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = named[0] if named else model
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "versions": {package: metadata.version(package) for package in PACKAGES},
    }


def markdown(lines: list[Line], failures: dict[str, str], about: dict[str, Any], quick: bool) -> str:
    """The table for the documentation."""
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    text = [
        f"Measured {about['date']} on {about['cores']} cores of {about['cpu']}, Python {about['python']}, {versions}."
    ]
    if quick:
        text.append("Small sizes: these figures say whether the benchmark runs, not how fast anything is.")
    text.append("| line | value | goal | | detail |\n|---|---:|---:|---|---|")
    verdict = {None: "", True: "met", False: "**not met**"}
    rows = [f"| {x.name} | {x.value:.3g} | {goal_of(x)} | {verdict[x.met]} | {x.detail} |" for x in lines]
    rows += [f"| {name} | | | **failed** | {_in_a_cell(error)} |" for name, error in failures.items()]
    return "\n\n".join(text) + "\n" + "\n".join(rows) + "\n"


def _in_a_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="The whole benchmark: one table.")
    parser.add_argument("names", nargs="*", metavar="names", help=f"of {', '.join(MODULES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes: whether it runs, not how fast")
    parser.add_argument("--out", type=Path, default=Path("out"), help="the folder of bench.json and bench.md")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(MODULES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(MODULES)}")
    if arguments.quick:
        hurry()
    console, about = Console(), machine()
    lines: list[Line] = []
    failures: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for name in arguments.names or MODULES:
        start = time.perf_counter()
        console.print(f"{name} …")
        try:
            found = in_own_process(run_module, name, arguments.quick)
            lines += found
            outcome = f"{len(found)} lines"
        except Exception as error:  # one module that fails, or whose process dies, does not stop the others
            failures[name] = f"{type(error).__name__}: {error}"
            outcome = f"failed: {failures[name]}"
        seconds[name] = time.perf_counter() - start
        console.print(f"{name}: {outcome}, {seconds[name]:.0f} s", markup=False)
    console.print(table_of("benchmark", lines))
    for name, error in failures.items():
        console.print(f"{name} failed: {error}", style="red", markup=False)
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = [line._asdict() | {"met": line.met} for line in lines]
    record = about | {"quick": arguments.quick, "lines": rows, "failures": failures, "seconds": seconds}
    (arguments.out / "bench.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    text = markdown(lines, failures, about, arguments.quick)
    (arguments.out / "bench.md").write_text(text)
    console.out(text, highlight=False)  # ready to be pasted
    missed = sum(line.met is False for line in lines)
    console.print(
        f"{missed} goals not met, {len(failures)} modules failed; written to {arguments.out}/bench.{{json,md}}"
    )
    raise SystemExit(bool(failures))
