"""Runs on disk under attack: ``make torture`` prints what was tried and what held.

Kills and stops at random instants of `update`, bit flips over every file of a run, a full disk, two writers, a reader
beside a pruning writer. Held means: the run is whole afterwards and goes on to the same draws, bit for bit, or the
damage is named. ``--size 1`` is the short form that continuous integration runs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import jax
import numpy as np

CONFIG = """\
[data]
file = "table.csv"
time = "t"
inputs = ["x"]
value = "y"
[model]
scale = { low = 0, high = 2 }
[model.time]
lengthscale = { low = 0, high = 3 }
[model.space]
lengthscale = { low = 0, high = 3 }
[model.likelihood]
family = "Gaussian"
noise = { low = 0, high = 1 }
[sampler]
draws = 40
chains = 2
warmup = 10
latent = "dense"
updates = "plain"
[run]
folder = "run"
"""


def rows(times: list[int]) -> str:
    """A small table."""
    lines = [f"{t},{0.2 * i},{np.sin(0.6 * i + t):.6f}" for t in times for i in range(4)]
    return "\n".join(["t,x,y", *lines]) + "\n"


def command(*arguments: object, **more: object) -> subprocess.Popen:
    """A command of seqgp in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "seqgp.cli", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,  # type: ignore[call-overload]
    )  # fmt: skip


class Attacks:
    """A run of two steps, and what it goes on to when nobody disturbs it."""

    def __init__(self, folder: Path, size: int):
        self.folder, self.size, self.rng = folder, size, np.random.default_rng(0)
        base = folder / "base"
        base.mkdir()
        (base / "config.toml").write_text(CONFIG)
        (base / "table.csv").write_text(rows([0, 1]))
        (base / "more.csv").write_text(rows([2, 3, 4]))
        self._must("fit", base / "config.toml")
        straight = self.copy("straight")
        start = time.monotonic()
        self._must("update", straight, straight.parent / "more.csv")
        self.seconds = time.monotonic() - start
        self.expected = self.draws(straight)

    def _must(self, *arguments: object) -> None:
        process = command(*arguments)
        _, said = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"torture: {arguments[0]} failed undisturbed: {said}")

    def copy(self, name: str) -> Path:
        """A fresh copy of the run."""
        shutil.copytree(self.folder / "base", self.folder / name)
        return self.folder / name / "run"

    def draws(self, run: Path) -> np.ndarray:
        """The last latent of a run."""
        import seqgp

        return np.asarray(seqgp.Store(run).latest().state.latent)

    def stopped_by(self, number: int) -> tuple[int, int]:
        """A signal at a random instant of an update, which is then given again."""
        import seqgp

        held = 0
        for i in range(self.size):
            run = self.copy(f"{signal.Signals(number).name}-{i}")
            arguments = ("update", run, run.parent / "more.csv", "--skip-seen")
            process = command(*arguments)
            time.sleep(self.rng.uniform(0, self.seconds))
            process.send_signal(number)
            _, said = process.communicate()
            quiet = process.returncode in (0, -number, 128 + number) and "Traceback" not in said
            again = command(*arguments)
            again.communicate()
            whole = again.returncode == 0 and seqgp.Store(run).check() == []
            held += quiet and whole and np.array_equal(self.draws(run), self.expected)
        return self.size, held

    def flipped(self) -> tuple[int, int]:
        """One bit of one file, for every file of a run: `check` names it, or the file says what it said."""
        import seqgp

        run, tried, held = self.copy("flipped"), 0, 0
        for path in [run / "manifest.json", *sorted((run / "steps").iterdir())]:
            whole = path.read_bytes()
            for place in self.rng.choice(8 * len(whole), 50 * self.size, replace=False):
                content = bytearray(whole)
                content[place // 8] ^= 1 << (place % 8)
                path.write_bytes(bytes(content))
                tried += 1
                held += bool(seqgp.Store(run).check()) or _same(path, whole, bytes(content), self, run)
            path.write_bytes(whole)
        return tried, held

    def full_disk(self) -> tuple[int, int]:
        """No file may grow beyond a kilobyte: commands that write end with one line, and leave nothing."""

        def small() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))

        import seqgp

        run = self.copy("full")
        out = self.folder / "out"
        out.mkdir()
        tries = [("update", run, run.parent / "more.csv"), *(("export", run, out / f"out.{e}") for e in ("nc", "zarr"))]
        held = 0
        for arguments in tries:
            process = command(*arguments, preexec_fn=small, env=os.environ | {"SEQGP_CACHE": "off"})
            _, said = process.communicate()
            clean = list(out.iterdir()) == [] and seqgp.Store(run).check() == [] and len(seqgp.Store(run)) == 2
            held += process.returncode == 2 and "disk is full" in said and clean
        return len(tries), held

    def two_writers(self) -> tuple[int, int]:
        """While one holds the run, the other is told so at once, and nothing is written."""
        from seqgp.io.lock import locked

        run = self.copy("two")
        with locked(run):
            process = command("update", run, run.parent / "more.csv")
            _, said = process.communicate()
        return 1, int(process.returncode == 2 and "in use by process" in said)

    def pruned(self) -> tuple[int, int]:
        """Checks while a step is rewritten and shrunk all the time: none finds damage."""
        import seqgp
        from seqgp.io.files import write_atomically
        from seqgp.io.step import Step

        run, ended = self.copy("pruned"), threading.Event()
        path = run / "steps" / "000001.npz"
        whole, manifest = path.read_bytes(), seqgp.Store(run).manifest

        def write() -> None:
            for _ in range(100 * self.size):
                write_atomically(path, lambda file: file.write(whole))
                Step(path, manifest).shrink()
            ended.set()

        threading.Thread(target=write).start()
        tried = held = 0
        while not ended.is_set():
            tried += 1
            held += seqgp.Store(run).check() == []
        return tried, held


def _same(path: Path, whole: bytes, flipped: bytes, attacks: Attacks, run: Path) -> bool:
    """Whether a flip that was not noticed changed nothing that is read."""
    if path.name == "manifest.json":
        return json.loads(flipped) == json.loads(whole)
    after = attacks.draws(run)
    path.write_bytes(whole)
    return np.array_equal(after, attacks.draws(run))


def main() -> None:
    """Attack, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=20, help="stops of each kind, and fifties of bits in each file")
    size = parser.parse_args().size
    jax.config.update("jax_enable_x64", True)
    with tempfile.TemporaryDirectory() as folder:
        attacks = Attacks(Path(folder), size)
        tries = {
            "SIGKILL at a random instant of `update`, then again": lambda: attacks.stopped_by(signal.SIGKILL),
            "SIGTERM at a random instant of `update`, then again": lambda: attacks.stopped_by(signal.SIGTERM),
            "SIGINT at a random instant of `update`, then again": lambda: attacks.stopped_by(signal.SIGINT),
            "one bit flipped, in every file": attacks.flipped,
            "a full disk, in `update` and `export`": attacks.full_disk,
            "a second writer": attacks.two_writers,
            "checks beside a pruning writer": attacks.pruned,
        }
        print("| attack | tried | held |\n|---|---:|---:|", flush=True)
        failed = 0
        for name, attack in tries.items():
            tried, held = attack()
            failed += tried - held
            print(f"| {name} | {tried} | {held} |", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
