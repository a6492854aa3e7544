"""The page: HTML, style and script, with Plotly inside once and nothing from the network."""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from seqgp.base.errors import extra

STYLE = """
:root { --ink: #222; --soft: #666; --line: #e2e2e2; --good: #2a7a45; --bad: #a8480c; --accent: #1f5a8c; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.2rem 1.2rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .4rem 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; padding-top: .7rem; border-top: 1px solid var(--line); }
h3 { font-size: .95rem; margin: .4rem 0 0; font-weight: 600; overflow-wrap: anywhere; }
p { margin: .4rem 0; } .soft { color: var(--soft); font-size: .92rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.2rem, 1fr)); gap: .6rem; margin: 1rem 0; }
.facts div { border: 1px solid var(--line); border-radius: 8px; padding: .5rem .7rem; }
.facts b { display: block; font-size: 1.15rem; overflow-wrap: anywhere; }
.facts span { color: var(--soft); font-size: .85rem; overflow-wrap: anywhere; }
.facts div { min-width: 0; }
ul.findings { list-style: none; padding: 0; margin: .6rem 0; }
ul.findings li { padding: .35rem .7rem; margin: .35rem 0; border-left: 4px solid var(--good); background: #f5faf6;
  overflow-wrap: anywhere; }
ul.findings li.bad { border-color: var(--bad); background: #fdf6f0; }
.figure { width: 100%; min-height: 200px; }
.many { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: .2rem 1.2rem; }
.many > div { min-width: 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
td, th { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: anywhere; }
th { width: 11rem; font-weight: 600; } .scroll { overflow-x: auto; }
table.numbers th { width: auto; } table.numbers td, table.numbers th { overflow-wrap: normal; white-space: nowrap; }
table.numbers td + td, table.numbers th + th { text-align: right; font-variant-numeric: tabular-nums; }
table.listing th { width: auto; overflow-wrap: normal; } table.listing td:nth-child(-n+8) { white-space: nowrap; }
table.listing td:last-child { min-width: 16rem; } svg.line { display: block; }
summary { cursor: pointer; color: var(--accent); font-size: .9rem; padding: .4rem 0; }
svg.line polyline { fill: none; stroke: var(--accent); stroke-width: 1.3; }
@media (max-width: 480px) { main { padding: .8rem .8rem 2rem; } h1 { font-size: 1.4rem; } th { width: 7rem; } }
@media print { main { max-width: none; padding: 0; } .figure, li, tr { break-inside: avoid; } h2 { break-after: avoid; }
  .modebar { display: none !important; } .many { grid-template-columns: 1fr 1fr; } }
"""

SCRIPT = """
(async function () {
  async function unpacked(id) {
    var letters = atob(document.getElementById(id).textContent);
    var bytes = Uint8Array.from(letters, function (c) { return c.charCodeAt(0); });
    var stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }
  var script = document.createElement("script");
  script.textContent = await unpacked("plotly");
  document.head.appendChild(script);
  var options = { responsive: true, displaylogo: false, displayModeBar: false };
  var figures = JSON.parse(await unpacked("figures"));
  function height(id) {  // of a map to scale: what its width leaves no room for would be white
    var layout = figures[id].layout, x = layout.xaxis, y = layout.yaxis;
    if (!y || !y.scaleanchor || !x.range || !y.range) return null;
    var inner = document.getElementById(id).clientWidth - layout.margin.l - layout.margin.r;
    var ratio = (y.range[1] - y.range[0]) / (x.range[1] - x.range[0]);
    return Math.round(Math.min(inner * ratio, 560) + layout.margin.t + layout.margin.b);
  }
  function shape(id) {
    var high = height(id);
    if (high === null) return;
    document.getElementById(id).style.height = high + "px";
    delete figures[id].layout.height;  // it is that of its place
  }
  var drawn = Object.keys(figures).map(function (id) {
    figures[id].config = options;
    shape(id);
    return Plotly.newPlot(id, figures[id]);
  });
  Promise.all(drawn).then(function () { document.body.dataset.drawn = String(drawn.length); });
  function fit() {
    Object.keys(figures).forEach(function (id) {
      shape(id);
      Plotly.Plots.resize(id);
    });
  }
  window.addEventListener("resize", fit);
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (one) { one.open = true; });
    fit();
  });
  window.addEventListener("afterprint", fit);
})();
"""


class Link(NamedTuple):
    """A cell that leads to another page."""

    text: str
    target: str

    def html(self) -> str:
        """The cell; what is no letter of an address is spelled out."""
        target = self.target if self.target.startswith("file:") else quote(self.target)
        return f'<a href="{_e(target)}">{_e(self.text)}</a>'


