"""Figures: smiles with bands and quotes, the surface in three dimensions, parameters over days."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqgp import extra
from seqgp.apps.localvol.fit import LocalVolFit
from seqgp.apps.localvol.quotes import Quotes
from seqgp.apps.localvol.tables import Table

BLUE, RED, GREY = "#1f5a8c", "#b3372f", "#777777"
NAMES = {
    "time.lengthscale": "lengthscale in time, years",
    "space.lengthscale[0]": "lengthscale in maturity",
    "space.lengthscale[1]": "lengthscale in log-moneyness",
    "scale": "scale of the latent",
    "level": "level of volatility",
    "noise": "noise",
}


def pyplot() -> Any:
    """Matplotlib, which is an optional dependency."""
    with extra("plots"):
        import matplotlib.pyplot as plt
    return plt


def smiles(fit: LocalVolFit, held_out: Quotes | None = None, probability: float = 0.95, columns: int = 3) -> Any:
    """A panel for each expiration: implied volatility with bands, quotes (bid-ask bars where there are), the forward.

    Args:
        fit: after at least one day.
        held_out: quotes that were not learnt from, in another colour.
        probability: of the bands.
        columns: panels in a row.
    """
    table = fit.last.quotes.table
    bands = fit.smiles(probability=probability, around=held_out)
    slices = list(table.groupby("expiration"))
    rows = -(-len(slices) // columns)
    figure, axes = pyplot().subplots(
        rows, columns, figsize=(3.6 * columns, 2.8 * rows), squeeze=False, layout="constrained"
    )
    for axis, (expiration, quotes) in zip(axes.flat, slices):
        band = bands[bands["maturity"] == quotes["maturity"].iloc[0]]
        axis.fill_between(band["strike"], 100 * band["low"], 100 * band["high"], color=BLUE, alpha=0.25, lw=0)
        axis.plot(band["strike"], 100 * band["mean"], color=BLUE, lw=1.2)
        _quotes(axis, quotes, "0.15", "quotes")
        if held_out is not None:
            _quotes(axis, held_out.table[held_out.table["expiration"] == expiration], RED, "held out")
        axis.axvline(band["forward"].iloc[0], color=GREY, lw=0.8, ls=":")
        axis.set_title(f"{expiration:%d %b %Y}, {12 * quotes['maturity'].iloc[0]:.1f} months", fontsize=9)
        axis.tick_params(labelsize=8)
    for axis in axes.flat[len(slices) :]:
        axis.set_visible(False)
    figure.supxlabel("strike (dotted: the forward)", fontsize=9)
    figure.supylabel("implied volatility, %", fontsize=9)
    axes.flat[0].legend(fontsize=7, frameon=False)
    figure.suptitle(f"Smiles of {fit.last.date:%d %B %Y}: posterior mean and {probability:.0%} band", fontsize=10)
    return figure


def _quotes(axis: Any, quotes: Table, colour: str, name: str) -> None:
    at, middle = quotes["strike"], 100 * quotes["implied_volatility"]
    half = 100 * (quotes["half_spread"] / quotes["vega"]).to_numpy(float)
    if np.isfinite(half).any():
        axis.errorbar(at, middle, half, fmt="none", ecolor=colour, elinewidth=1.0, capsize=1.5, label=name)
    else:
        axis.plot(at, middle, ".", color=colour, ms=3.5, label=name)


def surface(fit: LocalVolFit, probability: float = 0.95, points: tuple[int, int] = (41, 61)) -> Any:
    """The surface in three dimensions: its colour is the width of the band, pale where the prior dominates."""
    plt = pyplot()
    model = fit.model
    T = np.linspace(model.maturities[0], model.maturities[-1], points[0])
    y = np.linspace(model.log_moneyness[0], model.log_moneyness[-1], points[1])
    grid = fit.surface().on_grid(T, log_moneyness=y)
    low, high = grid.band(probability)
    mean, width = 100 * grid.mean(), 100 * (high - low)
    scale = plt.Normalize(0.0, float(np.quantile(width, 0.95)))
    colours = plt.get_cmap("viridis_r")(scale(width))
    colours[grid.prior_dominated(), :3] = 0.5 + 0.5 * colours[grid.prior_dominated(), :3]
    figure = plt.figure(figsize=(7.5, 5.4))
    axis = figure.add_axes((0.0, 0.0, 0.84, 0.94), projection="3d")
    X, Y = np.meshgrid(y, T)
    axis.plot_surface(X, Y, mean, facecolors=colours, rstride=1, cstride=1, shade=False, lw=0, antialiased=False)
    axis.set(xlabel="log(K/F)", ylabel="maturity, years", zlabel="local volatility, %")
    axis.view_init(elev=26, azim=-128)
    figure.suptitle(f"Local volatility on {fit.last.date:%d %B %Y} (pale: the prior dominates)", fontsize=11)
    mappable = plt.cm.ScalarMappable(norm=scale, cmap="viridis_r")
    figure.colorbar(
        mappable, cax=figure.add_axes((0.88, 0.22, 0.02, 0.55)), label=f"width of the {probability:.0%} band, points"
    )
    return figure


def parameters(fit: LocalVolFit) -> Any:
    """Posterior mean and 95 % interval of each parameter, day by day."""
    table = fit.parameters()
    names = list(dict.fromkeys(table["parameter"]))
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure, axes = pyplot().subplots(
        rows, columns, figsize=(3.6 * columns, 2.4 * rows), squeeze=False, layout="constrained"
    )
    for axis, name in zip(axes.flat, names):
        part = table[table["parameter"] == name]
        unit = 1e4 if name == "noise" and fit.model.noise == "volatility" else 1.0
        at = np.arange(len(part))  # days are few and unevenly spaced: one tick each
        error = [unit * (part["mean"] - part["low"]), unit * (part["high"] - part["mean"])]
        axis.errorbar(at, unit * part["mean"], error, fmt="o", color=BLUE, ms=4, elinewidth=1.2, capsize=2)
        axis.set_xticks(at, [f"{date:%d %b}" for date in part["quote_date"]], rotation=60, fontsize=7)
        axis.set_title(NAMES.get(name, name) + (", bp of implied volatility" if unit > 1 else ""), fontsize=9)
        axis.set_xlim(-0.5, len(part) - 0.5)
        axis.tick_params(axis="y", labelsize=8)
        axis.set_ylim(bottom=0)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    return figure
