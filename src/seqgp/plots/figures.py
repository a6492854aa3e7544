"""Figures of a run for notebooks and the report: every function takes a run or a store, and returns a Plotly figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from seqgp.base.info import ChainInfo, OnlineInfo
from seqgp.io.lattice import LatticeSurface, surfaces_of
from seqgp.io.summary import STATISTICS
from seqgp.plots.checks import Check
from seqgp.plots.field import Limits, border_trace, field_layout, field_traces, frame_limits
from seqgp.plots.history import History, history_of, stations_of
from seqgp.plots.style import BAND, COLOUR, GREY, WIDE_BAND, figure, graph_objects, label

if TYPE_CHECKING:
    import plotly.graph_objects as go


MAX_FRAMES = 24  # of the slider, at most: evenly spread over the steps
LATTICE, COARSE = 40, 24  # points of a map along each side; of a map that moves


def field(
    source: object,
    step: int = -1,
    what: str = "mean",
    surface: LatticeSurface | None = None,
    border: Sequence[np.ndarray] = (),
) -> go.Figure:
    """The latent at one step: a line with bands (one input), a map (two), or intervals by location (more).

    A map is the posterior at the points of a grid, with the locations as dots; a step of which only the summary is
    kept has the locations alone.

    Args:
        source: a ``Run`` or a ``Store``.
        step: which of the steps; the last one by default.
        what: of a map, the ``"mean"`` or the ``"sd"`` of the posterior.
        surface: of a map, the posterior on a grid, where it is at hand.
        border: of a map, lines to draw over it, ``(k, 2)`` each, in the units of the inputs.
    """
    history = history_of(source)
    moment = history.steps[step]
    if surface is None and not isinstance(source, History):
        number = step % len(history.steps)
        surface = surfaces_of(source, [number], LATTICE).get(number)
    limits = frame_limits(history, [moment], [] if surface is None else [surface])
    if surface is not None:
        limits = _over(limits, surface)
    traces = field_traces(history, moment, limits, surface, what)
    return figure([*traces, *_border(history, border)], **field_layout(history, limits))


def _over(limits: Limits, surface: LatticeSurface) -> Limits:
    """With the ranges of a map's grid for those of the inputs."""
    return limits._replace(x=[(float(axis[0]), float(axis[-1])) for axis in surface.axes])


def _border(history: History, lines: Sequence[np.ndarray]) -> list[Any]:
    """Border lines as a trace of a map; nothing where there is no map."""
    return [border_trace(lines)] if len(lines) and len(history.inputs) == 2 else []


def evolution(
    source: object,
    frames: int = MAX_FRAMES,
    surfaces: Mapping[int, LatticeSurface] | None = None,
    border: Sequence[np.ndarray] = (),
) -> Any:
    """The latent over time, with a slider: of two inputs, the steps of which there are draws.

    Args:
        source: a ``Run`` or a ``Store``.
        frames: how many steps, at most.
        surfaces: of maps, the posterior on a grid by the number of the step, where it is at hand.
        border: of maps, lines to draw over them.
    """
    history = history_of(source)
    chosen = spread(len(history.steps), frames)
    if surfaces is None:
        surfaces = {} if isinstance(source, History) else surfaces_of(source, chosen, COARSE, draws=100)
    chosen = [i for i in chosen if i in surfaces] or chosen
    moments, grounds = [history.steps[i] for i in chosen], [surfaces.get(i) for i in chosen]
    limits = frame_limits(history, moments, [ground for ground in grounds if ground is not None])
    if grounds[-1] is not None:
        limits = _over(limits, grounds[-1])
    go = graph_objects()
    names = [_time_text(history, moment.t) for moment in moments]
    traces = [field_traces(history, m, limits, ground) for m, ground in zip(moments, grounds)]
    result = figure([*traces[-1], *_border(history, border)], **field_layout(history, limits))
    moving = list(range(len(traces[-1])))
    result.frames = [go.Frame(data=data, name=name, traces=moving) for data, name in zip(traces, names)]
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps = [{"label": name, "method": "animate", "args": [[name], at_once]} for name in names]
    if len(history.inputs) == 2:  # beside a slider, Plotly puts the title among the ticks of a map drawn to scale
        result.update_xaxes(title_standoff=30)
    prefix = f"{label(history.time)} = "
    slider = {
        "active": len(steps) - 1,
        "currentvalue": {"prefix": prefix, "font": {"size": 14, "color": "#222222"}},
        "pad": {"t": 46, "b": 4},
        "len": 1.0,
        "ticklen": 0,
        "minorticklen": 0,
        "font": {"color": "rgba(0,0,0,0)"},
        "steps": steps,
    }
    return result.update_layout(sliders=[slider], margin={"b": 110}, height=result.layout.height + 70)


