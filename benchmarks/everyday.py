"""The first minute and every night: what a command waits for before it computes, each command a process of its own.

`python -m benchmarks.everyday`: importing, `--version` and `--help`; the first `seqgp demo` after installation; and the
second `seqgp update` of a pair over the first, which found no compiled code and left its own for the second, with
each of the two samplers.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from benchmarks.lines import Line, main

FIRST_NAMES = "seqgp.enable_x64(); seqgp.Model; seqgp.SequentialSampler; seqgp.run; seqgp.predict"
METHODS = ("online", "sequential")
NIGHTS = 2
COMMAND = (sys.executable, "-m", "seqgp.cli")


def lines(quick: bool = False) -> list[Line]:
    """Importing and help, the demo, a pair of updates with each sampler."""
    repeats = 1 if quick else 5
    found = [
        _seconds("import seqgp, s", 1.5, repeats, sys.executable, "-c", "import seqgp"),
        _seconds(
            "import seqgp and the names of a first program, s",
            1.5,
            repeats,
            sys.executable,
            "-c",
            f"import seqgp; {FIRST_NAMES}",
        ),
        _seconds("seqgp --version, s", 0.5, repeats, *COMMAND, "--version"),
        _seconds("seqgp --help, s", 0.5, repeats, *COMMAND, "--help"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        demo = _demo(place, ("line", "--steps", "4", "--draws", "20") if quick else ())
        return [*found, *demo, *(line for method in METHODS for line in _updates(place, method))]


def _seconds(name: str, goal: float, repeats: int, *command: str) -> Line:
    _timed(command)  # the files of the interpreter and of its packages, into memory
    taken = [_timed(command) for _ in range(repeats)]
    return Line(name, statistics.median(taken), goal, "<=", f"median of {repeats}")


def _demo(place: Path, small: tuple[str, ...]) -> list[Line]:
    """The demonstration with no compiled code on disk: all of it, and until its first step is there."""
    command = (*COMMAND, "demo", *small, "-o", str(place / "demo"))
    start, first = time.perf_counter(), None
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=_environment(place / "new")) as process:
        while process.poll() is None:
            if first is None and any((place / "demo" / "run" / "steps").glob("*.npz")):
                first = time.perf_counter() - start
            time.sleep(0.02)
    whole = time.perf_counter() - start
    if process.returncode or first is None:
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}")
    return [
        Line("seqgp demo after installation: first result, s", first, 20, "<="),
        Line("seqgp demo after installation: report written, s", whole),
    ]


def _updates(place: Path, method: str) -> list[Line]:
    """The last two times of the demonstration as two nights; those before were sampled with other compiled code."""
    table, folder = pd.read_csv(place / "demo" / "measurements.csv"), place / method
    times = sorted(table["t"].unique())
    folder.mkdir()
    table[table["t"].isin(times[:-NIGHTS])].to_csv(folder / "measurements.csv", index=False)
    text = (place / "demo" / "demo.toml").read_text()
    (folder / "demo.toml").write_text(text.replace('# method = "auto"', f'method = "{method}"'))
    _timed((*COMMAND, "fit", str(folder / "demo.toml")), _environment(place / "new"))
    taken = []
    for t in times[-NIGHTS:]:
        file = folder / f"{t:g}.csv"
        table[table["t"] == t].to_csv(file, index=False)
        taken.append(_timed((*COMMAND, "update", str(folder / "run"), str(file)), _environment(folder / "compiled")))
    first, second = taken
    return [
        Line(f"second seqgp update of a pair of processes, {method}, over the first", second / first, 0.3, "<="),
        Line(f"first seqgp update, {method}, no compiled code on disk, s", first),
        Line(f"second seqgp update, {method}, s", second),
    ]


def _timed(command: tuple[str, ...], environment: dict[str, str] | None = None) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - start


def _environment(cache: Path) -> dict[str, str]:
    """This one, with compiled code in a folder of its own."""
    kept = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    return kept | {"SEQGP_CACHE": str(cache)}


if __name__ == "__main__":
    main(lines, "everyday")
