"""Fleets: two workers against one, the cost of a stream beside its sampling, many streams, particles on devices."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import psutil
from distributed import Client

import seqgp
from benchmarks.lines import Line, main, timed
from seqgp.fleets.cluster import local_cluster
from seqgp.fleets.run import FleetResult


def model() -> seqgp.Model:
    """Five parameters, all inferred."""
    between = seqgp.ScaledSigmoid(0, 3)
    kernel = seqgp.Separable(
        seqgp.kernels.Matern32(between), seqgp.kernels.Matern32(between), seqgp.ScaledSigmoid(0, 2)
    )
    return seqgp.Model(kernel, seqgp.likelihoods.Gaussian(seqgp.ScaledSigmoid(0, 1)), seqgp.ScaledSigmoid(-1, 1))


def read(seed: int, steps: int, locations: int) -> list[seqgp.Snapshot]:
    """A stream, made up where it is run."""
    rng = np.random.default_rng(seed)
    x = np.random.default_rng(0).random((locations, 2))
    return [seqgp.Snapshot(t, x, np.sin(3 * x[:, 0] + t) + 0.2 * rng.normal(size=locations)) for t in range(steps)]


def streams(count: int, steps: int, locations: int, sampler: Any) -> list[seqgp.Stream]:
    """Streams of one shape."""
    return [seqgp.Stream(f"{i:05d}", sampler, lambda i=i: read(i, steps, locations)) for i in range(count)]


def lines(quick: bool = False) -> list[Line]:
    """All lines of this module."""
    sampler = seqgp.OnlineSampler(model(), particles=16 if quick else 128, draws=8 if quick else 500)
    small = seqgp.OnlineSampler(model(), particles=16 if quick else 32, draws=8 if quick else 100)
    size = {"count": 4, "steps": 2, "locations": 3} if quick else {"count": 64, "steps": 8, "locations": 20}
    with tempfile.TemporaryDirectory() as folder:
        found = _workers(Path(folder), streams(sampler=sampler, **size), size["steps"])
        found += _many(Path(folder) / "many", streams(12 if quick else 1000, 2 if quick else 5, 3, small))
    return found + _devices(quick)


@contextlib.contextmanager
def _cluster(folder: Path, workers: int, stream: seqgp.Stream) -> Iterator[Any]:
    """A client of so many workers on this machine, a thread each, with everything compiled that a stream needs."""
    with local_cluster(workers) as local, Client(local) as connected:
        client: Any = connected
        packed = cloudpickle.dumps(stream)
        ready = [
            client.submit(_warm, packed, str(folder / f"warm {number} of {workers}"), workers=[address])
            for number, address in enumerate(client.nthreads())
        ]
        client.gather(ready)
        yield client


def _warm(packed: bytes, folder: str) -> None:
    seqgp.enable_x64()
    seqgp.fleet([cloudpickle.loads(packed)], folder, threads=1, progress=False)


def _ended(made: list[seqgp.Stream], folder: Path, client: Any, forecast: bool = True) -> FleetResult:
    found = seqgp.fleet(made, folder, client, forecast=forecast, progress=False)
    if found.failed:
        raise RuntimeError(found.failed[0].error)
    return found


def _workers(folder: Path, made: list[seqgp.Stream], steps: int) -> list[Line]:
    """Two workers against one, and what a stream costs."""
    with _cluster(folder, 1, made[0]) as client:
        _, alone = timed(lambda: _ended(made, folder / "on one", client))
        few = made[: max(2, len(made) // 8)]
        bare = _ended(few, folder / "without forecasts", client, forecast=False)
    with _cluster(folder, 2, made[0]) as client:
        _, both = timed(lambda: _ended(made, folder / "on two", client))
    beside = statistics.median(1 - (row.sampling + row.compiling) / row.seconds for row in bare.rows)
    cost = alone / len(made)
    scored = 1 - statistics.mean(row.seconds for row in bare.rows) / cost
    packed = len(cloudpickle.dumps(made[0].sampler)) + len(cloudpickle.dumps(made[0].snapshots))
    what = f"{len(made)} streams of {steps} steps"
    return [
        Line("fleet: two workers over one", alone / both, 1.8, ">=", f"{what}: {alone:.1f} s, {both:.1f} s"),
        Line("fleet: share of a stream beside its steps", beside, 0.05, "<=", "store and notes; without forecasts"),
        Line("fleet: share of a stream in its forecasts", scored, detail="and in the scheduler"),
        Line("fleet: seconds of a stream on one core", cost, detail=f"{steps} steps, all included"),
        Line("fleet: bytes of a packed stream", packed, detail="sampler and function; moved through the scheduler"),
        Line("fleet: cores for 100,000 such streams an hour", 100_000 * cost / 3600),
    ]


def _many(folder: Path, made: list[seqgp.Stream]) -> list[Line]:
    """Many short streams: the memory of scheduler and workers after the last quarter over that after the first."""
    quarter, failed, memory = len(made) // 4, 0, []
    with _cluster(folder / "warm", 2, made[0]) as client:
        for i in range(4):
            found = seqgp.fleet(made[i * quarter : (i + 1) * quarter], folder / "runs", client, progress=False)
            failed += len(found.failed)
            here = psutil.Process().memory_info().rss  # the scheduler lives in this process
            memory.append([here, *client.run(lambda: psutil.Process().memory_info().rss).values()])
    grown = [last / first for first, last in zip(memory[0], memory[-1])]
    detail = ", ".join(f"{first / 2**20:.0f} to {last / 2**20:.0f} MB" for first, last in zip(memory[0], memory[-1]))
    return [
        Line(f"fleet: of {len(made)} streams, failed", failed, 0, "<="),
        Line("fleet: memory of client and scheduler, last quarter over first", grown[0], 1.1, "<=", detail),
        Line("fleet: memory of a worker, last quarter over first (largest)", max(grown[1:]), 1.1, "<="),
    ]


DEVICES = """
import json, sys, jax, seqgp
seqgp.enable_x64()
from benchmarks.fleet import model, read
quick = sys.argv[1] == "True"
particles = seqgp.OnlineSampler(model(), particles=32 if quick else 256, draws=20)
chains = seqgp.SequentialSampler(model(), draws=20 if quick else 200, chains=4, warmup=20 if quick else None)
steps = {"particles": (particles, 3 if quick else 10), "four chains": (chains, 2)}
seconds = {}
for name, (sampler, count) in steps.items():
    data = read(0, count, 4 if quick else 40)
    run = lambda: seqgp.run(sampler, data, key=jax.random.key(0), progress=False, forecast=False).infos
    run()
    seconds[name] = sum(info.seconds for info in run())
print(json.dumps(seconds))
"""


def _devices(quick: bool) -> list[Line]:
    """Particles, and chains, on several host devices, against the cores of one."""
    seconds = {}
    for devices in (1, 2, 4):
        flags = f"--xla_force_host_platform_device_count={devices}"
        command = [sys.executable, "-c", DEVICES, str(quick)]
        ended = subprocess.run(
            command, env=os.environ | {"XLA_FLAGS": flags}, stdout=subprocess.PIPE, text=True, check=True
        )
        seconds[devices] = json.loads(ended.stdout.splitlines()[-1])
    return [
        Line(f"fleet: {name} on {n} host devices, over one", alone / seconds[n][name], detail=f"{alone:.2f} s on one")
        for name, alone in seconds[1].items()
        for n in (2, 4)
    ]


if __name__ == "__main__":
    main(lines, "fleet")
