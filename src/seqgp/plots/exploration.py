"""Figures of what :func:`seqgp.evaluate.explore.explore` found, with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqgp.base.errors import extra
from seqgp.plots.style import COLOUR, GREY

if TYPE_CHECKING:
    from seqgp.evaluate.explore import DataExploration


def exploration(found: DataExploration) -> Any:
    """One figure of six: variogram, its fit in time, delay, noise of stations, season of the variance, missing data."""
    with extra("plots"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(13, 7.5), layout="constrained")
    axes = figure.subplots(2, 3)
    draw_variogram(axes[0, 0], found, in_space=True)
    draw_variogram(axes[0, 1], found, in_space=False)
    draw_delay(axes[0, 2], found)
    draw_noise(axes[1, 0], found)
    draw_season(axes[1, 1], found)
    draw_missing(axes[1, 2], found)
    return figure


def draw_variogram(ax: Any, found: DataExploration, in_space: bool) -> None:
    """Points are the data, lines the best candidate; over distance for some lags, or over lags for some distances."""
    variogram, best = found.variogram, found.candidates[0]
    fitted, gamma = best.gamma(variogram), variogram.gamma
    along, across = (variogram.distance, variogram.lag) if in_space else (variogram.lag, variogram.distance)
    if not in_space:
        fitted, gamma = fitted.T, gamma.T
    shown = np.unique(np.linspace(0, len(across) - 1, 3).astype(int))
    for shade, k in zip((1.0, 0.65, 0.35), shown):
        used = (along + across[k]) > 0
        ax.plot(along[used], gamma[used, k], "o", color=COLOUR, alpha=shade, ms=4)
        name = f"lag {across[k]:.3g}" if in_space else f"distance {across[k]:.3g}"
        ax.plot(along[used], fitted[used, k], color=COLOUR, alpha=shade, label=name)
    ax.set(xlabel="distance" if in_space else "lag", ylabel="semivariance", ylim=(0, None))
    name, lengthscale = (best.space, best.space_lengthscale) if in_space else (best.time, best.time_lengthscale)
    ax.set_title(f"{name}, lengthscale {lengthscale:.3g}")
    ax.legend(frameon=False)


def draw_delay(ax: Any, found: DataExploration) -> None:
    """The slowness along each axis of space, with two standard errors."""
    slowness, se = found.asymmetry.slowness, found.asymmetry.se
    ax.axhline(0.0, color=GREY, lw=1)
    ax.errorbar(np.arange(len(slowness)), slowness, 2 * se, fmt="o", color=COLOUR, capsize=4)
    ax.set_xticks(np.arange(len(slowness)), [f"slowness[{i}]" for i in range(len(slowness))])
    ax.margins(x=0.4)
    answer = "a delay" if found.asymmetry.delay else "no delay found"
    ax.set(ylabel="time per distance", title=f"{answer} (p = {found.asymmetry.p_value:.2g})")


def draw_noise(ax: Any, found: DataExploration) -> None:
    """Stations, the noisiest first."""
    order = np.argsort(-found.noise.noise)
    ax.errorbar(np.arange(len(order)), found.noise.noise[order], 2 * found.noise.se[order], fmt="o", color=COLOUR, ms=4)
    ax.axhline(np.median(found.noise.noise), color=GREY, lw=1)
    ax.set(xlabel="station, the noisiest first", ylabel="noise", ylim=(0, None))
    ax.set_title("stations differ" if found.suggested.by_station else "one noise for all")


def draw_season(ax: Any, found: DataExploration) -> None:
    """The spread of each time over the phase of the season, and the fitted amplitude."""
    if found.season is None:
        ax.text(0.5, 0.5, "no period was given", ha="center", va="center", color=GREY, transform=ax.transAxes)
        ax.set_axis_off()
        return
    t, y, season = found.stations.t, found.stations.y, found.season
    spread = np.nanstd(y - np.nanmean(y, axis=0), axis=1)
    phase = np.linspace(0, 1, 200)
    a, b = season.coefficients
    amplitude = np.exp(a * np.cos(2 * np.pi * phase) + b * np.sin(2 * np.pi * phase))
    ax.plot(t / season.period % 1.0, spread, ".", color=GREY, alpha=0.5, ms=4)
    ax.plot(phase, np.exp(np.nanmean(np.log(spread))) * amplitude, color=COLOUR)
    title = "variance has a season" if season.seasonal else "no season of the variance found"
    ax.set(xlabel="phase", ylabel="standard deviation over stations", yscale="log", title=title)


def draw_missing(ax: Any, found: DataExploration) -> None:
    """Times and stations; what is missing is dark."""
    t = found.stations.t
    image = np.isnan(found.stations.y).T
    ax.imshow(image, aspect="auto", cmap="Greys", vmin=0, vmax=1, extent=(t[0], t[-1], len(image) - 0.5, -0.5))
    ax.set(xlabel="time", ylabel="station", title=f"{100 * found.missing.share:.1f}% missing")
