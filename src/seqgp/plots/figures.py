"""Figures of a run for notebooks and the report: every function takes a run or a store, and returns a Plotly figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqgp.io.checks import Check
from seqgp.io.history import History, history_of
from seqgp.io.summary import STATISTICS
from seqgp.plots.field import COARSE, field_layout, field_traces, frame_limits
from seqgp.plots.style import BAND, COLOUR, GREY, WIDE_BAND, figure, graph_objects, label

FRAMES = 60  # of the slider, at most: evenly spread over the steps


def field(source: Any, step: int = -1) -> Any:
    """The latent at one step: a line with bands (one input), a map (two), or intervals by location (more).

    Args:
        source: a ``Run`` or a ``Store``.
        step: which of the steps; the last one by default.
    """
    history = history_of(source)
    moment = history.moments[step]
    limits = frame_limits([moment])
    return figure(field_traces(history, moment, limits), **field_layout(history, limits))


def evolution(source: Any, frames: int = FRAMES) -> Any:
    """The latent over time, with a slider."""
    history = history_of(source)
    chosen = _spread(len(history.moments), frames)
    moments = [history.moments[i] for i in chosen]
    limits = frame_limits(moments)
    go = graph_objects()
    names = [_time_text(history, moment.t) for moment in moments]
    made = [go.Frame(data=field_traces(history, m, limits, COARSE), name=name) for m, name in zip(moments, names)]
    result = figure(field_traces(history, moments[-1], limits, COARSE), **field_layout(history, limits))
    result.frames = made
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps = [{"label": name, "method": "animate", "args": [[name], at_once]} for name in names]
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


def parameter(source: Any, name: str) -> Any:
    """One parameter over time: median, and the central 50 % and 95 % intervals."""
    history = history_of(source)
    found = history.parameters()
    if name not in found:
        raise KeyError(f"no parameter {name!r}; there are {', '.join(found)}")
    return figure(_bands(history.times(), found[name]), height=230, showlegend=False, yaxis={"rangemode": "normal"})


def parameters(source: Any) -> Any:
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


def calibration(checks: Sequence[Check]) -> Any:
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
    result.add_hrect(y0=max(0.0, 1 - margin), y1=1 + margin, fillcolor=GREY, opacity=0.18, line_width=0)
    result.add_hline(y=1, line_color=GREY, line_width=1)
    return result.update_xaxes(title="place of the datum in its forecast (PIT)").update_yaxes(title="density")


def coverage(source: Any, checks: Sequence[Check]) -> Any:
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


def scores(source: Any, checks: Sequence[Check]) -> Any:
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


def diagnostics(source: Any) -> Any:
    """The least effective sample size and the largest R-hat of each step."""
    from plotly.subplots import make_subplots

    history, go = history_of(source), graph_objects()
    infos, times = [moment.info for moment in history.moments], history.times()
    result = make_subplots(rows=1, cols=2, subplot_titles=["least ESS", "largest R-hat"])
    panels = (("min_ess", COLOUR), ("max_rhat", "#c26a1b"))
    for column, (name, colour) in enumerate(panels, start=1):
        values = [getattr(info, name) for info in infos]
        result.add_trace(go.Scatter(x=times, y=values, mode="lines+markers", line_color=colour), row=1, col=column)
    result.add_hline(y=1.05, line_color=GREY, line_width=1, line_dash="dot", col=2, row=1)  # pyright: ignore
    result = figure([], base=result, height=280, showlegend=False)
    return result.update_yaxes(rangemode="tozero", col=1)


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

    def band(low: str, high: str, colour: str) -> Any:
        y = np.concatenate([column[high], column[low][::-1]])
        return go.Scatter(x=around, y=y, fill="toself", fillcolor=colour, line_width=0, hoverinfo="skip")

    middle = go.Scatter(x=times, y=column["50%"], line_color=COLOUR, hovertemplate="%{y:.4g}<extra></extra>")
    return [band("2.5%", "97.5%", WIDE_BAND), band("25%", "75%", BAND), middle]


def _spread(count: int, most: int) -> list[int]:
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))


def _time_text(history: History, t: float) -> str:
    when = history.when(t)
    return f"{when:.6g}" if isinstance(when, float) else str(when).replace("T00:00:00", "")
