"""Killed at random moments with SIGKILL, and started again, a run ends with the draws of one that was left alone.

`SEQGP_KILLS=30` (`make kill`) for the full number; a few suffice in every run of the tests.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import seqgp
from runs import same

KILLS = int(os.environ.get("SEQGP_KILLS", "4"))
SCRIPT = Path(__file__).with_name("killed.py")


def start(folder, cache, pause):
    command = [sys.executable, str(SCRIPT), str(folder), str(cache), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_killed_and_resumed_is_bit_identical(tmp_path):
    rng = np.random.default_rng(int(os.environ.get("SEQGP_KILL_SEED", "0")))
    straight = start(tmp_path / "straight", tmp_path / "cache", 0.0)
    assert straight.communicate()[0] == "ready\nfinished\n"
    expected = seqgp.Store(tmp_path / "straight").latest().state
    kills = runs = partial = 0
    while kills < KILLS:
        runs += 1
        folder = tmp_path / f"run{runs}"
        while True:
            pause = float(rng.choice([0.0, 0.4]))
            child = start(folder, tmp_path / "cache", pause)
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0, 4.0))
            if kills < KILLS and child.poll() is None:
                child.kill()
                kills += 1
            said = child.communicate()[0]
            steps = folder / "steps"
            partial += steps.exists() and any(name.startswith(".") for name in os.listdir(steps))
            if said == "finished\n":
                break
        store = seqgp.Store(folder)
        assert store.check() == []
        assert same(store.latest().state, expected), f"run {runs}, after {kills} kills"
    print(f"{kills} kills, {runs} runs, {partial} of them in mid-write")