class Sparkline(NamedTuple):
    """A cell with a line through some values, from the least to the largest."""

    values: Sequence[float]

    def html(self) -> str:
        """The cell; empty for a single value."""
        if len(self.values) < 2:
            return ""
        low, high = min(self.values), max(self.values)
        span = high - low or 1.0
        points = (
            f"{1 + 88 * i / (len(self.values) - 1):.1f},{17 - 14 * (value - low) / span:.1f}"
            for i, value in enumerate(self.values)
        )
        said = f"from {self.values[0]:.3g} to {self.values[-1]:.3g}, between {low:.3g} and {high:.3g}"
        return (
            f'<svg class="line" width="90" height="20" role="img" aria-label="{said}"><title>{said}</title>'
            f'<polyline points="{" ".join(points)}"/></svg>'
        )


class Page:
    """A page that is put together piece by piece; all text is escaped."""

    def __init__(self, title: str):
        self._title = title
        self._body: list[str] = []
        self._figures: dict[str, Any] = {}

    def heading(self, text: str) -> None:
        """The heading of a section."""
        self._body.append(f"<h2>{_e(text)}</h2>")

    def text(self, text: str, soft: bool = False) -> None:
        """A paragraph."""
        self._body.append(f'<p class="soft">{_e(text)}</p>' if soft else f"<p>{_e(text)}</p>")

    def facts(self, facts: dict[str, Any]) -> None:
        """A few numbers in boxes."""
        boxes = "".join(f"<div><b>{_e(value)}</b><span>{_e(name)}</span></div>" for name, value in facts.items())
        self._body.append(f'<div class="facts">{boxes}</div>')

    def findings(self, findings: Sequence[Any]) -> None:
        """Sentences, each marked as good or not."""
        items = "".join(f'<li class="{"good" if f.good else "bad"}">{_e(f.text)}</li>' for f in findings)
        self._body.append(f'<ul class="findings">{items}</ul>')

    def figure(self, figure: object, name: str) -> None:
        """A figure over the whole width."""
        self._body.append(self._place(figure, name))

    def figures(self, figures: dict[str, Any]) -> None:
        """Small figures side by side, below each other where the page is narrow."""
        cells = "".join(f"<div><h3>{_e(title)}</h3>{self._place(f, title)}</div>" for title, f in figures.items())
        self._body.append(f'<div class="many">{cells}</div>')

    def table(self, rows: dict[str, Any]) -> None:
        """Names and values."""
        cells = "".join(f"<tr><th>{_e(name)}</th><td>{_e(value)}</td></tr>" for name, value in rows.items())
        self._body.append(f"<table>{cells}</table>")

    def numbers(self, header: Sequence[str], rows: Sequence[Sequence[str]], folded: str | None = None) -> None:
        """A table of numbers, which scrolls where the page is narrow; with ``folded`` it opens at a click on that."""
        head = "".join(f"<th>{_e(name)}</th>" for name in header)
        body = "".join("<tr>" + "".join(f"<td>{_e(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        table = f'<div class="scroll"><table class="numbers"><tr>{head}</tr>{body}</table></div>'
        fold = f"<details><summary>{_e(folded)}</summary>{table}</details>"
        self._body.append(table if folded is None else fold)

    def listing(self, header: Sequence[str], rows: Sequence[Sequence[str | Link | Sparkline]]) -> None:
        """A table of text, links and lines, which scrolls where the page is narrow."""
        head = "".join(f"<th>{_e(name)}</th>" for name in header)
        cells = (
            "".join(f"<td>{_e(cell) if isinstance(cell, str) else cell.html()}</td>" for cell in row) for row in rows
        )
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        self._body.append(f'<div class="scroll"><table class="listing"><tr>{head}</tr>{body}</table></div>')

    def html(self, subtitle: str) -> str:
        """The whole page; Plotly is in it where there is a figure."""
        head = (
            '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<link rel="icon" href="data:,"><title>{_e(self._title)}</title><style>{STYLE}</style>'
        )
        body = f'<h1>{_e(self._title)}</h1><p class="soft">{_e(subtitle)}</p>{"".join(self._body)}'
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body><main>{body}</main>'
            f"{self._scripts() if self._figures else ''}</body></html>\n"
        )

    def _scripts(self) -> str:
        with extra("plots"):
            from plotly.offline import get_plotlyjs

        packed = f'<script type="text/plain" id="plotly">{_packed(get_plotlyjs())}</script>'
        packed += f'<script type="text/plain" id="figures">{_packed(json.dumps(self._figures))}</script>'
        return f"{packed}<script>{SCRIPT}</script>"

    def _place(self, figure: Any, name: str) -> str:
        content = json.loads(figure.to_json())
        content["layout"].pop("width", None)
        content["layout"]["autosize"] = True
        height = content["layout"].get("height", 300)
        place = f"figure-{len(self._figures) + 1}"
        self._figures[place] = content
        return (
            f'<div class="figure" id="{place}" role="img" aria-label="{_e(name)}" style="height:{int(height)}px"></div>'
        )


def _e(text: object) -> str:
    return html.escape(str(text), quote=True)


def _packed(text: str) -> str:
    """Compressed, in letters: the browser unpacks it, and a page is a third of its size."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
