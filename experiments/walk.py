"""The files that an online step and ``seqgp fit`` visit: ``make walk``.

A profile sees each function that runs, in all threads, compilation included. What a first run imports is not counted.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist

import seqgp
from seqgp.cli import main as command
from seqgp.runtime import engine

SOURCE = Path(seqgp.__file__).parent
PARTS = {"base", "kernels", "likelihoods", "means", "model.py"}  # of a model, rather than of the algorithm
CONFIGURATION = """
[data]
file = "data.csv"
time = "t"
inputs = ["x"]
value = "y"

[model]
scale = { low = 0, high = 3 }

[model.time]
kernel = "Matern32"

[model.space]
kernel = "Matern32"

[model.likelihood]
noise = { low = 0.05, high = 1 }

[sampler]
method = "online"
particles = 32
draws = 40

[run]
folder = "run"
"""


@contextmanager
def visited(files: set[str]) -> Iterator[None]:
    """Add the files of the package in which a function runs."""

    def look(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(str(SOURCE)):
            files.add(str(Path(code.co_filename).relative_to(SOURCE)))

    threading.setprofile_all_threads(look) if sys.version_info >= (3, 12) else threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile_all_threads(None) if sys.version_info >= (3, 12) else threading.setprofile(None)  # pyright: ignore[reportArgumentType]


def forget() -> None:
    """As before the first run, but for what is imported."""
    engine.forget()
    jax.clear_caches()


def compiled_again(run: Callable[[], Any]) -> set[str]:
    """The files that a run visits when nothing is compiled and everything is imported."""
    run()
    forget()
    files: set[str] = set()
    with visited(files):
        run()
    return files


def step_files() -> set[str]:
    """Of the first step of ``OnlineSampler`` that rejuvenates."""
    model = seqgp.Model(
        seqgp.Separable(
            seqgp.kernels.Matern32(dist.LogNormal(0.0, 0.5)),
            seqgp.kernels.Matern32(dist.LogNormal(0.0, 0.5)),
            scale=dist.LogNormal(0.0, 0.5),
        ),
        seqgp.likelihoods.Gaussian(noise=dist.LogNormal(-1.0, 0.5)),
    )
    sampler = seqgp.OnlineSampler(model, particles=32, draws=40)
    rng, x = np.random.default_rng(0), np.linspace(0, 1, 6)[:, None]
    data = [seqgp.Snapshot(0.3 * i, x, np.sin(i + 3 * x[:, 0]) + 0.05 * rng.normal(size=6)) for i in range(12)]
    keys = jax.random.split(jax.random.key(0), len(data))
    state, _ = sampler.init(keys[0], data[0])
    for key, snapshot in zip(keys[1:], data[1:]):
        before = state
        state, info = sampler.step(key, before, snapshot)
        if info.rejuvenations:
            return compiled_again(lambda: sampler.step(key, before, snapshot))  # noqa: B023
    raise RuntimeError("no step rejuvenated the particles")


def fit_files(folder: Path) -> set[str]:
    """Of ``seqgp fit`` with a table of four times at five places."""
    rows = [f"{t},{x},{np.sin(t + x)}" for t in range(4) for x in (0.0, 0.3, 0.5, 0.8, 1.0)]
    (folder / "data.csv").write_text("\n".join(["t,x,y", *rows]))
    count = iter(range(2))

    def fit() -> None:
        path = folder / f"{next(count)}.toml"
        path.write_text(CONFIGURATION.replace('"run"', f'"{path.stem}"'))
        try:
            command(["fit", str(path)])
        except SystemExit as ended:
            if ended.code:
                raise

    return compiled_again(fit)


def main() -> None:
    seqgp.enable_x64()
    step = step_files()
    print("online step:", *sorted(step), sep="\n  ")
    with tempfile.TemporaryDirectory() as folder:
        fit = fit_files(Path(folder)) - step
    print("seqgp fit, besides:", *sorted(fit), sep="\n  ")
    of_parts = sum(Path(name).parts[0] in PARTS for name in step)
    print(f"An online step visits {len(step)} files, {of_parts} of them in {', '.join(sorted(PARTS))}.")
    print(f"seqgp fit visits {len(fit)} others.")


if __name__ == "__main__":
    main()
