"""A storm over Sydney, 3 November 2000, as a field that moves: two whole times left out, beside the published figures.

python -m experiments.radar --data FOLDER [--shortest 14] [--figure radar.png]

FOLDER holds radar.csv: the table ``radar_df`` of the R package STRbook (Wikle, Zammit-Mangion and Cressie 2019), radar
reflectivities on a grid of 28 x 40 points, every ten minutes. It is not part of this package. The published figures are
of the same split (their table 6.2), given the times on both sides of the gap.

The field has a Matérn 3/2 kernel in space, moves with one velocity, spreads and fades; all parameters are inferred, at
the mode of their posterior, with standard deviations from its curvature. Scores are of the predictions at the mode.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize
from scoringrules import crps_normal

import seqgp
from seqgp.statespace.advection import (
    FourierModes,
    advected_modes,
    fourier_covariance,
    matern_density,
    mode_basis,
    truncation_error,
    wave_vectors,
)
from seqgp.statespace.mode_filter import DataInformation, data_information, filter_modes, smooth_modes

LEFT_OUT = (7, 8)
MINUTES = 10.0  # from one time to the next
SMOOTHNESS = 1.5
MARGIN = 40.0  # km around the data, beyond which the box repeats itself
PUBLISHED = {"FRK": (50.81, 3.75), "IDE": (29.90, 3.03)}  # mean squared error, CRPS
NAMES = ("noise", "mean", "scale", "lengthscale", "velocity[0]", "velocity[1]", "diffusion", "damping")
LOGS = np.array([True, False, True, True, False, False, True, True])  # the prior is of the logarithm
# dBZ, km and steps of ten minutes: storms of some kilometres to tens, which move up to 60 km/h and last half an hour
PRIOR_MEAN = np.array([np.log(3.0), 2.0, np.log(8.0), np.log(8.0), 0.0, 0.0, np.log(2.0), np.log(0.05)])
PRIOR_SD = np.array([1.0, 3.0, 1.0, 0.7, 5.0, 5.0, 1.5, 1.0])


class Storm(NamedTuple):
    """All times on one grid."""

    x: np.ndarray  # (N, 2), km
    y: np.ndarray  # (T, N), dBZ


class Fit(NamedTuple):
    """The mode of the parameters, and predictions at the times left out."""

    parameters: dict[str, float]
    sd: dict[str, float]
    mean: np.ndarray  # (left out, N), dBZ
    spread: np.ndarray  # the standard deviation of new data
    error: float  # of the truncated covariance, as a share of the variance


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


def modes_of(theta: Any, wave: np.ndarray, box: np.ndarray) -> FourierModes:
    """The field at one value of the parameters."""
    density = theta[2] ** 2 * matern_density(wave, SMOOTHNESS, theta[3])
    return advected_modes(wave, box, density, theta[4:6], theta[6], theta[7])


def natural(z: Any) -> Any:
    """From logarithms where the prior is of the logarithm."""
    return jnp.where(LOGS, jnp.exp(jnp.where(LOGS, z, 0.0)), z)


class Problem(NamedTuple):
    """The data on the modes of a box, with the times left out empty."""

    wave: np.ndarray
    box: np.ndarray
    basis: Any
    data: DataInformation
    total: Any  # the sum of the data of each time
    ones: Any  # of the rows of the basis

    @property
    def dts(self) -> np.ndarray:
        return np.ones(len(self.total))

    def without_mean(self, mean: Any) -> DataInformation:
        """The data less a constant; each time is complete or empty."""
        data, there = self.data, jnp.where(self.data.num_data > 0, 1.0, 0.0)
        return data._replace(
            score=data.score - mean * there[:, None] * self.ones,
            square=data.square - 2 * mean * self.total + mean**2 * data.num_data,
        )


def prepare(storm: Storm, left_out: tuple[int, ...], shortest: float) -> Problem:
    y = storm.y.copy()
    y[list(left_out)] = np.nan
    x = storm.x - storm.x.min(axis=0)
    box = x.max(axis=0) + MARGIN
    wave = wave_vectors(box, shortest)
    basis = mode_basis(wave, x)
    data = jax.vmap(lambda values: data_information(basis, values))(jnp.asarray(y))
    return Problem(wave, box, basis, data, jnp.nansum(jnp.asarray(y), axis=1), basis.sum(axis=0))


def negative_log_posterior(problem: Problem, z: Any) -> Any:
    theta = natural(z)
    modes = modes_of(theta, problem.wave, problem.box)
    _, log_prob = filter_modes(modes, problem.dts, problem.without_mean(theta[1]), theta[0])
    return 0.5 * jnp.sum(((z - PRIOR_MEAN) / PRIOR_SD) ** 2) - jnp.sum(log_prob)


def fit(storm: Storm, left_out: tuple[int, ...] = LEFT_OUT, shortest: float = 14.0, most: int = 80) -> Fit:
    """Parameters at the mode of their posterior, and the field at the times left out given all others."""
    problem = prepare(storm, left_out, shortest)
    gradient = jax.jit(jax.value_and_grad(lambda z: negative_log_posterior(problem, z)))

    def both(z):
        value, slope = gradient(jnp.asarray(z))
        return float(value), np.asarray(slope)

    found = minimize(both, PRIOR_MEAN, jac=True, method="L-BFGS-B", options={"maxiter": most})
    theta = np.asarray(natural(jnp.asarray(found.x)))
    modes, data = modes_of(theta, problem.wave, problem.box), problem.without_mean(theta[1])
    filtered, _ = filter_modes(modes, problem.dts, data, theta[0])
    smoothed = smooth_modes(modes, problem.dts, data, theta[0], filtered)
    gone, basis = np.array(left_out), problem.basis
    mean = np.asarray(smoothed.mean[gone] @ basis.T) + theta[1]
    variance = np.asarray(jnp.einsum("ni,tin->tn", basis, smoothed.cov[gone] @ basis.T)) + theta[0] ** 2
    sd = np.sqrt(np.diag(np.linalg.inv(curvature(lambda z: both(z)[1], found.x))))
    sd = np.where(LOGS, theta * sd, sd)
    error = told(theta, modes, problem.box)
    return Fit(dict(zip(NAMES, theta.tolist())), dict(zip(NAMES, sd.tolist())), mean, np.sqrt(variance), error)


def curvature(slope: Any, z: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """The Hessian, by differences of the gradient."""
    columns = [(slope(z + step * e) - slope(z - step * e)) / (2 * step) for e in np.eye(len(z))]
    return 0.5 * (np.array(columns) + np.array(columns).T)


def told(theta: np.ndarray, modes: FourierModes, box: np.ndarray) -> float:
    """The error of the covariance, against four times as many modes on a box twice as long, over an hour."""
    wide = 2 * box
    finest = np.min(2 * np.pi / np.linalg.norm(np.asarray(modes.wave)[1:], axis=1))
    reference = modes_of(theta, wave_vectors(wide, finest / 2), wide)
    rng = np.random.default_rng(0)
    h, u = rng.uniform(-1, 1, (400, 2)) * (box - MARGIN), rng.uniform(0, 6, 400)
    h[0], u[0] = 0.0, 0.0
    return truncation_error(modes, np.asarray(fourier_covariance(reference, h, u)), h, u)


def score(fitted: Fit, truth: np.ndarray) -> Scores:
    """Scores at the times left out."""
    error = truth - fitted.mean
    crps = np.asarray(crps_normal(truth, fitted.mean, fitted.spread))
    return Scores(
        float(np.mean(error**2)), float(crps.mean()), float(np.mean(np.abs(error) <= 1.959964 * fitted.spread))
    )


def motion(fitted: Fit) -> tuple[float, float, float, float]:
    """Speed in km/h with its standard deviation, and where the storm moves in degrees from north with its own."""
    v = np.array([fitted.parameters[f"velocity[{i}]"] for i in range(2)]) * 60 / MINUTES
    sd = np.array([fitted.sd[f"velocity[{i}]"] for i in range(2)]) * 60 / MINUTES
    draws = np.random.default_rng(0).normal(v, sd, (10_000, 2))
    angle = np.degrees(np.arctan2(v[0], v[1]))
    turned = (np.degrees(np.arctan2(draws[:, 0], draws[:, 1])) - angle + 180) % 360 - 180
    return float(np.hypot(*v)), float(np.hypot(*draws.T).std()), float(angle % 360), float(turned.std())


def draw_figure(storm: Storm, fitted: Fit, path: Path, left_out: tuple[int, ...] = LEFT_OUT) -> None:
    """Radar and prediction at the times left out, with those on both sides; the arrow is an hour of the velocity."""
    from matplotlib.figure import Figure

    first, last = left_out[0] - 1, left_out[-1] + 1
    v = np.array([fitted.parameters[f"velocity[{i}]"] for i in range(2)]) * 60 / MINUTES
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
    speed, speed_sd, angle, angle_sd = motion(fitted)
    words = f"moves towards {angle:.0f}° ± {angle_sd:.0f}°\n{speed:.0f} ± {speed_sd:.0f} km/h\n(arrow: half an hour)"
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
    parser.add_argument("--shortest", type=float, default=14.0, help="the shortest wavelength, km")
    parser.add_argument("--figure", type=Path, default=None, help="where to save the figure")
    arguments = parser.parse_args(argv)
    seqgp.enable_x64()
    console = Console(width=120)
    storm = read(arguments.data)
    fitted = fit(storm, shortest=arguments.shortest)
    found = score(fitted, storm.y[list(LEFT_OUT)])
    for name, value in fitted.parameters.items():
        console.print(f"{name}: {value:.3f} ± {fitted.sd[name]:.3f}")
    speed, speed_sd, angle, angle_sd = motion(fitted)
    console.print(f"The storm moves towards {angle:.0f}° ± {angle_sd:.0f}°, {speed:.1f} ± {speed_sd:.1f} km/h")
    console.print(f"Largest error of the covariance by truncation: {100 * fitted.error:.1f}% of the variance")
    console.print(table_of(found))
    if arguments.figure is not None:
        draw_figure(storm, fitted, arguments.figure)
    return found


if __name__ == "__main__":
    main()
