"""Figures: smiles, total variance, residuals, the surface as a map, densities, parameters over days."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqgp.apps.localvol.fit import LocalVolFit
from seqgp.apps.localvol.quotes import Quotes
from seqgp.apps.localvol.risk_neutral import densities
from seqgp.apps.localvol.tables import Table
from seqgp.base.errors import extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure


BLUE, RED, GREY = "#1f5a8c", "#b3372f", "#777777"
NAMES = {
    "0.space.lengthscale[0]": "mean surface: lengthscale in maturity",
    "0.space.lengthscale[1]": "mean surface: lengthscale in log-moneyness",
    "0.scale": "mean surface: scale",
    "1.time.lengthscale": "innovations: lengthscale in time, years",
    "1.space.lengthscale[0]": "innovations: lengthscale in maturity",
    "1.space.lengthscale[1]": "innovations: lengthscale in log-moneyness",
    "1.scale": "innovations: scale",
    "mean.spot": "leverage",
    "stickiness": "stickiness",
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


def smiles(fit: LocalVolFit, held_out: Quotes | None = None, probability: float = 0.95, columns: int = 3) -> Figure:
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


def surface(fit: LocalVolFit, probability: float = 0.95, points: tuple[int, int] = (41, 61)) -> Figure:
    """Local volatility as a map, beside the width of its band; hatched where the prior dominates."""
    model = fit.model
    draws = fit.surface()
    shift = float(draws.moved.mean())
    T = np.linspace(model.maturities[0], model.maturities[-1], points[0])
    y = np.linspace(model.log_moneyness[0] - shift, model.log_moneyness[-1] - shift, points[1])
    grid = draws.on_grid(T, log_moneyness=y)
    low, high = grid.band(probability)
    figure, axes = pyplot().subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
    panels = (
        ("local volatility, %", 100 * grid.mean(), "viridis"),
        ("width of its band, points", 100 * (high - low), "magma_r"),
    )
    hidden = grid.prior_dominated()
    for axis, (name, values, colours) in zip(axes, panels):
        seen = np.where(hidden, np.nan, values)
        ends = np.nanquantile(seen, [0.01, 0.99]) if np.isfinite(seen).any() else None
        limits = {} if ends is None else {"vmin": ends[0], "vmax": ends[1]}
        drawn = axis.pcolormesh(y, T, seen, cmap=colours, shading="nearest", **limits)
        axis.contourf(y, T, hidden.astype(float), levels=[0.5, 1.5], colors="none", hatches=["////"])
        quotes = fit.last.quotes.table
        axis.plot(quotes["log_moneyness"], quotes["maturity"], ".", color="white", mec="0.2", mew=0.4, ms=4)
        axis.set_title(name, fontsize=9)
        axis.tick_params(labelsize=8)
        figure.colorbar(drawn, ax=axis)
    figure.supxlabel("log(K/F)   (dots: quotes; hatched: the prior dominates)", fontsize=9)
    axes[0].set_ylabel("maturity, years", fontsize=9)
    figure.suptitle(f"Local volatility on {fit.last.date:%d %B %Y}, {probability:.0%} band", fontsize=10)
    return figure


def total_variance(fit: LocalVolFit, probability: float = 0.95) -> Figure:
    """Total implied variance of all expirations, with bands: lines that do not cross are free of calendar arbitrage."""
    bands, table = fit.smiles(probability=probability), fit.last.quotes.table
    figure, axis = pyplot().subplots(figsize=(7.5, 4.4), layout="constrained")
    expirations = dict(zip(table["maturity"], table["expiration"]))
    shades = pyplot().get_cmap("viridis")(np.linspace(0.05, 0.85, max(bands["maturity"].nunique(), 2)))
    for colour, (T, band) in zip(shades, bands.groupby("maturity")):
        low, middle, high = (100 * T * band[name] ** 2 for name in ("low", "mean", "high"))
        axis.fill_between(band["log_moneyness"], low, high, color=colour, alpha=0.25, lw=0)
        axis.plot(band["log_moneyness"], middle, color=colour, lw=1.2, label=f"{expirations[T]:%d %b %Y}")
        quotes = table[table["maturity"] == T]
        axis.plot(quotes["log_moneyness"], 100 * T * quotes["implied_volatility"] ** 2, ".", color=colour, ms=3.5)
    axis.set(xlabel="log(K/F)", ylabel="total variance σ²T, %", ylim=(0, None))
    axis.legend(fontsize=7, frameon=False, title="expiration", title_fontsize=8)
    axis.set_title(f"Total variance on {fit.last.date:%d %B %Y}, {probability:.0%} bands", fontsize=10)
    return figure


def residuals(fit: LocalVolFit) -> Figure:
    """What is left over of each quote, in bp of implied volatility: expirations by log-moneyness."""
    frame = fit.quote_draws().to_frame()
    names = sorted(frame["expiration"].unique())
    rows = frame["expiration"].map({name: i for i, name in enumerate(names)})
    limit = max(5.0, float(np.nanquantile(frame["error_bp"].abs(), 0.98)))
    figure, axis = pyplot().subplots(figsize=(8, 0.55 * len(names) + 1.8), layout="constrained")
    drawn = axis.scatter(
        frame["log_moneyness"], rows, c=frame["error_bp"], cmap="RdBu_r", vmin=-limit, vmax=limit, marker="s", s=46
    )
    axis.set_yticks(range(len(names)), [f"{name:%d %b %Y}" for name in names], fontsize=8)
    axis.set(xlabel="log(K/F)", ylim=(-0.6, len(names) - 0.4))
    figure.colorbar(drawn, ax=axis, label="model − quote, bp")
    axis.set_title(f"Residuals of {fit.last.date:%d %B %Y}", fontsize=10)
    return figure


def density(fit: LocalVolFit, probability: float = 0.95, columns: int = 3) -> Figure:
    """The risk-neutral density of the underlying at each expiration, with bands, by Breeden and Litzenberger."""
    found = densities(fit, probability)
    slices = list(found.groupby("expiration"))
    columns = min(columns, len(slices))
    rows = -(-len(slices) // columns)
    figure, axes = pyplot().subplots(
        rows, columns, figsize=(3.6 * columns, 2.6 * rows), squeeze=False, layout="constrained"
    )
    for axis, (expiration, part) in zip(axes.flat, slices):
        axis.fill_between(part["strike"], part["low"], part["high"], color=BLUE, alpha=0.25, lw=0)
        axis.plot(part["strike"], part["mean"], color=BLUE, lw=1.2)
        axis.axvline(part["forward"].iloc[0], color=GREY, lw=0.8, ls=":")
        axis.set_title(f"{expiration:%d %b %Y}", fontsize=9)
        axis.set_yticks([])
        axis.set_ylim(bottom=0)
        axis.tick_params(labelsize=8)
    for axis in axes.flat[len(slices) :]:
        axis.set_visible(False)
    figure.supxlabel("underlying at expiration (dotted: the forward)", fontsize=9)
    figure.suptitle(f"Risk-neutral densities on {fit.last.date:%d %B %Y}, {probability:.0%} bands", fontsize=10)
    return figure


def parameters(fit: LocalVolFit) -> Figure:
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
        if part["low"].min() >= 0:
            axis.set_ylim(bottom=0)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    return figure
