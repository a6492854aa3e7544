"""The small runs that are attacked, one of each sampler, and what they come to when nobody disturbs them."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

import seqgp
from seqgp.cli import main as seqgp_main

CONFIG = """\
[data]
file = "table.csv"
time = "t"
inputs = ["x"]
value = "y"
[model]
scale = { low = 0, high = 2 }
[model.time]
kernel = "Matern32"
lengthscale = { low = 0, high = 3 }
[model.space]
lengthscale = 1.0
[model.likelihood]
family = "Gaussian"
noise = 0.3
[run]
folder = "run"
keep = 2
[sampler]
"""
SAMPLERS = {
    "online": "draws = 20\nparticles = 16\n",
    "sequential": 'draws = 20\nchains = 2\nwarmup = 10\nlatent = "dense"\nupdates = "plain"\n',
}
FIRST, MORE = [0, 1], [2, 3]
LATE = "t,x,y\n0.5,0.2,0.3\n1,0.2,0.9\n1,0.8,\n1,0.9,0.4\n4,0.2,0.1\n"  # late, corrected, of a new station, new


def rows(times: Sequence[float], shift: float = 0.0) -> str:
    """A small table; ``shift`` gives other values for the same times."""
    lines = [f"{t},{0.2 * i:g},{np.sin(0.6 * i + t) + shift:.6f}" for t in times for i in range(4)]
    return "\n".join(["t,x,y", *lines]) + "\n"


class Runs:
    """A folder with a run of each sampler, copied for every attack.

    Args:
        folder: where everything is kept.
        size: how much is tried.
    """

    def __init__(self, folder: Path, size: int):
        self.folder, self.size, self.rng, self._copies = folder, size, np.random.default_rng(0), 0
        # The same settings here and in commands of their own: draws are compared bit for bit.
        os.environ["SEQGP_CACHE"] = str(folder / "cache")
        os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
        os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
        jax.config.update("jax_disable_most_optimizations", True)
        jax.config.update("jax_compilation_cache_dir", None)
        self.expected: dict[str, list[np.ndarray]] = {}
        for sampler, settings in SAMPLERS.items():
            place = folder / sampler
            place.mkdir()
            (place / "config.toml").write_text(CONFIG + settings)
            (place / "table.csv").write_text(rows(FIRST))
            (place / "more.csv").write_text(rows(MORE))
            (place / "late.csv").write_text(LATE)
            self.must("fit", place / "config.toml")
            straight = self.copy(sampler)
            self.must("update", straight, straight.parent / "more.csv")
            self.expected[sampler] = draws(place / "run") + draws(straight)[len(FIRST) :]
        revised = self.copy("online")
        self.must("update", revised, revised.parent / "late.csv")
        self.expected["late"] = draws(self.folder / "online" / "run") + draws(revised)[len(FIRST) :]

    def copy(self, sampler: str, begun: bool = True) -> Path:
        """A fresh copy of a run; or of its configuration and table alone."""
        self._copies += 1
        place = self.folder / f"copy{self._copies}"
        shutil.copytree(self.folder / sampler, place, ignore=None if begun else shutil.ignore_patterns("run"))
        return place / "run"

    def must(self, *arguments: object) -> None:
        """A command that nobody disturbs, in this process."""
        code, said = here(*arguments)
        if code != 0:
            raise SystemExit(f"torture: {arguments[0]} failed undisturbed: {said}")

    def resumed(self, run: Path, sampler: str, *arguments: object) -> bool:
        """Whether a run is whole, and goes on to the draws of one that was never disturbed."""
        if run.exists() and any((run / "steps").glob("*.npz")) and seqgp.Store(run).check() != []:
            return False
        code, _ = here(*arguments)
        return code == 0 and seqgp.Store(run).check() == [] and self.as_expected(run, sampler)

    def as_expected(self, run: Path, sampler: str) -> bool:
        """Whether all that is kept whole is what it should be, bit for bit."""
        pairs = [(found, true) for found, true in zip(draws(run), self.expected[sampler]) if len(found)]
        return bool(pairs) and all(np.array_equal(found, true) for found, true in pairs)


def draws(run: Path) -> list[np.ndarray]:
    """The latent of every step; empty where only a summary is kept."""
    return [np.asarray(step.state.latent) if step.whole else np.zeros(0) for step in seqgp.Store(run)]


def here(*arguments: object) -> tuple[int, str]:
    """A command in this process: its exit code, and what it said."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            seqgp_main([str(argument) for argument in arguments])
        except SystemExit as ended:
            return int(ended.code or 0), said.getvalue()
    return 0, said.getvalue()


def started(*arguments: object, module: str = "seqgp.cli", **more: object) -> subprocess.Popen[str]:
    """A command of seqgp in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,  # type: ignore[call-overload]
    )  # fmt: skip


def disturbed(where: str, number: int, which: str, *command: object) -> tuple[int, str, str]:
    """A command that is sent a signal at the ``number``-th call of a place: exit code, output, errors."""
    process = started(where, number, which, *command, module="experiments.torture.disturbed")
    try:
        out, said = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        out, said = process.communicate()
        return 999, out, said
    return process.returncode, out, said


def tell(what: str, code: int, said: str, resumed: bool) -> None:
    """What did not hold, for whoever looks into it."""
    after = "went on" if resumed else "did not go on to the same draws"
    print(f"{what}: exit code {code}, {after}: {said}", file=sys.stderr, flush=True)
