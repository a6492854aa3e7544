"""Fleets: two workers against one, the cost of a stream beside its sampling, many streams, a cloud on many devices."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import psutil
from distributed import Client, LocalCluster

import seqgp
from benchmarks.lines import Line, main

LOCATIONS, STEPS = 20, 20


def model() -> seqgp.Model:
    """Five parameters, all inferred."""
    between = seqgp.ScaledSigmoid(0, 3)
    kernel = seqgp.Separable(seqgp.Matern32(between), seqgp.Matern32(between), seqgp.ScaledSigmoid(0, 2))
    return seqgp.Model(kernel, seqgp.Gaussian(seqgp.ScaledSigmoid(0, 1)), seqgp.ScaledSigmoid(-1, 1))


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
    size = {"count": 4, "steps": 2, "locations": 3} if quick else {"count": 64, "steps": STEPS, "locations": LOCATIONS}
    with tempfile.TemporaryDirectory() as folder:
        found = _workers(Path(folder), sampler, size)
        found += _many(Path(folder) / "many", 12 if quick else 1000, sampler)
    return found + _devices(quick)


def _fleet(folder: Path, workers: int, made: list[seqgp.Stream]) -> tuple[seqgp.FleetResult, float]:
    """Streams on workers that have everything compiled: the result, and the seconds."""
    settings: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": None, "silence_logs": 50}
    with LocalCluster(n_workers=workers, threads_per_worker=1, **settings) as local, Client(local) as connected:
        client: Any = connected
        for worker in client.nthreads():  # one stream on each before
            warm = seqgp.Stream(f"warm {worker.rsplit(':', 1)[1]}", made[0].sampler, made[0].snapshots)
            client.submit(_warm, cloudpickle.dumps(warm), str(folder / f"warm{workers}"), workers=[worker]).result()
        start = time.perf_counter()
        found = seqgp.fleet(made, folder / f"on {workers}", client, progress=False)
        return found, time.perf_counter() - start


def _warm(packed: bytes, folder: str) -> None:
    seqgp.enable_x64()
    seqgp.fleet([cloudpickle.loads(packed)], folder, threads=1, progress=False)


def _workers(folder: Path, sampler: Any, size: dict[str, int]) -> list[Line]:
    made = streams(sampler=sampler, **size)
    one, alone = _fleet(folder, 1, made)
    two, both = _fleet(folder, 2, made)
    if one.failed or two.failed:
        raise RuntimeError((one.failed + two.failed)[0].error)
    beside = [1 - (row.sampling + row.compiling) / row.seconds for row in one.rows]
    cost = alone / size["count"]
    packed = len(cloudpickle.dumps(sampler)) + len(cloudpickle.dumps(made[0].snapshots))
    what = f"{size['count']} streams of {size['steps']} steps"
    cores = 100_000 * cost / 3600
    return [
        Line("fleet: two workers over one", alone / both, 1.8, ">=", f"{what}: {alone:.1f} s, {both:.1f} s"),
        Line("fleet: share of a stream beside its sampling", statistics.median(beside), 0.05, "<="),
        Line("fleet: seconds of a stream on one core", cost, detail=f"{size['steps']} steps, all included"),
        Line("fleet: bytes of a packed stream", packed, detail="sampler and function; moved through the scheduler"),
        Line("fleet: cores for 100,000 such streams an hour", cores),
    ]


def _many(folder: Path, count: int, sampler: Any) -> list[Line]:
    """Many short streams: the memory of scheduler and workers after the last quarter over that after the first."""
    made = streams(count, 2 if count < 100 else 5, 3, sampler)
    settings: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": None, "silence_logs": 50}
    quarter = count // 4
    with LocalCluster(n_workers=2, threads_per_worker=1, **settings) as local, Client(local) as connected:
        client: Any = connected
        failed, memory = 0, []
        for i in range(4):
            found = seqgp.fleet(made[i * quarter : (i + 1) * quarter], folder, client, progress=False)
            failed += len(found.failed)
            here = psutil.Process().memory_info().rss  # the scheduler lives in this process
            memory.append([here, *client.run(lambda: psutil.Process().memory_info().rss).values()])
    grown = [last / first for first, last in zip(memory[0], memory[-1])]
    detail = ", ".join(f"{first / 2**20:.0f} to {last / 2**20:.0f} MB" for first, last in zip(memory[0], memory[-1]))
    return [
        Line(f"fleet: of {count} streams, failed", failed, 0, "<="),
        Line("fleet: memory of client and scheduler, last quarter over first", grown[0], 1.1, "<=", detail),
        Line("fleet: memory of a worker, last quarter over first (largest)", max(grown[1:]), 1.1, "<="),
    ]


DEVICES = """
import sys, time, jax, seqgp
seqgp.enable_x64()
from benchmarks.fleet import model, read
quick = sys.argv[1] == "True"
sampler = seqgp.OnlineSampler(model(), particles=32 if quick else 512, draws=20)
data = read(0, 3 if quick else 20, 4 if quick else 60)
run = lambda: seqgp.run(sampler, data, key=jax.random.key(0), progress=False, forecast=False)
run()
start = time.perf_counter()
run()
print(time.perf_counter() - start)
"""


def _devices(quick: bool) -> list[Line]:
    seconds = {}
    for devices in (1, 2, 4):
        flags = f"--xla_force_host_platform_device_count={devices}"
        command = [sys.executable, "-c", DEVICES, str(quick)]
        ended = subprocess.run(
            command, env=os.environ | {"XLA_FLAGS": flags}, capture_output=True, text=True, check=True
        )
        seconds[devices] = float(ended.stdout.split()[-1])
    return [
        Line(f"fleet: one cloud on {n} host devices, over one", seconds[1] / seconds[n], detail=f"{seconds[n]:.2f} s")
        for n in (2, 4)
    ]


if __name__ == "__main__":
    main(lines, "fleet")
