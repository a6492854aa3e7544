"""A storm over Sydney, 3 November 2000, as a field that moves: two whole times left out, beside the published figures.

python -m experiments.radar --data FOLDER [--shortest 16] [--particles 64] [--figure radar.png]

FOLDER holds radar.csv: the table ``radar_df`` of the R package STRbook (Wikle, Zammit-Mangion and Cressie 2019), radar
reflectivities on a grid of 28 x 40 points, every ten minutes. It is not part of this package. The published figures are
of the same split (their table 6.2), given the times on both sides of the gap.

The field is ``seqgp.Advected`` with a Matérn 3/2 kernel in space: it moves with one velocity, spreads and fades.
``OnlineSampler`` draws all parameters, and ``seqgp.smooth`` the field at the times left out given all others.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import numpyro.distributions as dist
import pandas as pd
from rich.console import Console
from rich.table import Table
from scoringrules import crps_normal

import seqgp
from seqgp import kernels, likelihoods
from seqgp.evaluate.motion import Motion, motions

LEFT_OUT = (7, 8)
MINUTES = 10.0  # from one time to the next
MARGIN = 40.0  # km around the data, beyond which the box repeats itself
PUBLISHED = {"FRK": (50.81, 3.75), "IDE": (29.90, 3.03)}  # mean squared error, CRPS
UNITS = {"inputs": ["east_km", "north_km"], "unit": "hours", "origin": "2000-11-03"}  # of the motion in words
DRAWS = 200  # of paths, at the times left out


class Storm(NamedTuple):
    """All times on one grid."""

    x: np.ndarray  # (N, 2), km
    y: np.ndarray  # (T, N), dBZ


class Fit(NamedTuple):
    """Draws of the parameters, and predictions at the times left out."""

    parameters: dict[str, np.ndarray]
    motion: Motion
    mean: np.ndarray  # (left out, N), dBZ
    spread: np.ndarray  # the standard deviation of new data
    extras: dict[str, float]  # of the last step: what the Fourier modes leave out


class Scores(NamedTuple):
    mse: float
    crps: float
    coverage: float


def read(path: Path) -> Storm:
    """The table as an array of times."""
    frame = pd.read_csv(path / "radar.csv" if path.is_dir() else path).sort_values(["step", "s1", "s2"])
    steps = len(np.unique(frame["step"].to_numpy()))
    x = frame[["s1", "s2"]].to_numpy(float)[: len(frame) // steps]
    return Storm(x, frame["dbz"].to_numpy(float).reshape(steps, -1))


def storm_model(shortest: float) -> seqgp.Model:
    """dBZ, km and hours: storms of some kilometres to tens, which move up to 60 km/h and last some hours."""
    field = seqgp.Separable(
        time=kernels.Matern12(lengthscale=dist.LogNormal(np.log(3.0), 1.0)),
        space=kernels.Matern32(lengthscale=dist.LogNormal(np.log(8.0), 0.7)),
        scale=dist.LogNormal(np.log(8.0), 1.0),
    )
    kernel = seqgp.Advected(
        field,
        velocity=[dist.Normal(0.0, 30.0), dist.Normal(0.0, 30.0)],
        diffusion=dist.LogNormal(np.log(12.0), 1.5),
        shortest=shortest,
        margin=MARGIN,
    )
    noise = dist.LogNormal(np.log(3.0), 1.0)
    return seqgp.Model(kernel, likelihoods.Gaussian(noise=noise), mean=dist.Normal(2.0, 3.0))


def fit(storm: Storm, left_out: tuple[int, ...] = LEFT_OUT, shortest: float = 16.0, particles: int = 64) -> Fit:
    """All times but those left out taken in one by one, and then the past at those given all others."""
    snapshots = [
        seqgp.Snapshot(k * MINUTES / 60, storm.x, np.full_like(y, np.nan) if k in left_out else y)
        for k, y in enumerate(storm.y)
    ]
    model = storm_model(shortest)
    sampler = seqgp.OnlineSampler(model, particles=particles, draws=DRAWS)
    run = seqgp.run(sampler, snapshots, key=jax.random.key(0))
    state = run.state
    assert isinstance(state, seqgp.OnlineState)
    times = [k * MINUTES / 60 for k in left_out]
    latent = np.stack(seqgp.smooth(jax.random.key(1), sampler, state, times, draws=DRAWS).latent)
    noise = np.asarray(state.parameters["noise"])
    spread = np.sqrt(latent.var(axis=1) + np.mean(noise**2))
    parameters = {name: np.asarray(values) for name, values in state.parameters.items()}
    (motion,) = motions(model, parameters, UNITS)
    return Fit(parameters, motion, latent.mean(axis=1), spread, dict(run.infos[-1].extras))


def score(fitted: Fit, truth: np.ndarray) -> Scores:
    """Scores at the times left out."""
    error = truth - fitted.mean
    crps = np.asarray(crps_normal(truth, fitted.mean, fitted.spread))
    return Scores(
        float(np.mean(error**2)), float(crps.mean()), float(np.mean(np.abs(error) <= 1.959964 * fitted.spread))
    )


def draw_figure(storm: Storm, fitted: Fit, path: Path, left_out: tuple[int, ...] = LEFT_OUT) -> None:
    """Radar and prediction at the times left out, with those on both sides; the arrow is an hour of the velocity."""
    from matplotlib.figure import Figure

    first, last = left_out[0] - 1, left_out[-1] + 1
    v = fitted.parameters["velocity"].mean(axis=0)
    figure = Figure(figsize=(11, 7.6), layout="constrained")
    axes = figure.subplots(2, last - first + 1, sharex=True, sharey=True, squeeze=False)
    for ax in axes[1]:
        ax.set_axis_off()
    for j, k in enumerate(range(first, last + 1)):
        given = "" if k in left_out else " (given)"
        image = draw_panel(axes[0, j], storm.x, storm.y[k], f"{MINUTES * k:.0f} min, radar{given}")
        if k in left_out:
            axes[1, j].set_axis_on()
            mean = fitted.mean[left_out.index(k)]
            image = draw_panel(axes[1, j], storm.x, mean, f"{MINUTES * k:.0f} min, predicted")
            tail = storm.x.min(axis=0) + 0.2 * np.ptp(storm.x, axis=0)
            arrow = {"arrowstyle": "-|>", "color": "white", "lw": 2}
            axes[1, j].annotate("", tuple(tail + 0.5 * v), tuple(tail), arrowprops=arrow)
        if k == last:
            figure.colorbar(image, ax=axes, label="reflectivity, dBZ", shrink=0.8)
    words = str(fitted.motion).replace("), ", "),\n") + "\n(arrow: half an hour)"
    axes[1, 0].text(0.0, 0.5, words, transform=axes[1, 0].transAxes, va="center")
    figure.supxlabel("km east")
    figure.supylabel("km north")
    figure.savefig(path, dpi=130)


def draw_panel(ax: Any, x: np.ndarray, values: np.ndarray, title: str) -> Any:
    """Values on the grid of ``x``, in its order."""
    shape = len(np.unique(x[:, 0])), len(np.unique(x[:, 1]))
    (left, bottom), (right, top) = x.min(axis=0), x.max(axis=0)
    ax.set_title(title, fontsize=10)
    extent = (left, right, bottom, top)
    return ax.imshow(values.reshape(shape).T, origin="lower", extent=extent, vmin=-10, vmax=50, cmap="viridis")


def table_of(found: Scores) -> Table:
    """Ours and the published ones."""
    table = Table(title="Steps 7 and 8, left out")
    for column in ("model", "mean squared error", "CRPS", "95% coverage"):
        table.add_column(column)
    table.add_row("advected field", f"{found.mse:.2f}", f"{found.crps:.2f}", f"{100 * found.coverage:.1f}%")
    table.add_section()
    for name, (mse, crps) in PUBLISHED.items():
        table.add_row(name, f"{mse:.2f}", f"{crps:.2f}", "")
    return table


def main(argv: list[str] | None = None) -> Scores:
    parser = argparse.ArgumentParser(prog="python -m experiments.radar", description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="radar.csv, or its folder")
    parser.add_argument("--shortest", type=float, default=16.0, help="the shortest wavelength, km")
    parser.add_argument("--particles", type=int, default=64)
    parser.add_argument("--figure", type=Path, default=None, help="where to save the figure")
    arguments = parser.parse_args(argv)
    seqgp.enable_x64()
    console = Console(width=120)
    storm = read(arguments.data)
    fitted = fit(storm, shortest=arguments.shortest, particles=arguments.particles)
    found = score(fitted, storm.y[list(LEFT_OUT)])
    for name, values in fitted.parameters.items():
        console.print(f"{name}: {np.mean(values, axis=0).round(3)} ± {np.std(values, axis=0).round(3)}")
    console.print(f"The storm {fitted.motion}")
    extras = fitted.extras
    console.print(
        f"{extras['modes']:.0f} Fourier modes: off by up to {extras['truncation_error']:.1%} of the variance, of which "
        f"{extras['variance_left_out']:.1%} is of shorter waves"
    )
    console.print(table_of(found))
    if arguments.figure is not None:
        draw_figure(storm, fitted, arguments.figure)
    return found


if __name__ == "__main__":
    main()