def parameter(source: object, name: str, prior: Sequence[float] | None = None) -> go.Figure:
    """One parameter over time: median, and the central 50 % and 95 % intervals.

    Args:
        source: a ``Run`` or a ``Store``.
        name: the parameter, ``"space.lengthscale[0]"`` say.
        prior: the central 95 % interval of its prior, drawn in grey.
    """
    history = history_of(source)
    found = history.parameters()
    if name not in found:
        raise KeyError(f"no parameter {name!r}; there are {', '.join(found)}")
    result = figure(_bands(history.times(), found[name]), height=230, showlegend=False, yaxis={"rangemode": "normal"})
    if prior is not None:
        low, high = prior
        result.add_hrect(y0=low, y1=high, fillcolor=GREY, opacity=0.13, line_width=0, layer="below")
        # A shape moves no axis: with half of the posterior's range added, the prior's edge shows where it is near.
        seen = found[name][:, [STATISTICS.index("2.5%"), STATISTICS.index("97.5%")]]
        least, most = float(seen.min()), float(seen.max())
        width = most - least or 1.0
        bottom = max(least - 0.5 * width, min(least, low) - 0.1 * width)
        top = min(most + 0.5 * width, max(most, high) + 0.1 * width)
        result.update_yaxes(range=[bottom, top])
    return result


