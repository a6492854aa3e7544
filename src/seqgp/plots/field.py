"""The latent of one step as traces: a line with bands, a map, or intervals by location."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import griddata
from scipy.spatial import QhullError

from seqgp.io.history import History, Moment
from seqgp.plots.style import BAND, COLOUR, WIDE_BAND, graph_objects, label

MAP_POINTS, LINE_POINTS = 400, 1000  # that are drawn, at most
LATTICE, COARSE = 80, 48  # cells of a map along each side; of a map that moves


class Limits(NamedTuple):
    """What stays the same while the slider moves."""

    low: float
    high: float
    x: list[tuple[float, float]]


def frame_limits(moments: list[Moment]) -> Limits:
    """The ranges of latent, data and inputs over all steps."""
    bands = np.concatenate([np.concatenate([m.summary.row("2.5%"), m.summary.row("97.5%")]) for m in moments])
    data = [m.y[~np.isnan(m.y)] for m in moments if m.y is not None and m.x.shape[1] == 1]
    values = np.concatenate([bands, *data])
    if moments[-1].x.shape[1] == 2:
        values = np.concatenate([m.summary.row("mean") for m in moments])
    x = np.concatenate([m.x for m in moments])
    box = [(float(low), float(high)) for low, high in zip(x.min(axis=0), x.max(axis=0))]
    low, high = float(values.min()), float(values.max())
    margin = 0.05 * (high - low) or 1.0
    return Limits(low - margin, high + margin, box)


def field_traces(history: History, moment: Moment, limits: Limits, lattice: int = LATTICE) -> list[Any]:
    """The traces of one step; of every step of a run the same number."""
    dimension = moment.x.shape[1]
    if dimension == 1:
        return _line(moment)
    return _map(history, moment, limits, lattice) if dimension == 2 else _by_location(moment)


def field_layout(history: History, limits: Limits) -> dict[str, Any]:
    """Titles and ranges."""
    names = [label(name) for name in history.inputs]
    value = label(history.value)
    if len(limits.x) == 2:
        (a, b), (c, d) = limits.x
        pad_x, pad_y = 0.04 * (b - a), 0.04 * (d - c)
        return {
            "height": 470,
            "xaxis": {"title": names[0], "range": [a - pad_x, b + pad_x]},
            "yaxis": {"title": names[1], "range": [c - pad_y, d + pad_y]},
            "showlegend": False,
        }
    title = names[0] if len(limits.x) == 1 else "location"
    axis: dict[str, Any] = {"title": title}
    if len(limits.x) == 1:
        axis["range"] = list(limits.x[0])
    return {"height": 420, "xaxis": axis, "yaxis": {"title": value, "range": [limits.low, limits.high]}}


def _line(moment: Moment) -> list[Any]:
    go = graph_objects()
    order = np.argsort(moment.x[:, 0], kind="stable")
    if len(order) > LINE_POINTS:
        order = order[np.linspace(0, len(order) - 1, LINE_POINTS).astype(int)]
    x = _short(moment.x[order, 0])

    def band(low: str, high: str, colour: str, name: str) -> Any:
        y = np.concatenate([moment.summary.row(high)[order], moment.summary.row(low)[order][::-1]])
        around = np.concatenate([x, x[::-1]])
        return go.Scatter(
            x=around, y=_short(y), fill="toself", fillcolor=colour, line_width=0, hoverinfo="skip", name=name
        )

    traces = [
        band("2.5%", "97.5%", WIDE_BAND, "95 %"),
        band("25%", "75%", BAND, "50 %"),
        go.Scatter(x=x, y=_short(moment.summary.row("50%")[order]), line_color=COLOUR, name="latent, median"),
    ]
    if moment.y is not None:
        marker = {"size": 5, "color": "#222222", "opacity": 0.7}
        traces.append(go.Scatter(x=x, y=_short(moment.y[order]), mode="markers", marker=marker, name="data"))
    return traces


def _map(history: History, moment: Moment, limits: Limits, lattice: int) -> list[Any]:
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
    colour = {"colorscale": "Viridis", "cmin": limits.low, "cmax": limits.high}
    title = {"text": label(history.value), "side": "top"}
    marker = {"size": 9, "color": _short(mean[chosen]), "line": {"width": 1, "color": "white"}, **colour}
    return [
        _surface(moment, limits, lattice, colourbar={"title": title, "thickness": 12}),
        go.Scatter(
            x=_short(moment.x[chosen, 0]),
            y=_short(moment.x[chosen, 1]),
            mode="markers",
            marker=marker,
            text=text,
            hovertemplate="%{text}<extra></extra>",
        ),
    ]


def _surface(moment: Moment, limits: Limits, lattice: int, colourbar: dict[str, Any]) -> Any:
    """The posterior mean between the points, interpolated for the eye; outside of them nothing is drawn."""
    go = graph_objects()
    axes = [np.linspace(low, high, lattice) for low, high in limits.x]
    mesh = np.stack(np.meshgrid(*axes, indexing="xy"), axis=-1).reshape(-1, 2)
    width = np.array([high - low or 1.0 for low, high in limits.x])
    try:
        z = griddata(moment.x / width, moment.summary.row("mean"), mesh / width, method="linear")
    except (QhullError, ValueError):  # points on a line
        z = np.full(len(mesh), np.nan)
    return go.Heatmap(
        x=_short(axes[0]),
        y=_short(axes[1]),
        z=_short(z.reshape(lattice, lattice)),
        zmin=limits.low,
        zmax=limits.high,
        zsmooth="best",
        colorscale="Viridis",
        colorbar=colourbar,
        hoverinfo="skip",
        opacity=0.85,
    )


def _by_location(moment: Moment) -> list[Any]:
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
    if moment.y is not None:
        marker = {"size": 5, "color": "#222222", "opacity": 0.7}
        traces.append(go.Scatter(x=names, y=_short(moment.y[chosen]), mode="markers", marker=marker, name="data"))
    return traces


def _short(values: np.ndarray) -> np.ndarray:
    """Single precision: enough for the eye, half the bytes."""
    return np.asarray(values, dtype=np.float32)
