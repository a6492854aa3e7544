"""Tiny streams of a fleet, in a module that the workers of a cluster can import."""

import os
import signal
import time
from pathlib import Path

import numpy as np

import seqgp

STEPS = 4


def model():
    between = seqgp.ScaledSigmoid(0, 3)
    return seqgp.Model(
        seqgp.Separable(seqgp.kernels.Matern12(between), seqgp.kernels.Matern12(1.0)), seqgp.likelihoods.Gaussian(0.5)
    )


def sampler():
    return seqgp.OnlineSampler(model(), particles=16, draws=8)


def snapshots(seed, steps=STEPS):
    rng = np.random.default_rng(seed)
    return [seqgp.Snapshot(t, [[0.0], [1.0]], rng.normal(size=2)) for t in range(steps)]


def slow_snapshots(seed, pause, steps=STEPS):
    """As they come, one every while."""
    for snapshot in snapshots(seed, steps):
        time.sleep(pause)
        yield snapshot


def held_snapshots(seed, gate, before=2):
    """Some snapshots, and the rest once a file is there."""
    found = snapshots(seed)
    yield from found[:before]
    while not gate.exists():
        time.sleep(0.01)
    yield from found[before:]


def streams(count, sampler=None, steps=STEPS):
    chosen = sampler or globals()["sampler"]()
    return [seqgp.Stream(f"s{i}", chosen, snapshots(i, steps)) for i in range(count)]


class Deadly(seqgp.OnlineSampler):
    """Kills its process in the middle of some steps, each once or always: it is computed, and not yet on disk."""

    def __init__(self, marks, deaths, always=False):
        super().__init__(model(), particles=16, draws=8)
        self._marks, self._deaths, self._always = Path(marks), deaths, always

    def step(self, key, state, snapshot, progress=None):
        found = super().step(key, state, snapshot, progress)
        mark = self._marks / f"died at {snapshot.t}"
        if snapshot.t in self._deaths and (self._always or not mark.exists()):
            with mark.open("a") as file:
                file.write(f"{os.getpid()}\n")
            os.kill(os.getpid(), signal.SIGKILL)
        return found


def same_draws(a, b, names):
    """Whether two stores hold the same draws, bit for bit, at every step."""
    for name in names:
        one, other = seqgp.Store(Path(a) / name), seqgp.Store(Path(b) / name)
        assert one.times == other.times
        for mine, theirs in zip(one, other):
            assert np.array_equal(np.asarray(mine.state.latent), np.asarray(theirs.state.latent)), (name, mine.t)
            assert np.array_equal(np.asarray(mine.state.z), np.asarray(theirs.state.z)), (name, mine.t)
    return True
