"""Figures of what :func:`seqgp.explore` found: one for each question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqgp.plots.style import COLOUR, GREY, figure, graph_objects, label

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from seqgp.evaluate.explore import DataExploration

SHADES = (1.0, 0.6, 0.35)
HEIGHT = 320
COLUMNS = 300  # of the image of missing data, at most


def exploration(found: DataExploration) -> dict[str, Any]:
    """Figures by title: variogram over distance and over lags, delay, noise of stations, season, missing data."""
    best, missing = found.candidates[0], found.missing
    figures = {
        f"Over distance: {best.space}, lengthscale {best.space_lengthscale:.3g}": variogram(found, in_space=True),
        f"Over time: {best.time}, lengthscale {best.time_lengthscale:.3g}": variogram(found, in_space=False),
        f"{'A delay' if found.asymmetry.delay else 'No delay found'} (p = {found.asymmetry.p_value:.2g})": delay(found),
        "Noise: stations differ" if found.noise.differ else "Noise: one for all stations": noise(found),
    }
    if found.season is not None:
        title = "The variance has a season" if found.season.seasonal else "No season of the variance found"
        figures[title] = season(found)
    return figures | {f"{100 * missing.share:.1f}% missing": missing_data(found)}


def variogram(found: DataExploration, in_space: bool) -> go.Figure:
    """Points are the data, lines the best candidate; over distance for some lags, or over lags for some distances."""
    best, gamma = found.candidates[0], found.variogram.gamma
    fitted = best.gamma(found.variogram)
    along, across = (found.variogram.distance, found.variogram.lag)
    if not in_space:
        along, across, gamma, fitted = across, along, gamma.T, fitted.T
    go, traces = graph_objects(), []
    shown = np.unique(np.linspace(0, len(across) - 1, len(SHADES)).astype(int))
    for shade, k in zip(SHADES, shown):
        used = (along + across[k]) > 0
        name = f"{'lag' if in_space else 'distance'} {across[k]:.3g}"
        style: dict[str, Any] = {"opacity": shade, "legendgroup": name, "name": name}
        traces += [
            go.Scatter(
                x=along[used], y=gamma[used, k], mode="markers", marker={"color": COLOUR}, showlegend=False, **style
            ),
            go.Scatter(x=along[used], y=fitted[used, k], mode="lines", line={"color": COLOUR}, **style),
        ]
    axis = "distance" if in_space else "lag in time"
    return figure(traces, height=HEIGHT, xaxis_title=axis, yaxis={"title": "semivariance", "rangemode": "tozero"})


def delay(found: DataExploration) -> go.Figure:
    """The slowness along each axis of space, with two standard errors."""
    slowness, se = found.asymmetry.slowness, found.asymmetry.se
    names = [f"slowness[{i}]" for i in range(len(slowness))]
    points = graph_objects().Scatter(
        x=names,
        y=slowness,
        error_y={"array": 2 * se, "color": COLOUR},
        mode="markers",
        marker={"color": COLOUR, "size": 9},
    )
    result = figure([points], height=HEIGHT, yaxis_title="time per distance", showlegend=False)
    return result.add_hline(y=0, line={"color": GREY, "width": 1})


def noise(found: DataExploration) -> go.Figure:
    """Stations, the noisiest first, with two standard errors; the line is the median."""
    order = [k for k in np.argsort(-found.noise.noise) if not np.isnan(found.noise.noise[k])]
    values = found.noise.noise[order]
    points = graph_objects().Scatter(
        x=np.arange(1, len(order) + 1),
        y=values,
        text=[label(found.stations.names[k]) for k in order],
        error_y={"array": 2 * found.noise.se[order], "color": COLOUR, "thickness": 1},
        mode="markers",
        marker={"color": COLOUR},
        hovertemplate="%{text}: %{y:.3g}<extra></extra>",
    )
    axes = {"xaxis_title": "station, the noisiest first", "yaxis": {"title": "noise", "rangemode": "tozero"}}
    result = figure([points], height=HEIGHT, showlegend=False, **axes)
    return result.add_hline(y=float(np.median(values)), line={"color": GREY, "width": 1}) if len(order) else result


def season(found: DataExploration) -> go.Figure:
    """The standard deviation over stations at each time over the phase of the season, and the fitted amplitude."""
    assert found.season is not None
    t, y, go = found.stations.t, found.stations.y, graph_objects()
    several = np.sum(~np.isnan(y), axis=1) > 1
    anomaly = (y - np.nanmean(y, axis=0))[several]
    sd = np.nanstd(anomaly, axis=1)
    phase = np.linspace(0, 1, 200)
    a, b = found.season.coefficients
    amplitude = np.exp(a * np.cos(2 * np.pi * phase) + b * np.sin(2 * np.pi * phase))
    middle = float(np.exp(np.mean(np.log(sd[sd > 0])))) if np.any(sd > 0) else 0.0
    dots = {"color": GREY, "size": 4, "opacity": 0.5}
    traces = [
        go.Scatter(x=t[several] / found.season.period % 1.0, y=sd, mode="markers", marker=dots),
        go.Scatter(x=phase, y=middle * amplitude, mode="lines", line={"color": COLOUR, "width": 3}),
    ]
    axes = {"xaxis_title": f"phase of {found.season.period:g}", "yaxis_title": "sd over stations"}
    return figure(traces, height=HEIGHT, showlegend=False, **axes).update_yaxes(rangemode="tozero")


def missing_data(found: DataExploration) -> go.Figure:
    """Times and stations; the more is missing, the darker."""
    t, gone = found.stations.t, np.isnan(found.stations.y)
    parts = np.array_split(np.arange(len(t)), min(len(t), COLUMNS))
    image = graph_objects().Heatmap(
        x=[t[part].mean() for part in parts],
        y=[label(name) for name in found.stations.names],
        z=np.stack([gone[part].mean(axis=0) for part in parts], axis=1),
        zmin=0,
        zmax=1,
        colorscale=[[0, "#f2f2f2"], [1, "#222222"]],
        showscale=False,
    )
    result = figure([image], height=HEIGHT, xaxis_title="time", yaxis_title="station")
    return result.update_yaxes(showticklabels=len(found.stations.names) <= 20, autorange="reversed", type="category")
