"""The look that all figures share."""

from __future__ import annotations

import html
from typing import Any

from seqgp.base.errors import extra

COLOUR, GREY = "#1f5a8c", "#777777"
BAND, WIDE_BAND = "rgba(31,90,140,0.32)", "rgba(31,90,140,0.14)"
MAX_NAME_LENGTH = 40  # letters of a name in a figure
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


def graph_objects() -> Any:
    """Plotly, which is an optional dependency."""
    with extra("plots"):
        import plotly.graph_objects as go
    return go


def label(text: str) -> str:
    """Text from data for a figure: its markup is shown, not obeyed, and it is cut where it would fill the figure."""
    short = text if len(text) <= MAX_NAME_LENGTH else text[: MAX_NAME_LENGTH - 1] + "…"
    return html.escape(short, quote=False)  # Plotly does not know the entities of quotes


def figure(traces: list[Any], base: Any = None, **layout: Any) -> Any:
    """A figure in the common style."""
    result = graph_objects().Figure(traces) if base is None else base
    result.update_layout(
        template="plotly_white",
        font={"family": FONT, "size": 13, "color": "#222222"},
        margin={"l": 56, "r": 16, "t": 28, "b": 48},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
        hoverlabel={"font_family": FONT},
    )
    result.update_layout(**layout)
    for axes in (result.update_xaxes, result.update_yaxes):
        axes(exponentformat="power")  # Plotly would write a noise of 0.0005 as 500µ
    return result