def parameters(source: object) -> go.Figure:
    """Every parameter over time, with bands, in one figure."""
    from plotly.subplots import make_subplots

    history = history_of(source)
    found = history.parameters()
    columns = 2 if len(found) > 1 else 1
    rows = -(-len(found) // columns)
    titles = [label(name) for name in found]
    result = make_subplots(rows=rows, cols=columns, subplot_titles=titles)
    for i, values in enumerate(found.values()):
        for trace in _bands(history.times(), values):
            result.add_trace(trace, row=i // columns + 1, col=i % columns + 1)
    return figure([], base=result, height=220 * rows, showlegend=False)


def station(source: object, name: object) -> go.Figure:
    """The latent at one station over time, with bands, and its data.

    Args:
        source: a ``Run`` or a ``Store``.
        name: the station: its label, or its inputs as a tuple where there are no labels.
    """
    history, go = history_of(source), graph_objects()
    places = [(moment, list(stations_of(moment))) for moment in history.steps]
    seen = [(moment, names.index(name)) for moment, names in places if name in names]
    if not seen:
        raise KeyError(f"no station {name!r}")
    times = [history.when(moment.t) for moment, _ in seen]
    traces = _bands(times, np.stack([moment.summary.latent[:, i] for moment, i in seen]))
    result = figure(traces, height=230, showlegend=False).update_yaxes(title=label(history.latent_name()))
    if not history.beside:
        return result
    data = [np.nan if moment.y is None else moment.y[i] for moment, i in seen]
    marker = {"size": 5, "color": "#222222", "opacity": 0.7}
    dots = go.Scatter(x=times, y=data, mode="markers", marker=marker, hovertemplate="datum %{y:.4g}<extra></extra>")
    return result.add_trace(dots)


def calibration(checks: Sequence[Check]) -> go.Figure:
    """The PIT of the forecasts: flat where they are calibrated."""
    go = graph_objects()
    values = np.concatenate([check.pit for check in checks])
    bins = 10
    share = np.histogram(values, bins=bins, range=(0, 1))[0] / len(values) * bins
    margin = 2 * np.sqrt((bins - 1) / len(values))
    bars = go.Bar(
        x=(np.arange(bins) + 0.5) / bins, y=share, marker_color=COLOUR, hovertemplate="%{y:.2f}<extra></extra>"
    )
    result = figure([bars], height=280, showlegend=False, bargap=0.06)
    result.add_hrect(y0=max(0.0, 1 - margin), y1=1 + margin, fillcolor=GREY, opacity=0.18, line_width=0, layer="below")
    result.add_hline(y=1, line_color=GREY, line_width=1)
    return result.update_xaxes(title="place of the datum in its forecast (PIT)").update_yaxes(title="density")


def coverage(source: object, checks: Sequence[Check]) -> go.Figure:
    """The share of data inside their 50 % and 95 % forecast intervals, over time."""
    history, go = history_of(source), graph_objects()
    times = [history.when(check.t) for check in checks]
    traces = []
    for name, wanted, colour in (("half", 0.5, "#c26a1b"), ("most", 0.95, COLOUR)):
        found = [getattr(check, name) for check in checks]
        traces.append(go.Scatter(x=times, y=found, mode="lines+markers", name=f"{wanted:.0%}", line_color=colour))
    result = figure(traces, height=280)
    for wanted in (0.5, 0.95):
        result.add_hline(y=wanted, line_color=GREY, line_width=1, line_dash="dot")
    return result.update_yaxes(title="share inside", range=[0, 1.03]).update_xaxes(title=label(history.time))


def scores(source: object, checks: Sequence[Check]) -> go.Figure:
    """CRPS and log score of the forecasts, over time."""
    history, go = history_of(source), graph_objects()
    times = [history.when(check.t) for check in checks]
    traces = [
        go.Scatter(x=times, y=[c.crps for c in checks], name="CRPS (low is good)", line_color=COLOUR),
        go.Scatter(
            x=times, y=[c.log_score for c in checks], name="log score a datum (high is good)", line_color="#c26a1b"
        ),
    ]
    return figure(traces, height=280).update_xaxes(title=label(history.time))


def compared(source: object, comparison: Mapping[str, Sequence[float]], times: Sequence[float]) -> go.Figure:
    """The CRPS of the forecasts of each step, beside those of forecasts that cost nothing."""
    history, go = history_of(source), graph_objects()
    when = [history.when(t) for t in times]
    dashes = ("solid", "dot", "dash")
    colours = (COLOUR, GREY, "#c26a1b")
    traces = [
        go.Scatter(x=when, y=list(values), name=name, line={"color": colour, "dash": dash}, mode="lines")
        for (name, values), colour, dash in zip(comparison.items(), colours, dashes)
    ]
    return (
        figure(traces, height=280)
        .update_xaxes(title=label(history.time))
        .update_yaxes(title="CRPS", rangemode="tozero")
    )


def diagnostics(source: object) -> go.Figure:
    """Of each step the least effective sample size and the largest R-hat, or evidence and effective particles."""
    from plotly.subplots import make_subplots

    history, go = history_of(source), graph_objects()
    infos, times = [moment.info for moment in history.steps], history.times()
    panels = {
        "least ESS": [info.min_ess if isinstance(info, ChainInfo) else None for info in infos],
        "largest R-hat": [info.max_rhat if isinstance(info, ChainInfo) else None for info in infos],
        "log evidence so far": [info.log_evidence if isinstance(info, OnlineInfo) else None for info in infos],
        "effective particles": [info.ess if isinstance(info, OnlineInfo) else None for info in infos],
    }
    panels = {name: values for name, values in panels.items() if not _all_missing(values)} or {"": []}
    result = make_subplots(rows=1, cols=len(panels), subplot_titles=list(panels))
    for column, (name, values) in enumerate(panels.items(), start=1):
        colour = "#c26a1b" if name in ("largest R-hat", "effective particles") else COLOUR
        line = go.Scatter(x=times, y=values, mode="lines+markers", line_color=colour)
        result.add_trace(line, row=1, col=column)
        if name in ("least ESS", "effective particles"):
            result.update_yaxes(rangemode="tozero", col=column)
    return figure([], base=result, height=280, showlegend=False)


def _all_missing(values: Sequence[float | None]) -> bool:
    return all(value is None or np.isnan(value) for value in values)


def _bands(times: list[Any], values: np.ndarray) -> list[Any]:
    """Median and two bands; values are ``(times, statistics)``."""
    go = graph_objects()
    if len(times) == 1:
        row = dict(zip(STATISTICS, values[0]))
        error = {"type": "data", "symmetric": False, "array": [row["97.5%"] - row["50%"]]}
        error |= {"arrayminus": [row["50%"] - row["2.5%"]], "color": COLOUR}
        return [go.Scatter(x=times, y=[row["50%"]], error_y=error, mode="markers", marker_color=COLOUR)]
    column = {name: values[:, i] for i, name in enumerate(STATISTICS)}
    around = [*times, *times[::-1]]

    def band(low: str, high: str, colour: str) -> go.Scatter:
        y = np.concatenate([column[high], column[low][::-1]])
        return go.Scatter(x=around, y=y, mode="lines", fill="toself", fillcolor=colour, line_width=0, hoverinfo="skip")

    middle = go.Scatter(x=times, y=column["50%"], line_color=COLOUR, hovertemplate="%{y:.4g}<extra></extra>")
    return [band("2.5%", "97.5%", WIDE_BAND), band("25%", "75%", BAND), middle]


def spread(count: int, most: int) -> list[int]:
    """At most so many of the numbers below ``count``, evenly spread, the first and the last among them."""
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))


def _time_text(history: History, t: float) -> str:
    when = history.when(t)
    return f"{when:.6g}" if isinstance(when, float) else str(when).replace("T00:00:00", "")
