"""Killed at random moments with SIGKILL, and started again, a run ends with the draws of one that was left alone.

Also one of the online sampler to which data come late, and are corrected.

`SEQGP_KILLS=30` (`make kill`) for the full number with each sampler; two suffice in every run of the tests.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import seqgp
from runs import same

KILLS = int(os.environ.get("SEQGP_KILLS", "2"))
SCRIPT = Path(__file__).with_name("killed.py")


def start(folder, cache, pause, sampler):
    command = [sys.executable, str(SCRIPT), str(folder), str(cache), str(pause), sampler]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("sampler", ["online", "sequential", "late"])
def test_killed_and_resumed_is_bit_identical(tmp_path, sampler):
    rng = np.random.default_rng(int(os.environ.get("SEQGP_KILL_SEED", "0")))
    for name in ("straight", "again"):  # the second finds everything compiled: kills are spread over its time
        straight = start(tmp_path / name, tmp_path / "cache", 0.0, sampler)
        assert straight.stdout is not None
        assert straight.stdout.readline() == "ready\n"
        begun = time.monotonic()
        assert straight.communicate()[0] == "finished\n"
        duration = time.monotonic() - begun
    expected = seqgp.Store(tmp_path / "straight").latest().state
    assert same(seqgp.Store(tmp_path / "again").latest().state, expected)
    kills = runs = partial = 0
    steps_at_kill = []
    while kills < KILLS:
        runs += 1
        folder = tmp_path / f"run{runs}"
        while True:
            pause = float(rng.choice([0.0, duration / 30]))
            child = start(folder, tmp_path / "cache", pause, sampler)
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0, duration))
            if kills < KILLS and child.poll() is None:
                child.kill()
                kills += 1
            said = child.communicate()[0]
            if said == "finished\n":
                break
            names = os.listdir(folder / "steps") if (folder / "steps").exists() else []
            steps_at_kill.append(sum(name.endswith(".npz") for name in names))
            partial += any(name.startswith(".") for name in names)
        store = seqgp.Store(folder)
        assert store.check() == []
        assert same(store.latest().state, expected), f"run {runs}, after {kills} kills"
    print(f"{sampler}: {kills} kills in {runs} runs, {partial} in mid-write, at steps {steps_at_kill}")
