"""The latent of one step as traces: a line with bands, a map, or intervals by location."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from seqgp.io.coordinates import LATITUDES, LONGITUDES
from seqgp.io.lattice import LatticeSurface
from seqgp.plots.history import History, HistoryStep
from seqgp.plots.style import BAND, COLOUR, WIDE_BAND, graph_objects, label

MAP_POINTS, LINE_POINTS = 400, 1000  # that are drawn, at most
SAME_UNIT = 4.0  # two inputs whose ranges differ by less than this factor are drawn to one scale


class Limits(NamedTuple):
    """What stays the same while the slider moves."""

    low: float
    high: float
    x: list[tuple[float, float]]
    most_sd: float


def frame_limits(history: History, moments: Sequence[HistoryStep], surfaces: Sequence[LatticeSurface] = ()) -> Limits:
    """The ranges of latent, data and inputs over some steps, and of what maps show."""
    bands = np.concatenate([np.concatenate([m.summary.row("2.5%"), m.summary.row("97.5%")]) for m in moments])
    data = [y[~np.isnan(y)] for y in map(history.data, moments) if y is not None]
    values = np.concatenate([bands, *data])
    if moments[-1].x.shape[1] == 2:
        grounds = (surface.mean[np.isfinite(surface.mean)] for surface in surfaces)
        values = np.concatenate([*(m.summary.row("mean") for m in moments), *grounds])
    x = np.concatenate([m.x for m in moments])
    box = [(float(low), float(high)) for low, high in zip(x.min(axis=0), x.max(axis=0))]
    low, high = float(values.min()), float(values.max())
    margin = 0.05 * (high - low) or 1.0
    margin = margin if moments[-1].x.shape[1] != 2 else 0.0 if high > low else 1.0
    sds = np.concatenate([*(m.summary.row("sd") for m in moments), *(s.sd[np.isfinite(s.sd)] for s in surfaces)])
    return Limits(low - margin, high + margin, box, float(sds.max()) or 1.0)


def field_traces(
    history: History, moment: HistoryStep, limits: Limits, surface: LatticeSurface | None = None, what: str = "mean"
) -> list[Any]:
    """The traces of one step; of every step of a run the same number.

    Args:
        history: how its columns are called.
        moment: the step.
        limits: the ranges.
        surface: of two inputs, the posterior on a grid; without it only the locations are drawn.
        what: of two inputs, ``"mean"`` or ``"sd"``.
    """
    dimension = moment.x.shape[1]
    if dimension == 1:
        return _line(moment, history.data(moment))
    if dimension == 2:
        return _map(history, moment, limits, surface, what)
    return _by_location(moment, history.data(moment))


def field_layout(history: History, limits: Limits) -> dict[str, Any]:
    """Titles and ranges."""
    names = [label(name) for name in history.inputs]
    value = label(history.latent_name())
    if len(limits.x) == 2:
        (a, b), (c, d) = limits.x
        pad_x, pad_y = 0.04 * (b - a), 0.04 * (d - c)
        layout = {
            "height": 470,
            "xaxis": {
                "title": {"text": names[0], "standoff": 14},
                "range": [a - pad_x, b + pad_x],
                "constrain": "domain",
            },
            "yaxis": {"title": names[1], "range": [c - pad_y, d + pad_y], "constrain": "domain"},
            "showlegend": False,
            "margin": {"t": 72},
        }
        stretch = _stretch(history.inputs, 0.5 * (c + d))
        if 1 / SAME_UNIT < (b - a) / max(stretch * (d - c), 1e-300) < SAME_UNIT:
            layout["yaxis"] |= {"scaleanchor": "x", "scaleratio": stretch, "constraintoward": "top"}
        return layout
    title = names[0] if len(limits.x) == 1 else "location"
    axis: dict[str, Any] = {"title": title}
    if len(limits.x) == 1:
        low, high = limits.x[0]
        pad = 0.02 * (high - low) or 1.0  # the first and the last dot are whole
        axis["range"] = [low - pad, high + pad]
    return {"height": 420, "xaxis": axis, "yaxis": {"title": value, "range": [limits.low, limits.high]}}


def _stretch(inputs: Sequence[str], latitude: float) -> float:
    """How long a unit of the second input is in units of the first: of degrees, at a latitude."""
    lower = [name.lower() for name in inputs]
    if not (lower[0] in LONGITUDES and lower[1] in LATITUDES and abs(latitude) < 85):
        return 1.0
    return 1 / float(np.cos(np.deg2rad(latitude)))


def _line(moment: HistoryStep, data: np.ndarray | None) -> list[Any]:
    go = graph_objects()
    order = np.argsort(moment.x[:, 0], kind="stable")
    if len(order) > LINE_POINTS:
        order = order[np.linspace(0, len(order) - 1, LINE_POINTS).astype(int)]
    x = _short(moment.x[order, 0])

    def band(low: str, high: str, colour: str, name: str) -> Any:
        y = np.concatenate([moment.summary.row(high)[order], moment.summary.row(low)[order][::-1]])
        around = np.concatenate([x, x[::-1]])
        look = {"mode": "lines", "fill": "toself", "fillcolor": colour, "line_width": 0, "hoverinfo": "skip"}
        return go.Scatter(x=around, y=_short(y), name=name, **look)

    traces = [
        band("2.5%", "97.5%", WIDE_BAND, "95 %"),
        band("25%", "75%", BAND, "50 %"),
        go.Scatter(x=x, y=_short(moment.summary.row("50%")[order]), line_color=COLOUR, name="latent, median"),
    ]
    if data is not None:
        marker = {"size": 5, "color": "#222222", "opacity": 0.7}
        traces.append(go.Scatter(x=x, y=_short(data[order]), mode="markers", marker=marker, name="data"))
    return traces


def _map(history: History, moment: HistoryStep, limits: Limits, surface: LatticeSurface | None, what: str) -> list[Any]:
    go = graph_objects()
    chosen = np.unique(np.linspace(0, len(moment.x) - 1, min(len(moment.x), MAP_POINTS)).astype(int))
    mean, sd = moment.summary.row("mean"), moment.summary.row("sd")
    names = moment.labels or [str(i) for i in range(len(moment.x))]
    text = []
    for i in chosen:
        datum = (
            ""
            if moment.y is None
            else "<br>datum: missing"
            if np.isnan(moment.y[i])
            else f"<br>datum: {moment.y[i]:.4g}"
        )
        text.append(f"<b>{label(names[i])}</b><br>latent: {mean[i]:.4g} ± {sd[i]:.2g}{datum}")
    of_mean = what == "mean"
    scale = "Viridis" if of_mean else "Oranges"
    low, high = (limits.low, limits.high) if of_mean else (0.0, limits.most_sd)
    bar: dict[str, Any] = {
        "title": {"text": label(history.latent_name()) if of_mean else "sd", "side": "top"},
        "thickness": 10,
    }
    bar |= {"orientation": "h", "x": 0.5, "y": 1.0, "yanchor": "bottom", "exponentformat": "power"}
    colour = {"colorscale": scale, "cmin": low, "cmax": high}
    marker = {
        "size": 9,
        "color": _short((mean if of_mean else sd)[chosen]),
        "line": {"width": 1, "color": "white" if of_mean else "#555555"},
        **colour,
    }
    if surface is None:
        marker |= {"showscale": True, "colorbar": bar}
    dots = go.Scatter(
        x=_short(moment.x[chosen, 0]),
        y=_short(moment.x[chosen, 1]),
        mode="markers",
        marker=marker,
        text=text,
        hovertemplate="%{text}<extra></extra>",
    )
    if surface is None:
        return [dots]
    ground = go.Heatmap(
        x=_short(surface.axes[0]),
        y=_short(surface.axes[1]),
        z=_short(surface.mean if of_mean else surface.sd),
        zmin=low,
        zmax=high,
        zsmooth="best" if np.isfinite(surface.mean).all() else False,  # which leaves no gaps
        colorscale=scale,
        colorbar=bar,
        hovertemplate="%{z:.4g}<extra></extra>",
    )
    return [ground, dots]


def border_trace(lines: Sequence[np.ndarray]) -> Any:
    """Borders, a coastline say, as one trace over a map."""
    gap = np.full((1, 2), np.nan)
    points = np.concatenate([part for line in lines for part in (line, gap)])
    look = {"mode": "lines", "line": {"color": "#444444", "width": 1}, "hoverinfo": "skip"}
    return graph_objects().Scatter(x=_short(points[:, 0]), y=_short(points[:, 1]), **look)


def _by_location(moment: HistoryStep, data: np.ndarray | None) -> list[Any]:
    go = graph_objects()
    chosen = np.unique(np.linspace(0, len(moment.x) - 1, min(len(moment.x), MAP_POINTS)).astype(int))
    names = [label(moment.labels[i]) if moment.labels else str(i) for i in chosen]
    middle = moment.summary.row("50%")[chosen]
    error = {
        "type": "data",
        "symmetric": False,
        "array": _short(moment.summary.row("97.5%")[chosen] - middle),
        "arrayminus": _short(middle - moment.summary.row("2.5%")[chosen]),
        "color": BAND,
    }
    traces = [go.Scatter(x=names, y=_short(middle), error_y=error, mode="markers", marker_color=COLOUR, name="latent")]
    if data is not None:
        marker = {"size": 5, "color": "#222222", "opacity": 0.7}
        traces.append(go.Scatter(x=names, y=_short(data[chosen]), mode="markers", marker=marker, name="data"))
    return traces


def _short(values: np.ndarray) -> np.ndarray:
    """Single precision: enough for the eye, half the bytes."""
    return np.asarray(values, dtype=np.float32)
